"""What clients get from either release: each group in lists and descriptions, each committed offset, each expiry."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.api.listing import describe_group, listed_group
from sexton.coordinator.expiry import offsets_by_group, sweep_block, verdicts_of_group
from sexton.coordinator.profile import Profile
from sexton.rehearsal.logs import LogOf

NOT_SERVED, VANISHES, TYPE, OFFSETS_LOST = "not_served", "vanishes", "type_changes", "offsets_lost"
DUE, NOT_DESCRIBED, STATE, MEMBERS = "due_at_once", "not_described", "state_changes", "members_change"
EXPIRY, OFFSETS_CHANGE, APPEARS = "expiry_moves", "offsets_change", "appears"
BREAKING = (NOT_SERVED, VANISHES, TYPE, OFFSETS_LOST, DUE, NOT_DESCRIBED)
MEANINGS: Mapping[str, str] = {
    NOT_SERVED: "is not served: the load of its log partition fails, or its id hashes to another log partition",
    VANISHES: "is gone",
    TYPE: "is a group of another type",
    OFFSETS_LOST: "has committed offsets that clients do not get",
    DUE: "has offsets that expire with the first sweep",
    NOT_DESCRIBED: "cannot be described",
    STATE: "has another state, protocol type or generation",
    MEMBERS: "has other members, or they are described with another assignment",
    EXPIRY: "has offsets whose expiry moves",
    OFFSETS_CHANGE: "has offsets with another position, epoch or metadata",
    APPEARS: "appears: the other release does not serve it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswers:
    """What a release answers about a group: `error` is OffsetFetch's, `described` the error of the describe request."""

    error: str
    group_type: str | None
    state: str | None
    protocol_type: str | None
    generation: int | None
    described: str
    is_misplaced: bool
    """Whether the group is only in log partitions to which its clients are not routed."""
    members: tuple[tuple[str, tuple[str, ...] | None], ...]
    """Member ids, each with the member's assignment."""
    offsets: Mapping[tuple[str, int], tuple[int, int | None, str]]
    """Committed offset, leader epoch and metadata by topic and partition."""

    @property
    def text(self) -> str:
        """The answer in a table's cell: type and state, or the error of OffsetFetch."""
        if self.error != Error.NONE.name:
            return self.error
        return "-" if self.group_type is None else f"{self.group_type} {self.state}"

    def fields(self) -> dict[str, Any]:
        """The fields for JSON, with the numbers of members and offsets in place of these lists."""
        shown = asdict(self)
        return {**shown, "members": len(self.members), "offsets": len(self.offsets)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """An offset whose answer or expiry differs between the releases, with both values; `what` is the kind of change."""

    topic: str
    partition: int
    what: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """A group about which the releases answer differently; `kinds` are keys of MEANINGS."""

    group_id: str
    log_partition: int
    kinds: tuple[str, ...]
    before: GroupAnswers
    after: GroupAnswers
    offsets: tuple[OffsetChange, ...] = ()

    @property
    def is_breaking(self) -> bool:
        return any(kind in BREAKING for kind in self.kinds)


def changes_between(
    logs: list[LogOf], before: Coordinator, after: Coordinator, *, retention_ms: Mapping[str, int], now_ms: int
) -> list[GroupChange]:
    """The groups about which two brokers that lead the same log answer differently; `retention_ms` is by profile."""
    holders: dict[str, list[int]] = {}
    for log in logs:
        for group_id in groups_in(log, before.profile, after.profile):
            holders.setdefault(group_id, []).append(log.number)
    expiries = [_expiries(logs, one.profile, retention_ms[one.profile.text], now_ms) for one in (before, after)]
    found = []
    for group_id, numbers in sorted(holders.items()):
        pair = _answers(before, group_id, numbers), _answers(after, group_id, numbers)
        due = tuple(by_group.get(group_id, {}) for by_group in expiries)
        kinds, offsets = _kinds(*pair), [*_offset_changes(*pair)]
        if pair[0].error == pair[1].error == Error.NONE.name:
            moved = [*_moves(*due)]
            offsets += moved
            kinds += [kind for kind in (DUE, EXPIRY) if kind in {one.what for one in moved}]
        if kinds:
            found.append(
                GroupChange(
                    group_id=group_id, log_partition=numbers[0], kinds=tuple(kinds), before=pair[0], after=pair[1],
                    offsets=tuple(offsets),
                )
            )  # fmt: skip
    return found


def groups_in(log: LogOf, *profiles: Profile) -> tuple[str, ...]:
    """The groups in a log partition that at least one of the releases loads."""
    loads = [log.load(one) for one in profiles]
    return tuple(
        sorted({group_id for one in loads for group_id in (*one.groups.by_id, *(key[0] for key in one.offsets))})
    )


def _answers(broker: Coordinator, group_id: str, holders: list[int]) -> GroupAnswers:
    fetched = fetch(broker, group_id)
    is_served = broker.error_of(group_id) is Error.NONE
    group = listed_group(broker, group_id) if is_served else None
    shown = describe_group(broker, group_id)
    return GroupAnswers(
        error=fetched.error.name,
        **{name: getattr(group, name, None) for name in ("group_type", "state", "protocol_type", "generation")},
        described=shown.error.name,
        is_misplaced=is_served and all(broker.is_misplaced(one, group_id) for one in holders),
        members=tuple((one.member_id, one.assignment) for one in shown.members),
        offsets={
            (one.topic, one.partition): (one.committed_offset, one.leader_epoch, one.metadata)
            for one in fetched.offsets
        },
    )


def _kinds(before: GroupAnswers, after: GroupAnswers) -> list[str]:
    fine = Error.NONE.name
    if before.error != fine and after.error != fine:
        return []
    if after.error != fine or (after.is_misplaced and not before.is_misplaced):
        return [NOT_SERVED]
    if before.error != fine:
        return [APPEARS]
    kinds = []
    if before.group_type is not None and after.group_type is None:
        kinds.append(VANISHES)
    elif before.group_type is None and after.group_type is not None:
        kinds.append(APPEARS)
    elif before.group_type != after.group_type:
        kinds.append(TYPE)
    elif (before.state, before.protocol_type, before.generation) != (
        after.state,
        after.protocol_type,
        after.generation,
    ):
        kinds.append(STATE)
    elif before.members != after.members:
        kinds.append(MEMBERS)
    if before.group_type is not None and after.group_type is not None and after.described != before.described:
        kinds.append(NOT_DESCRIBED if before.described == fine else STATE)
    if before.offsets.keys() - after.offsets.keys():
        kinds.append(OFFSETS_LOST)
    if any(before.offsets.get(key, new) != new for key, new in after.offsets.items()):
        kinds.append(OFFSETS_CHANGE)
    if after.offsets.keys() - before.offsets.keys() and APPEARS not in kinds:
        kinds.append(APPEARS)
    return list(dict.fromkeys(kinds))


def _offset_changes(before: GroupAnswers, after: GroupAnswers) -> Iterator[OffsetChange]:
    for key in sorted(before.offsets.keys() | after.offsets.keys()):
        old, new = before.offsets.get(key), after.offsets.get(key)
        if old != new:
            what = OFFSETS_LOST if new is None else APPEARS if old is None else OFFSETS_CHANGE
            yield OffsetChange(topic=key[0], partition=key[1], what=what, before=old, after=new)


_Expiries = Mapping[tuple[str, int], tuple[str, int | None, bool]]
"""By topic and partition: the reason, the instant, and whether the offset is due."""


def _expiries(logs: list[LogOf], profile: Profile, retention_ms: int, now_ms: int) -> dict[str, dict[Any, Any]]:
    """When each offset expires, by group."""
    found: dict[str, dict[tuple[str, int], tuple[str, int | None, bool]]] = {}
    for log in logs:
        loaded = log.load(profile)
        if loaded.holds_nothing:
            continue
        pending = loaded.state.pending_keys()
        at: dict[str, Any] = {"retention_ms": retention_ms, "now_ms": now_ms}
        block = sweep_block(loaded, **at)
        for group_id, offsets in offsets_by_group(loaded).items():
            group = loaded.groups.by_id.get(group_id)
            if group is not None:
                judged = verdicts_of_group(group, offsets, pending, **at, profile=profile, block=block)
                found.setdefault(group_id, {}).update(
                    {key[1:]: (one.reason, one.expires_at_ms, one.decision == "expire") for key, one in judged.items()}
                )
    return found


def _moves(before: _Expiries, after: _Expiries) -> Iterator[OffsetChange]:
    for key in sorted(before.keys() & after.keys()):
        (old_reason, old_ms, was_due), (new_reason, new_ms, is_due) = before[key], after[key]
        if (old_ms, was_due) != (new_ms, is_due):
            what = DUE if is_due and not was_due else EXPIRY
            old, new = {"reason": old_reason, "expires_at_ms": old_ms}, {"reason": new_reason, "expires_at_ms": new_ms}
            yield OffsetChange(topic=key[0], partition=key[1], what=what, before=old, after=new)
