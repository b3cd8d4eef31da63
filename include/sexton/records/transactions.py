"""The records of `__transaction_state`: a transactional id, and the state of its transaction. A tombstone removes both.

Follows TransactionLogKey.json and TransactionLogValue.json of Kafka's transaction-coordinator module.
transactions/states.py has a coordinator's handling of unreadable records.
"""

from dataclasses import dataclass

from sexton.records import wire
from sexton.records.registry import MalformedRecord
from sexton.records.schema import INT8, INT16, INT32, INT64, Array, Schema, Struct, Text, record, wire_field


@record
class TransactionLogKey:
    """The key: a transactional id."""

    transactional_id: str = wire_field(Text())


@record
class TransactionPartitions:
    """Partitions of one topic."""

    topic: str = wire_field(Text())
    partition_ids: tuple[int, ...] = wire_field(Array(INT32))


@record
class TransactionLogValue:
    """The state as on the wire: unknown fields are -1; `partitions` is None where the state is Empty.

    Version 1 is written with transaction.version 1 and 2; version 0 has none of the tagged fields.
    """

    producer_id: int = wire_field(INT64)
    producer_epoch: int = wire_field(INT16)
    timeout_ms: int = wire_field(INT32, renamed_from="transactionTimeoutMs")
    status: int = wire_field(INT8, renamed_from="transactionStatus")
    partitions: tuple[TransactionPartitions, ...] | None = wire_field(
        Array(Struct(TransactionPartitions), nullable=True), renamed_from="transactionPartitions"
    )
    updated_at_ms: int = wire_field(INT64, renamed_from="transactionLastUpdateTimestampMs")
    started_at_ms: int = wire_field(INT64, renamed_from="transactionStartTimestampMs")
    previous_producer_id: int = wire_field(INT64, since=1, tag=0, default=-1)
    next_producer_id: int = wire_field(INT64, since=1, tag=1, default=-1)
    client_transaction_version: int = wire_field(INT16, since=1, tag=2, default=0)
    next_producer_epoch: int = wire_field(INT16, since=1, tag=3, default=-1)  # Kafka 4.1


KEY, VALUE = Schema(TransactionLogKey), Schema(TransactionLogValue, flexible_since=1)
KEY_VERSIONS, VALUE_VERSIONS = range(1), range(2)


@dataclass(frozen=True, slots=True)
class UnknownVersion:
    """A key or a value of a version that is not declared."""

    version: int


def decode_transaction_key(key: bytes) -> TransactionLogKey | UnknownVersion:
    """The key of a record; MalformedRecord (malformed_key) for bytes that are not a key."""
    found = _decode(key, KEY, KEY_VERSIONS, "key")
    assert isinstance(found, TransactionLogKey | UnknownVersion)
    return found


def decode_transaction_value(value: bytes, *, newest: int = VALUE_VERSIONS[-1]) -> TransactionLogValue | UnknownVersion:
    """The value of a record, for a coordinator that knows versions up to `newest`; MalformedRecord (malformed_value,
    too_many_items) for bytes that are not such a value."""
    found = _decode(value, VALUE, range(newest + 1), "value")
    assert isinstance(found, TransactionLogValue | UnknownVersion)
    return found


def _decode(data: bytes, schema: Schema, versions: range, which: str) -> object:
    try:
        version, pos = wire.read_i16(data, 0)
        if version not in versions:
            return UnknownVersion(version)
        found, _ = schema.reader(version)(wire.measured(data), pos)
    except wire.Unreadable as error:
        raise MalformedRecord(f"malformed_{which}", f"the {which} of a transaction cannot be read: {error}") from error
    except wire.TooManyItems as error:
        raise MalformedRecord("too_many_items", str(error)) from error
    return found
