"""Bytes of `__transaction_state` for tests."""

from collections.abc import Mapping, Sequence

from sexton.log.batch import encode_batch
from sexton.records.transactions import (
    TransactionLogValue,
    TransactionPartitions,
    encode_transaction_key,
    encode_transaction_value,
)
from sexton.transactions.states import STATES, State

BASE_MS = 1_800_000_000_000
OFFSETS = "__consumer_offsets"


def value(
    state: State = State.EMPTY,
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
    own = None if state == State.EMPTY else listed
    return TransactionLogValue(producer_epoch=epoch, status=STATES.index(state), partitions=own, **plain)


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
