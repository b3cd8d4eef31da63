"""Type 2: the whole state of a classic group; its tombstone removes the group.

Follows GroupMetadata{Key,Value}.json, and ConsumerProtocolSubscription.json for the subscription within a member.
"""

from sexton.records import wire
from sexton.records.record_type import RecordType, Releases
from sexton.records.schema import INT32, INT64, Array, Blob, Field, Schema, Struct, Text

MEMBER = Struct(
    (
        Field("member_id", Text()),
        Field("group_instance_id", Text(nullable=True), since=3, absent=None, note="KIP-345, Kafka 2.3"),
        Field("client_id", Text()),
        Field("client_host", Text()),
        Field(
            "rebalance_timeout_ms",
            INT32,
            since=1,
            absent=-1,
            renamed_from="rebalanceTimeout",
            note="KIP-62, Kafka 0.10.1; where it is absent the coordinator takes the session timeout",
        ),
        Field("session_timeout_ms", INT32, renamed_from="sessionTimeout"),
        Field("subscription", Blob()),
        Field("assignment", Blob()),
    )
)

GROUP_METADATA = RecordType(
    number=2,
    name="GroupMetadata",
    key=Schema((Field("group_id", Text(), renamed_from="group"),)),
    value=Schema(
        (
            Field("protocol_type", Text(), note='"" for a group that only ever committed offsets'),
            Field("generation", INT32),
            Field("protocol", Text(nullable=True)),
            Field("leader", Text(nullable=True)),
            Field(
                "current_state_timestamp_ms",
                INT64,
                since=2,
                absent=-1,
                renamed_from="currentStateTimestamp",
                note="KIP-211, Kafka 2.1",
            ),
            Field("members", Array(MEMBER)),
        ),
        flexible_since=4,
    ),
    versions=range(5),
    since="0.9.0",
    read_by=Releases((0, 9)),
    note="4.x still writes v3; v4 is declared since 3.5 so that brokers can be downgraded (KIP-915)",
)

# Version 0 of ConsumerProtocolSubscription, which begins every later version: the coordinator reads no more of any.
_SUBSCRIPTION = Schema((Field("topics", Array(Text())), Field("user_data", Blob(nullable=True))))


def read_subscription(data: bytes) -> list[str] | None:
    """Read the topics of a member's `subscription`, whatever version it claims; see registry.decode_subscription.

    None where the bytes end inside a number. Raises wire.Unreadable for what is malformed in any other way.
    """
    try:
        _, pos = wire.read_i16(data, 0)
        fields, _ = _SUBSCRIPTION.reader(0)(data, pos)
    except wire.Underflow:
        return None
    topics: list[str] = fields["topics"]
    return topics
