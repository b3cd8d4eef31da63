"""Types 0 and 1: a committed offset. A tombstone of either type removes it.

Follows LegacyOffsetCommit{Key,Value}.json and OffsetCommit{Key,Value}.json of Kafka's group-coordinator module.
"""

from uuid import UUID

from sexton.records.record_type import RecordType, Releases
from sexton.records.schema import ID, INT32, INT64, ZERO_UUID, Schema, Text, record, wire_field

OFFSET_TYPES = frozenset({0, 1})


@record
class OffsetCommitKey:
    """The key of a committed offset."""

    group_id: str = wire_field(Text(), renamed_from="group")
    topic: str = wire_field(Text())
    partition: int = wire_field(INT32)


@record
class OffsetCommitValue:
    """A committed offset as on the wire: unknown fields are -1, or the zero UUID."""

    committed_offset: int = wire_field(INT64, renamed_from="offset")
    leader_epoch: int = wire_field(INT32, since=3, default=-1)  # KIP-320, Kafka 2.1
    metadata: str = wire_field(Text())
    commit_timestamp_ms: int = wire_field(INT64, renamed_from="commitTimestamp")
    # KIP-211 (Kafka 2.1) dropped it; a commit with an explicit retention is still written as v1
    expire_timestamp_ms: int = wire_field(INT64, only=1, default=-1, renamed_from="expireTimestamp")
    topic_id: UUID = wire_field(ID, since=4, tag=0, default=ZERO_UUID)  # KIP-848, Kafka 4.1


_KEY = Schema(OffsetCommitKey)
_VALUE = Schema(OffsetCommitValue, flexible_since=4)

LEGACY_OFFSET_COMMIT = RecordType(0, "LegacyOffsetCommit", _KEY, _VALUE, Releases((0, 8)))
"""Only 0.8.2 writes it, with version 0 of the value, the only one of LegacyOffsetCommitValue. Coordinators up to 4.0
read its values as values of type 1, in any version of that type."""

OFFSET_COMMIT = RecordType(1, "OffsetCommit", _KEY, _VALUE, Releases((0, 9)), range(5))
"""Written today: v1 with an explicit retention, else v3 (2.1 to 4.0) or v4 (4.1 on)."""
