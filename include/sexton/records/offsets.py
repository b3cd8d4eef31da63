"""Types 0 and 1: a committed offset. A tombstone of either removes it.

Follows LegacyOffsetCommit{Key,Value}.json and OffsetCommit{Key,Value}.json of Kafka's group-coordinator module.
"""

from sexton.records.record_type import RecordType, Releases
from sexton.records.schema import ID, INT32, INT64, ZERO_UUID, Field, Schema, Text

OFFSET_TYPES = frozenset({0, 1})

OFFSET_COMMIT_KEY = Schema(
    (
        Field("group_id", Text(), renamed_from="group"),
        Field("topic", Text()),
        Field("partition", INT32),
    )
)

OFFSET_COMMIT_VALUE = Schema(
    (
        Field("committed_offset", INT64, renamed_from="offset"),
        Field("leader_epoch", INT32, since=3, absent=-1, note="KIP-320, Kafka 2.1"),
        Field("metadata", Text()),
        Field("commit_timestamp_ms", INT64, renamed_from="commitTimestamp"),
        Field(
            "expire_timestamp_ms",
            INT64,
            only=1,
            absent=-1,
            renamed_from="expireTimestamp",
            note="KIP-211 (Kafka 2.1) dropped it; a commit with an explicit retention is still written as v1",
        ),
        Field("topic_id", ID, since=4, tag=0, absent=ZERO_UUID, note="KIP-848, Kafka 4.1"),
    ),
    flexible_since=4,
)

LEGACY_OFFSET_COMMIT = RecordType(
    number=0,
    name="LegacyOffsetCommit",
    key=OFFSET_COMMIT_KEY,
    value=OFFSET_COMMIT_VALUE,  # its version 0 is the whole of LegacyOffsetCommitValue
    versions=range(1),
    since="0.8.2",
    read_by=Releases((0, 8)),
    note="written by 0.8.2 alone; up to 4.0 coordinators read its values as those of type 1, in any version of those",
)

OFFSET_COMMIT = RecordType(
    number=1,
    name="OffsetCommit",
    key=OFFSET_COMMIT_KEY,
    value=OFFSET_COMMIT_VALUE,
    versions=range(5),
    since="0.9.0",
    read_by=Releases((0, 9)),
    note="written today: v1 with an explicit retention, else v3 (2.1 to 4.0) or v4 (4.1 on)",
)
