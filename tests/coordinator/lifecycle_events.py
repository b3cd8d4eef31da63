"""What else moves a group of `sexton.coordinator.groups.lifecycle`; no question asks for these."""

from dataclasses import replace

from sexton.coordinator.groups.lifecycle import GroupState, IllegalTransition, LiveGroup, LiveMember
from sexton.coordinator.profile import Profile


def sync(group: LiveGroup, *, at_ms: int) -> LiveGroup:
    """The leader's assignment is stored: those who wait for it get it, the group is Stable."""
    _require(group, "sync", GroupState.COMPLETING_REBALANCE)
    members = tuple(
        replace(_anew(own, at_ms), awaits_sync=False, sync_error="NONE") if own.awaits_sync else own
        for own in group.members
    )
    return replace(group, members=members, state=GroupState.STABLE, since_ms=at_ms)


def heartbeat(group: LiveGroup, member_id: str, *, at_ms: int) -> LiveGroup:
    """A heartbeat begins the member's session anew."""
    _require(group, "heartbeat", GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
    return replace(
        group,
        members=tuple(_anew(own, at_ms) if own.member_id == member_id else own for own in group.members),
    )


def sweep(group: LiveGroup, *, is_bare: bool, at_ms: int, profile: Profile) -> LiveGroup:
    """Expiry of offsets removes an Empty group that has none left (cleanupGroupMetadata)."""
    if group.state is not GroupState.EMPTY or not is_bare or not profile.deletes_groups:
        return group
    return replace(group, state=GroupState.DEAD, since_ms=at_ms)


def delete(group: LiveGroup, *, at_ms: int) -> LiveGroup:
    """DeleteGroups (KIP-229): of an Empty group only, else NON_EMPTY_GROUP."""
    _require(group, "delete", GroupState.EMPTY)
    return replace(group, state=GroupState.DEAD, since_ms=at_ms)


def _anew(member: LiveMember, at_ms: int) -> LiveMember:
    return replace(member, session_ends_at_ms=at_ms + member.session_timeout_ms)


def _require(group: LiveGroup, event: str, *states: GroupState) -> None:
    if group.state not in states:
        raise IllegalTransition(f"{event} of a group that is {group.state.value}")
