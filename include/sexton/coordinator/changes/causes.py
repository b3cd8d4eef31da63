"""Why offsets disappeared, from the write that their tombstones are part of.

For each group in a write, rules.py says which operations could have written what stands there. Here the fewest
operations are sought that explain the whole write: one sweep that took exactly what was due of five groups is
believed, five requests of an administrator within the same millisecond are not. Where one operation explains it as well
as another, the answer is `ambiguous`.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from sexton.coordinator.changes.change import CAUSES, Before, Change, Kind, Known, TopicPartition, Write, act_at
from sexton.coordinator.changes.evidence import evidence_of
from sexton.coordinator.changes.powers import powers_of
from sexton.coordinator.changes.rules import (
    FINAL_TYPES,
    Case,
    Scene,
    possible_causes,
    since_unknown,
    swept_by,
    verdict_of,
)
from sexton.coordinator.offsets import StoredOffset
from sexton.coordinator.profile import Profile

_SHARED = (Kind.EXPIRED, Kind.GROUP_DELETED, Kind.TOPIC_DELETED)
"""Operations that may take offsets of several groups; OffsetDelete is about one."""


def changes_of_write(write: Write, before: Before, known: Known, profile: Profile) -> list[Change]:
    """A row for every offset that `write` made disappear, in log order; what had no value gives none."""
    cases = [case for case in _cases(write, before) if case.removed]
    scene = Scene(write=write, before=before, known=known, profile=profile, powers=powers_of(profile), cases=cases)
    possible = [possible_causes(case, scene) for case in cases]
    kinds = _fewest(possible) if write.is_whole else [case or {Kind.DELETED} for case in possible]
    rows = [
        row
        for case, own, may in zip(cases, kinds, possible, strict=True)
        for row in _rows(case, own, scene, fits=bool(may))
    ]
    return sorted(rows, key=lambda row: row.log_offset)


def _cases(write: Write, before: Before) -> Iterator[Case]:
    by_group: dict[str, list[int]] = {}
    for index, removal in enumerate(write.removals):
        by_group.setdefault(removal.group_id, []).append(index)
    for group_id, own in by_group.items():
        removals = [write.removals[index] for index in own]
        log_offsets: dict[TopicPartition, int] = {}
        for removal in removals:
            if removal.key is not None:
                log_offsets.setdefault(removal.key, removal.log_offset)
        if not log_offsets:
            continue
        offsets, pending = before.offsets_of(group_id), before.pending_of(group_id)
        yield Case(
            group_id=group_id,
            removed={key: offsets[key] for key in log_offsets if key in offsets},
            log_offsets=log_offsets,
            kept={key: offset for key, offset in offsets.items() if key not in log_offsets},
            cancelled=frozenset(log_offsets) - frozenset(offsets),
            spared=pending - frozenset(log_offsets),
            pending=pending,
            group=before.group(group_id),
            is_open=before.has_open_transaction(group_id),
            has_group_tombstone=any(removal.record_type in FINAL_TYPES for removal in removals),
            is_atomic=len({removal.base_offset for removal in removals}) == 1 or removals[0].base_offset is None,
            has_repeats=sum(removal.key is not None for removal in removals) > len(log_offsets),
        )


def _fewest(possible: Sequence[frozenset[Kind]]) -> list[set[Kind]]:
    """For each case what it is in any of the smallest explanations of all of them.

    An operation of _SHARED explains all cases that it is possible for, an OffsetDelete one case, and so does a producer
    that nothing else explains.
    """
    found: list[set[Kind]] = [set() for _ in possible]
    fewest = len(possible) + len(_SHARED) + 1
    for size in range(len(_SHARED) + 1):
        for operations in map(frozenset, combinations(_SHARED, size)):
            alone = [case for case in possible if not case & operations]
            if any(case and Kind.DELETED not in case for case in alone):
                continue
            count = size + len(alone)
            if count < fewest:
                fewest, found = count, [set() for _ in possible]
            if count == fewest:
                for own, case in zip(found, possible, strict=True):
                    own |= (case & operations) or {Kind.DELETED}
    return found


def _rows(case: Case, kinds: set[Kind] | frozenset[Kind], scene: Scene, *, fits: bool) -> Iterator[Change]:
    told = [kind for kind in CAUSES if kind in kinds]
    retention_ms = None
    if case.group is not None and scene.write.timestamp_ms is not None and scene.known.retentions_ms is not None:
        retention_ms = swept_by(case, case.group, scene) or scene.known.retentions_ms[0]
    sentence = evidence_of(case, told, scene, fits=fits)
    for key, offset in case.removed.items():
        act = act_at(scene.known.removed.get((case.group_id, *key), ()), scene.write.timestamp_ms)
        kind = told[0] if len(told) == 1 else Kind.AMBIGUOUS
        if act is not None:
            kind = Kind.GROUP_DELETED if case.has_group_tombstone else Kind.DELETED
        yield Change(
            key=(case.group_id, *key),
            kind=kind,
            old=offset,
            candidates=tuple(told) if kind is Kind.AMBIGUOUS else None,
            by_plan_id=None if act is None else act.plan_id,
            log_offset=case.log_offsets[key],
            timestamp_ms=scene.write.timestamp_ms,
            due_at_ms=_due_at_ms(key, offset, case, scene, retention_ms),
            evidence=sentence,
        )


def _due_at_ms(
    key: TopicPartition, offset: StoredOffset, case: Case, scene: Scene, retention_ms: int | None
) -> int | None:
    """When a sweep could first have taken the offset, were it for its age alone."""
    if retention_ms is None or case.group is None or scene.write.timestamp_ms is None:
        return None
    if since_unknown(offset, case.group, scene.profile):
        return None
    return verdict_of(key, offset, case, case.group, scene, retention_ms, scene.write.timestamp_ms).expires_at_ms
