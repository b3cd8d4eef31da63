"""A group with its offsets as a policy sees them: the broker's verdict on each, and what is odd about it.

A run has judged already, and is read. Of a log one group is judged here, by the plain rules: a view of a log has no
subscriptions, so the group is made of its own records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from sexton.coordinator.api.view import LoadedGroup, PartitionView
from sexton.coordinator.changes.model import ChangeEvidence
from sexton.coordinator.expiry import verdict
from sexton.coordinator.explained import KnownTopic, KnownTopics, orphan_of
from sexton.coordinator.groups.group import Group
from sexton.errors import UsageError
from sexton.history.log_story import StoryReader
from sexton.policy import GroupInput, OffsetInput
from sexton.policy.inputs import last_active_ms
from sexton.runs.folder import RunFolder
from sexton.runs.source import LogSource, filesystem
from sexton.views.coordinator_view import CoordinatorView

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedOffset:
    """A committed offset and the facts about it."""

    committed_offset: int
    facts: OffsetInput


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedGroup:
    """A group, and its offsets by topic and partition."""

    group: GroupInput
    offsets: Sequence[JudgedOffset]


def judged_in_run(view: CoordinatorView, root: str, group_id: str) -> JudgedGroup | None:
    """A group as the run has judged it; None where it has no such group."""
    found = _held(view, group_id)
    if found is None:
        return None
    home, held, group = found
    folder = RunFolder(root)
    try:
        table = folder.read_table("offset_verdicts", home)
    except OSError:
        path = folder.table_file("offset_verdicts", home)
        raise UsageError("not there", where=path, fix="is the run complete?") from None
    rows: list[dict[str, Any]] = table.filter(pc.equal(table["group_id"], group_id)).to_pylist()
    offsets, pending = held.offsets(group_id), held.pending(group_id)
    judged = []
    for row in sorted(rows, key=lambda row: (row["topic"], row["partition"])):
        key = (row["topic"], row["partition"])
        facts = OffsetInput(
            topic=row["topic"],
            partition=row["partition"],
            commit_timestamp_ms=offsets[key].commit_timestamp_ms,
            base_timestamp_ms=row["base_timestamp_ms"],
            orphan=row.get("orphan"),
            is_pending=key in pending,
            broker_verdict=row["broker_verdict"],
            broker_reason=row["broker_reason"],
            broker_expires_at_ms=row["broker_expires_at_ms"],
        )
        judged.append(JudgedOffset(committed_offset=offsets[key].committed_offset, facts=facts))
    return JudgedGroup(group=_group_facts(group, held), offsets=judged)


def judged_in_log(
    view: CoordinatorView, source: LogSource, group_id: str, *, retention_minutes: int | None, now_ms: int
) -> JudgedGroup | None:
    """A group of a log or an archive, judged at `now_ms`; None where there is no such group.

    Without `retention_minutes`, the broker's as archived with the log counts, else the default of the release.
    """
    found = _held(view, group_id)
    group = None if found is None else _group_of(view, source, found[0], group_id, now_ms=now_ms)
    if found is None or group is None:
        return None
    _, held, row = found
    home = found[0]
    minutes = retention_minutes or source.retention_minutes or view.coordinator.profile.default_retention_minutes
    topics = _known_topics(source)
    pending = held.pending(group_id)
    block = view.parts.read[home].sweep_block(minutes * _MINUTE_MS, now_ms)
    judged = []
    for (topic, partition), offset in sorted(held.offsets(group_id).items()):
        is_pending = (topic, partition) in pending
        broker = verdict(
            offset,
            topic,
            group,
            is_pending=is_pending,
            retention_ms=minutes * _MINUTE_MS,
            now_ms=now_ms,
            profile=view.coordinator.profile,
            block=block,
        )
        facts = OffsetInput(
            topic=topic,
            partition=partition,
            commit_timestamp_ms=offset.commit_timestamp_ms,
            base_timestamp_ms=broker.base_timestamp_ms,
            orphan=None if topics is None else orphan_of((group_id, topic, partition), offset, topics),
            is_pending=is_pending,
            broker_verdict=broker.decision,
            broker_reason=broker.reason,
            broker_expires_at_ms=broker.expires_at_ms,
        )
        judged.append(JudgedOffset(committed_offset=offset.committed_offset, facts=facts))
    return JudgedGroup(group=_group_facts(row, held), offsets=judged)


def _held(view: CoordinatorView, group_id: str) -> tuple[int, PartitionView, LoadedGroup] | None:
    """The group's log partition, what it holds, and the group."""
    home = view.coordinator.log_partition_of(group_id)
    if home is None or home not in view.coordinator.shards:
        return None
    held = view.coordinator.shards[home].view
    group = held.group(group_id)
    return None if group is None else (home, held, group)


def _group_facts(group: LoadedGroup, held: PartitionView) -> GroupInput:
    stamps = (offset.commit_timestamp_ms for offset in held.offsets(group.group_id).values())
    return GroupInput(
        group_id=group.group_id,
        group_type=group.group_type,
        state=group.state,
        protocol_type=group.protocol_type,
        last_active_ms=last_active_ms(stamps, group.current_state_timestamp_ms),
        member_count=group.member_count,
    )


def _group_of(view: CoordinatorView, source: LogSource, home: int, group_id: str, *, now_ms: int) -> Group | None:
    """The group, made of its own records."""
    fs, _ = filesystem(source.uri)
    teller = StoryReader(
        fs=fs,
        segments=source.segments[home],
        group_id=group_id,
        topic=None,
        partition=None,
        profile=view.coordinator.profile,
        known=ChangeEvidence(),
        as_of_ms=None if source.is_archive else view.as_of_ms,
        taken_at_ms=source.taken_at_ms or now_ms,
    )
    return teller.tell().group


def _known_topics(source: LogSource) -> KnownTopics | None:
    if source.topics is None:
        return None
    return KnownTopics(
        by_name=dict(_topics(source.topics)),
        sees_all=bool(source.sees_all_topics),
        recorded_at_ms=source.topics_at_ms,
    )


def _topics(rows: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, KnownTopic]]:
    for row in rows:
        yield row["topic"], KnownTopic(topic_id=row["id"], log_starts=tuple(start for start, _ in row["partitions"]))
