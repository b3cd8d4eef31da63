"""Joins the states of two adjacent folds: the right one's records follow the left one's in the log.

The order of the steps matters, because each reads what the previous step wrote: groups and group records; end markers,
where a producer's first marker in the right fold ends the producer's pending values in the left one; tombstones; stored
values; pending values.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np
import numpy.typing as npt

from sexton.jit.compiled import compiled
from sexton.jit.memory import copy_bytes, pointer
from sexton.kernels import layout as L
from sexton.kernels.columns import places
from sexton.kernels.growth import new_state, reserve, used_by
from sexton.kernels.index import add_group, add_key, find_key, hash_span, key_group_size, key_size, producer_row
from sexton.kernels.layout import FoldState, Int64s, View, view_of
from sexton.kernels.offsets import end_transaction, remove
from sexton.kernels.pending_rows import pending_row, store_text
from sexton.kernels.profile_flags import copy_rules


def absorb_state(left: FoldState, right: FoldState) -> FoldState:
    """The left state with the right one joined to it, in the left one's arrays where they have space."""
    left = reserve(left, used_by(right))
    _absorb(left, right, _all_groups(right), False)
    return left


def of_groups(state: FoldState, chosen: npt.NDArray[np.bool_]) -> FoldState:
    """The state of the groups that `chosen` selects, with a flag for each row of `groups`.

    It lacks end markers, counts, and producers that have nothing open for these groups. It shares the arenas of `state`
    and has no index: it can only be joined to another state or converted to tables.
    """
    counts = state.counts
    groups, records = state.groups[: counts[L.GROUPS]][chosen], state.records[: counts[L.RECORDS]]
    records = records[chosen[records[:, L.R_GROUP]]]
    rows = np.flatnonzero(chosen[state.keys[: counts[L.KEYS], L.KEY_GROUP]])
    keys = state.keys.take(rows, axis=0)
    new_rows = np.cumsum(chosen) - 1
    keys[:, L.KEY_GROUP] = new_rows[keys[:, L.KEY_GROUP]]
    records[:, L.R_GROUP] = new_rows[records[:, L.R_GROUP]]
    producers, pending = _open_for(state, rows)
    keys[:, L.KEY_PENDING] = -1
    found = new_state(keys=1)._replace(
        keys=keys,
        key_bytes=state.key_bytes,
        text_bytes=state.text_bytes,
        groups=groups,
        producers=producers,
        pending=pending,
        records=records,
        record_bytes=state.record_bytes,
    )
    copy_rules(state, found)
    for name, at in L.ROW_TABLES.items():
        found.counts[at] = len(getattr(found, name))
    found.counts[L.KEY_BYTES] = (keys[:, L.KEY_SIZES] & 0xFFFFFFFF).sum()
    found.counts[L.TEXT_BYTES] = keys[:, L.TEXT_SIZE].sum() + pending[:, L.TEXT_SIZE].sum()
    found.counts[L.RECORD_BYTES] = (records[:, L.R_KEY_SIZE] + np.maximum(records[:, L.R_VALUE_SIZE], 0)).sum()
    return found


def _open_for(state: FoldState, key_rows: Int64s) -> tuple[Int64s, Int64s]:
    """Rows of `producers` with pending values of the given keys, and the rows of these values, linked by producer."""
    pending = state.pending[: state.counts[L.PENDING]]
    row_of = places(key_rows, int(state.counts[L.KEYS])) if len(pending) else key_rows
    pending = pending[pending[:, L.PENDING_VALUES] > 0]
    pending = pending[row_of[pending[:, L.PENDING_KEY]] >= 0]
    rows, owners = np.unique(pending[:, L.PENDING_PRODUCER], return_inverse=True)
    pending = pending[np.argsort(owners, kind="stable")]
    owners.sort()
    pending[:, L.PENDING_KEY], pending[:, L.PENDING_PRODUCER] = row_of[pending[:, L.PENDING_KEY]], owners
    is_last = np.append(owners[1:] != owners[:-1], True)[: len(owners)]
    pending[:, L.NEXT_OF_PRODUCER] = np.where(is_last, -1, np.arange(1, len(owners) + 1))
    producers = state.producers[rows]
    producers[:, L.P_PENDING] = np.searchsorted(owners, np.arange(len(rows)))
    producers[:, L.P_CANCELLED], producers[:, L.P_MARKER], producers[:, L.P_MARKER_AT] = 0, -1, L.NONE
    return producers, pending


def without_groups(state: FoldState) -> FoldState:
    """The state of the whole log partition: everything that `of_groups` leaves out, and all open transactions."""
    fresh = reserve(new_state(keys=16), {"producers": int(state.counts[L.PRODUCERS])})
    copy_rules(state, fresh)
    _absorb(fresh, state, np.zeros(state.counts[L.GROUPS], np.bool_), False)
    return fresh


def prune_dead(state: FoldState) -> FoldState:
    """The state of a fold that begins at the start of the log, without dead keys and closed producers.

    `state` itself if fewer than half of the keys are dead, or if a dead key may have a leaked transaction.
    """
    if state.counts[L.LEAKS_OPEN_TRANSACTIONS] or 2 * count_live_keys(state) > state.counts[L.KEYS]:
        return state
    fresh = reserve(new_state(keys=int(state.counts[L.KEYS]) // 2 + 16), used_by(state))
    copy_rules(state, fresh)
    _absorb(fresh, state, _all_groups(state), True)
    return fresh


def _all_groups(state: FoldState) -> npt.NDArray[np.bool_]:
    return np.ones(state.counts[L.GROUPS], np.bool_)


@compiled
def count_live_keys(arrays: FoldState) -> int:
    """Keys with a stored or a pending value."""
    state = view_of(arrays)
    live = 0
    for key in range(state.counts[L.KEYS]):
        live += is_live(state, key)
    return live


@compiled
def is_live(state: View, key: int) -> bool:
    """Whether a key has a stored or a pending value."""
    return state.keys[key, L.LOG_OFFSET] != L.NONE or state.keys[key, L.KEY_PENDING] >= 0


@compiled
def _absorb(left_arrays: FoldState, right_arrays: FoldState, chosen: Any, only_live: bool) -> None:
    """Join the `chosen` groups of `right` to `left`, which has space for them.

    `only_live` leaves out dead keys and closed producers.
    """
    left, right = view_of(left_arrays), view_of(right_arrays)
    _join_groups(left, right, chosen)
    key_rows = np.empty(right.counts[L.KEYS] + 1, np.int64)
    key_of = pointer(key_rows)
    for key in range(right.counts[L.KEYS]):
        is_left_out = not chosen[right.keys[key, L.KEY_GROUP]] or (only_live and not is_live(right, key))
        key_of[key] = -1 if is_left_out else _same_key(left, right, key)
    for producer in range(right.counts[L.PRODUCERS]):
        marker = right.producers[producer, L.P_MARKER]
        if marker >= 0 and not only_live:
            end_transaction(left, right.producers[producer, L.P_ID], marker, right.producers[producer, L.P_MARKER_AT])
    for key in range(right.counts[L.KEYS]):
        if key_of[key] >= 0 and right.keys[key, L.LAST_TOMBSTONE] != L.NONE and not only_live:
            remove(left, key_of[key], right.keys[key, L.LAST_TOMBSTONE])
    for key in range(right.counts[L.KEYS]):
        if key_of[key] >= 0:
            _join_value(left, right, key_of[key], key)
    for producer in range(right.counts[L.PRODUCERS]):
        if not only_live or right.producers[producer, L.P_FIRST] != L.NONE:
            _join_open(left, right, producer, key_of)
    for count in range(L.TOMBSTONED, L.SEEN_V4 + 1):
        left.counts[count] += right.counts[count]
    left.counts[L.MAX_COMMIT_MS] = max(left.counts[L.MAX_COMMIT_MS], right.counts[L.MAX_COMMIT_MS])
    for number in range(len(right_arrays.unknown_types)):
        left.unknown_types[number] += right.unknown_types[number]
    key_rows[-1] = 0  # the array has to outlive its pointer


@compiled
def _join_groups(left: View, right: View, chosen: Any) -> None:
    """Join the groups by id, and append the group records of `right`, each with the last offset value before it in the
    log."""
    groups = right.counts[L.GROUPS]
    row_array, before_array = np.empty(groups + 1, np.int64), np.empty(groups + 1, np.int64)
    rows_of, before = pointer(row_array), pointer(before_array)
    for group in range(groups):
        if not chosen[group]:
            continue
        row = add_group(left, right.key_bytes, right.groups[group, L.GROUP_AT], right.groups[group, L.GROUP_LENGTH])
        rows_of[group] = row
        left.groups[row, L.COMMITS] += right.groups[group, L.COMMITS]
        before[group] = left.groups[row, L.LAST_VALUE]
        if right.groups[group, L.LAST_VALUE] != L.NONE:
            left.groups[row, L.LAST_VALUE] = right.groups[group, L.LAST_VALUE]
    for record in range(right.counts[L.RECORDS]):
        row, group = left.counts[L.RECORDS], right.records[record, L.R_GROUP]
        if not chosen[group]:
            continue
        for column in range(L.RECORD_COLUMNS):
            left.records[row, column] = right.records[record, column]
        left.records[row, L.R_GROUP] = rows_of[group]
        if right.records[record, L.R_LAST_VALUE] == L.NONE:
            left.records[row, L.R_LAST_VALUE] = before[group]
        size = right.records[record, L.R_KEY_SIZE] + max(right.records[record, L.R_VALUE_SIZE], 0)
        left.records[row, L.R_AT] = left.counts[L.RECORD_BYTES]
        copy_bytes(
            left.record_bytes, left.counts[L.RECORD_BYTES], right.record_bytes, right.records[record, L.R_AT], size
        )
        left.counts[L.RECORD_BYTES] += size
        left.counts[L.RECORDS] += 1
    # the arrays have to outlive their pointers
    row_array[groups], before_array[groups] = 0, 0


@compiled
def _same_key(left: View, right: View, key: int) -> int:
    """Row in `left` of a key of `right`, appended when it is new."""
    at, size, group_size = right.keys[key, L.KEY_AT], key_size(right, key), key_group_size(right, key)
    hashed = hash_span(left, right.key_bytes, at, size)
    row = find_key(left, hashed, right.key_bytes, at, size, group_size)
    return row if row >= 0 else add_key(left, right.key_bytes, at, group_size, size - group_size - 8)


@compiled
def _join_value(left: View, right: View, to: int, key: int) -> None:
    """Take the right's stored value, which is newer than all of the left's."""
    left.keys[to, L.SINCE] += right.keys[key, L.SINCE]
    if right.keys[key, L.LOG_OFFSET] != L.NONE:
        left.keys[to, L.LOG_OFFSET] = right.keys[key, L.LOG_OFFSET]
        left.keys[to, L.PRODUCER_ID] = right.keys[key, L.PRODUCER_ID]
        _copy_value(left, left.keys, to, right, right.keys, key)


@compiled
def _copy_value(left: View, target: Any, to: int, right: View, source: Any, row: int) -> None:
    for column in range(L.VALUE, L.VALUE_END):
        if column != L.TEXT_AT and column != L.TEXT_SIZE:
            target[to, column] = source[row, column]
    store_text(left, target, to, right.text_bytes, source[row, L.TEXT_AT], source[row, L.TEXT_SIZE])


@compiled
def _join_open(left: View, right: View, producer: int, key_of: Any) -> None:
    """Add a producer's pending values in `right` to those in `left`, for the keys that are joined."""
    row = producer_row(left, right.producers[producer, L.P_ID])
    left.producers[row, L.P_CANCELLED] += right.producers[producer, L.P_CANCELLED]
    if right.producers[producer, L.P_FIRST] == L.NONE:
        return
    if left.producers[row, L.P_FIRST] == L.NONE:
        left.producers[row, L.P_FIRST] = right.producers[producer, L.P_FIRST]
        left.producers[row, L.P_FIRST_MS] = right.producers[producer, L.P_FIRST_MS]
    left.producers[row, L.P_LAST] = right.producers[producer, L.P_LAST]
    left.producers[row, L.P_EPOCH] = right.producers[producer, L.P_EPOCH]
    entry = right.producers[producer, L.P_PENDING]
    while entry >= 0:
        key = key_of[right.pending[entry, L.PENDING_KEY]]
        if key >= 0:
            to = pending_row(left, key, row)
            left.pending[to, L.PENDING_VALUES] += right.pending[entry, L.PENDING_VALUES]
            for column in (L.PENDING_LOG_OFFSET, L.PENDING_TIMESTAMP, L.PENDING_EPOCH):
                left.pending[to, column] = right.pending[entry, column]
            _copy_value(left, left.pending, to, right, right.pending, entry)
        entry = right.pending[entry, L.NEXT_OF_PRODUCER]
