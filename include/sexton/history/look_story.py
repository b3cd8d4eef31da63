"""The history of a group from looks by Admin API: what changed between one look and the next, and what is due when.

A look does not show when something happened, only that it did since the last look that answered about it. What is gone
has the causes that `look_difference` finds for it: everything that can have removed it.
"""

from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from sexton.archive.admin_looks import AdminLook, Looks
from sexton.archive.look_intervals import merge_looks
from sexton.coordinator.expiry import CHECK_INTERVAL, DEFAULT_CHECK_INTERVAL_MS
from sexton.coordinator.profile import Profile
from sexton.history.events import COMMITTED, NOWHERE, SHORT_ID, Event
from sexton.history.log_story import NextVerdict
from sexton.history.look_difference import Seen, add_causes
from sexton.runs.look_tables import tables_of, with_nulls
from sexton.verdicts.intervals import judge_between

TopicPartition = tuple[str, int]
_MINUTE_MS = 60_000
_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LookStory:
    """What looks say of a group; `state` is "" where the last one does not have it. `damaged`: why looks were passed
    over."""

    state: str
    events: list[Event]
    next_verdicts: list[NextVerdict]
    log_partition: int | None
    damaged: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookReader:
    """Reads the history of one group, up to one look. `retention_minutes` is the retention that is asked for; None for
    what the looks show of the broker's."""

    fs: pafs.FileSystem
    root: str
    group_id: str
    is_requested: Callable[[str, int], bool]
    retention_minutes: int | None
    profile: Profile

    def read(self, look: AdminLook) -> LookStory:
        """Read all looks up to this one; UsageError when this one is damaged."""
        looks = Looks(self.fs, self.root, look.cluster_id, pa.array([self.group_id], pa.string()))
        last = Seen(looks.rows(look))
        seen = [last, *map(Seen, looks.before(look.taken_at_ms))][::-1]
        gone = [*self._gone(seen)]
        asked_ms = None if self.retention_minutes is None else self.retention_minutes * _MINUTE_MS
        add_causes(looks, gone, retention_ms=asked_ms, profile=self.profile)
        events = [*self._states(seen), *self._commits(seen), *map(_removal, _alike(gone))]
        events.sort(key=lambda event: (bisect(looks.instants, event.timestamp_ms or 0), _ORDER_OF.get(event.what, 1)))
        verdicts, part = self._verdicts(looks, look)
        return LookStory(
            state=last.there(self.group_id).words,
            events=events,
            next_verdicts=verdicts,
            log_partition=part,
            damaged=[*looks.damaged.values()],
        )

    def _states(self, seen: Sequence[Seen]) -> Iterator[Event]:
        """What the group became, by the looks that describe it."""
        words, since = "", None
        for one in seen:
            there = one.there(self.group_id)
            if there.state is None:
                continue
            if there.words != words:
                what = ("became" if words else "appeared") if there.words else "removed"
                yield _event(there.described_ms[1], what, there.words or "the group is gone", since)
            words, since = there.words, one

    def _commits(self, seen: Sequence[Seen]) -> Iterator[Event]:
        """The offsets that have another value than at the last look that shows them, or that are new."""
        held: dict[TopicPartition, int] = {}
        since: Seen | None = None
        for one in seen:
            there = one.there(self.group_id)
            if not there.is_fetched:
                continue
            now = self._offsets(one)
            if changed := {key: value for key, value in now.items() if held.get(key) != value}:
                yield _event(there.fetched_ms[1], COMMITTED, _listed(changed), since)
            held, since = {key: value for key, value in held.items() if not one.sees(key[0])} | now, one

    def _gone(self, seen: Sequence[Seen]) -> Iterator[dict[str, Any]]:
        """The offsets that a look shows and the next one that answers about them does not, as rows for `add_causes`."""
        held: dict[TopicPartition, tuple[int, Seen]] = {}
        for one in seen:
            there = one.there(self.group_id)
            if not there.is_fetched:
                continue
            now = {key: (value, one) for key, value in self._offsets(one).items()}
            for (topic, partition), (value, had) in held.items():
                if (topic, partition) not in now and one.sees(topic):
                    yield {
                        "group_id": self.group_id,
                        "topic": topic,
                        "partition": partition,
                        "before": value,
                        "after": None,
                        "changed_after_ms": had.there(self.group_id).fetched_ms[0],
                        "changed_by_ms": there.fetched_ms[1],
                        "had": had,
                        "has": one,
                    }
            held = {key: known for key, known in held.items() if not one.sees(key[0])} | now

    def _offsets(self, seen: Seen) -> dict[TopicPartition, int]:
        offsets = seen.there(self.group_id).offsets.items()
        return {key: value[0] for key, value in offsets if self.is_requested(*key)}

    def _verdicts(self, looks: Looks, look: AdminLook) -> tuple[list[NextVerdict], int | None]:
        """What is due when of the group at a look, and the log partition that it hashes to."""
        groups, _, offsets = tables_of(merge_looks(looks, look))
        groups, offsets = with_nulls("groups", groups), with_nulls("committed_offsets", offsets)
        if not groups.num_rows:
            return [], None
        shown = look.metadata.retention_minutes or self.profile.default_retention_minutes
        interval_ms = int(look.metadata.settings.get(CHECK_INTERVAL, DEFAULT_CHECK_INTERVAL_MS))
        judged = judge_between(
            offsets.combine_chunks(),
            groups.combine_chunks(),
            retention_ms=(self.retention_minutes or shown) * _MINUTE_MS,
            now_ms=look.taken_at_ms,
            seen_ms=look.taken_at_ms,
            sweep_ms=None if self.retention_minutes else interval_ms,
            profile=self.profile,
        )
        rows = judged.append_column("committed_offset", offsets["committed_offset"]).sort_by(_BY_KEY).to_pylist()
        part: int | None = groups["home_log_partition"][0].as_py()
        return [
            NextVerdict(
                topic=row["topic"],
                partition=row["partition"],
                committed_offset=row["committed_offset"],
                reason=row["broker_reason"],
                expires_at_ms=row["broker_expires_at_ms"],
                due_after_ms=row["due_after_ms"],
            )
            for row in rows
            if self.is_requested(row["topic"], row["partition"])
        ], part


_BY_KEY = [("topic", "ascending"), ("partition", "ascending")]
_ORDER_OF = {"appeared": 0, "became": 0, "removed": 2}
"""Of what one look shows: what the group became, what it committed and lost, that it is gone."""


def _alike(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Rows of the same look, causes and plans."""

    def cause(row: Mapping[str, Any]) -> tuple[int, list[str], list[str]]:
        return row["changed_by_ms"], row["candidates"], row["plan_ids"]

    for _, some in groupby(sorted(rows, key=cause), key=cause):
        yield list(some)


def _removal(rows: Sequence[Mapping[str, Any]]) -> Event:
    """What one look does not show any more, and what can have removed it."""
    first, causes = rows[0], rows[0]["candidates"]
    plans = "".join(f"; plan {plan_id[:SHORT_ID]} may have" for plan_id in first["plan_ids"])
    since = min((row["had"] for row in rows), key=lambda had: had.look.taken_at_ms)
    lost = _listed({(row["topic"], row["partition"]): row["before"] for row in rows})
    return _event(first["changed_by_ms"], " or ".join(causes), f"{lost}{plans}", since, causes=tuple(causes))


def _event(at_ms: int, what: str, detail: str, since: Seen | None, *, causes: tuple[str, ...] = ()) -> Event:
    after = ", at the first look" if since is None else f", since the look of {_instant(since.look.taken_at_ms)}"
    return Event(timestamp_ms=at_ms, log_offset=NOWHERE, what=what, detail=f"{detail}{after}", causes=causes)


def _listed(offsets: dict[TopicPartition, int]) -> str:
    some = [f"{topic}-{partition} at {value}" for (topic, partition), value in sorted(offsets.items())]
    more = f" and {len(some) - _SHOWN} more" if len(some) > _SHOWN else ""
    return ", ".join(some[:_SHOWN]) + more


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
