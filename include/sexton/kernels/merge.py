"""Joins the states of two neighbouring folds: the right one's records follow the left one's in the log.

In this order, because each step reads what the one before has settled: groups and group records; end markers, the
right's first of each producer settling what the left has pending; tombstones; stored values; what is pending.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import copy_bytes, pointer
from sexton.kernels.apply import (
    abort_pending,
    close_producer,
    commit_pending,
    pending_row,
    put_tombstone,
    store_text,
)
from sexton.kernels.layout import (
    ABORTED,
    COMMITS,
    GROUP_AT,
    GROUP_LENGTH,
    GROUPS,
    KEY_AT,
    KEY_PENDING,
    KEYS,
    LAST_TOMBSTONE,
    LAST_VALUE,
    LEAKS_OPEN_TRANSACTIONS,
    LOG_OFFSET,
    MARKER_COMMIT,
    MAX_COMMIT_MS,
    NEXT_OF_PRODUCER,
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
    PENDING_EPOCH,
    PENDING_KEY,
    PENDING_LOG_OFFSET,
    PENDING_TIMESTAMP,
    PENDING_VALUES,
    PRODUCER_ID,
    PRODUCERS,
    R_AT,
    R_GROUP,
    R_KEY_SIZE,
    R_LAST_VALUE,
    R_VALUE_SIZE,
    RECORD_BYTES,
    RECORD_COLUMNS,
    RECORDS,
    SEEN_CONTROL,
    SEEN_LEGACY,
    SEEN_RECORDS,
    SEEN_TOMBSTONES,
    SEEN_V4,
    SEEN_VALUES,
    SINCE,
    TEXT_AT,
    TEXT_SIZE,
    TOMBSTONED,
    VALUE,
    VALUE_END,
    State,
    View,
    add_group,
    add_key,
    find_key,
    hash_span,
    key_group_size,
    key_size,
    new_state,
    producer_row,
    reserve,
    used_by,
    view_of,
)
from sexton.kernels.rules import copy_rules

_ADDED = (TOMBSTONED, ABORTED, SEEN_RECORDS, SEEN_CONTROL, SEEN_VALUES, SEEN_TOMBSTONES, SEEN_LEGACY, SEEN_V4)


def absorb_state(left: State, right: State) -> State:
    """The left state with the right one joined to it, in the left one's arrays where these have room."""
    left = _with_room(left, right)
    _absorb(left, right, False)
    return left


def prune_dead(state: State) -> State:
    """A state of the beginning of the log without the keys and producers that nothing is left of.

    The state itself when these are less than half of the keys, or when a dead one still tells of a transaction.
    """
    if state.counts[LEAKS_OPEN_TRANSACTIONS] or 2 * count_live_keys(state) > state.counts[KEYS]:
        return state
    fresh = _with_room(new_state(keys=int(state.counts[KEYS]) // 2 + 16), state)
    copy_rules(state, fresh)
    _absorb(fresh, state, True)
    return fresh


def _with_room(left: State, right: State) -> State:
    rows, sizes = used_by(right)
    return reserve(left, rows=rows, sizes=sizes)


@compiled
def count_live_keys(arrays: State) -> int:
    """Keys with a stored or a pending value."""
    state = view_of(arrays)
    live = 0
    for key in range(state.counts[KEYS]):
        live += is_live(state, key)
    return live


@compiled
def is_live(state: View, key: int) -> bool:
    """Whether a key has a stored or a pending value."""
    return state.keys[key, LOG_OFFSET] != NONE or state.keys[key, KEY_PENDING] >= 0


@compiled
def _absorb(left_arrays: State, right_arrays: State, only_live: bool) -> None:
    """Join `right` to `left`, which has room for all of it; `only_live`: but for dead keys and closed producers."""
    left, right = view_of(left_arrays), view_of(right_arrays)
    _join_groups(left, right)
    key_rows = np.empty(right.counts[KEYS] + 1, np.int64)
    key_of = pointer(key_rows)
    for key in range(right.counts[KEYS]):
        key_of[key] = -1 if only_live and not is_live(right, key) else _same_key(left, right, key)
    for producer in range(right.counts[PRODUCERS]):
        if right.producers[producer, P_MARKER] >= 0 and not only_live:
            _end_transaction(left, right, producer)
    for key in range(right.counts[KEYS]):
        if key_of[key] >= 0 and right.keys[key, LAST_TOMBSTONE] != NONE and not only_live:
            put_tombstone(left, key_of[key], right.keys[key, LAST_TOMBSTONE])
    for key in range(right.counts[KEYS]):
        if key_of[key] >= 0:
            _join_value(left, right, key_of[key], key)
    for producer in range(right.counts[PRODUCERS]):
        if not only_live or right.producers[producer, P_FIRST] != NONE:
            _join_open(left, right, producer, key_of)
    for count in _ADDED:
        left.counts[count] += right.counts[count]
    left.counts[MAX_COMMIT_MS] = max(left.counts[MAX_COMMIT_MS], right.counts[MAX_COMMIT_MS])
    for number in range(len(right_arrays.unknown_types)):
        left.unknown_types[number] += right.unknown_types[number]
    key_rows[-1] = 0  # the array has to outlive its pointer


@compiled
def _join_groups(left: View, right: View) -> None:
    """Groups by id, and the right's group records behind the left's, each with the last offset value before it."""
    groups = right.counts[GROUPS]
    row_array, before_array = np.empty(groups + 1, np.int64), np.empty(groups + 1, np.int64)
    rows_of, before = pointer(row_array), pointer(before_array)
    for group in range(groups):
        row = add_group(left, right.key_bytes, right.groups[group, GROUP_AT], right.groups[group, GROUP_LENGTH])
        rows_of[group] = row
        left.groups[row, COMMITS] += right.groups[group, COMMITS]
        before[group] = left.groups[row, LAST_VALUE]
        if right.groups[group, LAST_VALUE] != NONE:
            left.groups[row, LAST_VALUE] = right.groups[group, LAST_VALUE]
    for record in range(right.counts[RECORDS]):
        row = left.counts[RECORDS]
        for column in range(RECORD_COLUMNS):
            left.records[row, column] = right.records[record, column]
        group = right.records[record, R_GROUP]
        left.records[row, R_GROUP] = rows_of[group]
        if right.records[record, R_LAST_VALUE] == NONE:
            left.records[row, R_LAST_VALUE] = before[group]
        size = right.records[record, R_KEY_SIZE] + max(right.records[record, R_VALUE_SIZE], 0)
        left.records[row, R_AT] = left.counts[RECORD_BYTES]
        copy_bytes(left.record_bytes, left.counts[RECORD_BYTES], right.record_bytes, right.records[record, R_AT], size)
        left.counts[RECORD_BYTES] += size
        left.counts[RECORDS] += 1
    # the arrays have to outlive their pointers
    row_array[groups], before_array[groups] = 0, 0


@compiled
def _same_key(left: View, right: View, key: int) -> int:
    """Row in `left` of a key of `right`, appended when it is new."""
    at, size, group_size = right.keys[key, KEY_AT], key_size(right, key), key_group_size(right, key)
    hashed = hash_span(left, right.key_bytes, at, size)
    row = find_key(left, hashed, right.key_bytes, at, size, group_size)
    return row if row >= 0 else add_key(left, right.key_bytes, at, group_size, size - group_size - 8)


@compiled
def _end_transaction(left: View, right: View, producer: int) -> None:
    """Settle what the left has pending of a producer by the right's first marker."""
    marker = right.producers[producer, P_MARKER]
    row = producer_row(left, right.producers[producer, P_ID])
    while left.producers[row, P_PENDING] >= 0:
        if marker == MARKER_COMMIT:
            commit_pending(left, left.producers[row, P_PENDING])
        else:
            abort_pending(left, left.producers[row, P_PENDING])
    left.counts[TOMBSTONED if marker == MARKER_COMMIT else ABORTED] += left.producers[row, P_CANCELLED]
    close_producer(left, row)
    if left.producers[row, P_MARKER] < 0:
        left.producers[row, P_MARKER] = marker
        left.producers[row, P_MARKER_AT] = right.producers[producer, P_MARKER_AT]


@compiled
def _join_value(left: View, right: View, to: int, key: int) -> None:
    """Take over the right's stored value, which is newer than all of the left's."""
    left.keys[to, SINCE] += right.keys[key, SINCE]
    if right.keys[key, LOG_OFFSET] != NONE:
        left.keys[to, LOG_OFFSET] = right.keys[key, LOG_OFFSET]
        left.keys[to, PRODUCER_ID] = right.keys[key, PRODUCER_ID]
        _copy_value(left, left.keys, to, right, right.keys, key)


@compiled
def _copy_value(left: View, target: Any, to: int, right: View, source: Any, row: int) -> None:
    for column in range(VALUE, VALUE_END):
        if column != TEXT_AT and column != TEXT_SIZE:
            target[to, column] = source[row, column]
    store_text(left, target, to, right.text_bytes, source[row, TEXT_AT], source[row, TEXT_SIZE])


@compiled
def _join_open(left: View, right: View, producer: int, key_of: Any) -> None:
    """Add what a producer has open in the right to what it has open in the left."""
    row = producer_row(left, right.producers[producer, P_ID])
    left.producers[row, P_CANCELLED] += right.producers[producer, P_CANCELLED]
    if right.producers[producer, P_FIRST] == NONE:
        return
    if left.producers[row, P_FIRST] == NONE:
        left.producers[row, P_FIRST] = right.producers[producer, P_FIRST]
        left.producers[row, P_FIRST_MS] = right.producers[producer, P_FIRST_MS]
    left.producers[row, P_LAST] = right.producers[producer, P_LAST]
    left.producers[row, P_EPOCH] = right.producers[producer, P_EPOCH]
    entry = right.producers[producer, P_PENDING]
    while entry >= 0:
        to = pending_row(left, key_of[right.pending[entry, PENDING_KEY]], row)
        left.pending[to, PENDING_VALUES] += right.pending[entry, PENDING_VALUES]
        for column in (PENDING_LOG_OFFSET, PENDING_TIMESTAMP, PENDING_EPOCH):
            left.pending[to, column] = right.pending[entry, column]
        _copy_value(left, left.pending, to, right, right.pending, entry)
        entry = right.pending[entry, NEXT_OF_PRODUCER]
