"""Bytes of `__transaction_state` for tests."""

from collections.abc import Mapping, Sequence

from sexton.log.batch import encode_batch
from sexton.records import wire
from sexton.records.schema import Schema
from sexton.records.transactions import KEY, VALUE, TransactionLogKey, TransactionLogValue, TransactionPartitions
from sexton.transactions.states import STATES, TransactionState

BASE_MS = 1_800_000_000_000
OFFSETS = "__consumer_offsets"


def value(
    state: TransactionState = TransactionState.EMPTY,
    *,
    epoch: int = 0,
    partitions: Mapping[str, Sequence[int]] | None = None,
    **fields: int,
) -> TransactionLogValue:
    listed = tuple(
        TransactionPartitions(topic=topic, partition_ids=tuple(some)) for topic, some in (partitions or {}).items()
    )
    plain = {"producer_id": 1, "timeout_ms": 60_000, "updated_at_ms": BASE_MS, "started_at_ms": -1}
    plain |= {"previous_producer_id": -1, "next_producer_id": -1, **fields}
    own = None if state == TransactionState.EMPTY else listed
    return TransactionLogValue(producer_epoch=epoch, status=STATES.index(state), partitions=own, **plain)


def encode_transaction_key(transactional_id: str) -> bytes:
    """The key of a record."""
    return _encode(KEY, 0, TransactionLogKey(transactional_id=transactional_id))


def encode_transaction_value(value: TransactionLogValue, version: int) -> bytes:
    """The value of a record; ValueError for one that does not fit."""
    return _encode(VALUE, version, value)


def _encode(schema: Schema, version: int, message: object) -> bytes:
    out = bytearray()
    wire.write_i16(version, out)
    schema.writer(version)(message, out)
    return bytes(out)


def state_log(
    *records: tuple[str, TransactionLogValue | None], version: int = 0, first: int = 0, at_ms: int = BASE_MS
) -> bytes:
    """A batch for each record, a millisecond apart."""
    return b"".join(
        encode_batch(
            [(encode_transaction_key(name), None if one is None else encode_transaction_value(one, version))],
            base_offset=first + number,
            timestamp_ms=at_ms + first + number,
        )
        for number, (name, one) in enumerate(records)
    )
