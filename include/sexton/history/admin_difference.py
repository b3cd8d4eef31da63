"""The difference of two admin snapshots, with intervals and causes from the admin snapshots between them.

Admin snapshots show states, not events. So a difference has an interval: the change happened after the last snapshot
with another value, and at the latest at the snapshot after that. And a difference has every possible cause: a new value
was committed; a missing value was deleted, or expired if it may have been due by then, or was removed with its group or
topic where those are gone. Nothing is guessed: several possible causes are all kept.

A group is left out, and counted, if one of the two admin snapshots has no answer about it, or does not list it although
it may exist. Offsets of topics that one of the two does not see are left out, too.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sexton.archive.admin_intervals import KEY, VALUE, merge_snapshots
from sexton.archive.admin_snapshots import AdminSnapshot, SnapshotRows, SnapshotSeries
from sexton.as_text import MINUTE_MS
from sexton.coordinator.offsets import OffsetKey
from sexton.coordinator.profile import Profile
from sexton.history.difference import (
    OFFSET_KEY,
    InstantComparison,
    differing,
    offset_rows,
    ordered,
)
from sexton.history.events import state_words
from sexton.ledger.recorded_steps import own_actions
from sexton.runs.admin_tables import tables_of, with_nulls
from sexton.tables import TABLES
from sexton.tables.change_causes import ChangeKind
from sexton.verdicts.intervals import judge_between

COMMITTED = "committed"
_GROUP = [
    *("group_id", "group_type", "protocol_type", "state", "member_count", "error", "asked_ms", "answered_ms"),
    *("offsets_error", "offsets_asked_ms", "offsets_answered_ms"),
]
_WHEN = [("changed_after_ms", pa.int64()), ("changed_by_ms", pa.int64())]
_WHY = [("cause", pa.string()), ("candidates", pa.list_(pa.string()))]
OFFSETS = pa.schema(
    [
        *(("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32())),
        *(("before", pa.int64()), ("after", pa.int64()), ("change", pa.string())),
        *_WHEN,
        *_WHY,
        ("plan_ids", pa.list_(pa.string())),
    ]
)
"""`candidates` are the possible causes, `cause` the same as text. `plan_ids` are plans that may have deleted the
offset."""
GROUPS = pa.schema(
    [
        *(("group_id", pa.string()), ("before", pa.string()), ("after", pa.string()), ("change", pa.string())),
        *_WHEN,
        *_WHY,
    ]
)
_STATES = pa.schema([("group_id", pa.string()), ("state", pa.string())])
_CHANGES = pa.schema(
    [
        field
        for field in TABLES["offset_changes"].arrow_schema(with_run=False, origin="admin_snapshots")
        if field.name != "log_partition"
    ]
)
_GONE = "an admin snapshot shows it, and the next one that answers about the group does not"
_BY_US = {ChangeKind.DELETED.value, ChangeKind.GROUP_DELETED.value}

TopicPartition = tuple[str, int]
_Value = tuple[int, int | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGroup:
    """A group in an admin snapshot, with the instants of request and answer for its state and its offsets.

    `state` is None where the group is not described; without `is_fetched` its offsets are not known. `words` are its
    type and state in words.
    """

    state: str | None
    words: str
    is_fetched: bool
    described_ms: tuple[int, int]
    fetched_ms: tuple[int, int]
    offsets: dict[TopicPartition, _Value]


class Seen:
    """The groups of an admin snapshot, and the offsets of the groups in `rows`."""

    def __init__(self, rows: SnapshotRows) -> None:
        self.snapshot = snapshot = rows.snapshot
        self.topics = snapshot.metadata.topic_ids
        self._groups: dict[str, SeenGroup] = {}
        offsets: dict[str, dict[TopicPartition, _Value]] = {}
        for row in rows.offsets.select([*KEY, *VALUE]).to_pylist():
            value = row["committed_offset"], row["leader_epoch"], row["metadata"]
            offsets.setdefault(row["group_id"], {})[row["topic"], row["partition"]] = value
        for row in rows.groups.select(_GROUP).to_pylist():
            name = row["group_id"]
            is_described = row["error"] is None and row["state"] is not None
            described_ms = row["asked_ms"] or snapshot.taken_at_ms, row["answered_ms"] or snapshot.finished_at_ms
            self._groups[name] = SeenGroup(
                state=f"{row['group_type']} {row['state']} {row['member_count'] or 0}" if is_described else None,
                words=state_words(row["group_type"], row["protocol_type"], str(row["state"]), row["member_count"] or 0),
                is_fetched=row["offsets_error"] is None,
                described_ms=described_ms,
                # Share groups have no committed offsets.
                fetched_ms=(
                    row["offsets_asked_ms"] or described_ms[0],
                    row["offsets_answered_ms"] or described_ms[1],
                ),
                offsets=offsets.get(name, {}),
            )

    @property
    def group_ids(self) -> set[str]:
        return set(self._groups)

    def answers(self, group_id: str) -> bool:
        found = self.there(group_id)
        return found.state is not None and found.is_fetched

    def value(self, group_id: str, key: TopicPartition | None) -> Any:
        """The value of an offset, None if there is none; if `key` is None, (state, words) of the group."""
        there = self.there(group_id)
        return (there.state, there.words) if key is None else there.offsets.get(key)

    def span(self, group_id: str, key: TopicPartition | None) -> tuple[int, int]:
        """The instants of request and answer for the group's offsets; if `key` is None, for its state."""
        there = self.there(group_id)
        return there.described_ms if key is None else there.fetched_ms

    def answers_about(self, group_id: str, key: TopicPartition) -> bool:
        """Whether this admin snapshot, which fetched the group's offsets, shows the offset or that it does not
        exist."""
        return self.sees(key[0]) or key in self.there(group_id).offsets

    def sees(self, topic: str) -> bool:
        return bool(self.snapshot.metadata.sees_all_topics) or topic in self.topics

    def there(self, group_id: str) -> SeenGroup:
        """The group in this admin snapshot; its state is "" if it did not exist, None if that is not known."""
        found = self._groups.get(group_id)
        if found is not None:
            return found
        span, is_known = (self.snapshot.taken_at_ms, self.snapshot.finished_at_ms), self.snapshot.is_whole
        state = "" if is_known else None
        return SeenGroup(state=state, words="", is_fetched=is_known, described_ms=span, fetched_ms=span, offsets={})


@dataclass(slots=True, kw_only=True)
class Observation:
    """A change of an offset, or of its group (`key` None), between two consecutive admin snapshots.

    `has` is the admin snapshot that shows the change, `had` the last earlier one with an answer, None if there is none.
    `candidates` are the possible causes; a removal also has `plan_ids`, the plans of Sexton that may have caused it.
    """

    group_id: str
    key: TopicPartition | None
    had: Seen | None
    has: Seen
    candidates: list[str] = field(default_factory=list)
    plan_ids: list[str] = field(default_factory=list)

    @property
    def before(self) -> Any:
        return None if self.had is None else self.had.value(self.group_id, self.key)

    @property
    def after(self) -> Any:
        return self.has.value(self.group_id, self.key)

    @property
    def is_gone(self) -> bool:
        return self.key is not None and self.after is None

    @property
    def offset_key(self) -> OffsetKey:
        assert self.key is not None
        return self.group_id, *self.key

    @property
    def changed_after_ms(self) -> int:
        assert self.had is not None
        return self.had.span(self.group_id, self.key)[0]

    @property
    def changed_by_ms(self) -> int:
        return self.has.span(self.group_id, self.key)[1]


def observations(series: Sequence[Seen], group_id: str) -> Iterator[Observation]:
    """The changes of a group and of its offsets at each admin snapshot, from the first one on."""
    described: Seen | None = None
    fetched: deque[Seen] = deque()  # the newest first
    known: Mapping[TopicPartition, _Value] = {}
    for one in series:
        there = one.there(group_id)
        if there.state is not None:
            found = Observation(group_id=group_id, key=None, had=described, has=one)
            if found.before != found.after:
                yield found
            described = one
        if not there.is_fetched:
            continue
        # Offsets that this snapshot cannot see may still exist: they count as unchanged.
        now = {key: value for key, value in known.items() if not one.sees(key[0])} | there.offsets
        for key in sorted({key for key, _ in known.items() ^ now.items()}):
            had = next((past for past in fetched if past.answers_about(group_id, key)), None)
            yield Observation(group_id=group_id, key=key, had=had, has=one)
        known = now
        fetched.appendleft(one)


def difference_of_snapshots(
    series: SnapshotSeries, before: AdminSnapshot, after: AdminSnapshot, *, profile: Profile
) -> tuple[InstantComparison, int, int]:
    """The difference of two admin snapshots of a cluster, `before` the earlier one, with the columns OFFSETS and
    GROUPS.

    Also returns the number of admin snapshots read and the number of groups left out.
    """
    offsets, groups, count, left_out = _differing(series, before, after, retention_ms=None, profile=profile)
    return InstantComparison(groups=_table(groups, GROUPS), offsets=_table(offsets, OFFSETS)), count, left_out


def changes_of_snapshots(
    series: SnapshotSeries,
    before: AdminSnapshot,
    after: AdminSnapshot,
    *,
    retention_ms: int | None = None,
    profile: Profile,
) -> tuple[pa.Table, int]:
    """The rows of offset_changes between two admin snapshots of a cluster, by key and without log_partition; and the
    number of groups left out.

    The retention is the requested retention, else that in the admin snapshots, else unknown. A change is attributed to
    a plan of Sexton if no other plan may have caused it, and the broker cannot have removed the offset on its own.
    """
    offsets, _, _, left_out = _differing(series, before, after, retention_ms=retention_ms, profile=profile)
    return _table([{**row, **_change(row)} for row in offsets], _CHANGES), left_out


def _change(row: Mapping[str, Any]) -> dict[str, Any]:
    one, candidates, kind = row["last"], row["candidates"], ChangeKind.SET.value
    if one.is_gone:
        kind = candidates[0] if len(candidates) == 1 else ChangeKind.AMBIGUOUS.value
    plans = one.plan_ids if {*candidates} <= _BY_US else []
    return {
        "old_committed_offset": one.before[0] if one.is_gone else row["before"],
        "new_committed_offset": row["after"],
        "kind": kind,
        "candidates": candidates if kind == ChangeKind.AMBIGUOUS else None,
        "by_plan_id": plans[0] if len(plans) == 1 else None,
        "evidence": _GONE if one.is_gone else None,
    }


def _differing(
    series: SnapshotSeries, before: AdminSnapshot, after: AdminSnapshot, *, retention_ms: int | None, profile: Profile
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int, int]:
    """Rows of the offsets and groups that differ between two admin snapshots, each with its `last` observation; the
    number of admin snapshots read, and of groups left out."""
    both = series.rows(before), series.rows(after)
    compared = differing(*(offset_rows(one.offsets) for one in both), keys=OFFSET_KEY)
    wanted = compared["group_id"].unique()
    first, last = (Seen(replace(one, offsets=_of_groups(one.offsets, wanted))) for one in both)
    every = first.group_ids | last.group_ids
    known = {name for name in every if first.answers(name) and last.answers(name)}
    offsets = [
        row
        for row in ordered([compared], OFFSET_KEY, pa.int64()).to_pylist()
        if row["group_id"] in known and first.sees(row["topic"]) and last.sees(row["topic"])
    ]
    states = [{name: state for name in known if (state := one.there(name).state)} for one in (first, last)]
    compared = differing(*(pa.table([[*one], [*one.values()]], schema=_STATES) for one in states), keys=["group_id"])
    groups = ordered([compared], ["group_id"], pa.string()).to_pylist()
    changed = sorted({row["group_id"] for row in (*offsets, *groups)})
    own = series.of_groups(changed)
    inner = own.before(after.taken_at_ms, after_ms=before.taken_at_ms) if changed else ()
    seen = [last, *map(Seen, inner), first][::-1]
    last_ones = {
        (name, one.key): one
        for name in changed
        for one in observations(seen, name)
        if one.had is not None and (one.key is not None or one.before[0] != one.after[0])
    }
    for row in (*offsets, *groups):
        row["last"] = one = last_ones[row["group_id"], (row["topic"], row["partition"]) if "topic" in row else None]
        row |= {"changed_after_ms": one.changed_after_ms, "changed_by_ms": one.changed_by_ms}
    add_causes(own, [row["last"] for row in offsets], retention_ms=retention_ms, profile=profile)
    causes: dict[str, set[str]] = {}
    for row in offsets:
        row |= {"candidates": row["last"].candidates, "plan_ids": row["last"].plan_ids}
        causes.setdefault(row["group_id"], set()).update(row["candidates"])
    for row in groups:
        # The broker removes a group that has lost its last offset, or has none.
        can_expire = ChangeKind.EXPIRED.value in causes.get(row["group_id"], {ChangeKind.EXPIRED.value})
        removed = [ChangeKind.EXPIRED.value] * can_expire + [ChangeKind.DELETED.value]
        row["candidates"] = [] if row["after"] else removed
    return offsets, groups, len(seen), len(every) - len(known)


def _of_groups(rows: pa.Table, group_ids: pa.Array) -> pa.Table:
    return rows.filter(pc.is_in(rows["group_id"], value_set=group_ids))


def add_causes(
    series: SnapshotSeries, found: Sequence[Observation], *, retention_ms: int | None, profile: Profile
) -> None:
    """Set the possible causes and plans in each observation of an offset."""
    found = [one for one in found if one.key is not None]
    gone = [one for one in found if one.is_gone]
    since_ms = min((one.had.snapshot.taken_at_ms for one in gone if one.had is not None), default=0)
    plans = own_actions(series.fs, series.root, series.cluster_id, since_ms=since_ms)[0] if gone else {}
    due = _due(series, gone, retention_ms, profile)
    for one in found:
        one.candidates = _candidates(one, due) if one.is_gone else [COMMITTED]
        acts = plans.get(one.offset_key, ()) if one.is_gone else ()
        one.plan_ids = sorted({act.plan_id for act in acts if act.overlaps(one.changed_after_ms, one.changed_by_ms)})


def _candidates(one: Observation, due: Mapping[tuple[int, OffsetKey], int | None]) -> list[str]:
    """The possible causes of an offset's removal, in the order of change_causes.CAUSES."""
    had, has, (group_id, topic, partition) = one.had, one.has, one.offset_key
    assert had is not None
    due_after_ms = due.get((had.snapshot.taken_at_ms, one.offset_key))
    found = []
    if due_after_ms is None or due_after_ms <= one.changed_by_ms:
        found.append(ChangeKind.EXPIRED)
    found.append(ChangeKind.DELETED)
    now = has.there(group_id).offsets
    others = {key: value for key, value in had.there(group_id).offsets.items() if key != (topic, partition)}
    if not any(now.get(key) == value for key, value in others.items()):
        found.append(ChangeKind.GROUP_DELETED)
    if topic not in has.topics or has.topics[topic] != had.topics.get(topic):
        found.append(ChangeKind.TOPIC_DELETED)
    return [kind.value for kind in found]


def _due(
    series: SnapshotSeries, gone: Sequence[Observation], retention_ms: int | None, profile: Profile
) -> dict[tuple[int, OffsetKey], int | None]:
    """By admin snapshot and offset: the earliest instant at which a missing offset may have been due.

    No entry, or None, where that instant has no lower bound, for example where the retention is not known.
    """
    found: dict[tuple[int, OffsetKey], int | None] = {}
    at: dict[int, tuple[AdminSnapshot, set[str], set[int]]] = {}
    for one in gone:
        assert one.had is not None
        snapshot = one.had.snapshot
        _, names, retentions = at.setdefault(snapshot.taken_at_ms, (snapshot, set(), set()))
        names.add(one.group_id)
        shown = (each.snapshot.metadata.retention_minutes for each in (one.had, one.has))
        retentions |= {minutes * MINUTE_MS for minutes in shown if minutes is not None}
    for taken_at_ms, (snapshot, names, retentions) in at.items():
        retention = min(retentions, default=None) if retention_ms is None else retention_ms
        if retention is not None:
            judged, _ = judge_snapshot(series, snapshot, retention_ms=retention, profile=profile)
            own = _of_groups(judged, pa.array(names, pa.string()))
            for row in own.select([*KEY, "due_after_ms"]).to_pylist():
                found[taken_at_ms, (row["group_id"], row["topic"], row["partition"])] = row["due_after_ms"]
    return found


def judge_snapshot(
    series: SnapshotSeries, snapshot: AdminSnapshot, *, retention_ms: int, sweep_ms: int | None = None, profile: Profile
) -> tuple[pa.Table, pa.Table]:
    """The verdicts on the offsets of an admin snapshot, each with its committed_offset, and the groups of that
    snapshot."""
    groups, _, offsets = tables_of(merge_snapshots(series, snapshot))
    groups = with_nulls(groups, TABLES["groups"].columns)
    offsets = with_nulls(offsets, TABLES["committed_offsets"].columns)
    judged = judge_between(
        offsets.combine_chunks(),
        groups.combine_chunks(),
        retention_ms=retention_ms,
        now_ms=snapshot.taken_at_ms,
        seen_ms=snapshot.taken_at_ms,
        sweep_ms=sweep_ms,
        profile=profile,
    )
    return judged.append_column("committed_offset", offsets["committed_offset"]), groups


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    complete = [{**row, "cause": " or ".join(row["candidates"] or ()) or None} for row in rows]
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in complete], schema=schema)
