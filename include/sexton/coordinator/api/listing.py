"""ListGroups, DescribeGroups and the describe requests of other types: what an operator sees.

Follows GroupCoordinatorService.listGroups, GroupMetadataManager.describeGroups and consumerGroupDescribe of Kafka 4.3,
GroupCoordinator.handleListGroups and handleDescribeGroup (Scala).
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from sexton.coordinator.api.coordinator import Coordinator, Status
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.view import LoadedGroup, LoadedMember
from sexton.coordinator.profile import Profile

DEAD = "Dead"
"""The state of a missing group, where a coordinator answers no error for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group, and the log partition that it was loaded from."""

    group: LoadedGroup
    log_partition: int
    is_misplaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAnswer:
    """The groups of all log partitions that the broker serves, by log partition and id."""

    error: Error
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """The answer for one group; `group` is None where it is missing or not served, and `state` then DEAD or "".

    `failed_by` is the group on which the coordinator throws, if that makes the answer UNKNOWN_SERVER_ERROR. `protocol`
    is set for a Stable classic group only (ClassicGroup.describe).
    """

    group_id: str
    error: Error
    state: str
    group: LoadedGroup | None = None
    members: tuple[LoadedMember, ...] = ()
    failed_by: str | None = None

    @property
    def protocol(self) -> str | None:
        return self.group.protocol if self.group is not None and self.state == "Stable" else None


def list_groups(coordinator: Coordinator, *, states: Collection[str] = (), types: Collection[str] = ()) -> ListAnswer:
    """List the groups, limited to `states` and `types` where any are given (case-insensitive).

    A log partition whose load has failed is skipped. While a log partition is loading, 4.x lists nothing, older
    coordinators list the groups loaded so far; both return COORDINATOR_LOAD_IN_PROGRESS. Up to 0.10.0 groups created by
    offsets alone are not listed.
    """
    is_loading = any(coordinator.shards[number].status is Status.LOADING for number in coordinator.shards)
    error = Error.COORDINATOR_LOAD_IN_PROGRESS if is_loading else Error.NONE
    if is_loading and coordinator.profile.is_java:
        return ListAnswer(error=error)
    is_wanted = wanted(states, types)
    return ListAnswer(
        error=error,
        groups=tuple(
            ListedGroup(
                group=group,
                log_partition=log_partition,
                is_misplaced=coordinator.is_misplaced(log_partition, group.group_id),
            )
            for log_partition, group in coordinator.groups()
            if _is_listed(coordinator, group) and is_wanted(group.state, group.group_type)
        ),
    )


def describe_groups(coordinator: Coordinator, group_ids: Iterable[str]) -> list[DescribedGroup]:
    """Describe groups of any type, with one request for each type; the answers are in the given order.

    A coordinator throws on a group that cannot be described (see `cannot_be_described`). The other groups of the same
    request are then answered UNKNOWN_SERVER_ERROR: because of a classic group, the classic and the missing groups;
    because of a streams group, the streams groups. In 4.x only groups of the same log partition are affected, up to 3.9
    all groups of the broker.
    """
    described = [_described(coordinator, group_id) for group_id in group_ids]
    profile = coordinator.profile

    def request(answer: DescribedGroup) -> tuple[int | None, str]:
        log_partition = coordinator.log_partition_of(answer.group_id) if profile.is_java else None
        return log_partition, "Classic" if answer.group is None else answer.group.group_type

    failed = {
        request(answer): answer.group_id
        for answer in reversed(described)
        if answer.group is not None and cannot_be_described(answer.group, answer.members, profile)
    }
    return [_failed(answer, failed.get(request(answer))) for answer in described]


def describe_group(coordinator: Coordinator, group_id: str) -> DescribedGroup:
    """Describe one group of any type, with the request for its type.

    A missing group is GROUP_ID_NOT_FOUND in 4.x, and Dead without an error in earlier releases.
    """
    (answer,) = describe_groups(coordinator, [group_id])
    return answer


def cannot_be_described(group: LoadedGroup, members: Iterable[LoadedMember], profile: Profile) -> bool:
    """Whether coordinators throw when they describe the group.

    They do for a Stable classic group without a protocol, and for a streams group without a topology (from 4.2 on) or
    with a member that has no metadata or no current assignment (StreamsGroup.asDescribedGroup).
    """
    match group.group_type:
        case "Classic":
            return group.state == "Stable" and group.protocol is None
        case "Streams":
            is_bare = profile.validated_topology_epoch is not None and not group.subscription_known
            return is_bare or any(one.member_epoch is None or one.client_id is None for one in members)
    return False


def listed_group(coordinator: Coordinator, group_id: str) -> LoadedGroup | None:
    """The group in the answer to ListGroups, None where it is not listed; valid only where the broker serves it."""
    group = coordinator.view_of(group_id).group(group_id)
    return group if group is not None and _is_listed(coordinator, group) else None


def _failed(answer: DescribedGroup, failed_by: str | None) -> DescribedGroup:
    """The answer where the coordinator throws on the group `failed_by` of the same request."""
    if failed_by is None:
        return answer
    return DescribedGroup(group_id=answer.group_id, error=Error.UNKNOWN_SERVER_ERROR, state="", failed_by=failed_by)


def _described(coordinator: Coordinator, group_id: str) -> DescribedGroup:
    error = coordinator.error_of(group_id)
    if error is not Error.NONE:
        return DescribedGroup(group_id=group_id, error=error, state="")
    group = listed_group(coordinator, group_id)
    if group is None:
        is_error = coordinator.profile.is_java and not coordinator.profile.early_consumer_groups  # v6, of 4.0
        return DescribedGroup(group_id=group_id, error=Error.GROUP_ID_NOT_FOUND if is_error else Error.NONE, state=DEAD)
    members = coordinator.view_of(group_id).members(group_id)
    return DescribedGroup(group_id=group_id, error=Error.NONE, state=group.state, group=group, members=members)


def _is_listed(coordinator: Coordinator, group: LoadedGroup) -> bool:
    return coordinator.profile.lists_simple_groups or group.log_offset is not None


def wanted(states: Collection[str], types: Collection[str]) -> Callable[[str, str], bool]:
    """A function of (state, type): whether such a group is listed. Case does not matter; an empty filter means all."""
    some_states, some_types = ({word.strip().lower() for word in words} for words in (states, types))
    return lambda state, group_type: (
        (not some_states or state.lower() in some_states) and (not some_types or group_type.lower() in some_types)
    )
