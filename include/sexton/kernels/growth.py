"""Creates and grows the arrays of a fold: empty states, more space, new hash slots, compacted metadata.

A compiled loop never grows an array: it stops where `is_full` says so; its caller calls `grow` and runs it again.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import copy_bytes, pointer
from sexton.kernels import layout as L
from sexton.kernels.index import hash_numbers, hash_span, key_size, pending_hash, put_slot
from sexton.kernels.layout import FoldState, Int64s, view_of
from sexton.kernels.text import GROWTH

_HASH_KEYS = np.frombuffer(secrets.token_bytes(16), np.int64) | 1
"""Random in every process, because clients that may commit offsets choose names and producer ids, and must not be able
to choose many that share a slot. The order of rows does not depend on these keys, and they are never written."""


def new_state(*, keys: int = 1024) -> FoldState:
    """An empty state with space for about `keys` keys before it first grows."""
    state = FoldState(
        counts=np.zeros(L.COUNTS, np.int64),
        key_slots=np.zeros(_slots_for(keys), np.int64),
        keys=_aligned(keys, L.KEY_COLUMNS),
        key_bytes=np.empty(64 * keys, np.uint8),
        text_bytes=np.empty(16 * keys, np.uint8),
        group_slots=np.zeros(_slots_for(256), np.int64),
        groups=np.empty((256, L.GROUP_COLUMNS), np.int64),
        producer_slots=np.zeros(_slots_for(64), np.int64),
        producers=np.empty((64, L.PRODUCER_COLUMNS), np.int64),
        pending_slots=np.zeros(_slots_for(64), np.int64),
        pending=np.empty((64, L.PENDING_COLUMNS), np.int64),
        records=np.empty((64, L.RECORD_COLUMNS), np.int64),
        record_bytes=np.empty(4096, np.uint8),
        unknown_types=np.zeros(1 << 16, np.int64),
    )
    state.counts[L.FREE_PENDING] = -1
    state.counts[L.MAX_COMMIT_MS] = L.NONE
    state.counts[[L.FIRST_HASH_KEY, L.SECOND_HASH_KEY]] = _HASH_KEYS
    _note_limits(state)
    return state


def copy_state(state: FoldState) -> FoldState:
    """A copy that shares no array."""
    arrays: Any = (array.copy() for array in state)
    return FoldState(*arrays)


def used_part(state: FoldState) -> FoldState:
    """The rows and bytes in use, not copied, and without the index of keys: nothing can be folded onto this state."""
    used = {name: getattr(state, name)[: state.counts[at]] for name, at in L.USED.items()}
    return state._replace(**used, key_slots=np.zeros(1, np.int64))


def size_bytes(state: FoldState) -> int:
    return sum(array.nbytes for array in state)


def grow(state: FoldState, need: int, *, factor: int = 1) -> FoldState:
    """A state with space for at least one more row in every table and `need` more bytes in every arena.

    A full table grows to `factor` times its rows, at least to twice as many.
    """
    used = {name: int(state.counts[at]) for name, at in L.ROW_TABLES.items()}
    rows = {name: max(1, (factor - 1) * n) if n == len(getattr(state, name)) else 1 for name, n in used.items()}
    return reserve(state, rows | dict.fromkeys(L.ARENAS, need))


def used_by(state: FoldState) -> dict[str, int]:
    """Rows and bytes that `state` uses: what `reserve` needs before `state` is joined to another one."""
    used = {name: int(state.counts[at]) for name, at in L.USED.items()}
    # group ids are in the keys and in the groups of a state
    used["key_bytes"] += int(state.groups[: state.counts[L.GROUPS], L.GROUP_LENGTH].sum())
    return used


def reserve(state: FoldState, more: Mapping[str, int]) -> FoldState:
    """A state with space for `more` rows or bytes in each array; arrays that have it already stay the same."""
    bigger: dict[str, npt.NDArray[Any]] = {}
    for name, count in more.items():
        array, filled = getattr(state, name), int(state.counts[L.USED[name]])
        if filled + count > len(array):
            bigger[name] = _resized(array, max(2 * len(array), filled + count), filled)
    state = state._replace(**bigger)
    for name, (slots, fill) in _SLOTS.items():
        if name in bigger:
            empty: Any = np.zeros(_slots_for(len(bigger[name])), np.int64)
            state = state._replace(**{slots: empty})
            fill(state)
    _note_limits(state)
    return state


def compact_texts(state: FoldState, *, slack_bytes: int = 1 << 20) -> FoldState:
    """Drop metadata that no row refers to, once it takes up most of the arena."""
    used, live = int(state.counts[L.TEXT_BYTES]), int(state.counts[L.TEXT_LIVE])
    if used <= 2 * live + slack_bytes:
        return state
    fresh = np.empty(2 * live + slack_bytes, np.uint8)
    state.counts[L.TEXT_BYTES] = move_texts(state, fresh)
    state.counts[L.TEXT_BYTES_LIMIT] = len(fresh)
    return state._replace(text_bytes=fresh)


def _note_limits(state: FoldState) -> None:
    limits = [len(getattr(state, name)) for name in L.USED]
    masks = [len(getattr(state, slots)) - 1 for slots, _ in _SLOTS.values()]
    state.counts[L.KEY_LIMIT : L.PENDING_MASK + 1] = limits + masks


def _slots_for(rows: int) -> int:
    """Four times the rows, as a power of two: most probes end at the first slot."""
    return 1 << (4 * rows - 1).bit_length()


def _resized(array: npt.NDArray[Any], length: int, used: int) -> npt.NDArray[Any]:
    if array.shape[1:] == (L.KEY_COLUMNS,):
        fresh: npt.NDArray[Any] = _aligned(length, L.KEY_COLUMNS)
    else:
        fresh = np.empty((length, *array.shape[1:]), array.dtype)
    fresh[:used] = array[:used]
    return fresh


def _aligned(length: int, columns: int) -> Int64s:
    """Rows aligned with cache lines."""
    room = np.empty(length * columns + 8, np.int64)
    start = -room.ctypes.data % 64 // 8
    return room[start : start + length * columns].reshape(length, columns)


@compiled
def fill_key_slots(arrays: FoldState) -> None:
    state = view_of(arrays)
    mask = len(arrays.key_slots) - 1
    for row in range(state.counts[L.KEYS]):
        hashed = hash_span(state, state.key_bytes, state.keys[row, L.KEY_AT], key_size(state, row))
        put_slot(state.key_slots, mask, hashed, row)


@compiled
def fill_group_slots(arrays: FoldState) -> None:
    state = view_of(arrays)
    mask = len(arrays.group_slots) - 1
    for row in range(state.counts[L.GROUPS]):
        hashed = hash_span(state, state.key_bytes, state.groups[row, L.GROUP_AT], state.groups[row, L.GROUP_LENGTH])
        put_slot(state.group_slots, mask, hashed, row)


@compiled
def fill_producer_slots(arrays: FoldState) -> None:
    state = view_of(arrays)
    mask = len(arrays.producer_slots) - 1
    for row in range(state.counts[L.PRODUCERS]):
        put_slot(state.producer_slots, mask, hash_numbers(state, state.producers[row, L.P_ID], 0), row)


@compiled
def fill_pending_slots(arrays: FoldState) -> None:
    state = view_of(arrays)
    mask, pending = len(arrays.pending_slots) - 1, state.pending
    for row in range(state.counts[L.PENDING]):
        if pending[row, L.PENDING_VALUES] != 0:
            place = pending_hash(state, row) & mask
            pending[row, L.NEXT_OF_SLOT] = state.pending_slots[place] - 1
            state.pending_slots[place] = row + 1


_SLOTS = {
    "keys": ("key_slots", fill_key_slots),
    "groups": ("group_slots", fill_group_slots),
    "producers": ("producer_slots", fill_producer_slots),
    "pending": ("pending_slots", fill_pending_slots),
}


@compiled
def move_texts(arrays: FoldState, fresh_array: Any) -> int:
    """Copy metadata that rows still refer to into `fresh_array`, point the rows there, and return the bytes used."""
    state, fresh = view_of(arrays), pointer(fresh_array)
    to = np.int64(0)
    for row in range(state.counts[L.KEYS]):
        if state.keys[row, L.LOG_OFFSET] != L.NONE:
            to = _move_text(state.keys, row, state.text_bytes, fresh, to)
        else:
            state.keys[row, L.TEXT_SIZE] = 0
    for row in range(state.counts[L.PENDING]):
        if state.pending[row, L.PENDING_VALUES] > 0:
            to = _move_text(state.pending, row, state.text_bytes, fresh, to)
    return to


@compiled
def _move_text(table: Any, row: int, old: Any, fresh: Any, to: int) -> int:
    at, size = table[row, L.TEXT_AT], table[row, L.TEXT_SIZE]
    copy_bytes(fresh, to, old, at, size)
    table[row, L.TEXT_AT] = to
    return to + size


@inlined
def is_full(counts: Any, need: int) -> bool:
    """Whether one more record, with `need` bytes of key and value, may not fit. Fast: it reads `counts` alone."""
    return (
        counts[L.KEYS] >= counts[L.KEY_LIMIT]
        or counts[L.KEY_BYTES] + GROWTH * need > counts[L.KEY_BYTES_LIMIT]
        or counts[L.TEXT_BYTES] + need > counts[L.TEXT_BYTES_LIMIT]
        or counts[L.GROUPS] >= counts[L.GROUP_LIMIT]
        or counts[L.PRODUCERS] >= counts[L.PRODUCER_LIMIT]
        or counts[L.PENDING] >= counts[L.PENDING_LIMIT]
        or counts[L.RECORDS] >= counts[L.RECORD_LIMIT]
        or counts[L.RECORD_BYTES] + need > counts[L.RECORD_BYTES_LIMIT]
    )
