"""Types 9 to 15: a share group of KIP-932. All values have version 0 alone.

Follows ShareGroup*{Key,Value}.json. What the early access of 4.0 wrote as types 11 and 15 lacks a field that is not
tagged, under the same version number: it is malformed to every coordinator from 4.1 on.
"""

from sexton.records.consumer import (
    GROUP_KEY,
    MEMBER_KEY,
    TARGET_ASSIGNMENT_MEMBER_VALUE,
    TARGET_ASSIGNMENT_METADATA_VALUE,
    TOPIC_PARTITIONS,
    TOPICS_WITH_RACKS,
)
from sexton.records.record_type import RecordType, Releases
from sexton.records.schema import ID, INT8, INT32, INT64, Array, Field, Schema, Struct, Text

SINCE_4_0 = Releases((4, 0))

PARTITION_METADATA = RecordType(
    number=9,
    name="ShareGroupPartitionMetadata",
    key=GROUP_KEY,
    value=TOPICS_WITH_RACKS,
    versions=range(1),
    since="4.0",
    read_by=Releases((4, 0), (4, 0)),
    note="KIP-932, the early access of 4.0 alone; an unknown type from 4.1 on",
)

MEMBER_METADATA = RecordType(
    number=10,
    name="ShareGroupMemberMetadata",
    key=MEMBER_KEY,
    value=Schema(
        (
            Field("rack_id", Text(nullable=True)),
            Field("client_id", Text()),
            Field("client_host", Text()),
            Field("subscribed_topic_names", Array(Text())),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-932",
)

METADATA = RecordType(
    number=11,
    name="ShareGroupMetadata",
    key=GROUP_KEY,
    value=Schema(
        (
            Field("epoch", INT32),
            Field("metadata_hash", INT64, new_in=(4, 1), absent=0, note="KIP-1101"),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-932",
)

TARGET_ASSIGNMENT_METADATA = RecordType(
    number=12,
    name="ShareGroupTargetAssignmentMetadata",
    key=GROUP_KEY,
    value=TARGET_ASSIGNMENT_METADATA_VALUE,
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-932",
)

TARGET_ASSIGNMENT_MEMBER = RecordType(
    number=13,
    name="ShareGroupTargetAssignmentMember",
    key=MEMBER_KEY,
    value=TARGET_ASSIGNMENT_MEMBER_VALUE,
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-932",
)

CURRENT_MEMBER_ASSIGNMENT = RecordType(
    number=14,
    name="ShareGroupCurrentMemberAssignment",
    key=MEMBER_KEY,
    value=Schema(
        (
            Field("member_epoch", INT32),
            Field("previous_member_epoch", INT32),
            Field("state", INT8),
            Field("assigned_partitions", Array(TOPIC_PARTITIONS)),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-932",
)

_NAMED_TOPIC = (Field("topic_id", ID), Field("topic_name", Text()))
_NAMED_TOPIC_PARTITIONS = Struct((*_NAMED_TOPIC, Field("partitions", Array(INT32))))

STATE_PARTITION_METADATA = RecordType(
    number=15,
    name="ShareGroupStatePartitionMetadata",
    key=GROUP_KEY,
    value=Schema(
        (
            Field("initializing_topics", Array(_NAMED_TOPIC_PARTITIONS), new_in=(4, 1), absent=[]),
            Field("initialized_topics", Array(_NAMED_TOPIC_PARTITIONS)),
            Field("deleting_topics", Array(Struct(_NAMED_TOPIC))),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-932; a 4.0 coordinator decodes it, and then fails for it knows no more of this type",
)

SHARE_GROUP_TYPES = (
    PARTITION_METADATA,
    MEMBER_METADATA,
    METADATA,
    TARGET_ASSIGNMENT_METADATA,
    TARGET_ASSIGNMENT_MEMBER,
    CURRENT_MEMBER_ASSIGNMENT,
    STATE_PARTITION_METADATA,
)
