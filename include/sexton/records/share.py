"""Types 9 to 15: a share group of KIP-932. Values have only version 0.

Follows ShareGroup*{Key,Value}.json. Values of types 11 and 15 from the early access in 4.0 lack a field that is not
tagged, although their version is the same: coordinators from 4.1 on cannot read them.
"""

from uuid import UUID

from sexton.records.consumer import (
    GROUP_KEY,
    MEMBER_KEY,
    SINCE_4_0,
    PartitionMetadataValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    TopicPartitions,
    growing_type,
)
from sexton.records.record_type import Releases
from sexton.records.schema import ID, INT8, INT32, INT64, Array, Struct, Text, record, wire_field


@record
class ShareGroupMemberMetadataValue:
    """Type 10: a member, without its assignment."""

    rack_id: str | None = wire_field(Text(nullable=True))
    client_id: str = wire_field(Text())
    client_host: str = wire_field(Text())
    subscribed_topic_names: tuple[str, ...] = wire_field(Array(Text()))


@record
class ShareGroupMetadataValue:
    """Type 11: the group's epoch."""

    epoch: int = wire_field(INT32)
    metadata_hash: int = wire_field(INT64, new_in=(4, 1), default=0)  # KIP-1101


@record
class ShareGroupCurrentMemberAssignmentValue:
    """Type 14: the current assignment of a member."""

    member_epoch: int = wire_field(INT32)
    previous_member_epoch: int = wire_field(INT32)
    state: int = wire_field(INT8)
    assigned_partitions: tuple[TopicPartitions, ...] = wire_field(Array(Struct(TopicPartitions)))


@record
class NamedTopic:
    """A topic of a share group."""

    topic_id: UUID = wire_field(ID)
    topic_name: str = wire_field(Text())


@record
class NamedTopicPartitions:
    """Partitions of a topic of a share group."""

    topic_id: UUID = wire_field(ID)
    topic_name: str = wire_field(Text())
    partitions: tuple[int, ...] = wire_field(Array(INT32))


@record
class ShareGroupStatePartitionMetadataValue:
    """Type 15: the topics whose state the group initializes, keeps or deletes."""

    initializing_topics: tuple[NamedTopicPartitions, ...] = wire_field(
        Array(Struct(NamedTopicPartitions)), new_in=(4, 1), default=()
    )
    initialized_topics: tuple[NamedTopicPartitions, ...] = wire_field(Array(Struct(NamedTopicPartitions)))
    deleting_topics: tuple[NamedTopic, ...] = wire_field(Array(Struct(NamedTopic)))


ShareGroupValue = (
    ShareGroupMemberMetadataValue
    | ShareGroupMetadataValue
    | ShareGroupCurrentMemberAssignmentValue
    | ShareGroupStatePartitionMetadataValue
)
SHARE_GROUP_TYPES = (
    # written only in the early access of 4.0; an unknown type from 4.1 on
    growing_type(9, "ShareGroupPartitionMetadata", GROUP_KEY, PartitionMetadataValue, Releases((4, 0), (4, 0))),
    growing_type(10, "ShareGroupMemberMetadata", MEMBER_KEY, ShareGroupMemberMetadataValue, SINCE_4_0),
    growing_type(11, "ShareGroupMetadata", GROUP_KEY, ShareGroupMetadataValue, SINCE_4_0),
    growing_type(12, "ShareGroupTargetAssignmentMetadata", GROUP_KEY, TargetAssignmentMetadataValue, SINCE_4_0),
    growing_type(13, "ShareGroupTargetAssignmentMember", MEMBER_KEY, TargetAssignmentMemberValue, SINCE_4_0),
    growing_type(
        14, "ShareGroupCurrentMemberAssignment", MEMBER_KEY, ShareGroupCurrentMemberAssignmentValue, SINCE_4_0
    ),
    # a 4.0 coordinator decodes it and then fails, because it cannot replay this type
    growing_type(15, "ShareGroupStatePartitionMetadata", GROUP_KEY, ShareGroupStatePartitionMetadataValue, SINCE_4_0),
)
