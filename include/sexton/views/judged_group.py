"""Loads one group for a policy: its offsets, the broker's verdict on each, and whether its topic is gone.

A run has verdicts already. For a log, the plain rules evaluate that single group here; a view of a log has no
subscriptions, so the group is built from its records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from sexton.archive.folder import filesystem
from sexton.as_text import MINUTE_MS
from sexton.coordinator.api.view import LoadedGroup, PartitionView
from sexton.coordinator.expiry import verdicts_of_group
from sexton.coordinator.groups.group import Group
from sexton.coordinator.offsets import StoredOffset
from sexton.coordinator.orphans import KnownTopic, KnownTopics, orphan_of
from sexton.history.log_story import StoryReader
from sexton.ledger.recorded_steps import keep_steps
from sexton.policy import GroupInput, OffsetInput
from sexton.policy.inputs import last_active_ms
from sexton.runs.folder import RunFolder
from sexton.runs.source import LogSource
from sexton.verdicts.keeping import CLIENT_MS
from sexton.views.coordinator_view import CoordinatorView
from sexton.views.run_view import table_of_run

_Clients = tuple[int | None, int | None]
"""An offset's values of the columns CLIENT_MS."""
_NO_CLIENTS: _Clients = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedOffset:
    """A committed offset with its verdict."""

    committed_offset: int
    facts: OffsetInput


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGroup:
    """A group, and its offsets by topic and partition."""

    group: GroupInput
    offsets: Sequence[JudgedOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoadedGroup:
    """A group in its log partition."""

    log_partition: int
    held: PartitionView
    group: LoadedGroup

    def judged(
        self, verdicts: Mapping[tuple[str, int], Mapping[str, Any]], clients: Mapping[tuple[str, int], _Clients]
    ) -> JudgedGroup:
        """The group with its offsets; `verdicts` has the other fields of OffsetInput by topic and partition. `clients`
        has the times of clients' own commits and joins where newer records of Sexton hide them."""
        group, offsets = self.group, self.held.offsets(self.group.group_id)
        pending = self.held.pending(group.group_id)
        commits_ms = {key: clients.get(key, _NO_CLIENTS)[0] or one.commit_timestamp_ms for key, one in offsets.items()}
        states_ms = [at_ms for _, at_ms in clients.values() if at_ms is not None]
        state_ms = states_ms[0] if states_ms else group.current_state_timestamp_ms
        bases_ms = {
            key: _base_ms(fields["base_timestamp_ms"], offsets[key].commit_timestamp_ms, clients.get(key, _NO_CLIENTS))
            for key, fields in verdicts.items()
        }
        return JudgedGroup(
            group=GroupInput(
                group_id=group.group_id,
                group_type=group.group_type,
                state=group.state,
                protocol_type=group.protocol_type,
                last_active_ms=last_active_ms(commits_ms.values(), state_ms),
                member_count=group.member_count,
            ),
            offsets=[
                JudgedOffset(
                    committed_offset=offsets[key].committed_offset,
                    facts=OffsetInput(
                        topic=key[0],
                        partition=key[1],
                        commit_timestamp_ms=commits_ms[key],
                        is_pending=key in pending,
                        **{**fields, "base_timestamp_ms": bases_ms[key]},
                    ),
                )
                for key, fields in sorted(verdicts.items())
            ],
        )


def judged_in_run(view: CoordinatorView, root: str, group_id: str) -> JudgedGroup | None:
    """A group with the verdicts of a run; None if the run has no such group."""
    found = _find(view, group_id)
    if found is None:
        return None
    folder = RunFolder(root)
    table = table_of_run(folder, "offset_verdicts", found.log_partition)
    names = ("base_timestamp_ms", "orphan", "broker_verdict", "broker_reason", "broker_expires_at_ms")
    rows = {
        (row["topic"], row["partition"]): row for row in table.filter(pc.equal(table["group_id"], group_id)).to_pylist()
    }
    return found.judged(
        {key: {name: row.get(name) for name in names} for key, row in rows.items()},
        {key: (row.get(CLIENT_MS[0]), row.get(CLIENT_MS[1])) for key, row in rows.items()},
    )


def judged_in_log(
    view: CoordinatorView, source: LogSource, group_id: str, *, retention_minutes: int | None, now_ms: int
) -> JudgedGroup | None:
    """A group of a log or an archive, with verdicts at `now_ms`; None if there is no such group.

    Without `retention_minutes`, the retention that the archive recorded applies, else the default of the release.
    """
    found = _find(view, group_id)
    group = None if found is None else _group_of(view, source, found.log_partition, group_id, now_ms=now_ms)
    if found is None or group is None:
        return None
    profile = view.coordinator.profile
    retention_ms = (retention_minutes or source.retention_minutes or profile.default_retention_minutes) * MINUTE_MS
    topics = known_topics(source)
    pending = found.held.pending(group_id)
    block = view.read[found.log_partition].sweep_block(retention_ms, now_ms)
    offsets = found.held.offsets(group_id)
    verdicts = verdicts_of_group(
        group, offsets, pending, retention_ms=retention_ms, now_ms=now_ms, profile=profile, block=block
    )
    return found.judged(
        {
            key: {
                "base_timestamp_ms": broker.base_timestamp_ms,
                "orphan": None if topics is None else orphan_of((group_id, *key), offsets[key], topics),
                "broker_verdict": broker.decision,
                "broker_reason": broker.reason,
                "broker_expires_at_ms": broker.expires_at_ms,
            }
            for key, broker in verdicts.items()
        },
        _clients_in_log(source, found.group, offsets),
    )


def _clients_in_log(
    source: LogSource, group: LoadedGroup, offsets: Mapping[tuple[str, int], StoredOffset]
) -> dict[tuple[str, int], _Clients]:
    """The times of clients' own commits and joins that `sexton keep` hides, from the ledger in the archive."""
    if not source.is_archive:
        return {}
    steps = keep_steps(*filesystem(source.uri), source.cluster_id)
    place = group.log_offset
    state_ms = None if place is None else steps.states.get((group.group_id, place))
    return {
        key: (steps.commits.get(((group.group_id, *key), one.producer_id)), state_ms) for key, one in offsets.items()
    }


def _base_ms(base_ms: int | None, committed_ms: int, clients: _Clients) -> int | None:
    """The base timestamp without Sexton's own records (verdicts.keeping.base_of_clients)."""
    if base_ms is None:
        return None
    client_ms = clients[0] if base_ms == committed_ms else clients[1]
    return base_ms if client_ms is None else client_ms


def _find(view: CoordinatorView, group_id: str) -> _LoadedGroup | None:
    home = view.coordinator.log_partition_of(group_id)
    if home is None or home not in view.coordinator.shards:
        return None
    held = view.coordinator.shards[home].view
    group = held.group(group_id)
    return None if group is None else _LoadedGroup(log_partition=home, held=held, group=group)


def _group_of(view: CoordinatorView, source: LogSource, home: int, group_id: str, *, now_ms: int) -> Group | None:
    """The group, built from its records."""
    fs, _ = filesystem(source.uri)
    reader = StoryReader(
        fs=fs,
        segments=source.segments[home],
        group_id=group_id,
        profile=view.coordinator.profile,
        as_of_ms=None if source.is_archive else view.as_of_ms,
        taken_at_ms=source.taken_at_ms or now_ms,
    )
    return reader.read().group


def known_topics(source: LogSource) -> KnownTopics | None:
    if source.topics is None:
        return None
    return KnownTopics(
        by_name={
            row["topic"]: KnownTopic(topic_id=row["id"], log_starts=tuple(start for start, _ in row["partitions"]))
            for row in source.topics
        },
        sees_all=bool(source.sees_all_topics),
        recorded_at_ms=source.topics_at_ms,
    )
