"""What a coordinator can do to offsets besides its own sweep, by release: dated rules like those of a profile.

    OffsetDelete      KIP-496, 2.4: GroupCoordinator.handleDeleteOffsets; 4.x: OffsetMetadataManager.deleteOffsets
    DeleteGroups      KIP-229, 1.1: GroupCoordinator.handleDeleteGroups; 4.x: GroupCoordinatorShard.deleteGroups
    deleted topics    KAFKA-2000, 0.10.2: GroupCoordinator.handleDeletedPartitions; 4.x: OffsetMetadataManager
                      .onPartitionsDeleted, from 4.3 on .onTopicsDeleted, which looks at topic ids

Up to 3.9 all of these, and the sweep, end in GroupMetadataManager.cleanupGroupMetadata: it appends one batch for each
group, and its tombstone with it as soon as the group is empty and bare, whoever made it so. In 4.x each is an operation
of its own, CoordinatorRuntime appends the records of one with one timestamp, and only the sweep and DeleteGroups write
a group's own tombstones.
"""

from dataclasses import dataclass

from sexton.coordinator import group_coordinator
from sexton.coordinator.profile import Profile, Release
from sexton.coordinator.releases import is_since

_DELETES_TOPICS: Release = (0, 10, 2)
_DELETES_GROUPS: Release = (1, 1)
_DELETES_OFFSETS: Release = (2, 4)
_SWEEPS_ALL_THAT_IS_DUE: Release = (3, 8)
_FOLLOWS_TOPIC_IDS: Release = (4, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Powers:
    """What a release can do, and how it writes."""

    deletes_offsets: bool
    deletes_groups: bool
    deletes_topics: bool
    follows_topic_ids: bool
    """Whether the deletion of a topic spares offsets of an earlier or later topic of that name."""
    is_one_write: bool
    """Whether an operation on several groups is one write; else it is one for each group."""
    drops_bare_groups: bool
    """Whether whatever leaves an empty group bare deletes it in the same batch."""
    sweeps_all_that_is_due: bool
    """Whether a sweep that takes one of a group's offsets takes all that are due. Before KAFKA-16371 a commit that was
    refused for its metadata kept its offset from expiring until the next load."""


def powers_of(profile: Profile) -> Powers:
    """The powers of a profile's release."""
    is_modern = profile.name == group_coordinator.NAME
    return Powers(
        deletes_offsets=is_since(profile, _DELETES_OFFSETS),
        deletes_groups=is_since(profile, _DELETES_GROUPS),
        deletes_topics=is_since(profile, _DELETES_TOPICS),
        follows_topic_ids=is_since(profile, _FOLLOWS_TOPIC_IDS),
        is_one_write=not profile.batch_per_group,
        drops_bare_groups=profile.batch_per_group,
        sweeps_all_that_is_due=is_modern or is_since(profile, _SWEEPS_ALL_THAT_IS_DUE),
    )
