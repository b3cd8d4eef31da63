"""The coordinator of one broker: the log partitions that it leads, and its state of each.

Follows CoordinatorRuntime.withActiveContextOrThrow of Kafka 4.3, and GroupCoordinator.validateGroupStatus with the
single cache of the Scala coordinators (GroupMetadataManager, OffsetManager).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.view import EmptyView, LoadedGroup, PartitionView, TopicPartition
from sexton.coordinator.endless_load import NEVER_ENDS
from sexton.coordinator.offsets import StoredOffset
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profile import LEADERSHIP_LOST, AfterFailure, Profile


class Status(Enum):
    """Whether a log partition is served."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    NOT_LED = "not_led"
    """Loaded, but not served, because another broker is the leader (0.8.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorShard:
    """The coordinator of one log partition."""

    status: Status
    view: PartitionView

    @property
    def error(self) -> Error:
        """The error that answers every request about a group of the log partition; NONE if it is served."""
        match self.status:
            case Status.LOADING:
                return Error.COORDINATOR_LOAD_IN_PROGRESS
            case Status.FAILED | Status.NOT_LED:
                return Error.NOT_COORDINATOR
        return Error.NONE


LOADING = CoordinatorShard(status=Status.LOADING, view=EmptyView())
"""A shard whose load has not ended."""


def shard_after_load(view: PartitionView, load_outcome: str, *, profile: Profile) -> CoordinatorShard:
    """The shard after its load; LOADING if the load never ends.

    `view` has the records that were read. With AfterFailure.PREFIX the view must end at the failure, as from `load(...,
    stops_at_failure=True)`. After LEADERSHIP_LOST, coordinators from 0.9 to 3.9 own the log partition (ownedPartitions)
    and answer with what was read until they unload it; 0.8.2 checks at each fetch whether the broker is the leader.
    """
    if load_outcome == NEVER_ENDS:
        return LOADING
    if load_outcome == LEADERSHIP_LOST and not profile.reads(2):
        return CoordinatorShard(status=Status.NOT_LED, view=view)
    match load_outcome:
        case AfterFailure.PREFIX:
            view = OffsetsAlone(view)
        case AfterFailure.EMPTY:
            view = EmptyView()
        case AfterFailure.NOTHING:
            return CoordinatorShard(status=Status.FAILED, view=EmptyView())
    return CoordinatorShard(status=Status.ACTIVE, view=view)


class OffsetsAlone(EmptyView):
    """The offsets of a load that ended before it installed any group."""

    def __init__(self, view: PartitionView) -> None:
        self._held = view

    def offsets(self, group_id: str) -> Mapping[TopicPartition, StoredOffset]:
        return self._held.offsets(group_id)

    def offset_counts(self) -> Mapping[str, int]:
        return self._held.offset_counts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The state of one broker: a shard for each log partition that it leads.

    `shards` may fold a log partition on access. Without `partition_count`, the number of log partitions, a group
    belongs to the log partition that has it.
    """

    profile: Profile
    partition_count: int | None
    shards: Mapping[int, CoordinatorShard]

    def log_partition_of(self, group_id: str) -> int | None:
        """The log partition that the group belongs to; None when that is not known."""
        if self.partition_count is not None:
            return partition_of(group_id, self.partition_count)
        return next(self.holders_of(group_id), None)

    def error_of(self, group_id: str) -> Error:
        """Whether the broker answers for the group: NONE, COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR.

        Where the group's log partition is not known, the worst answer of all log partitions.
        """
        log_partition = self.log_partition_of(group_id)
        if log_partition is None:
            return max((self.shards[number].error for number in self.shards), default=Error.NOT_COORDINATOR)
        return self.shards[log_partition].error if log_partition in self.shards else Error.NOT_COORDINATOR

    def view_of(self, group_id: str) -> PartitionView:
        """The view that has the group; valid only if `error_of` is NONE.

        With Profile.one_cache one cache has the groups of all log partitions. Of several copies of a group, that in the
        log partition it hashes to is used; without one there, that in the lowest log partition.
        """
        home = self.log_partition_of(group_id)
        if home is not None and (not self.profile.one_cache or _has(self.shards[home].view, group_id)):
            return self.shards[home].view
        holder = next(self.holders_of(group_id), None) if self.profile.one_cache else None
        return EmptyView() if holder is None else self.shards[holder].view

    def groups(self) -> Iterator[tuple[int, LoadedGroup]]:
        """Every group in memory, with the log partition that it was loaded from; one per id with Profile.one_cache."""
        for log_partition in sorted(self.shards):
            for group in self.shards[log_partition].view.groups():
                if self.serves_from(log_partition, group.group_id):
                    yield log_partition, group

    def is_misplaced(self, log_partition: int, group_id: str) -> bool:
        """Whether the copy in `log_partition` is never served, because clients are routed to another log partition."""
        is_known = self.partition_count is not None and not self.profile.one_cache
        return is_known and self.log_partition_of(group_id) != log_partition

    def serves_from(self, log_partition: int, group_id: str) -> bool:
        """Whether the copy of the group in memory was loaded from `log_partition`."""
        if not self.profile.one_cache:
            return True
        home = self.log_partition_of(group_id)
        if home == log_partition:
            return True
        if home is not None and home in self.shards and _has(self.shards[home].view, group_id):
            return False
        return next(self.holders_of(group_id), None) == log_partition

    def holders_of(self, group_id: str) -> Iterator[int]:
        """The log partitions with records of the group, the lowest first; each step may fold a log partition."""
        return (number for number in sorted(self.shards) if _has(self.shards[number].view, group_id))


def _has(view: PartitionView, group_id: str) -> bool:
    return view.group(group_id) is not None or bool(view.offsets(group_id))
