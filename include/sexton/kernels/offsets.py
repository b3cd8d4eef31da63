"""What one record does to the state (Kafka: OffsetMetadataManager.replay and
replayEndTransactionMarker, GroupMetadataManager.doLoadGroupsAndOffsets before 4.0).

A value that waits is settled by its producer's next marker. In 4.x a tombstone of any kind takes the stored value and
every pending value of its key; before, it takes the stored one alone, or, in a transaction, its own pending one. Epochs
are never compared.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import copy_bytes
from sexton.kernels import layout as L
from sexton.kernels.index import find_leak, find_pending, find_producer, pending_hash, producer_row
from sexton.kernels.layout import View


@inlined
def store_text(state: View, table: Any, row: int, data: Any, at: int, size: int) -> None:
    """Make the span the metadata of a row: in place when it fits where the old one lies, else at the arena's end."""
    counts, texts = state.counts, state.text_bytes
    old = table[row, L.TEXT_SIZE]
    counts[L.TEXT_LIVE] += size - old
    if size > old:
        table[row, L.TEXT_AT] = counts[L.TEXT_BYTES]
        counts[L.TEXT_BYTES] += size
    table[row, L.TEXT_SIZE] = size
    to = table[row, L.TEXT_AT]
    copy_bytes(texts, to, data, at, size)


@compiled
def drop_text(state: View, table: Any, row: int) -> None:
    """Let go of a row's metadata."""
    state.counts[L.TEXT_LIVE] -= table[row, L.TEXT_SIZE]
    table[row, L.TEXT_SIZE] = 0


@compiled
def remove(state: View, key: int, log_offset: int) -> None:
    """Remove the stored value of `key` and cancel every pending one."""
    remove_stored(state, key, log_offset)
    row = state.keys[key, L.KEY_PENDING]
    while row >= 0:
        after = state.pending[row, L.NEXT_OF_KEY]
        cancel_pending(state, row)
        row = after


@compiled
def remove_stored(state: View, key: int, log_offset: int) -> None:
    """Remove the stored value of `key`; what is pending stays."""
    keys = state.keys
    state.counts[L.TOMBSTONED] += keys[key, L.SINCE]
    keys[key, L.SINCE] = 0
    keys[key, L.LAST_TOMBSTONE] = log_offset
    if keys[key, L.LOG_OFFSET] != L.NONE:
        keys[key, L.LOG_OFFSET] = L.NONE
        drop_text(state, keys, key)


@compiled
def cancel_pending_of(state: View, key: int, producer_id: int) -> None:
    """Cancel the pending value of one producer; the stored one stays."""
    producer = find_producer(state, producer_id)
    row = find_pending(state, key, producer) if producer >= 0 else np.int64(-1)
    if row >= 0:
        cancel_pending(state, row)


@compiled
def cancel_pending(state: View, row: int) -> None:
    """An pending value will never be stored; where transactions leak, its row may stay behind as a trace."""
    pending = state.pending
    producer, group = pending[row, L.PENDING_PRODUCER], state.keys[pending[row, L.PENDING_KEY], L.KEY_GROUP]
    state.producers[producer, L.P_CANCELLED] += pending[row, L.PENDING_VALUES]
    drop_text(state, pending, row)
    if state.counts[L.LEAKS_OPEN_TRANSACTIONS] and find_leak(state, group, producer) < 0:
        unlink_pending(state, row)
        pending[row, L.PENDING_VALUES] = L.LEAKED
        _link_slot(state, row)
    else:
        remove_pending(state, row)


@compiled
def relink_leaks(state: View) -> None:
    """Take rows that were restored as LEAKED for what they are: they were linked as values."""
    pending = state.pending
    for row in range(state.counts[L.PENDING]):
        if pending[row, L.PENDING_VALUES] == L.LEAKED:
            pending[row, L.PENDING_VALUES] = 1
            unlink_pending(state, row)
            if (
                find_leak(state, state.keys[pending[row, L.PENDING_KEY], L.KEY_GROUP], pending[row, L.PENDING_PRODUCER])
                < 0
            ):
                pending[row, L.PENDING_VALUES] = L.LEAKED
                _link_slot(state, row)
            else:
                _free(state, row)


@compiled
def pending_row(state: View, key: int, producer: int) -> int:
    """Row of the pending value of a producer and key, appended with a count of 0 when there is none."""
    row = find_pending(state, key, producer)
    return row if row >= 0 else add_pending(state, key, producer)


@compiled
def add_pending(state: View, key: int, producer: int) -> int:
    """A new row for the pending value of a producer and key, with a count of 0."""
    pending, keys, producers, counts = state.pending, state.keys, state.producers, state.counts
    row = counts[L.FREE_PENDING]
    if row >= 0:
        counts[L.FREE_PENDING] = pending[row, L.NEXT_OF_PRODUCER]
    else:
        row = counts[L.PENDING]
        counts[L.PENDING] += 1
    pending[row, L.PENDING_KEY] = key
    pending[row, L.PENDING_PRODUCER] = producer
    pending[row, L.PENDING_VALUES] = 0
    pending[row, L.TEXT_SIZE] = 0
    pending[row, L.PREV_OF_KEY] = -1
    pending[row, L.PREV_OF_PRODUCER] = -1
    after_key, after_producer = keys[key, L.KEY_PENDING], producers[producer, L.P_PENDING]
    pending[row, L.NEXT_OF_KEY] = after_key
    pending[row, L.NEXT_OF_PRODUCER] = after_producer
    if after_key >= 0:
        pending[after_key, L.PREV_OF_KEY] = row
    if after_producer >= 0:
        pending[after_producer, L.PREV_OF_PRODUCER] = row
    keys[key, L.KEY_PENDING] = row
    producers[producer, L.P_PENDING] = row
    _link_slot(state, row)
    return row


@compiled
def _link_slot(state: View, row: int) -> None:
    """Let a row be found (see `table.pending_hash`)."""
    place = pending_hash(state, row) & state.counts[L.PENDING_MASK]
    state.pending[row, L.NEXT_OF_SLOT] = state.pending_slots[place] - 1
    state.pending_slots[place] = row + 1


@compiled
def _unlink_slot(state: View, row: int) -> None:
    """Let a row be found no more; the rows of a slot are few."""
    pending, slots = state.pending, state.pending_slots
    place = pending_hash(state, row) & state.counts[L.PENDING_MASK]
    if slots[place] - 1 == row:
        slots[place] = pending[row, L.NEXT_OF_SLOT] + 1
        return
    before = slots[place] - 1
    while pending[before, L.NEXT_OF_SLOT] != row:
        before = pending[before, L.NEXT_OF_SLOT]
    pending[before, L.NEXT_OF_SLOT] = pending[row, L.NEXT_OF_SLOT]


@compiled
def remove_pending(state: View, row: int) -> None:
    """Unlink a row of `pending` and keep it for the next value; its metadata is the caller's to move or drop."""
    unlink_pending(state, row)
    _free(state, row)


@compiled
def _free(state: View, row: int) -> None:
    """Keep a row that is not linked any more for the next value."""
    state.pending[row, L.PENDING_VALUES] = 0
    state.pending[row, L.NEXT_OF_PRODUCER] = state.counts[L.FREE_PENDING]
    state.counts[L.FREE_PENDING] = row


@compiled
def unlink_pending(state: View, row: int) -> None:
    """Take a value's row out of the rows of its key, of its producer and of its slot."""
    _unlink_slot(state, row)
    pending = state.pending
    before, after = pending[row, L.PREV_OF_KEY], pending[row, L.NEXT_OF_KEY]
    if before >= 0:
        pending[before, L.NEXT_OF_KEY] = after
    else:
        state.keys[pending[row, L.PENDING_KEY], L.KEY_PENDING] = after
    if after >= 0:
        pending[after, L.PREV_OF_KEY] = before
    before, after = pending[row, L.PREV_OF_PRODUCER], pending[row, L.NEXT_OF_PRODUCER]
    if before >= 0:
        pending[before, L.NEXT_OF_PRODUCER] = after
    else:
        state.producers[pending[row, L.PENDING_PRODUCER], L.P_PENDING] = after
    if after >= 0:
        pending[after, L.PREV_OF_PRODUCER] = before


@compiled
def note_open(state: View, producer: int, epoch: int, log_offset: int, timestamp_ms: int) -> None:
    """Extend the span of what a producer has open since its last marker."""
    producers = state.producers
    if producers[producer, L.P_FIRST] == L.NONE:
        producers[producer, L.P_FIRST] = log_offset
        producers[producer, L.P_FIRST_MS] = timestamp_ms
    producers[producer, L.P_LAST] = log_offset
    producers[producer, L.P_EPOCH] = epoch


@compiled
def put_pending(state: View, key: int, producer_id: int, epoch: int, log_offset: int, timestamp_ms: int) -> int:
    """Make room for a pending value, the newest of its producer and key; the caller sets it in the row returned."""
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
def end_transaction(state: View, producer_id: int, marker: int, log_offset: int) -> None:
    """Settle everything that a producer has open: COMMIT stores what is newer than the stored value, ABORT nothing."""
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
def remove_leak(state: View, group: int, producer: int) -> None:
    """A marker closes the transactions of those groups alone of which a value is still pending (Kafka 4.0.0)."""
    row = find_leak(state, group, producer)
    if row >= 0:
        _unlink_slot(state, row)
        _free(state, row)


@compiled
def close_producer(state: View, producer: int) -> None:
    """Nothing is open any more."""
    producers = state.producers
    producers[producer, L.P_CANCELLED] = 0
    producers[producer, L.P_FIRST] = L.NONE
    producers[producer, L.P_LAST] = L.NONE
    producers[producer, L.P_FIRST_MS] = L.NONE


@compiled
def abort_pending(state: View, row: int) -> None:
    state.counts[L.ABORTED] += state.pending[row, L.PENDING_VALUES]
    drop_text(state, state.pending, row)
    remove_pending(state, row)


@compiled
def commit_pending(state: View, row: int) -> None:
    """Settle one pending value: it is stored unless the stored one has a higher log_offset."""
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


@compiled
def move_value(state: View, source: Any, row: int, target: Any, to: int) -> None:
    """Hand the value columns and the metadata of one row to another, whose own metadata is let go."""
    drop_text(state, target, to)
    for column in range(L.VALUE, L.VALUE_END):
        target[to, column] = source[row, column]
    source[row, L.TEXT_SIZE] = 0
