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
from sexton.kernels.layout import (
    ABORTED,
    FREE_PENDING,
    KEY_GROUP,
    KEY_PENDING,
    LAST_TOMBSTONE,
    LAST_VALUE,
    LEAKED,
    LEAKS_OPEN_TRANSACTIONS,
    LOG_OFFSET,
    MARKER_COMMIT,
    NEXT_OF_KEY,
    NEXT_OF_PRODUCER,
    NEXT_OF_SLOT,
    NONE,
    P_CANCELLED,
    P_EPOCH,
    P_FIRST,
    P_FIRST_MS,
    P_ID,
    P_LAST,
    P_MARKER,
    P_MARKER_AT,
    P_PENDING,
    PENDING,
    PENDING_EPOCH,
    PENDING_KEY,
    PENDING_LOG_OFFSET,
    PENDING_MASK,
    PENDING_PRODUCER,
    PENDING_TIMESTAMP,
    PENDING_VALUES,
    PREV_OF_KEY,
    PREV_OF_PRODUCER,
    PRODUCER_ID,
    SINCE,
    TEXT_AT,
    TEXT_BYTES,
    TEXT_LIVE,
    TEXT_SIZE,
    TOMBSTONED,
    VALUE,
    VALUE_END,
    View,
    find_leak,
    find_pending,
    find_producer,
    pending_hash,
    producer_row,
)


@inlined
def store_text(state: View, table: Any, row: int, data: Any, at: int, size: int) -> None:
    """Make the span the metadata of a row: in place when it fits where the old one lies, else at the arena's end."""
    counts, texts = state.counts, state.text_bytes
    old = table[row, TEXT_SIZE]
    counts[TEXT_LIVE] += size - old
    if size > old:
        table[row, TEXT_AT] = counts[TEXT_BYTES]
        counts[TEXT_BYTES] += size
    table[row, TEXT_SIZE] = size
    to = table[row, TEXT_AT]
    copy_bytes(texts, to, data, at, size)


@compiled
def drop_text(state: View, table: Any, row: int) -> None:
    """Let go of a row's metadata."""
    state.counts[TEXT_LIVE] -= table[row, TEXT_SIZE]
    table[row, TEXT_SIZE] = 0


@compiled
def put_tombstone(state: View, key: int, log_offset: int) -> None:
    """Remove the stored value of `key` and cancel every pending one."""
    remove_stored(state, key, log_offset)
    row = state.keys[key, KEY_PENDING]
    while row >= 0:
        after = state.pending[row, NEXT_OF_KEY]
        cancel_pending(state, row)
        row = after


@compiled
def remove_stored(state: View, key: int, log_offset: int) -> None:
    """Remove the stored value of `key`; what is pending stays."""
    keys = state.keys
    state.counts[TOMBSTONED] += keys[key, SINCE]
    keys[key, SINCE] = 0
    keys[key, LAST_TOMBSTONE] = log_offset
    if keys[key, LOG_OFFSET] != NONE:
        keys[key, LOG_OFFSET] = NONE
        drop_text(state, keys, key)


@compiled
def cancel_own(state: View, key: int, producer_id: int) -> None:
    """Cancel the pending value of one producer; the stored one stays."""
    producer = find_producer(state, producer_id)
    row = find_pending(state, key, producer) if producer >= 0 else np.int64(-1)
    if row >= 0:
        cancel_pending(state, row)


@compiled
def cancel_pending(state: View, row: int) -> None:
    """An pending value will never be stored; where transactions leak, its row may stay behind as a trace."""
    pending = state.pending
    producer, group = pending[row, PENDING_PRODUCER], state.keys[pending[row, PENDING_KEY], KEY_GROUP]
    state.producers[producer, P_CANCELLED] += pending[row, PENDING_VALUES]
    drop_text(state, pending, row)
    if state.counts[LEAKS_OPEN_TRANSACTIONS] and find_leak(state, group, producer) < 0:
        unlink(state, row)
        pending[row, PENDING_VALUES] = LEAKED
        _link_slot(state, row)
    else:
        remove_pending(state, row)


@compiled
def keep_leaks(state: View) -> None:
    """Take rows that were restored as LEAKED for what they are: they were linked as values."""
    pending = state.pending
    for row in range(state.counts[PENDING]):
        if pending[row, PENDING_VALUES] == LEAKED:
            pending[row, PENDING_VALUES] = 1
            unlink(state, row)
            if find_leak(state, state.keys[pending[row, PENDING_KEY], KEY_GROUP], pending[row, PENDING_PRODUCER]) < 0:
                pending[row, PENDING_VALUES] = LEAKED
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
    row = counts[FREE_PENDING]
    if row >= 0:
        counts[FREE_PENDING] = pending[row, NEXT_OF_PRODUCER]
    else:
        row = counts[PENDING]
        counts[PENDING] += 1
    pending[row, PENDING_KEY] = key
    pending[row, PENDING_PRODUCER] = producer
    pending[row, PENDING_VALUES] = 0
    pending[row, TEXT_SIZE] = 0
    pending[row, PREV_OF_KEY] = -1
    pending[row, PREV_OF_PRODUCER] = -1
    after_key, after_producer = keys[key, KEY_PENDING], producers[producer, P_PENDING]
    pending[row, NEXT_OF_KEY] = after_key
    pending[row, NEXT_OF_PRODUCER] = after_producer
    if after_key >= 0:
        pending[after_key, PREV_OF_KEY] = row
    if after_producer >= 0:
        pending[after_producer, PREV_OF_PRODUCER] = row
    keys[key, KEY_PENDING] = row
    producers[producer, P_PENDING] = row
    _link_slot(state, row)
    return row


@compiled
def _link_slot(state: View, row: int) -> None:
    """Let a row be found (see `table.pending_hash`)."""
    place = pending_hash(state, row) & state.counts[PENDING_MASK]
    state.pending[row, NEXT_OF_SLOT] = state.pending_slots[place] - 1
    state.pending_slots[place] = row + 1


@compiled
def _unlink_slot(state: View, row: int) -> None:
    """Let a row be found no more; the rows of a slot are few."""
    pending, slots = state.pending, state.pending_slots
    place = pending_hash(state, row) & state.counts[PENDING_MASK]
    if slots[place] - 1 == row:
        slots[place] = pending[row, NEXT_OF_SLOT] + 1
        return
    before = slots[place] - 1
    while pending[before, NEXT_OF_SLOT] != row:
        before = pending[before, NEXT_OF_SLOT]
    pending[before, NEXT_OF_SLOT] = pending[row, NEXT_OF_SLOT]


@compiled
def remove_pending(state: View, row: int) -> None:
    """Unlink a row of `pending` and keep it for the next value; its metadata is the caller's to move or drop."""
    unlink(state, row)
    _free(state, row)


@compiled
def _free(state: View, row: int) -> None:
    """Keep a row that is not linked any more for the next value."""
    state.pending[row, PENDING_VALUES] = 0
    state.pending[row, NEXT_OF_PRODUCER] = state.counts[FREE_PENDING]
    state.counts[FREE_PENDING] = row


@compiled
def unlink(state: View, row: int) -> None:
    """Take a value's row out of the rows of its key, of its producer and of its slot."""
    _unlink_slot(state, row)
    pending = state.pending
    before, after = pending[row, PREV_OF_KEY], pending[row, NEXT_OF_KEY]
    if before >= 0:
        pending[before, NEXT_OF_KEY] = after
    else:
        state.keys[pending[row, PENDING_KEY], KEY_PENDING] = after
    if after >= 0:
        pending[after, PREV_OF_KEY] = before
    before, after = pending[row, PREV_OF_PRODUCER], pending[row, NEXT_OF_PRODUCER]
    if before >= 0:
        pending[before, NEXT_OF_PRODUCER] = after
    else:
        state.producers[pending[row, PENDING_PRODUCER], P_PENDING] = after
    if after >= 0:
        pending[after, PREV_OF_PRODUCER] = before


@compiled
def note_open(state: View, producer: int, epoch: int, log_offset: int, timestamp_ms: int) -> None:
    """Extend the span of what a producer has open since its last marker."""
    producers = state.producers
    if producers[producer, P_FIRST] == NONE:
        producers[producer, P_FIRST] = log_offset
        producers[producer, P_FIRST_MS] = timestamp_ms
    producers[producer, P_LAST] = log_offset
    producers[producer, P_EPOCH] = epoch


@compiled
def put_pending(state: View, key: int, producer_id: int, epoch: int, log_offset: int, timestamp_ms: int) -> int:
    """Make room for a pending value, the newest of its producer and key; the caller sets it in the row returned."""
    producer = producer_row(state, producer_id)
    note_open(state, producer, epoch, log_offset, timestamp_ms)
    row = pending_row(state, key, producer)
    pending = state.pending
    pending[row, PENDING_VALUES] += 1
    pending[row, PENDING_LOG_OFFSET] = log_offset
    pending[row, PENDING_TIMESTAMP] = timestamp_ms
    pending[row, PENDING_EPOCH] = epoch
    state.groups[state.keys[key, KEY_GROUP], LAST_VALUE] = log_offset
    return row


@compiled
def put_marker(state: View, producer_id: int, marker: int, log_offset: int) -> None:
    """Settle everything that a producer has open: COMMIT stores what is newer than the stored value, ABORT nothing."""
    producer = producer_row(state, producer_id)
    producers = state.producers
    if producers[producer, P_MARKER] < 0:
        producers[producer, P_MARKER] = marker
        producers[producer, P_MARKER_AT] = log_offset
    row = producers[producer, P_PENDING]
    while row >= 0:
        after = state.pending[row, NEXT_OF_PRODUCER]
        if state.counts[LEAKS_OPEN_TRANSACTIONS]:
            forget_leak(state, state.keys[state.pending[row, PENDING_KEY], KEY_GROUP], producer)
        if marker == MARKER_COMMIT:
            commit_pending(state, row)
        else:
            abort_pending(state, row)
        row = after
    state.counts[TOMBSTONED if marker == MARKER_COMMIT else ABORTED] += producers[producer, P_CANCELLED]
    close_producer(state, producer)


@compiled
def forget_leak(state: View, group: int, producer: int) -> None:
    """A marker closes the transactions of those groups alone of which a value is still pending (Kafka 4.0.0)."""
    row = find_leak(state, group, producer)
    if row >= 0:
        _unlink_slot(state, row)
        _free(state, row)


@compiled
def close_producer(state: View, producer: int) -> None:
    """Nothing is open any more."""
    producers = state.producers
    producers[producer, P_CANCELLED] = 0
    producers[producer, P_FIRST] = NONE
    producers[producer, P_LAST] = NONE
    producers[producer, P_FIRST_MS] = NONE


@compiled
def abort_pending(state: View, row: int) -> None:
    state.counts[ABORTED] += state.pending[row, PENDING_VALUES]
    drop_text(state, state.pending, row)
    remove_pending(state, row)


@compiled
def commit_pending(state: View, row: int) -> None:
    """Settle one pending value: it is stored unless the stored one has a higher log_offset."""
    pending, keys = state.pending, state.keys
    key = pending[row, PENDING_KEY]
    keys[key, SINCE] += pending[row, PENDING_VALUES]
    if keys[key, LOG_OFFSET] == NONE or pending[row, PENDING_LOG_OFFSET] > keys[key, LOG_OFFSET]:
        move_value(state, pending, row, keys, key)
        keys[key, LOG_OFFSET] = pending[row, PENDING_LOG_OFFSET]
        keys[key, PRODUCER_ID] = state.producers[pending[row, PENDING_PRODUCER], P_ID]
    else:
        drop_text(state, pending, row)
    remove_pending(state, row)


@compiled
def move_value(state: View, source: Any, row: int, target: Any, to: int) -> None:
    """Hand the value columns and the metadata of one row to another, whose own metadata is let go."""
    drop_text(state, target, to)
    for column in range(VALUE, VALUE_END):
        target[to, column] = source[row, column]
    source[row, TEXT_SIZE] = 0
