"""What happens to a loaded group whose members never return: sessions end, the group becomes Empty, offsets expire.

A load starts the timers of all members (GroupCoordinator.onGroupLoaded; GroupMetadataManager.onLoaded in 4.x). Classic
groups then follow coordinator.groups.lifecycle; members of the new types are fenced one by one (KIP-848: ConsumerGroup
has no rebalance that could end earlier). Once the group is Empty, coordinator.expiry decides. It also decides whether
the sweep succeeds: nothing expires if another group makes the sweep fail, or this group itself once it is to be
deleted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sexton.coordinator.api.view import LoadedGroup, LoadedMember, PartitionView, TopicPartition
from sexton.coordinator.expiry import SweepBlock, Verdict, first_block, verdicts_of_group
from sexton.coordinator.groups import lifecycle
from sexton.coordinator.groups.classic import ClassicGroup
from sexton.coordinator.groups.consumer import ConsumerGroup
from sexton.coordinator.groups.group import Group
from sexton.coordinator.groups.lifecycle import GroupState, LiveGroup, LiveMember
from sexton.coordinator.groups.streams import StreamsGroup
from sexton.coordinator.profile import Expiry, Profile

MODERN_SESSION_TIMEOUT_MS = 45_000
"""Kafka's default of group.consumer.session.timeout.ms and group.streams.session.timeout.ms."""
_EXPIRING = {"Consumer": ConsumerGroup, "Streams": StreamsGroup}


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonmentStep:
    """A change of the group; `state` is the group's state afterwards."""

    at_ms: int
    state: str
    member_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandonment:
    """The changes of an abandoned group. After the last of `steps` the group has no members. `expires_at_ms` says when
    each committed offset expires; None if it does not, because an open transaction holds it, or because the sweep fails
    for `block` when the offset is due.
    """

    steps: tuple[AbandonmentStep, ...]
    expires_at_ms: Mapping[TopicPartition, int | None]
    block: SweepBlock | None = None

    @property
    def empty_at_ms(self) -> int:
        return self.steps[-1].at_ms


def abandonment(
    view: PartitionView,
    group_id: str,
    *,
    loaded_at_ms: int,
    retention_ms: int,
    profile: Profile,
    session_timeout_ms: int = MODERN_SESSION_TIMEOUT_MS,
    block: SweepBlock | None = None,
) -> Abandonment | None:
    """The steps after the group's members fall silent at `loaded_at_ms`; None for a group without members.

    `session_timeout_ms` is the broker's setting for members of the new types. An offset is removed by the first sweep
    after it is due, which may be offsets.retention.check.interval.ms later. Share groups have no offsets that could
    expire. `block` says whether another group makes the log partition's sweep fail (`expiry.sweep_block`).
    """
    group, members = view.group(group_id), view.members(group_id)
    if group is None or not members or group.group_type == "Share":
        return None
    if group.group_type == "Classic":
        steps = _classic_steps(group, members, loaded_at_ms, profile)
    else:
        steps = _modern_steps(members, loaded_at_ms, session_timeout_ms)
    empty_ms, pending = steps[-1].at_ms, view.pending(group_id)
    left = _empty_group(group, empty_ms, profile)
    judged = verdicts_of_group(
        left,
        dict(sorted(view.offsets(group_id).items())),
        frozenset(),
        retention_ms=retention_ms,
        now_ms=empty_ms,
        profile=profile,
    )
    due_ms = {
        key: None if key in pending and profile.pending_blocks_expiry else _due_ms(one, empty_ms, profile)
        for key, one in judged.items()
    }
    blocks = [] if block is None else [block]
    if group.left_targets and profile.deletes_groups and not pending and None not in due_ms.values():
        # The sweep tries to delete an Empty group without offsets, and fails here.
        last_ms = max(at_ms for at_ms in (empty_ms, *due_ms.values()) if at_ms is not None)
        blocks.append(SweepBlock(group_id=group_id, from_ms=last_ms))
    first = first_block(blocks)
    return Abandonment(
        steps=steps,
        expires_at_ms={
            key: None if at_ms is None or (first is not None and first.is_on(at_ms)) else at_ms
            for key, at_ms in due_ms.items()
        },
        block=first,
    )


def _classic_steps(
    group: LoadedGroup, members: tuple[LoadedMember, ...], loaded_at_ms: int, profile: Profile
) -> tuple[AbandonmentStep, ...]:
    live = lifecycle.loaded(
        (live_member(member, loaded_at_ms) for member in members),
        generation=group.generation or 0,
        since_ms=loaded_at_ms,
    )
    steps: list[AbandonmentStep] = []
    while live.state not in (GroupState.EMPTY, GroupState.DEAD):
        before, live = live, lifecycle.tick(live, profile=profile)
        if (live.state, len(live.members)) != (before.state, len(before.members)):
            steps.append(_step(live, lifecycle.next_timer_ms(before)))
    return tuple(steps)


def live_member(member: LoadedMember, loaded_at_ms: int) -> LiveMember:
    """A classic member whose session begins at the load."""
    session_ms = member.session_timeout_ms or 0
    rebalance_ms = member.rebalance_timeout_ms
    return LiveMember(
        member_id=member.member_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms if rebalance_ms is None else rebalance_ms,
        session_ends_at_ms=loaded_at_ms + session_ms,
        is_static=member.group_instance_id is not None,
    )


def _step(live: LiveGroup, at_ms: int | None) -> AbandonmentStep:
    assert at_ms is not None, "a group with members waits for their sessions"
    return AbandonmentStep(at_ms=at_ms, state=live.state.value, member_count=len(live.members))


def _modern_steps(
    members: tuple[LoadedMember, ...], loaded_at_ms: int, session_timeout_ms: int
) -> tuple[AbandonmentStep, ...]:
    """A step for each instant at which members are fenced; members that use the classic protocol have their own
    timeouts."""
    ends = sorted(
        loaded_at_ms + (session_timeout_ms if member.session_timeout_ms is None else member.session_timeout_ms)
        for member in members
    )
    left = {at_ms: len(ends) - sum(end <= at_ms for end in ends) for at_ms in ends}
    return tuple(
        AbandonmentStep(at_ms=at_ms, state="Assigning" if count else GroupState.EMPTY.value, member_count=count)
        for at_ms, count in left.items()
    )


def _empty_group(group: LoadedGroup, empty_ms: int, profile: Profile) -> Group:
    """The group after its last member has left."""
    if group.group_type != "Classic":
        return _EXPIRING[group.group_type](group.group_id, profile)
    left = ClassicGroup(group.group_id, profile)
    left.become_empty(protocol_type=group.protocol_type, since_ms=empty_ms)
    return left


def _due_ms(judged: Verdict, empty_ms: int, profile: Profile) -> int | None:
    if judged.decision == "keep" or judged.expires_at_ms is None or profile.expiry is Expiry.OWN_STAMP:
        return judged.expires_at_ms
    return max(judged.expires_at_ms, empty_ms)
