"""Type 2: the whole state of a classic group; its tombstone removes the group.

Follows GroupMetadata{Key,Value}.json, and ConsumerProtocolSubscription.json for the subscription within a member.
"""

from sexton.records import wire
from sexton.records.record_type import RecordType, Releases
from sexton.records.schema import INT32, INT64, Array, Blob, Schema, Struct, Text, record, wire_field


@record
class GroupMetadataKey:
    """The key of a classic group."""

    group_id: str = wire_field(Text(), renamed_from="group")


@record
class GroupMetadataMember:
    """A member of a classic group."""

    member_id: str = wire_field(Text())
    group_instance_id: str | None = wire_field(Text(nullable=True), since=3, default=None)  # KIP-345, Kafka 2.3
    client_id: str = wire_field(Text())
    client_host: str = wire_field(Text())
    # KIP-62, Kafka 0.10.1; before that, the coordinator uses the session timeout
    rebalance_timeout_ms: int = wire_field(INT32, since=1, default=-1, renamed_from="rebalanceTimeout")
    session_timeout_ms: int = wire_field(INT32, renamed_from="sessionTimeout")
    subscription: bytes = wire_field(Blob())
    assignment: bytes = wire_field(Blob())


@record
class GroupMetadataValue:
    """A classic group with its members."""

    protocol_type: str = wire_field(Text())  # "" for a group that only ever committed offsets
    generation: int = wire_field(INT32)
    protocol: str | None = wire_field(Text(nullable=True))
    leader: str | None = wire_field(Text(nullable=True))
    # KIP-211, Kafka 2.1
    current_state_timestamp_ms: int = wire_field(INT64, since=2, default=-1, renamed_from="currentStateTimestamp")
    members: tuple[GroupMetadataMember, ...] = wire_field(Array(Struct(GroupMetadataMember)))


GROUP_METADATA = RecordType(
    2,
    "GroupMetadata",
    Schema(GroupMetadataKey),
    Schema(GroupMetadataValue, flexible_since=4),
    Releases((0, 9)),
    range(5),
)
"""4.x still writes v3; v4 is declared since 3.5 so that brokers can be downgraded (KIP-915)."""


@record
class _Subscription:
    """Version 0 of ConsumerProtocolSubscription, the prefix of every later version: coordinators read no further."""

    topics: tuple[str, ...] = wire_field(Array(Text()))
    user_data: bytes | None = wire_field(Blob(nullable=True))


_SUBSCRIPTION = Schema(_Subscription)


def read_subscription(data: bytes) -> list[str] | None:
    """Read the topics of a member's `subscription`, whatever version it claims; see registry.decode_subscription.

    None where the bytes end inside a number. Raises wire.Unreadable for other malformed bytes.
    """
    try:
        _, pos = wire.read_i16(data, 0)
        found, _ = _SUBSCRIPTION.reader(0)(data, pos)
    except wire.Underflow:
        return None
    return list(found.topics)
