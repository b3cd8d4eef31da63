"""Why a group itself is gone: the operations that may have written its tombstone.

If the same write removed offsets of the group, explain.py decides, with the causes in sexton.tables.change_causes. This
module covers groups without offsets, where only the group's state gives evidence.

Follows GroupCoordinatorShard.cleanupGroupMetadata and deleteGroups (4.x), GroupMetadataManager.cleanupGroupMetadata
(0.10.1 to 3.9) and .removeGroup (0.9, 0.10.0).
"""

from sexton.coordinator.groups.classic import ClassicGroup
from sexton.coordinator.groups.group import Group
from sexton.coordinator.groups.lifecycle import has_empty_state
from sexton.coordinator.profile import Profile
from sexton.tables.change_causes import ChangeKind

LAST_MEMBER_LEFT = "last_member_left"
"""Up to 0.10.0 a group is removed with its last member."""
_WITH_GROUP_TOMBSTONE = frozenset(
    {ChangeKind.EXPIRED.value, ChangeKind.GROUP_DELETED.value, ChangeKind.AMBIGUOUS.value}
)
"""Kinds of offset_changes for which a 4.x coordinator may write the group's tombstone in the same write."""


def removal_causes(group: Group, *, keeps_offsets: bool, profile: Profile) -> tuple[str, ...]:
    """The operations that may have removed `group`, which is in its state right before; empty if only a producer can
    have written its tombstone.

    `keeps_offsets`: whether the group still has committed offsets, which no operation that removes a group leaves.
    """
    if has_empty_state(profile) and (keeps_offsets or not group.is_empty):
        return ()
    return possible_removals(
        profile,
        is_swept=profile.deletes_generation_0 or not isinstance(group, ClassicGroup) or group.generation > 0,
        is_share=group.group_type == "Share",
    )


def possible_removals(profile: Profile, *, is_swept: bool = True, is_share: bool = False) -> tuple[str, ...]:
    """The operations that remove an Empty group without offsets in this release: LAST_MEMBER_LEFT, or the sweep
    (whatever the group's age) and DeleteGroups, as kinds of offset_changes. Up to 3.9 also OffsetDelete, and the
    deletion of any topic, which cleans up every group (cleanupGroupMetadata)."""
    if not has_empty_state(profile):
        return (LAST_MEMBER_LEFT,)
    is_cleaned = is_swept and profile.batch_per_group
    possible = {
        ChangeKind.EXPIRED: is_swept and (not is_share or profile.deletes_share_groups),
        ChangeKind.GROUP_DELETED: profile.has_delete_groups,
        ChangeKind.DELETED: is_cleaned and profile.has_offset_delete,
        ChangeKind.TOPIC_DELETED: is_cleaned and profile.drops_deleted_topics,
    }
    return tuple(kind.value for kind, is_possible in possible.items() if is_possible)


def removal_after(causes: list[str], profile: Profile) -> tuple[str, ...]:
    """The causes of a group's removal, where its last offsets disappeared for `causes` (kinds of offset_changes).

    Up to 3.9 every operation that removes the last offset of an Empty group removes the group as well. From 4.0 on only
    the sweep and DeleteGroups remove a group; after a deletion of offsets or topics, one of these follows later.
    """
    if profile.batch_per_group:
        return tuple(causes)
    if set(causes) & _WITH_GROUP_TOMBSTONE:
        return tuple(cause for cause in causes if cause in _WITH_GROUP_TOMBSTONE)
    return possible_removals(profile)
