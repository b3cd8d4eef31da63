"""Why a group itself is gone: which operation may have written the tombstone that removes it.

Where the write took offsets of the group as well, their cause (causes.py) is the group's. Here is the rest: a group
that had no offset left, of which only what it was tells anything. Follows GroupCoordinatorShard.cleanupGroupMetadata
and deleteGroups (4.x), GroupMetadataManager.cleanupGroupMetadata (0.10.1 to 3.9) and .removeGroup (0.9, 0.10.0).
"""

from enum import StrEnum

from sexton.coordinator.changes.change import Kind
from sexton.coordinator.changes.powers import powers_of
from sexton.coordinator.groups.classic import ClassicGroup
from sexton.coordinator.groups.group import Group
from sexton.coordinator.groups.lifecycle import has_empty_state
from sexton.coordinator.profile import Profile


class Removal(StrEnum):
    """What removes a group that holds no offset."""

    EXPIRED = Kind.EXPIRED.value
    """The sweep: it removes a group that is Empty and bare, whatever its age."""
    GROUP_DELETED = Kind.GROUP_DELETED.value
    """DeleteGroups."""
    LAST_MEMBER_LEFT = "last_member_left"
    """Up to 0.10.0 a group goes with its last member."""


OF_THE_GROUP = frozenset({Kind.EXPIRED.value, Kind.GROUP_DELETED.value, Kind.AMBIGUOUS.value})
"""Kinds of offset_changes of which a 4.x coordinator may write the group's tombstone in the same write."""


def removal_causes(group: Group, *, keeps_offsets: bool, profile: Profile) -> tuple[Removal, ...]:
    """What may have removed `group`, as it was right before; nothing where only a producer can have written that.

    `keeps_offsets`: whether committed offsets are left of it, which no operation of a coordinator leaves behind.
    """
    if has_empty_state(profile) and (keeps_offsets or not group.is_empty):
        return ()
    return possible_removals(
        profile,
        is_swept=profile.deletes_generation_0 or not isinstance(group, ClassicGroup) or group.generation > 0,
        is_share=group.group_type == "Share",
    )


def possible_removals(profile: Profile, *, is_swept: bool = True, is_share: bool = False) -> tuple[Removal, ...]:
    """What removes an Empty group without offsets in this release."""
    if not has_empty_state(profile):
        return (Removal.LAST_MEMBER_LEFT,)
    sweeps = is_swept and (not is_share or profile.deletes_share_groups)
    deletes = powers_of(profile).deletes_groups
    return (*((Removal.EXPIRED,) if sweeps else ()), *((Removal.GROUP_DELETED,) if deletes else ()))


def removal_after(causes: list[str], profile: Profile) -> tuple[str, ...]:
    """The causes of a group's removal, where the last of its offsets went for `causes` (words of offset_changes).

    Up to 3.9 whatever takes the last offset of an empty group removes the group with it. From 4.0 on only the sweep
    and DeleteGroups do; after the deletion of offsets or topics one of these follows later.
    """
    if powers_of(profile).drops_bare_groups or set(causes) & OF_THE_GROUP:
        return tuple(cause for cause in causes if powers_of(profile).drops_bare_groups or cause in OF_THE_GROUP)
    return tuple(cause.value for cause in possible_removals(profile))
