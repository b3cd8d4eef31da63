"""ListGroups and the describing of groups: what an operator sees.

Follows GroupCoordinatorService.listGroups, GroupMetadataManager.describeGroups and consumerGroupDescribe of Kafka 4.3,
GroupCoordinator.handleListGroups and handleDescribeGroup (Scala).
"""

from collections.abc import Collection
from dataclasses import dataclass

from sexton.coordinator import group_coordinator
from sexton.coordinator.questions.coordinator import Coordinator, Status
from sexton.coordinator.questions.errors import Error
from sexton.coordinator.questions.held import HeldGroup, HeldMember

DEAD = "Dead"
"""The state of a group that is not there, where a coordinator says so by state and not by error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group, and the log partition that it was loaded from."""

    group: HeldGroup
    log_partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAnswer:
    """The groups of all log partitions that the broker serves, by log partition and id."""

    error: Error
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """The answer for one group; `group` is None where it is not there or not served, and `state` then DEAD or ""."""

    group_id: str
    error: Error
    state: str
    group: HeldGroup | None = None
    members: tuple[HeldMember, ...] = ()


def list_groups(coordinator: Coordinator, *, states: Collection[str] = (), types: Collection[str] = ()) -> ListAnswer:
    """List the groups, those of `states` and `types` only where any are given (in any case of letters).

    A log partition whose load has failed is passed over. While one is loading 4.x lists nothing, older coordinators
    what they have so far; both say COORDINATOR_LOAD_IN_PROGRESS. Up to 0.10.0 groups that only offsets have made are
    not listed.
    """
    is_loading = any(coordinator.shards[number].status is Status.LOADING for number in coordinator.shards)
    error = Error.COORDINATOR_LOAD_IN_PROGRESS if is_loading else Error.NONE
    if is_loading and coordinator.profile.name == group_coordinator.NAME:
        return ListAnswer(error=error)
    wanted_states, wanted_types = _folded(states), _folded(types)
    return ListAnswer(
        error=error,
        groups=tuple(
            ListedGroup(group=group, log_partition=log_partition)
            for log_partition, group in coordinator.groups()
            if _is_listed(coordinator, group)
            and (not wanted_states or group.state.lower() in wanted_states)
            and (not wanted_types or group.group_type.lower() in wanted_types)
        ),
    )


def describe_group(coordinator: Coordinator, group_id: str) -> DescribedGroup:
    """Describe one group of any type, as the request that is made for its type does.

    A group that is not there is GROUP_ID_NOT_FOUND to a 4.x coordinator, and to older ones no error but Dead.
    """
    error = coordinator.error_of(group_id)
    if error is not Error.NONE:
        return DescribedGroup(group_id=group_id, error=error, state="")
    held = coordinator.held_of(group_id)
    group = held.group(group_id)
    if group is None or not _is_listed(coordinator, group):
        is_told = coordinator.profile.name == group_coordinator.NAME  # DescribeGroups v6, of 4.0
        return DescribedGroup(group_id=group_id, error=Error.GROUP_ID_NOT_FOUND if is_told else Error.NONE, state=DEAD)
    return DescribedGroup(
        group_id=group_id, error=Error.NONE, state=group.state, group=group, members=held.members(group_id)
    )


def _is_listed(coordinator: Coordinator, group: HeldGroup) -> bool:
    return coordinator.profile.lists_simple_groups or group.log_offset is not None


def _folded(words: Collection[str]) -> frozenset[str]:
    return frozenset(word.strip().lower() for word in words)
