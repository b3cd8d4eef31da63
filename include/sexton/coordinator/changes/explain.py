"""Why offsets disappeared, from the write that their tombstones are part of: one row of offset_changes for each offset.

For each group of a write, rules.py finds the operations that could have written its tombstones. This module searches
for the smallest set of operations that explains the whole write: one sweep that removed exactly the due offsets of five
groups is more likely than five requests of an administrator within the same millisecond. If several sets are equally
small, the kind is `ambiguous`.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from sexton.coordinator.changes.model import Change, ChangeEvidence, StateBefore, TopicPartition, Write, action_at
from sexton.coordinator.changes.rules import (
    FINAL_TYPES,
    GroupRemoval,
    WriteContext,
    possible_causes,
    swept_by,
    topics_around,
)
from sexton.coordinator.offsets import StoredOffset
from sexton.coordinator.profile import Profile
from sexton.log.entry import NO_PRODUCER_ID
from sexton.tables.change_causes import CAUSES, ChangeKind

_Causes = frozenset[ChangeKind]
_1971_MS = 31_536_000_000
_SHARED = (ChangeKind.EXPIRED, ChangeKind.GROUP_DELETED, ChangeKind.TOPIC_DELETED)
"""Operations that may remove offsets of several groups; OffsetDelete removes those of one group."""


def changes_of_write(write: Write, before: StateBefore, known: ChangeEvidence, profile: Profile) -> list[Change]:
    """A row for every offset that `write` removed, in log order; a tombstone of a key without a value has no row."""
    removals = [removal for removal in _removals_by_group(write, before, profile) if removal.removed]
    context = WriteContext(write=write, before=before, known=known, profile=profile, removals=removals)
    possible = [possible_causes(removal, context) for removal in removals]
    chosen = _smallest_explanations(possible) if write.is_whole else [one or {ChangeKind.DELETED} for one in possible]
    rows = [
        row
        for removal, causes, could_be in zip(removals, chosen, possible, strict=True)
        for row in _rows(removal, [cause for cause in CAUSES if cause in causes], context, fits=bool(could_be))
    ]
    return sorted(rows, key=lambda row: row.log_offset)


def _removals_by_group(write: Write, before: StateBefore, profile: Profile) -> Iterator[GroupRemoval]:
    by_group: dict[str, list[int]] = {}
    for index, record in enumerate(write.removals):
        by_group.setdefault(record.group_id, []).append(index)
    for group_id, numbers in by_group.items():
        records = [write.removals[index] for index in numbers]
        log_offsets: dict[TopicPartition, int] = {}
        for record in records:
            if record.key is not None:
                log_offsets.setdefault(record.key, record.log_offset)
        if not log_offsets:
            continue
        offsets, pending = before.offsets_of(group_id), before.pending_of(group_id)
        yield GroupRemoval(
            group_id=group_id,
            removed={key: offsets[key] for key in log_offsets if key in offsets},
            log_offsets=log_offsets,
            kept={key: offset for key, offset in offsets.items() if key not in log_offsets},
            cancelled=frozenset(log_offsets) - frozenset(offsets),
            spared=pending - frozenset(log_offsets),
            pending=pending,
            group=before.group(group_id),
            is_open=before.has_open_transaction(group_id),
            has_group_tombstone=any(record.record_type in FINAL_TYPES for record in records),
            is_atomic=len({record.base_offset for record in records}) == 1 or records[0].base_offset is None,
            has_repeats=sum(record.key is not None for record in records) > len(log_offsets),
            profile=profile,
        )


def _smallest_explanations(possible: Sequence[_Causes]) -> list[set[ChangeKind]]:
    """For each group, its causes in the smallest explanations of the write; `possible` are each group's candidates.

    An explanation is a set of operations that accounts for every group; its size is the number of operations. One of
    _SHARED accounts for every group for which it is possible. An OffsetDelete accounts for one group, and so does a
    producer for a group without candidates. If several explanations are equally small, a group has the causes of all of
    them.
    """
    found: list[set[ChangeKind]] = [set() for _ in possible]
    fewest = len(possible) + len(_SHARED) + 1
    for size in range(len(_SHARED) + 1):
        for operations in map(frozenset, combinations(_SHARED, size)):
            others = [causes for causes in possible if not causes & operations]
            if any(causes and ChangeKind.DELETED not in causes for causes in others):
                continue
            count = size + len(others)
            if count < fewest:
                fewest, found = count, [set() for _ in possible]
            if count == fewest:
                for chosen, causes in zip(found, possible, strict=True):
                    chosen |= (causes & operations) or {ChangeKind.DELETED}
    return found


def _rows(
    removal: GroupRemoval, causes: Sequence[ChangeKind], context: WriteContext, *, fits: bool
) -> Iterator[Change]:
    at_ms, retentions_ms = context.write.timestamp_ms, context.known.retentions_ms
    retention_ms = None
    if removal.group is not None and at_ms is not None and retentions_ms is not None:
        retention_ms = swept_by(removal, context) or retentions_ms[0]
    sentence = evidence_of(removal, causes, context, fits=fits)
    for key, offset in removal.removed.items():
        action = action_at(context.known.removed.get((removal.group_id, *key), ()), at_ms)
        kind = causes[0] if len(causes) == 1 else ChangeKind.AMBIGUOUS
        if action is not None:
            kind = ChangeKind.GROUP_DELETED if removal.has_group_tombstone else ChangeKind.DELETED
        yield Change(
            key=(removal.group_id, *key),
            kind=kind,
            old=offset,
            candidates=tuple(causes) if kind is ChangeKind.AMBIGUOUS else None,
            by_plan_id=None if action is None else action.plan_id,
            log_offset=removal.log_offsets[key],
            timestamp_ms=at_ms,
            due_at_ms=_due_at_ms(key, offset, removal, at_ms, retention_ms),
            evidence=sentence,
        )


def _due_at_ms(
    key: TopicPartition, offset: StoredOffset, removal: GroupRemoval, at_ms: int | None, retention_ms: int | None
) -> int | None:
    """The first instant at which the offset was old enough for a sweep; None if that is not known."""
    if removal.group is None or removal.since_unknown(offset):
        return None
    if offset.expire_timestamp_ms is None and (retention_ms is None or at_ms is None):
        return None  # with an expire timestamp neither is needed
    return removal.verdict_of(key, offset, retention_ms or 0, at_ms or 0).expires_at_ms


def evidence_of(removal: GroupRemoval, causes: Sequence[ChangeKind], context: WriteContext, *, fits: bool) -> str:
    """The log's evidence for the disappearance: the column `evidence` of offset_changes."""
    write, count = context.write, len(removal.removed)
    total = count + len(removal.kept)
    whole = "the only offset of the group" if count == 1 else f"all {count} offsets of the group"
    parts = [f"{count} of the group's {total} offsets" if removal.kept else whole]
    if removal.has_group_tombstone:
        parts[0] += " and the group itself"
    if len(context.removals) > 1:
        others = len(context.removals) - 1
        parts.append(f"in one write with {others} other group{'s' if others > 1 else ''}")
    if write.producer_id != NO_PRODUCER_ID:
        parts.append(f"written by producer {write.producer_id}: no coordinator writes tombstones with one")
    elif not fits:
        release = context.profile.text
        parts.append(
            f"no operation of {release} writes that: another release did (--profile), or a producer that bypassed the "
            "coordinator"
        )
    elif not write.is_whole:
        parts.append("not all earlier records were read, so few causes are ruled out")
    parts += [_dueness(removal, context), _stamped_1970(removal)]
    if ChangeKind.TOPIC_DELETED in causes:
        _, after = topics_around(context)
        gone = sorted({topic for topic, _ in removal.removed if after is not None and topic not in after.ids})
        if gone:
            parts.append(f"gone since: {', '.join(gone)}")
    return "; ".join(part for part in parts if part)


def _stamped_1970(removal: GroupRemoval) -> str:
    """Text saying that commits were stamped 1970, a timestamp from no clock, and so were due immediately."""
    count = sum(0 <= offset.commit_timestamp_ms < _1971_MS for offset in removal.removed.values())
    which = "" if count == len(removal.removed) else f"{count} of them "
    return f"{which}committed with a timestamp of 1970, older than any retention" if count else ""


def _dueness(removal: GroupRemoval, context: WriteContext) -> str:
    at_ms, retentions = context.write.timestamp_ms, context.known.retentions_ms
    if at_ms is None:
        return "without a timestamp it is not known what was due"
    if removal.group is None or not retentions or not context.write.is_whole:
        return ""
    if any(removal.since_unknown(offset) for offset in removal.removed.values()):
        return "the log does not say since when the group was empty"
    due = sum(
        any(removal.is_due(key, offset, retention_ms, at_ms) for retention_ms in retentions)
        for key, offset in removal.removed.items()
    )
    left = sum(
        all(removal.is_due(key, offset, retention_ms, at_ms) for retention_ms in retentions)
        for key, offset in removal.kept.items()
    )
    text = "due" if due == len(removal.removed) else f"{due} of them due" if due else "not due"
    return f"{text}, but {left} due ones stayed" if left else text
