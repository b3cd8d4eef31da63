"""Groups as kafka-consumer-groups shows them, from the answers of several requests.

Follows ConsumerGroupCommand.collectGroupsOffsets, collectGroupsMembers and collectGroupsState of Kafka 4.3. Where that
command shows "-", the rows have None.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.fetch import fetch
from sexton.coordinator.api.listing import DescribedGroup
from sexton.coordinator.api.topics import Topics
from sexton.coordinator.api.view import LoadedGroup, LoadedMember, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRow:
    """A partition for which the group has committed an offset, or which is assigned to a member."""

    group: str
    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    consumer_id: str | None = None
    host: str | None = None
    client_id: str | None = None

    @property
    def lag(self) -> int | None:
        if self.current_offset is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.current_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A member, and how many partitions are assigned to it (tasks, in a streams group)."""

    group: str
    consumer_id: str
    group_instance_id: str | None
    host: str | None
    client_id: str | None
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """A group in one line. `assignment_strategy` is None for the new types: no record has it."""

    group: str
    log_partition: int | None
    leader: int | None
    assignment_strategy: str | None
    state: str
    member_count: int


def offset_rows(coordinator: Coordinator, described: DescribedGroup, topics: Topics) -> list[OffsetRow]:
    """The rows of a group: first the partitions of each member, then the partitions that no member has.

    Members with more partitions come first; the partitions of a member, and those without one, are ordered by topic and
    partition. Members without a partition have no row.
    """
    group_id = described.group_id
    committed = {
        (offset.topic, offset.partition): offset.committed_offset for offset in fetch(coordinator, group_id).offsets
    }
    names = _names(coordinator, described, topics)
    assigned = [(member, _partitions(described.group, member, names)) for member in described.members]
    assigned.sort(key=lambda pair: -len(pair[1]))
    rows, seen = [], set[TopicPartition]()
    for member, partitions in assigned:
        seen.update(partitions)
        rows += [_offset_row(group_id, key, committed.get(key), topics, member) for key in partitions]
    rest = sorted(committed.keys() - seen)
    return [*rows, *(_offset_row(group_id, key, committed[key], topics, None) for key in rest)]


def member_rows(described: DescribedGroup) -> list[MemberRow]:
    """The group's members, by id."""
    return [
        MemberRow(
            group=described.group_id,
            consumer_id=member.member_id,
            group_instance_id=member.group_instance_id,
            host=member.client_host,
            client_id=member.client_id,
            partition_count=len(member.assigned),
        )
        for member in described.members
    ]


def state_row(coordinator: Coordinator, described: DescribedGroup, leaders: Mapping[int, int]) -> StateRow:
    """The group in one line; `leaders` has the broker id of each log partition whose leader is known."""
    group = described.group
    log_partition = coordinator.log_partition_of(described.group_id)
    return StateRow(
        group=described.group_id,
        log_partition=log_partition,
        leader=None if log_partition is None else leaders.get(log_partition),
        assignment_strategy=described.protocol,
        state=described.state,
        member_count=0 if group is None else group.member_count,
    )


def _names(coordinator: Coordinator, described: DescribedGroup, topics: Topics) -> Mapping[str, str]:
    """Topic names by id: the known ones, and those in the group's offsets."""
    if described.group is None:
        return topics.ids
    offsets = coordinator.view_of(described.group_id).offsets(described.group_id)
    committed = {offset.topic_id: topic for (topic, _), offset in offsets.items() if offset.topic_id is not None}
    return {**committed, **topics.ids}


def _partitions(group: LoadedGroup | None, member: LoadedMember, names: Mapping[str, str]) -> list[TopicPartition]:
    """The topic partitions of a member, in order; none for a streams group, whose assignments are tasks.

    Assignments of classic groups contain topic names, those of other types topic ids. An id without a known name is
    returned as it is.
    """
    if group is None or group.group_type == "Streams":
        return []
    if group.group_type == "Classic":
        return sorted(member.assigned)
    return sorted((names.get(topic_id, topic_id), number) for topic_id, number in member.assigned)


def _offset_row(
    group_id: str, key: TopicPartition, offset: int | None, topics: Topics, member: LoadedMember | None
) -> OffsetRow:
    return OffsetRow(
        group=group_id,
        topic=key[0],
        partition=key[1],
        current_offset=offset,
        log_end_offset=topics.log_end_offset(*key),
        consumer_id=None if member is None else member.member_id,
        host=None if member is None else member.client_host,
        client_id=None if member is None else member.client_id,
    )
