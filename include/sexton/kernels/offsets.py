"""The effect of an offset's value, its tombstone and an end marker on the state: `coordinator.offsets`, compiled.

Counterparts: `remove` is Offsets.remove, `remove_stored` and `cancel_pending_of` are ScalaOffsets.remove, `put_pending`
is the pending half of Offsets.put, `end_transaction` is Offsets.end_transaction. `cancel_pending` and `remove_leak`
implement LeakingOffsets (Kafka 4.0.0).

Kafka: OffsetMetadataManager.replay and replayEndTransactionMarker from 4.0 on; in earlier releases
GroupMetadataManager.doLoadGroupsAndOffsets and GroupMetadata.completePendingTxnOffsetCommit. Epochs are never compared.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

import numpy as np

from sexton.jit.compiled import compiled
from sexton.kernels import layout as L
from sexton.kernels.index import find_leak, find_pending, find_producer, producer_row
from sexton.kernels.layout import View
from sexton.kernels.pending_rows import (
    drop_text,
    leak_pending,
    move_value,
    pending_row,
    remove_leak,
    remove_pending,
)


@compiled
def remove(state: View, key: int, log_offset: int) -> None:
    """Apply a tombstone: remove the stored value of `key` and cancel every pending one (Offsets.remove)."""
    remove_stored(state, key, log_offset)
    row = state.keys[key, L.KEY_PENDING]
    while row >= 0:
        after = state.pending[row, L.NEXT_OF_KEY]
        cancel_pending(state, row)
        row = after


@compiled
def remove_stored(state: View, key: int, log_offset: int) -> None:
    """Remove the stored value of `key`; pending values stay (ScalaOffsets.remove, outside of a transaction)."""
    keys = state.keys
    state.counts[L.TOMBSTONED] += keys[key, L.SINCE]
    keys[key, L.SINCE] = 0
    keys[key, L.LAST_TOMBSTONE] = log_offset
    if keys[key, L.LOG_OFFSET] != L.NONE:
        keys[key, L.LOG_OFFSET] = L.NONE
        drop_text(state, keys, key)


@compiled
def cancel_pending_of(state: View, key: int, producer_id: int) -> None:
    """Cancel the pending value of one producer; the stored one stays (ScalaOffsets.remove, in a transaction)."""
    producer = find_producer(state, producer_id)
    row = find_pending(state, key, producer) if producer >= 0 else np.int64(-1)
    if row >= 0:
        cancel_pending(state, row)


@compiled
def cancel_pending(state: View, row: int) -> None:
    """Cancel a pending value: it will never be stored. Where transactions leak, its row may stay as LEAKED."""
    pending = state.pending
    producer, group = pending[row, L.PENDING_PRODUCER], state.keys[pending[row, L.PENDING_KEY], L.KEY_GROUP]
    state.producers[producer, L.P_CANCELLED] += pending[row, L.PENDING_VALUES]
    drop_text(state, pending, row)
    if state.counts[L.LEAKS_OPEN_TRANSACTIONS] and find_leak(state, group, producer) < 0:
        leak_pending(state, row)
    else:
        remove_pending(state, row)


@compiled
def put_pending(state: View, key: int, producer_id: int, epoch: int, log_offset: int, timestamp_ms: int) -> int:
    """Row for a pending value, the newest of its producer and key (Offsets.put). The caller writes the value."""
    producer = producer_row(state, producer_id)
    note_open(state, producer, epoch, log_offset, timestamp_ms)
    row = pending_row(state, key, producer)
    pending = state.pending
    pending[row, L.PENDING_VALUES] += 1
    pending[row, L.PENDING_LOG_OFFSET] = log_offset
    pending[row, L.PENDING_TIMESTAMP] = timestamp_ms
    pending[row, L.PENDING_EPOCH] = epoch
    state.groups[state.keys[key, L.KEY_GROUP], L.LAST_VALUE] = log_offset
    return row


@compiled
def note_open(state: View, producer: int, epoch: int, log_offset: int, timestamp_ms: int) -> None:
    """Extend a producer's open transaction to `log_offset`."""
    producers = state.producers
    if producers[producer, L.P_FIRST] == L.NONE:
        producers[producer, L.P_FIRST] = log_offset
        producers[producer, L.P_FIRST_MS] = timestamp_ms
    producers[producer, L.P_LAST] = log_offset
    producers[producer, L.P_EPOCH] = epoch


@compiled
def end_transaction(state: View, producer_id: int, marker: int, log_offset: int) -> None:
    """Apply an end marker to all pending values of its producer (Offsets.end_transaction).

    COMMIT stores a value unless the stored one has a higher log_offset. ABORT stores nothing.
    """
    producer = producer_row(state, producer_id)
    producers = state.producers
    if producers[producer, L.P_MARKER] < 0:
        producers[producer, L.P_MARKER] = marker
        producers[producer, L.P_MARKER_AT] = log_offset
    row = producers[producer, L.P_PENDING]
    while row >= 0:
        after = state.pending[row, L.NEXT_OF_PRODUCER]
        if state.counts[L.LEAKS_OPEN_TRANSACTIONS]:
            remove_leak(state, state.keys[state.pending[row, L.PENDING_KEY], L.KEY_GROUP], producer)
        if marker == L.MARKER_COMMIT:
            commit_pending(state, row)
        else:
            abort_pending(state, row)
        row = after
    state.counts[L.TOMBSTONED if marker == L.MARKER_COMMIT else L.ABORTED] += producers[producer, L.P_CANCELLED]
    close_producer(state, producer)


@compiled
def close_producer(state: View, producer: int) -> None:
    """Record that the producer has nothing open."""
    producers = state.producers
    producers[producer, L.P_CANCELLED] = 0
    producers[producer, L.P_FIRST] = L.NONE
    producers[producer, L.P_LAST] = L.NONE
    producers[producer, L.P_FIRST_MS] = L.NONE


@compiled
def abort_pending(state: View, row: int) -> None:
    """Drop one pending value."""
    state.counts[L.ABORTED] += state.pending[row, L.PENDING_VALUES]
    drop_text(state, state.pending, row)
    remove_pending(state, row)


@compiled
def commit_pending(state: View, row: int) -> None:
    """Store one pending value, unless the stored one has a higher log_offset."""
    pending, keys = state.pending, state.keys
    key = pending[row, L.PENDING_KEY]
    keys[key, L.SINCE] += pending[row, L.PENDING_VALUES]
    if keys[key, L.LOG_OFFSET] == L.NONE or pending[row, L.PENDING_LOG_OFFSET] > keys[key, L.LOG_OFFSET]:
        move_value(state, pending, row, keys, key)
        keys[key, L.LOG_OFFSET] = pending[row, L.PENDING_LOG_OFFSET]
        keys[key, L.PRODUCER_ID] = state.producers[pending[row, L.PENDING_PRODUCER], L.P_ID]
    else:
        drop_text(state, pending, row)
    remove_pending(state, row)
