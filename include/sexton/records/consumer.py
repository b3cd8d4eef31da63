"""Types 3 to 8 and 16: a consumer group of KIP-848, one record for each part of its state.

Follows ConsumerGroup*{Key,Value}.json. Values have only version 0; later releases add tagged fields. Keys and values
that consumer groups have in common with share groups or streams groups are here, too.

For a tagged field with `"default": null` (null without quotes) in Kafka's JSON, Kafka's generator makes an empty list
or struct the default. So brokers write null explicitly: their type 5 ends in 01 00 01 00, a tag with null. This module
does the same.
"""

from uuid import UUID

from sexton.records.record_type import RecordType, Releases
from sexton.records.schema import ID, INT8, INT32, INT64, Array, Blob, Schema, Struct, Text, record, wire_field

SINCE_4_0 = Releases((4, 0))


@record
class GroupKey:
    """The key of a record about a whole group."""

    group_id: str = wire_field(Text())


@record
class MemberKey:
    """The key of a record about a member of a group."""

    group_id: str = wire_field(Text())
    member_id: str = wire_field(Text())


@record
class RegularExpressionKey:
    """The key of a resolved regular expression."""

    group_id: str = wire_field(Text())
    regular_expression: str = wire_field(Text())


@record
class ConsumerGroupMetadataValue:
    """Type 3: the group's epoch."""

    epoch: int = wire_field(INT32)
    metadata_hash: int = wire_field(INT64, tag=0, new_in=(4, 1), default=0)  # KIP-1101


@record
class PartitionRacks:
    """A partition and the racks of its replicas."""

    partition: int = wire_field(INT32)
    racks: tuple[str, ...] = wire_field(Array(Text()))


@record
class TopicRacks:
    """A topic that a group is subscribed to."""

    topic_id: UUID = wire_field(ID)
    topic_name: str = wire_field(Text())
    num_partitions: int = wire_field(INT32)
    partition_metadata: tuple[PartitionRacks, ...] = wire_field(Array(Struct(PartitionRacks)))


@record
class PartitionMetadataValue:
    """Types 4, 9 and 18: the topics that a group is subscribed to."""

    topics: tuple[TopicRacks, ...] = wire_field(Array(Struct(TopicRacks)))


@record
class SupportedProtocol:
    """A protocol of a member that speaks the classic protocol."""

    name: str = wire_field(Text())
    metadata: bytes = wire_field(Blob())


@record
class ClassicMemberMetadata:
    """Additional fields of a member that uses the classic protocol."""

    session_timeout_ms: int = wire_field(INT32)
    supported_protocols: tuple[SupportedProtocol, ...] = wire_field(Array(Struct(SupportedProtocol)))


@record
class ConsumerGroupMemberMetadataValue:
    """Type 5: a member, without its assignment."""

    instance_id: str | None = wire_field(Text(nullable=True))
    rack_id: str | None = wire_field(Text(nullable=True))
    client_id: str = wire_field(Text())
    client_host: str = wire_field(Text())
    subscribed_topic_names: tuple[str, ...] = wire_field(Array(Text()))
    subscribed_topic_regex: str | None = wire_field(Text(nullable=True))
    rebalance_timeout_ms: int = wire_field(INT32)
    server_assignor: str | None = wire_field(Text(nullable=True))
    # of a member that speaks the classic protocol within a consumer group; null for other members
    classic_member_metadata: ClassicMemberMetadata | None = wire_field(
        Struct(ClassicMemberMetadata, nullable=True),
        tag=0,
        default=ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=()),
    )


@record
class TargetAssignmentMetadataValue:
    """Types 6, 12 and 20: the epoch of a target assignment."""

    assignment_epoch: int = wire_field(INT32)
    assignment_timestamp: int = wire_field(INT64, tag=0, new_in=(4, 3), default=0)  # KIP-1263; ms, 0 when not known


@record
class TopicPartitions:
    """Partitions of a topic."""

    topic_id: UUID = wire_field(ID)
    partitions: tuple[int, ...] = wire_field(Array(INT32))


@record
class TargetAssignmentMemberValue:
    """Types 7 and 13: the target assignment of a member."""

    topic_partitions: tuple[TopicPartitions, ...] = wire_field(Array(Struct(TopicPartitions)))


EPOCHS = Array(INT32, nullable=True)
"""For each partition or task, the epoch at which it was assigned, which fences zombie commits."""


@record
class EpochedTopicPartitions:
    """Partitions of a topic that a member has, each with the epoch at which it was assigned."""

    topic_id: UUID = wire_field(ID)
    partitions: tuple[int, ...] = wire_field(Array(INT32))
    assignment_epochs: tuple[int, ...] | None = wire_field(EPOCHS, tag=0, new_in=(4, 3), default=())


_EPOCHED_PARTITIONS = Array(Struct(EpochedTopicPartitions))


@record
class ConsumerGroupCurrentMemberAssignmentValue:
    """Type 8: the current assignment of a member."""

    member_epoch: int = wire_field(INT32)
    previous_member_epoch: int = wire_field(INT32)
    state: int = wire_field(INT8)  # 0 STABLE, 1 UNREVOKED_PARTITIONS, 2 UNRELEASED_PARTITIONS, 127 UNKNOWN
    assigned_partitions: tuple[EpochedTopicPartitions, ...] = wire_field(_EPOCHED_PARTITIONS)
    partitions_pending_revocation: tuple[EpochedTopicPartitions, ...] = wire_field(_EPOCHED_PARTITIONS)


@record
class RegularExpressionValue:
    """Type 16: a regular expression of a subscription, resolved."""

    topics: tuple[str, ...] = wire_field(Array(Text()))  # what the expression matched
    version: int = wire_field(INT64)  # of the metadata image it was matched against
    timestamp: int = wire_field(INT64)  # ms, when it was matched


ConsumerGroupValue = (
    ConsumerGroupMetadataValue
    | PartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | TargetAssignmentMetadataValue
    | TargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | RegularExpressionValue
)
GROUP_KEY, MEMBER_KEY = Schema(GroupKey), Schema(MemberKey)


def growing_type(number: int, name: str, key: Schema, value: type[object], read_by: Releases | None) -> RecordType:
    """A record type of Kafka 4 whose value has only version 0; later releases add tagged fields."""
    return RecordType(number, name, key, Schema(value, flexible_since=0), read_by)


CONSUMER_GROUP_TYPES = (
    growing_type(3, "ConsumerGroupMetadata", GROUP_KEY, ConsumerGroupMetadataValue, SINCE_4_0),
    # from 4.1 on a hash in type 3 replaces it (KIP-1101), and only its tombstones are written
    growing_type(4, "ConsumerGroupPartitionMetadata", GROUP_KEY, PartitionMetadataValue, SINCE_4_0),
    growing_type(5, "ConsumerGroupMemberMetadata", MEMBER_KEY, ConsumerGroupMemberMetadataValue, SINCE_4_0),
    growing_type(6, "ConsumerGroupTargetAssignmentMetadata", GROUP_KEY, TargetAssignmentMetadataValue, SINCE_4_0),
    growing_type(7, "ConsumerGroupTargetAssignmentMember", MEMBER_KEY, TargetAssignmentMemberValue, SINCE_4_0),
    growing_type(
        8, "ConsumerGroupCurrentMemberAssignment", MEMBER_KEY, ConsumerGroupCurrentMemberAssignmentValue, SINCE_4_0
    ),
    growing_type(16, "ConsumerGroupRegularExpression", Schema(RegularExpressionKey), RegularExpressionValue, SINCE_4_0),
)
