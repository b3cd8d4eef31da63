"""JoinGroup: whether a coordinator accepts a classic member, and the group afterwards, before other members react.

Follows GroupMetadataManager.classicGroupJoin (Kafka 4.x), GroupCoordinator.handleJoinGroup with doJoinGroup (0.9 to
3.9). A group is created where there is none and the request names no member (getOrMaybeCreateGroup).

After a load no member waits in JoinGroup, and no member id has been assigned, so the corresponding answers do not
occur; nor does any member wait in SyncGroup, unless the caller names it. Timeouts are assumed to be within the broker's
bounds, and the group to be smaller than group.max.size. A rejoining member is assumed to send its previous metadata.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from sexton.coordinator.api.abandonment import live_member
from sexton.coordinator.api.commit import member_error
from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.listing import listed_group
from sexton.coordinator.api.view import LoadedGroup, LoadedMember
from sexton.coordinator.groups import lifecycle
from sexton.coordinator.groups.lifecycle import GroupState, LiveMember
from sexton.coordinator.profile import Profile

_MEMBER_IDS_API = 4
"""The first version of JoinGroup whose client can be asked to join again with an assigned id (KIP-394)."""
_CONSUMER = "consumer"
_REPLACED_REBALANCES = (2, 5)
"""From this release on a new process of a static member starts a rebalance of a group that is CompletingRebalance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The request; a new member has no `member_id`. `protocols` are the names of its assignors."""

    group_id: str
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = _CONSUMER
    protocols: tuple[str, ...] = ("range",)
    api_version: int = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The answer, and the group after it. `group` is None if there is no group, or if a consumer group has accepted a
    classic member, which changes the group's epoch and the assignments of its members.

    `is_new` says that the request has created the group, even if the request was refused. `writes_record` says that
    the coordinator then appends the group's record (4.x); otherwise a new group is only in memory until its first
    generation.
    """

    error: Error
    group: LoadedGroup | None = None
    is_new: bool = False
    writes_record: bool = False
    members: tuple[LiveMember, ...] = ()
    """If members wait in SyncGroup: the group's earlier members, with the answers to their SyncGroup."""


def join_group(coordinator: Coordinator, join: Join, *, syncing: Collection[str] = (), at_ms: int = 0) -> JoinAnswer:
    """Answer JoinGroup; UNSUPPORTED_VERSION in 0.8.2, which has no groups.

    With `syncing`, all members are assumed to have joined the next rebalance at `at_ms`, and the members in `syncing`
    to wait in SyncGroup. ValueError if these are not members of a classic group.
    """
    profile = coordinator.profile
    if not profile.reads(2):
        return JoinAnswer(error=Error.UNSUPPORTED_VERSION)
    if not join.group_id:
        return JoinAnswer(error=Error.INVALID_GROUP_ID)
    error = coordinator.error_of(join.group_id)
    if error is not Error.NONE:
        return JoinAnswer(error=error)
    found = listed_group(coordinator, join.group_id)
    members = coordinator.view_of(join.group_id).members(join.group_id)
    if syncing:
        return _while_syncing(profile, join, found, members, syncing=syncing, at_ms=at_ms)
    if found is not None and found.group_type != "Classic":
        if found.group_type == "Consumer" and members:
            error = _consumer_error(join, members)
            return JoinAnswer(error=error, group=None if error is Error.NONE else found)
        is_converted = found.group_type == "Consumer" or profile.converts_streams_groups
        if found.group_type == "Share" or members or not is_converted:
            return JoinAnswer(error=Error.INCONSISTENT_GROUP_PROTOCOL, group=found)
        found = None  # the tombstones of this group are written with the classic group's record
    if found is None and join.member_id:
        return JoinAnswer(error=Error.UNKNOWN_MEMBER_ID)
    group = found or LoadedGroup(group_id=join.group_id)
    error = _error_of(profile, join, group, members, is_new=found is None)
    if error is Error.NONE:
        group = _joined(profile, join, group, members)
    return JoinAnswer(error=error, group=group, is_new=found is None, writes_record=found is None and profile.is_java)


def _while_syncing(
    profile: Profile,
    join: Join,
    found: LoadedGroup | None,
    members: tuple[LoadedMember, ...],
    *,
    syncing: Collection[str],
    at_ms: int,
) -> JoinAnswer:
    """The answer of a group that is CompletingRebalance (AwaitingSync up to 1.0).

    An existing member changes nothing. A new member starts the next rebalance (prepareRebalance). From 2.5 on, so does
    a new process of a static member, which fences the previous process (updateStaticMemberAndRebalance).
    """
    strangers = sorted({*syncing} - {member.member_id for member in members})
    if found is None or found.group_type != "Classic" or strangers:
        raise ValueError(f"not members of a classic group: {', '.join(strangers or syncing)}")
    live = lifecycle.loaded(
        (live_member(member, at_ms) for member in members), generation=(found.generation or 0) + 1, since_ms=at_ms
    )
    live = replace(live, state=GroupState.COMPLETING_REBALANCE)
    for member_id in syncing:
        live = lifecycle.await_sync(live, member_id, at_ms=at_ms)
    fenced: tuple[LiveMember, ...] = ()
    error = _error_of(profile, join, found, members, is_new=False)
    if error is Error.NONE and not join.member_id:
        instance = join.group_instance_id if profile.fences_static_members else None
        replaced = {member.member_id for member in members if instance is not None and member.holds(instance)}
        fenced = tuple(own for own in live.members if own.member_id in replaced)
        new = LiveMember(member_id="", session_timeout_ms=0, rebalance_timeout_ms=0, session_ends_at_ms=at_ms)
        rest = tuple(own for own in live.members if own.member_id not in replaced)
        if not fenced or profile.is_java or profile.release >= _REPLACED_REBALANCES:
            live = lifecycle.join(replace(live, members=rest), new, at_ms=at_ms)
        else:
            live = replace(live, members=(*rest, new))
    after = {own.member_id: own for own in live.members}
    after |= {own.member_id: _fenced(own) for own in fenced}
    return JoinAnswer(
        error=error,
        group=replace(found, state=live.state.value, generation=live.generation, member_count=len(live.members)),
        members=tuple(after[member.member_id] for member in members),
    )


def _fenced(member: LiveMember) -> LiveMember:
    """replaceStaticMember: a waiting request with the old member id is answered immediately."""
    error = Error.FENCED_INSTANCE_ID.name if member.awaits_sync else None
    return replace(member, awaits_sync=False, sync_error=error)


def _error_of(
    profile: Profile, join: Join, group: LoadedGroup, members: tuple[LoadedMember, ...], *, is_new: bool
) -> Error:
    """The error of supportsProtocols, or that about the member. After a load, members only have the protocol that the
    group has chosen."""
    is_other = bool(members) and group.protocol not in join.protocols
    if group.state != GroupState.EMPTY and not is_new and (join.protocol_type != group.protocol_type or is_other):
        return Error.INCONSISTENT_GROUP_PROTOCOL
    instance = join.group_instance_id if profile.fences_static_members else None
    if join.member_id:
        return member_error(join.member_id, instance, members)
    needs_id = profile.requires_member_ids and join.api_version >= _MEMBER_IDS_API and instance is None
    return Error.MEMBER_ID_REQUIRED if needs_id else Error.NONE


def _joined(profile: Profile, join: Join, group: LoadedGroup, members: tuple[LoadedMember, ...]) -> LoadedGroup:
    """The group with the member: a rejoining follower changes nothing, nor does a new process of a static member."""
    instance = join.group_instance_id if profile.fences_static_members else None
    is_replaced = not join.member_id and instance is not None and any(one.holds(instance) for one in members)
    if is_replaced or (join.member_id and join.member_id != group.leader):
        return group
    others = [one for one in members if one.member_id != join.member_id]
    count = len(others) + 1
    if others or (group.state == GroupState.EMPTY and profile.delays_first_rebalance):
        return replace(group, state=GroupState.PREPARING_REBALANCE.value, member_count=count)
    return replace(
        group,
        state=GroupState.COMPLETING_REBALANCE.value,
        generation=(group.generation or 0) + 1,
        member_count=count,
        protocol_type=join.protocol_type,
    )


def _consumer_error(join: Join, members: tuple[LoadedMember, ...]) -> Error:
    """classicGroupJoinToConsumerGroup: any member id is accepted, since assigned ids are not stored."""
    if join.protocol_type != _CONSUMER:
        return Error.INCONSISTENT_GROUP_PROTOCOL
    if join.group_instance_id is None:
        needs_id = not join.member_id and join.api_version >= _MEMBER_IDS_API
        return Error.MEMBER_ID_REQUIRED if needs_id else Error.NONE
    return member_error(join.member_id, join.group_instance_id, members) if join.member_id else Error.NONE
