"""Types 17 to 23: a Kafka Streams group of KIP-1071. All values have version 0 alone and grow by tagged fields.

Follows StreamsGroup*{Key,Value}.json; type 18 as it stood before 4.1 was released.
"""

from sexton.records.consumer import (
    GROUP_KEY,
    MEMBER_KEY,
    TARGET_ASSIGNMENT_METADATA_VALUE,
    TOPICS_WITH_RACKS,
    assignment_epochs,
)
from sexton.records.record_type import RecordType, Releases
from sexton.records.schema import INT8, INT16, INT32, INT64, UINT16, Array, Field, Schema, Struct, Text

SINCE_4_1 = Releases((4, 1))

METADATA = RecordType(
    number=17,
    name="StreamsGroupMetadata",
    key=GROUP_KEY,
    value=Schema(
        (
            Field("epoch", INT32),
            Field("metadata_hash", INT64),
            Field("validated_topology_epoch", INT32, tag=0, new_in=(4, 2), absent=-1),
            Field(
                "last_assignment_configs",
                Array(Struct((Field("key", Text()), Field("value", Text()))), nullable=True),
                tag=1,
                new_in=(4, 2),
                absent=[],
            ),
            Field(
                "stored_description_topology_epoch",
                INT32,
                tag=2,
                new_in=(4, 4),
                absent=-1,
                note="-2 after an interrupted operation: not certain",
            ),
            Field("failed_description_topology_epoch", INT32, tag=3, new_in=(4, 4), absent=-1),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.1",
    read_by=SINCE_4_1,
    note="KIP-1071",
)

PARTITION_METADATA = RecordType(
    number=18,
    name="StreamsGroupPartitionMetadata",
    key=GROUP_KEY,
    value=TOPICS_WITH_RACKS,
    versions=range(1),
    since="4.1",
    read_by=None,
    note="KIP-1071, development builds before 4.1 alone; an unknown type to every release",
)

MEMBER_METADATA = RecordType(
    number=19,
    name="StreamsGroupMemberMetadata",
    key=MEMBER_KEY,
    value=Schema(
        (
            Field("instance_id", Text(nullable=True)),
            Field("rack_id", Text(nullable=True)),
            Field("client_id", Text()),
            Field("client_host", Text()),
            Field("rebalance_timeout_ms", INT32),
            Field("topology_epoch", INT32),
            Field("process_id", Text()),
            Field("user_endpoint", Struct((Field("host", Text()), Field("port", UINT16)), nullable=True)),
            Field("client_tags", Array(Struct((Field("key", Text()), Field("value", Text()))))),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.1",
    read_by=SINCE_4_1,
    note="KIP-1071",
)

TARGET_ASSIGNMENT_METADATA = RecordType(
    number=20,
    name="StreamsGroupTargetAssignmentMetadata",
    key=GROUP_KEY,
    value=TARGET_ASSIGNMENT_METADATA_VALUE,
    versions=range(1),
    since="4.1",
    read_by=SINCE_4_1,
    note="KIP-1071",
)

_TASKS = Array(Struct((Field("subtopology_id", Text()), Field("partitions", Array(INT32)))))

TARGET_ASSIGNMENT_MEMBER = RecordType(
    number=21,
    name="StreamsGroupTargetAssignmentMember",
    key=MEMBER_KEY,
    value=Schema(
        (Field("active_tasks", _TASKS), Field("standby_tasks", _TASKS), Field("warmup_tasks", _TASKS)),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.1",
    read_by=SINCE_4_1,
    note="KIP-1071",
)

_EPOCHED_TASKS = Array(
    Struct((Field("subtopology_id", Text()), Field("partitions", Array(INT32)), assignment_epochs((4, 2))))
)

CURRENT_MEMBER_ASSIGNMENT = RecordType(
    number=22,
    name="StreamsGroupCurrentMemberAssignment",
    key=MEMBER_KEY,
    value=Schema(
        (
            Field("member_epoch", INT32),
            Field("previous_member_epoch", INT32),
            Field("state", INT8, note="1 STABLE, 2 UNREVOKED_TASKS, 3 UNRELEASED_TASKS, 127 UNKNOWN"),
            Field("active_tasks", _EPOCHED_TASKS),
            Field("standby_tasks", _EPOCHED_TASKS),
            Field("warmup_tasks", _EPOCHED_TASKS),
            Field("active_tasks_pending_revocation", _EPOCHED_TASKS),
            Field("standby_tasks_pending_revocation", _EPOCHED_TASKS),
            Field("warmup_tasks_pending_revocation", _EPOCHED_TASKS),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.1",
    read_by=SINCE_4_1,
    note="KIP-1071",
)

_INTERNAL_TOPICS = Array(
    Struct(
        (
            Field("name", Text()),
            Field("partitions", INT32),
            Field("replication_factor", INT16),
            Field("topic_configs", Array(Struct((Field("key", Text()), Field("value", Text()))))),
        )
    )
)

_COPARTITION_GROUPS = Array(
    Struct(
        (
            Field("source_topics", Array(INT16)),
            Field("source_topic_regex", Array(INT16)),
            Field("repartition_source_topics", Array(INT16)),
        )
    )
)

TOPOLOGY = RecordType(
    number=23,
    name="StreamsGroupTopology",
    key=GROUP_KEY,
    value=Schema(
        (
            Field("epoch", INT32),
            Field(
                "subtopologies",
                Array(
                    Struct(
                        (
                            Field("subtopology_id", Text()),
                            Field("source_topics", Array(Text())),
                            Field("source_topic_regex", Array(Text())),
                            Field("state_changelog_topics", _INTERNAL_TOPICS),
                            Field("repartition_sink_topics", Array(Text())),
                            Field("repartition_source_topics", _INTERNAL_TOPICS),
                            Field("copartition_groups", _COPARTITION_GROUPS, note="indices into the lists above"),
                        )
                    )
                ),
            ),
        ),
        flexible_since=0,
    ),
    versions=range(1),
    since="4.1",
    read_by=SINCE_4_1,
    note="KIP-1071",
)

STREAMS_GROUP_TYPES = (
    METADATA,
    PARTITION_METADATA,
    MEMBER_METADATA,
    TARGET_ASSIGNMENT_METADATA,
    TARGET_ASSIGNMENT_MEMBER,
    CURRENT_MEMBER_ASSIGNMENT,
    TOPOLOGY,
)
