"""The life of a classic group in a running coordinator: a pure state machine, without clock, network or log.

States and transitions are those of GroupMetadata.validPreviousStates (0.9 to 3.9) and ClassicGroup (4.x); its events
follow GroupCoordinator.onExpireHeartbeat, removeMemberAndUpdateGroup, onCompleteJoin and cleanupGroupMetadata. A log
only ever shows groups that are Empty or Stable; the states between them exist in memory alone. Up to 0.10.0 a group has
no Empty state: it becomes Dead, and is removed, when its last member leaves.

`tick` fires the timers, one at a time and in order, so that the caller decides how fast time passes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from sexton.coordinator.profile import Profile


class GroupState(StrEnum):
    """Kafka's names of the states; up to 1.0 CompletingRebalance was called AwaitingSync."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMember:
    """A member with its timer: without a heartbeat it is removed at `session_ends_at_ms`."""

    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    session_ends_at_ms: int
    is_static: bool = False
    """Whether it has a group.instance.id: then missing a rebalance does not remove it (KIP-345)."""
    has_joined: bool = False
    """Whether it has sent JoinGroup to the rebalance that is being prepared."""
    awaits_sync: bool = False
    """Whether it waits in SyncGroup for the leader's assignment (awaitingSyncCallback)."""
    sync_error: str | None = None
    """Kafka's name of the answer to its last SyncGroup, NONE with an assignment; None while it waits."""

    @property
    def is_kept_alive(self) -> bool:
        """Whether its session cannot end because it waits for an answer (shouldKeepMemberAlive; hasSatisfiedHeartbeat
        from 2.3 on)."""
        return self.has_joined or self.awaits_sync


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGroup:
    """A group at an instant. `since_ms` is when it entered its state: currentStateTimestamp."""

    state: GroupState
    generation: int
    members: tuple[LiveMember, ...] = ()
    since_ms: int
    rebalance_ends_at_ms: int | None = None
    """When the current rebalance continues without the members that have not joined."""


class IllegalTransition(ValueError):
    """An event that is not allowed in the group's state."""


def loaded(members: Iterable[LiveMember], *, generation: int, since_ms: int) -> LiveGroup:
    """The group after a load (onGroupLoaded): Stable with members, else Empty."""
    found = tuple(members)
    state = GroupState.STABLE if found else GroupState.EMPTY
    return LiveGroup(state=state, generation=generation, members=found, since_ms=since_ms)


def join(group: LiveGroup, member: LiveMember, *, at_ms: int) -> LiveGroup:
    """JoinGroup of a new or a rejoining member: the group prepares a rebalance, which may complete immediately."""
    _require(group, "join", *(state for state in GroupState if state is not GroupState.DEAD))
    others = tuple(other for other in group.members if other.member_id != member.member_id)
    grown = replace(group, members=(*others, replace(member, has_joined=True)))
    return _maybe_complete_join(_prepare(grown, at_ms), at_ms)


def await_sync(group: LiveGroup, member_id: str, *, at_ms: int) -> LiveGroup:
    """SyncGroup of a member: it waits until the leader's assignment is in the log, and its session cannot end."""
    _require(group, "await_sync", GroupState.COMPLETING_REBALANCE)
    return replace(
        group,
        members=tuple(
            replace(_restarted(own, at_ms), awaits_sync=True, sync_error=None) if own.member_id == member_id else own
            for own in group.members
        ),
    )


def remove_member(group: LiveGroup, member_id: str, *, at_ms: int, profile: Profile) -> LiveGroup:
    """The member leaves, or its session has ended (removeMemberAndUpdateGroup)."""
    rest = tuple(own for own in group.members if own.member_id != member_id)
    if len(rest) == len(group.members):
        return group
    shrunk = replace(group, members=rest)
    if not rest and not has_empty_state(profile):
        return replace(shrunk, state=GroupState.DEAD, since_ms=at_ms, rebalance_ends_at_ms=None)
    return _maybe_complete_join(_prepare(shrunk, at_ms), at_ms)


def next_timer_ms(group: LiveGroup) -> int | None:
    """When the next session or the rebalance ends; None where no timer runs."""
    waits = [own.session_ends_at_ms for own in group.members if not own.is_kept_alive]
    if group.rebalance_ends_at_ms is not None:
        waits.append(group.rebalance_ends_at_ms)
    return min(waits, default=None)


def tick(group: LiveGroup, *, profile: Profile) -> LiveGroup:
    """Fire the next timer: sessions first, then the rebalance (onExpireHeartbeat, onCompleteJoin)."""
    at_ms = next_timer_ms(group)
    if at_ms is None:
        return group
    gone = next((own for own in group.members if not own.is_kept_alive and own.session_ends_at_ms == at_ms), None)
    if gone is not None:
        return remove_member(group, gone.member_id, at_ms=at_ms, profile=profile)
    stays = tuple(own for own in group.members if own.has_joined or own.is_static)
    if stays and not any(own.has_joined for own in stays):  # no leader: wait for static members' sessions to end
        return replace(group, members=stays, rebalance_ends_at_ms=at_ms + _longest_rebalance_ms(stays))
    return _complete_join(replace(group, members=stays), at_ms)


def has_empty_state(profile: Profile) -> bool:
    """Whether a group outlives its last member (from 0.10.1 on)."""
    return profile.deletes_groups


def _prepare(group: LiveGroup, at_ms: int) -> LiveGroup:
    """Enter PreparingRebalance, unless the group is in it already (maybePrepareRebalance, prepareRebalance).

    Members that wait in SyncGroup get REBALANCE_IN_PROGRESS (propagateAssignment), and join again.
    """
    if group.state is GroupState.PREPARING_REBALANCE:
        return group
    return replace(
        group,
        state=GroupState.PREPARING_REBALANCE,
        members=tuple(
            replace(_restarted(own, at_ms), awaits_sync=False, sync_error="REBALANCE_IN_PROGRESS")
            if own.awaits_sync
            else own
            for own in group.members
        ),
        since_ms=at_ms,
        rebalance_ends_at_ms=at_ms + _longest_rebalance_ms(group.members),
    )


def _maybe_complete_join(group: LiveGroup, at_ms: int) -> LiveGroup:
    """Complete the rebalance as soon as every member has joined."""
    return _complete_join(group, at_ms) if all(own.has_joined for own in group.members) else group


def _complete_join(group: LiveGroup, at_ms: int) -> LiveGroup:
    """initNextGeneration: a group without members becomes Empty, any other waits for its leader's assignment."""
    return replace(
        group,
        state=GroupState.COMPLETING_REBALANCE if group.members else GroupState.EMPTY,
        generation=group.generation + 1,
        members=tuple(replace(_restarted(own, at_ms), has_joined=False) for own in group.members),
        since_ms=at_ms,
        rebalance_ends_at_ms=None,
    )


def _restarted(member: LiveMember, at_ms: int) -> LiveMember:
    """The member with a session that begins at `at_ms`."""
    return replace(member, session_ends_at_ms=at_ms + member.session_timeout_ms)


def _longest_rebalance_ms(members: Iterable[LiveMember]) -> int:
    return max((own.rebalance_timeout_ms for own in members), default=0)


def _require(group: LiveGroup, event: str, *states: GroupState) -> None:
    if group.state not in states:
        raise IllegalTransition(f"{event} of a group that is {group.state.value}")
