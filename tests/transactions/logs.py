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
    producer_id: int = 1,
    epoch: int = 0,
    timeout_ms: int = 60_000,
    partitions: Mapping[str, Sequence[int]] | None = None,
    updated_at_ms: int = BASE_MS,
    started_at_ms: int = -1,
    previous_producer_id: int = -1,
    next_producer_id: int = -1,
) -> TransactionLogValue:
    listed = tuple(
        TransactionPartitions(topic=topic, partition_ids=tuple(some)) for topic, some in (partitions or {}).items()
    )
    return TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        status=STATES.index(state),
        partitions=None if state == State.EMPTY else listed,
        updated_at_ms=updated_at_ms,
        started_at_ms=started_at_ms,
        previous_producer_id=previous_producer_id,
        next_producer_id=next_producer_id,
    )


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
