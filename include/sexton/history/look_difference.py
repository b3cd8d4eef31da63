"""The difference of two looks by Admin API, with what the looks between them show of when and why.

Looks show states, not events. So a difference has an interval: what it is at the later look it became after the last
look that showed something else, and at the latest at the next one. And it has every cause that can have made it so:
a value that is there was committed; one that is gone was deleted, or expired if it can have been due by then, or went
with its group or topic where those are gone. Nothing is guessed: several causes stay several.

A group that one of both looks does not answer about, or does not list without showing all groups, is left out, and
counted; so are offsets of topics that one of both does not see.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs as pafs

from sexton.archive.admin_looks import AdminLook, LookRows, Looks
from sexton.archive.look_intervals import KEY, VALUE, merge_looks
from sexton.coordinator.offsets import OffsetKey
from sexton.coordinator.profile import Profile
from sexton.history.difference import APPEARED, CHANGED, DISAPPEARED, Comparison
from sexton.history.events import state_words
from sexton.ledger.recorded_steps import own_actions
from sexton.runs.look_tables import tables_of, with_nulls
from sexton.tables import TABLES
from sexton.tables.change_kinds import ChangeKind
from sexton.verdicts.intervals import judge_between

COMMITTED = "committed"
_MINUTE_MS = 60_000
_NO_EPOCH = -1
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
"""`candidates` are the possible causes, `cause` the same in words. `plan_ids` are plans that may have deleted it."""
GROUPS = pa.schema(
    [
        *(("group_id", pa.string()), ("before", pa.string()), ("after", pa.string()), ("change", pa.string())),
        *_WHEN,
        *_WHY,
    ]
)
_CHANGES = pa.schema(
    [
        field
        for field in TABLES["offset_changes"].arrow_schema(with_run=False, origin="looks")
        if field.name != "log_partition"
    ]
)
_GONE = "a look shows it, and the next one that answers about the group does not"
_BY_US = {ChangeKind.DELETED.value, ChangeKind.GROUP_DELETED.value}

_Value = tuple[int, int | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookDifference:
    """`compared` with the columns OFFSETS and GROUPS; `looks` that were read; groups that were `left_out`."""

    compared: Comparison
    looks: int
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGroup:
    """A group at a look, with when it was asked and answered about its state and its offsets; `state` is None where it
    is not described, without `is_fetched` its offsets are not known. `words` are its kind and state in words."""

    state: str | None
    words: str
    is_fetched: bool
    described_ms: tuple[int, int]
    fetched_ms: tuple[int, int]
    offsets: Mapping[tuple[str, int], _Value]


class Seen:
    """What a look says of groups, and of the offsets of those that `rows` have."""

    def __init__(self, rows: LookRows) -> None:
        self.look = look = rows.look
        self.topics = look.metadata.topic_ids
        self._groups: dict[str, SeenGroup] = {}
        offsets: dict[str, dict[tuple[str, int], _Value]] = {}
        for row in rows.offsets.select([*KEY, *VALUE]).to_pylist():
            value = row["committed_offset"], row["leader_epoch"], row["metadata"]
            offsets.setdefault(row["group_id"], {})[row["topic"], row["partition"]] = value
        for row in rows.groups.select(_GROUP).to_pylist():
            name = row["group_id"]
            is_described = row["error"] is None and row["state"] is not None
            described_ms = row["asked_ms"] or look.taken_at_ms, row["answered_ms"] or look.finished_at_ms
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

    def sees(self, topic: str) -> bool:
        return bool(self.look.metadata.sees_all_topics) or topic in self.topics

    def there(self, group_id: str) -> SeenGroup:
        """A group; one that was not there has the state ""; where nobody knows whether it was, nothing is answered."""
        found = self._groups.get(group_id)
        if found is not None:
            return found
        span, is_known = (self.look.taken_at_ms, self.look.finished_at_ms), self.look.is_whole
        state = "" if is_known else None
        return SeenGroup(state=state, words="", is_fetched=is_known, described_ms=span, fetched_ms=span, offsets={})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Between:
    """Groups that `changed`, the looks from the first to the last, and the offsets that differ, with their causes."""

    changed: Sequence[str]
    looks: Sequence[Seen]
    rows: Sequence[dict[str, Any]]
    left_out: int


def difference_of_looks(
    fs: pafs.FileSystem, root: str, before: AdminLook, after: AdminLook, *, profile: Profile
) -> LookDifference:
    """The difference of two looks of a cluster, `before` the earlier one."""
    between = _compared(fs, root, before, after, retention_ms=None, profile=profile)
    own: dict[str, list[dict[str, Any]]] = {}
    for row in between.rows:
        own.setdefault(row["group_id"], []).append(row)
    rows = (_group_row(between.looks, name, own.get(name, ())) for name in between.changed)
    groups = [row for row in rows if row is not None]
    return LookDifference(
        compared=Comparison(groups=_table(groups, GROUPS), offsets=_table(between.rows, OFFSETS)),
        looks=len(between.looks),
        left_out=between.left_out,
    )


def changes_of_looks(
    fs: pafs.FileSystem,
    root: str,
    before: AdminLook,
    after: AdminLook,
    *,
    retention_ms: int | None = None,
    profile: Profile,
) -> tuple[pa.Table, int]:
    """The rows of offset_changes between two looks of a cluster, without log_partition, by key; and the number of
    groups that are left out.

    The retention is what was asked for, else what the looks show, else unknown. A plan of ours has done it if it is the
    only one that may have, and the broker's own removals are excluded.
    """
    between = _compared(fs, root, before, after, retention_ms=retention_ms, profile=profile)
    return _table([*map(_change_row, between.rows)], _CHANGES), between.left_out


def _change_row(row: Mapping[str, Any]) -> dict[str, Any]:
    group_id, key = row["group_id"], (row["topic"], row["partition"])
    candidates, is_gone = row["candidates"], row["after"] is None
    if is_gone:
        kind = candidates[0] if len(candidates) == 1 else ChangeKind.AMBIGUOUS.value
        old, evidence = row["had"].there(group_id).offsets[key][0], _GONE
    else:
        kind, old, evidence = ChangeKind.SET.value, row["before"], None
    plans = row["plan_ids"] if {*candidates} <= _BY_US else []
    return {
        **row,
        "old_committed_offset": old,
        "new_committed_offset": row["after"],
        "kind": kind,
        "candidates": candidates if kind == ChangeKind.AMBIGUOUS else None,
        "by_plan_id": plans[0] if len(plans) == 1 else None,
        "evidence": evidence,
    }


def _compared(
    fs: pafs.FileSystem,
    root: str,
    before: AdminLook,
    after: AdminLook,
    *,
    retention_ms: int | None,
    profile: Profile,
) -> _Between:
    every = Looks(fs, root, after.cluster_id)
    both = every.rows(before), every.rows(after)
    wanted = _with_other_offsets(*both)
    first, last = (Seen(replace(one, offsets=_of_groups(one.offsets, wanted))) for one in both)
    known, left_out = _answered(first, last)
    differing = set(wanted.to_pylist())
    changed = [name for name in known if name in differing or first.there(name).state != last.there(name).state]
    looks = Looks(fs, root, after.cluster_id, pa.array(changed, pa.string()))
    inner = looks.before(after.taken_at_ms, after_ms=before.taken_at_ms) if changed else ()
    seen = [last, *map(Seen, inner), first][::-1]
    rows = [row for name in changed for row in _offset_rows(seen, name)]
    add_causes(looks, rows, retention_ms=retention_ms, profile=profile)
    return _Between(changed=changed, looks=seen, rows=rows, left_out=left_out)


def _of_groups(rows: pa.Table, group_ids: pa.Array) -> pa.Table:
    return rows.filter(pc.is_in(rows["group_id"], value_set=group_ids))


def add_causes(looks: Looks, rows: Sequence[dict[str, Any]], *, retention_ms: int | None, profile: Profile) -> None:
    """Give each row that differs between two looks its `candidates`, everything that can have made it so, and
    `plan_ids`, the plans of ours that may have.

    A row has the key, `before` and `after`, changed_after_ms, changed_by_ms, and what the looks `had` and `has` say.
    """
    since_ms = min((row["had"].look.taken_at_ms for row in rows), default=0)
    removed = own_actions(looks.fs, looks.root, looks.cluster_id, since_ms=since_ms)[0] if rows else {}
    plans = {key: [(act.intent_at_ms, act.outcome_at_ms, act.plan_id) for act in acts] for key, acts in removed.items()}
    due = _due(looks, rows, retention_ms, profile)
    for row in rows:
        row["candidates"] = _candidates(row, due)
        row["plan_ids"] = _plan_ids(row, plans)


def _answered(first: Seen, last: Seen) -> tuple[list[str], int]:
    """The groups that both looks answer about, and how many others there are."""
    every = sorted(first.group_ids | last.group_ids)
    known = [name for name in every if first.answers(name) and last.answers(name)]
    return known, len(every) - len(known)


def _with_other_offsets(before: LookRows, after: LookRows) -> pa.Array:
    """The groups of which two looks do not have the same offsets."""
    sides = []
    for one in (before, after):
        rows = one.offsets.select([*KEY, *VALUE])
        epochs = pc.fill_null(rows["leader_epoch"], _NO_EPOCH)  # in a join NULL equals nothing
        sides.append(rows.set_column(rows.column_names.index("leader_epoch"), "leader_epoch", epochs))
    one_sided = [
        mine.join(theirs, keys=[*KEY, *VALUE], join_type="left anti")["group_id"].combine_chunks()
        for mine, theirs in (sides, sides[::-1])
    ]
    return pc.unique(pa.concat_arrays(one_sided))


def _offset_rows(looks: Sequence[Seen], group_id: str) -> Iterable[dict[str, Any]]:
    """What differs of a group's offsets, with the looks between which each became what it is."""
    first, last = looks[0].there(group_id), looks[-1].there(group_id)
    for key in sorted(first.offsets.keys() | last.offsets.keys()):
        before, after = first.offsets.get(key), last.offsets.get(key)
        # As in every diff it is the offset that counts.
        is_same = before is not None and after is not None and before[0] == after[0]
        if is_same or not (looks[0].sees(key[0]) and looks[-1].sees(key[0])):
            continue
        had, has = _turn(looks, group_id, key)
        yield {
            "group_id": group_id,
            "topic": key[0],
            "partition": key[1],
            "before": None if before is None else before[0],
            "after": None if after is None else after[0],
            "change": _change(before, after),
            "changed_after_ms": had.there(group_id).fetched_ms[0],
            "changed_by_ms": has.there(group_id).fetched_ms[1],
            "had": had,
            "has": has,
        }


def _turn(looks: Sequence[Seen], group_id: str, key: tuple[str, int] | None) -> tuple[Seen, Seen]:
    """The last look that shows another value (without a key: another state) than the last of all, and the next one that
    answers."""

    def value(seen: Seen) -> object:
        there = seen.there(group_id)
        return there.state if key is None else there.offsets.get(key)

    has = looks[-1]
    for seen in reversed(looks[:-1]):
        if not seen.answers(group_id) or (key is not None and not seen.sees(key[0])):
            continue
        if value(seen) != value(looks[-1]):
            return seen, has
        has = seen
    return looks[0], has


def _group_row(looks: Sequence[Seen], group_id: str, own: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """What differs of a group, of whose offsets `own` differ; None where nothing does."""
    before, after = looks[0].there(group_id).state or None, looks[-1].there(group_id).state or None
    if before == after:
        return None
    had, has = _turn(looks, group_id, None)
    # The broker removes a group that has lost its last offset, and one without any.
    can_expire = not own or any(ChangeKind.EXPIRED.value in row["candidates"] for row in own)
    gone = [ChangeKind.EXPIRED.value] * can_expire + [ChangeKind.DELETED.value]
    return {
        "group_id": group_id,
        "before": before,
        "after": after,
        "change": _change(before, after),
        "changed_after_ms": had.there(group_id).described_ms[0],
        "changed_by_ms": has.there(group_id).described_ms[1],
        "candidates": gone if after is None else [],
    }


def _change(before: object, after: object) -> str:
    if before is None:
        return APPEARED
    return DISAPPEARED if after is None else CHANGED


def _candidates(row: Mapping[str, Any], due: Mapping[tuple[int, OffsetKey], int | None]) -> list[str]:
    """Everything that can have made an offset what it is, in the order of change_kinds.CAUSES."""
    if row["after"] is not None:
        return [COMMITTED]
    had, has, topic = row["had"], row["has"], row["topic"]
    due_after_ms = due.get((had.look.taken_at_ms, _key(row)))
    found = []
    if due_after_ms is None or due_after_ms <= row["changed_by_ms"]:
        found.append(ChangeKind.EXPIRED)
    found.append(ChangeKind.DELETED)
    then, now = had.there(row["group_id"]), has.there(row["group_id"])
    others = {key: value for key, value in then.offsets.items() if key != (topic, row["partition"])}
    if not any(now.offsets.get(key) == value for key, value in others.items()):
        found.append(ChangeKind.GROUP_DELETED)
    if topic not in has.topics or has.topics[topic] != had.topics.get(topic):
        found.append(ChangeKind.TOPIC_DELETED)
    return [kind.value for kind in found]


def _due(
    looks: Looks, rows: Sequence[Mapping[str, Any]], retention_ms: int | None, profile: Profile
) -> dict[tuple[int, OffsetKey], int | None]:
    """By look and offset: from when on an offset that is gone can have been due; without an entry, or with None, where
    that is not bounded, as where the retention is not known."""
    found: dict[tuple[int, OffsetKey], int | None] = {}
    gone: dict[int, tuple[AdminLook, set[str], set[int]]] = {}
    for row in rows:
        if row["after"] is None:
            look = row["had"].look
            _, names, retentions = gone.setdefault(look.taken_at_ms, (look, set(), set()))
            names.add(row["group_id"])
            shown = (one.look.metadata.retention_minutes for one in (row["had"], row["has"]))
            retentions |= {minutes * _MINUTE_MS for minutes in shown if minutes is not None}
    for taken_at_ms, (look, names, retentions) in gone.items():
        retention = min(retentions, default=None) if retention_ms is None else retention_ms
        if retention is None:
            continue
        wanted = pa.array(sorted(names), pa.string())
        tables = tables_of(merge_looks(looks, look))
        groups, offsets = (_of_groups(rows, wanted) for rows in (tables[0], tables[2]))
        judged = judge_between(
            with_nulls("committed_offsets", offsets).combine_chunks(),
            with_nulls("groups", groups).combine_chunks(),
            retention_ms=retention,
            now_ms=taken_at_ms,
            seen_ms=taken_at_ms,
            sweep_ms=None,
            profile=profile,
        )
        for row in judged.select([*KEY, "due_after_ms"]).to_pylist():
            found[taken_at_ms, _key(row)] = row["due_after_ms"]
    return found


def _plan_ids(row: Mapping[str, Any], plans: Mapping[OffsetKey, Sequence[tuple[int, int | None, str]]]) -> list[str]:
    """The plans of which a deletion of an offset that is gone touches its interval."""
    if row["after"] is not None:
        return []
    after_ms, by_ms = row["changed_after_ms"], row["changed_by_ms"]
    acts = plans.get(_key(row), ())
    return sorted({plan for begun, ended, plan in acts if begun <= by_ms and (ended is None or ended >= after_ms)})


def _key(row: Mapping[str, Any]) -> OffsetKey:
    return row["group_id"], row["topic"], row["partition"]


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    complete = [{**row, "cause": " or ".join(row["candidates"] or ()) or None} for row in rows]
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in complete], schema=schema)
