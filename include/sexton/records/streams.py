"""Types 17 to 23: a Kafka Streams group of KIP-1071. Values have only version 0; later releases add tagged fields.

Follows StreamsGroup*{Key,Value}.json; type 18 as it was before 4.1 was released.
"""

from sexton.records.consumer import (
    EPOCHS,
    GROUP_KEY,
    MEMBER_KEY,
    PartitionMetadataValue,
    TargetAssignmentMetadataValue,
    growing_type,
)
from sexton.records.record_type import Releases
from sexton.records.schema import INT8, INT16, INT32, INT64, UINT16, Array, Struct, Text, record, wire_field

SINCE_4_1 = Releases((4, 1))


@record
class KeyValue:
    """A setting or a tag."""

    key: str = wire_field(Text())
    value: str = wire_field(Text())


@record
class StreamsGroupMetadataValue:
    """Type 17: the group's epoch and the topology epochs that were checked."""

    epoch: int = wire_field(INT32)
    metadata_hash: int = wire_field(INT64)
    validated_topology_epoch: int = wire_field(INT32, tag=0, new_in=(4, 2), default=-1)
    last_assignment_configs: tuple[KeyValue, ...] | None = wire_field(
        Array(Struct(KeyValue), nullable=True), tag=1, new_in=(4, 2), default=()
    )
    # -2 if it is uncertain, after an interrupted operation
    stored_description_topology_epoch: int = wire_field(INT32, tag=2, new_in=(4, 4), default=-1)
    failed_description_topology_epoch: int = wire_field(INT32, tag=3, new_in=(4, 4), default=-1)


@record
class UserEndpoint:
    """Where a member serves interactive queries."""

    host: str = wire_field(Text())
    port: int = wire_field(UINT16)


@record
class StreamsGroupMemberMetadataValue:
    """Type 19: a member, without its tasks."""

    instance_id: str | None = wire_field(Text(nullable=True))
    rack_id: str | None = wire_field(Text(nullable=True))
    client_id: str = wire_field(Text())
    client_host: str = wire_field(Text())
    rebalance_timeout_ms: int = wire_field(INT32)
    topology_epoch: int = wire_field(INT32)
    process_id: str = wire_field(Text())
    user_endpoint: UserEndpoint | None = wire_field(Struct(UserEndpoint, nullable=True))
    client_tags: tuple[KeyValue, ...] = wire_field(Array(Struct(KeyValue)))


@record
class Tasks:
    """Tasks of a subtopology, by partition."""

    subtopology_id: str = wire_field(Text())
    partitions: tuple[int, ...] = wire_field(Array(INT32))


@record
class StreamsGroupTargetAssignmentMemberValue:
    """Type 21: the target assignment of a member."""

    active_tasks: tuple[Tasks, ...] = wire_field(Array(Struct(Tasks)))
    standby_tasks: tuple[Tasks, ...] = wire_field(Array(Struct(Tasks)))
    warmup_tasks: tuple[Tasks, ...] = wire_field(Array(Struct(Tasks)))


@record
class EpochedTasks:
    """Tasks of a subtopology that a member has, each with the epoch at which it was assigned."""

    subtopology_id: str = wire_field(Text())
    partitions: tuple[int, ...] = wire_field(Array(INT32))
    assignment_epochs: tuple[int, ...] | None = wire_field(EPOCHS, tag=0, new_in=(4, 2), default=())


_EPOCHED_TASKS = Array(Struct(EpochedTasks))


@record
class StreamsGroupCurrentMemberAssignmentValue:
    """Type 22: the tasks of a member, and the tasks that it has yet to revoke."""

    member_epoch: int = wire_field(INT32)
    previous_member_epoch: int = wire_field(INT32)
    state: int = wire_field(INT8)  # 1 STABLE, 2 UNREVOKED_TASKS, 3 UNRELEASED_TASKS, 127 UNKNOWN
    active_tasks: tuple[EpochedTasks, ...] = wire_field(_EPOCHED_TASKS)
    standby_tasks: tuple[EpochedTasks, ...] = wire_field(_EPOCHED_TASKS)
    warmup_tasks: tuple[EpochedTasks, ...] = wire_field(_EPOCHED_TASKS)
    active_tasks_pending_revocation: tuple[EpochedTasks, ...] = wire_field(_EPOCHED_TASKS)
    standby_tasks_pending_revocation: tuple[EpochedTasks, ...] = wire_field(_EPOCHED_TASKS)
    warmup_tasks_pending_revocation: tuple[EpochedTasks, ...] = wire_field(_EPOCHED_TASKS)


@record
class InternalTopic:
    """A changelog or repartition topic."""

    name: str = wire_field(Text())
    partitions: int = wire_field(INT32)
    replication_factor: int = wire_field(INT16)
    topic_configs: tuple[KeyValue, ...] = wire_field(Array(Struct(KeyValue)))


@record
class CopartitionGroup:
    """Topics of a subtopology that must have the same number of partitions; indices into the subtopology's lists."""

    source_topics: tuple[int, ...] = wire_field(Array(INT16))
    source_topic_regex: tuple[int, ...] = wire_field(Array(INT16))
    repartition_source_topics: tuple[int, ...] = wire_field(Array(INT16))


@record
class Subtopology:
    """A part of a topology that runs as tasks."""

    subtopology_id: str = wire_field(Text())
    source_topics: tuple[str, ...] = wire_field(Array(Text()))
    source_topic_regex: tuple[str, ...] = wire_field(Array(Text()))
    state_changelog_topics: tuple[InternalTopic, ...] = wire_field(Array(Struct(InternalTopic)))
    repartition_sink_topics: tuple[str, ...] = wire_field(Array(Text()))
    repartition_source_topics: tuple[InternalTopic, ...] = wire_field(Array(Struct(InternalTopic)))
    copartition_groups: tuple[CopartitionGroup, ...] = wire_field(Array(Struct(CopartitionGroup)))


@record
class StreamsGroupTopologyValue:
    """Type 23: the topology of the group."""

    epoch: int = wire_field(INT32)
    subtopologies: tuple[Subtopology, ...] = wire_field(Array(Struct(Subtopology)))


StreamsGroupValue = (
    StreamsGroupMetadataValue
    | StreamsGroupMemberMetadataValue
    | StreamsGroupTargetAssignmentMemberValue
    | StreamsGroupCurrentMemberAssignmentValue
    | StreamsGroupTopologyValue
)
STREAMS_GROUP_TYPES = (
    growing_type(17, "StreamsGroupMetadata", GROUP_KEY, StreamsGroupMetadataValue, SINCE_4_1),
    # written only by development builds before 4.1; an unknown type for every release
    growing_type(18, "StreamsGroupPartitionMetadata", GROUP_KEY, PartitionMetadataValue, None),
    growing_type(19, "StreamsGroupMemberMetadata", MEMBER_KEY, StreamsGroupMemberMetadataValue, SINCE_4_1),
    growing_type(20, "StreamsGroupTargetAssignmentMetadata", GROUP_KEY, TargetAssignmentMetadataValue, SINCE_4_1),
    growing_type(
        21, "StreamsGroupTargetAssignmentMember", MEMBER_KEY, StreamsGroupTargetAssignmentMemberValue, SINCE_4_1
    ),
    growing_type(
        22, "StreamsGroupCurrentMemberAssignment", MEMBER_KEY, StreamsGroupCurrentMemberAssignmentValue, SINCE_4_1
    ),
    growing_type(23, "StreamsGroupTopology", GROUP_KEY, StreamsGroupTopologyValue, SINCE_4_1),
)
