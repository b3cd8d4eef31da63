"""Types 3 to 8 and 16: a consumer group of KIP-848, one record for each part of its state.

Follows ConsumerGroup*{Key,Value}.json. All values have version 0 alone and grow by tagged fields.

Where Kafka's JSON says `"default": null` of a tagged field, without quotes, its generator takes an empty list or struct
for the default, and brokers do write null: their type 5 ends in 01 00 01 00, a tag that holds null. So it is here.
"""

from sexton.records.record_type import RecordType, Releases
from sexton.records.schema import ID, INT8, INT32, INT64, Array, Blob, Field, Schema, Struct, Text

SINCE_4_0 = Releases((4, 0))

GROUP_KEY = Schema((Field("group_id", Text()),))
MEMBER_KEY = Schema((Field("group_id", Text()), Field("member_id", Text())))

METADATA = RecordType(
    number=3,
    name="ConsumerGroupMetadata",
    key=GROUP_KEY,
    value=Schema(
        (
            Field("epoch", INT32),
            Field("metadata_hash", INT64, tag=0, new_in=(4, 1), absent=0, note="KIP-1101"),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-848",
)

TOPICS_WITH_RACKS = Schema(
    (
        Field(
            "topics",
            Array(
                Struct(
                    (
                        Field("topic_id", ID),
                        Field("topic_name", Text()),
                        Field("num_partitions", INT32),
                        Field(
                            "partition_metadata",
                            Array(Struct((Field("partition", INT32), Field("racks", Array(Text()))))),
                        ),
                    )
                )
            ),
        ),
    ),
    flexible_since=0,
)

PARTITION_METADATA = RecordType(
    number=4,
    name="ConsumerGroupPartitionMetadata",
    key=GROUP_KEY,
    value=TOPICS_WITH_RACKS,
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-848; from 4.1 on a hash in type 3 replaces it (KIP-1101), and only its tombstones are written",
)

MEMBER_METADATA = RecordType(
    number=5,
    name="ConsumerGroupMemberMetadata",
    key=MEMBER_KEY,
    value=Schema(
        (
            Field("instance_id", Text(nullable=True)),
            Field("rack_id", Text(nullable=True)),
            Field("client_id", Text()),
            Field("client_host", Text()),
            Field("subscribed_topic_names", Array(Text())),
            Field("subscribed_topic_regex", Text(nullable=True)),
            Field("rebalance_timeout_ms", INT32),
            Field("server_assignor", Text(nullable=True)),
            Field(
                "classic_member_metadata",
                Struct(
                    (
                        Field("session_timeout_ms", INT32),
                        Field(
                            "supported_protocols",
                            Array(Struct((Field("name", Text()), Field("metadata", Blob())))),
                        ),
                    ),
                    nullable=True,
                ),
                tag=0,
                absent={"session_timeout_ms": 0, "supported_protocols": []},
                note="a member that speaks the classic protocol within a consumer group; null for any other",
            ),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-848",
)

TARGET_ASSIGNMENT_METADATA_VALUE = Schema(
    (
        Field("assignment_epoch", INT32),
        Field("assignment_timestamp", INT64, tag=0, new_in=(4, 3), absent=0, note="KIP-1263; ms, 0 when not known"),
    ),
    flexible_since=0,
)

TARGET_ASSIGNMENT_METADATA = RecordType(
    number=6,
    name="ConsumerGroupTargetAssignmentMetadata",
    key=GROUP_KEY,
    value=TARGET_ASSIGNMENT_METADATA_VALUE,
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-848",
)

TOPIC_PARTITIONS = Struct((Field("topic_id", ID), Field("partitions", Array(INT32))))

TARGET_ASSIGNMENT_MEMBER_VALUE = Schema((Field("topic_partitions", Array(TOPIC_PARTITIONS)),), flexible_since=0)

TARGET_ASSIGNMENT_MEMBER = RecordType(
    number=7,
    name="ConsumerGroupTargetAssignmentMember",
    key=MEMBER_KEY,
    value=TARGET_ASSIGNMENT_MEMBER_VALUE,
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-848",
)


def assignment_epochs(new_in: tuple[int, int]) -> Field:
    """The epochs that partitions or tasks of a current assignment came with, from some release on."""
    return Field(
        "assignment_epochs",
        Array(INT32, nullable=True),
        tag=0,
        new_in=new_in,
        absent=[],
        note="as many as partitions: the epoch at which each was assigned; fences zombie commits",
    )


EPOCHED_TOPIC_PARTITIONS = Struct((*TOPIC_PARTITIONS.fields, assignment_epochs((4, 3))))

CURRENT_MEMBER_ASSIGNMENT = RecordType(
    number=8,
    name="ConsumerGroupCurrentMemberAssignment",
    key=MEMBER_KEY,
    value=Schema(
        (
            Field("member_epoch", INT32),
            Field("previous_member_epoch", INT32),
            Field("state", INT8, note="0 STABLE, 1 UNREVOKED_PARTITIONS, 2 UNRELEASED_PARTITIONS, 127 UNKNOWN"),
            Field("assigned_partitions", Array(EPOCHED_TOPIC_PARTITIONS)),
            Field("partitions_pending_revocation", Array(EPOCHED_TOPIC_PARTITIONS)),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-848",
)

REGULAR_EXPRESSION = RecordType(
    number=16,
    name="ConsumerGroupRegularExpression",
    key=Schema((Field("group_id", Text()), Field("regular_expression", Text()))),
    value=Schema(
        (
            Field("topics", Array(Text()), note="what the expression matched"),
            Field("version", INT64, note="of the metadata image it was matched against"),
            Field("timestamp", INT64, note="ms, when it was matched"),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.0",
    read_by=SINCE_4_0,
    note="KIP-848",
)

CONSUMER_GROUP_TYPES = (
    METADATA,
    PARTITION_METADATA,
    MEMBER_METADATA,
    TARGET_ASSIGNMENT_METADATA,
    TARGET_ASSIGNMENT_MEMBER,
    CURRENT_MEMBER_ASSIGNMENT,
    REGULAR_EXPRESSION,
)
