"""Adds, moves and removes the rows of pending values, and stores the metadata text of rows. `offsets` has the rules.

A pending row is in three linked lists: with the other rows of its producer, of its key, and of its hash slot.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import copy_bytes
from sexton.kernels import layout as L
from sexton.kernels.index import find_leak, find_pending, pending_hash
from sexton.kernels.layout import FoldState, View, view_of


@inlined
def store_text(state: View, table: Any, row: int, data: Any, at: int, size: int) -> None:
    """Copy the span to a row's metadata: over the old text if it fits there, else to the end of the arena."""
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
    """Free a row's metadata."""
    state.counts[L.TEXT_LIVE] -= table[row, L.TEXT_SIZE]
    table[row, L.TEXT_SIZE] = 0


@compiled
def move_value(state: View, source: Any, row: int, target: Any, to: int) -> None:
    """Move the value columns and the metadata of one row to another, whose old metadata is freed."""
    drop_text(state, target, to)
    for column in range(L.VALUE, L.VALUE_END):
        target[to, column] = source[row, column]
    source[row, L.TEXT_SIZE] = 0


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
def remove_pending(state: View, row: int) -> None:
    """Unlink a row of `pending` and free it for the next value. The caller moves or drops its metadata."""
    unlink_pending(state, row)
    _free(state, row)


@compiled
def unlink_pending(state: View, row: int) -> None:
    """Take a row out of the lists of its key, its producer and its slot."""
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
def leak_pending(state: View, row: int) -> None:
    """Turn a value's row into a LEAKED one: a transaction that Kafka 4.0.0 leaves open for the group of its key."""
    unlink_pending(state, row)
    state.pending[row, L.PENDING_VALUES] = L.LEAKED
    _link_slot(state, row)


@compiled
def remove_leak(state: View, group: int, producer: int) -> None:
    """Close a producer's leaked transaction for a group (Kafka 4.0.0: only for groups with a pending value left)."""
    row = find_leak(state, group, producer)
    if row >= 0:
        _unlink_slot(state, row)
        _free(state, row)


@compiled
def relink_leaks(arrays: FoldState) -> None:
    """Link rows that were restored as LEAKED, but linked as values, by group and producer; free duplicates."""
    state = view_of(arrays)
    pending = state.pending
    for row in range(state.counts[L.PENDING]):
        if pending[row, L.PENDING_VALUES] == L.LEAKED:
            pending[row, L.PENDING_VALUES] = 1
            group, producer = state.keys[pending[row, L.PENDING_KEY], L.KEY_GROUP], pending[row, L.PENDING_PRODUCER]
            unlink_pending(state, row)
            if find_leak(state, group, producer) < 0:
                pending[row, L.PENDING_VALUES] = L.LEAKED
                _link_slot(state, row)
            else:
                _free(state, row)


@compiled
def _link_slot(state: View, row: int) -> None:
    """Add a row to its hash slot (`index.pending_hash`)."""
    place = pending_hash(state, row) & state.counts[L.PENDING_MASK]
    state.pending[row, L.NEXT_OF_SLOT] = state.pending_slots[place] - 1
    state.pending_slots[place] = row + 1


@compiled
def _unlink_slot(state: View, row: int) -> None:
    """Take a row out of its hash slot; a slot has few rows."""
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
def _free(state: View, row: int) -> None:
    """Keep a row that is in no list for the next value."""
    state.pending[row, L.PENDING_VALUES] = 0
    state.pending[row, L.NEXT_OF_PRODUCER] = state.counts[L.FREE_PENDING]
    state.counts[L.FREE_PENDING] = row
