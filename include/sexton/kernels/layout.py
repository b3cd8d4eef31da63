"""The growing state of a fold: flat arrays that compiled code can read, and the four hash tables over them.

Rows are int64 columns side by side, because a record touches most fields of one row and few rows. Strings lie in
arenas: `key_bytes` only grows, `text_bytes` (metadata) is compacted when most of it is garbage. A hash slot holds the
upper half of the hash and the row number plus one; 0 is empty. Nothing here knows what a record means: `apply` does.

Names and producer ids come from whoever may commit offsets, so the hash has a key that is drawn anew in every process:
nobody can choose names that share a slot. No order of rows depends on it, and it is never written.

A key's identity is the canonical form of its bytes behind the record type: group, topic, partition as
OffsetCommitKey writes them. Bytes that are found in the table are canonical, so only a miss has to look at UTF-8.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import copy_bytes, hash_bytes, hash_pair, pointer, rows, same_bytes
from sexton.kernels.text import GROWTH, canonicalise, is_canonical

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

NONE = -(1 << 63)
"""No log_offset: damaged batches may carry any other number."""

# counts: used rows and bytes of each array, what has been counted so far, the profile's rules, the arrays' lengths
(
    KEYS,
    KEY_BYTES,
    TEXT_BYTES,
    TEXT_LIVE,
    GROUPS,
    PRODUCERS,
    PENDING,
    FREE_PENDING,
    RECORDS,
    RECORD_BYTES,
    NEED,
    TOMBSTONED,
    ABORTED,
    SEEN_RECORDS,
    SEEN_CONTROL,
    SEEN_VALUES,
    SEEN_TOMBSTONES,
    SEEN_LEGACY,
    SEEN_V4,
    MAX_COMMIT_MS,
    PENDING_RULE,
    TOMBSTONES_CANCEL_PENDING,
    SKIPS_UNKNOWN_TYPES,
    HIGHEST_VERSION,
    HIGHEST_LEGACY_VERSION,
    LEAKS_OPEN_TRANSACTIONS,
    KEEPS_EXPIRE_OF_MINUS_1,
    READS_TOPIC_IDS,
    KEY_LIMIT,
    KEY_BYTES_LIMIT,
    TEXT_BYTES_LIMIT,
    GROUP_LIMIT,
    PRODUCER_LIMIT,
    PENDING_LIMIT,
    RECORD_LIMIT,
    RECORD_BYTES_LIMIT,
    KEY_MASK,
    GROUP_MASK,
    PRODUCER_MASK,
    PENDING_MASK,
    FIRST_HASH_KEY,
    SECOND_HASH_KEY,
    COUNTS,
) = range(43)
FIRST_RULE, RULES_END = PENDING_RULE, READS_TOPIC_IDS + 1
"""What a profile decides (`rules`); a highest version of -1 is that of a type that is not read."""
PENDING_NEVER, PENDING_WITH_PRODUCER_ID, PENDING_IF_TRANSACTIONAL = range(3)

# keys: one row per (group, topic, partition)
# two cache lines a row. KEY_SIZES holds the size of the key, and that of its group id in the upper half
KEY_AT, KEY_SIZES, KEY_GROUP, KEY_PENDING, LAST_TOMBSTONE, SINCE, LOG_OFFSET, PRODUCER_ID = range(8)
VALUE = 8
"""First of the columns of a value, in `keys` and in `pending` alike."""
COMMITTED, LEADER_EPOCH, TEXT_AT, TEXT_SIZE, COMMIT_MS, EXPIRE_MS, TOPIC_ID_HIGH, TOPIC_ID_LOW = range(8, 16)
VALUE_END = 16
KEY_COLUMNS = VALUE_END

# pending: the newest pending value of one producer and key; rows are linked per producer, per key, and per slot of
# `pending_slots`, where they are found by both. A W_COUNT of LEAKED is no value: a producer's transaction that Kafka
# 4.0.0 takes for open for the group of the key, because a tombstone has cancelled what it had. There is one for each
# producer and group, found by these alone
PENDING_KEY, PENDING_PRODUCER, NEXT_OF_PRODUCER, PREV_OF_PRODUCER, NEXT_OF_KEY, PREV_OF_KEY = range(6)
PENDING_LOG_OFFSET, PENDING_VALUES = range(6, 8)
LEAKED = -1
PENDING_TIMESTAMP, PENDING_EPOCH, NEXT_OF_SLOT = range(VALUE_END, VALUE_END + 3)
PENDING_COLUMNS = VALUE_END + 3

# groups: every group id seen; LAST_VALUE is the log_offset of its last offset value of any kind, COMMITS counts its
# offset values and their tombstones
GROUP_AT, GROUP_LENGTH, LAST_VALUE, COMMITS = range(4)
GROUP_COLUMNS = 4

# producers: what is open since the last end marker, and the first marker (-1 none, else MARKER_ABORT or MARKER_COMMIT)
P_ID, P_EPOCH, P_FIRST, P_LAST, P_FIRST_MS, P_CANCELLED, P_PENDING, P_MARKER, P_MARKER_AT = range(9)
PRODUCER_COLUMNS = 9
MARKER_ABORT, MARKER_COMMIT = 0, 1

# records: group records in order; the value's bytes follow the key's (VALUE_SIZE -1: a tombstone)
R_LOG_OFFSET, R_BASE_OFFSET, R_GROUP, R_LAST_VALUE, R_AT, R_KEY_SIZE, R_VALUE_SIZE = range(7)
RECORD_COLUMNS = 7


ROW_TABLES = {"keys": KEYS, "groups": GROUPS, "producers": PRODUCERS, "pending": PENDING, "records": RECORDS}
ARENAS = {"key_bytes": KEY_BYTES, "text_bytes": TEXT_BYTES, "record_bytes": RECORD_BYTES}
"""Where `counts` keeps how much of each is used."""


_HASH_KEYS = np.frombuffer(secrets.token_bytes(16), np.int64) | 1


class State(NamedTuple):
    """All arrays of one fold; compiled functions take it whole."""

    counts: Int64s
    key_slots: Int64s
    keys: Int64s
    key_bytes: Bytes
    text_bytes: Bytes
    group_slots: Int64s
    groups: Int64s
    producer_slots: Int64s
    producers: Int64s
    pending_slots: Int64s
    pending: Int64s
    records: Int64s
    record_bytes: Bytes
    unknown_types: Int64s
    """How often each record type that the coordinator does not know was seen, by its 16 bits."""


class View(NamedTuple):
    """The same as pointers; made once per call of an entry function."""

    counts: Any
    key_slots: Any
    keys: Any
    key_bytes: Any
    text_bytes: Any
    group_slots: Any
    groups: Any
    producer_slots: Any
    producers: Any
    pending_slots: Any
    pending: Any
    records: Any
    record_bytes: Any
    unknown_types: Any


@compiled
def view_of(state: State) -> View:
    """Pointers into the arrays of `state`."""
    return View(
        pointer(state.counts),
        pointer(state.key_slots),
        rows(state.keys, KEY_COLUMNS),
        pointer(state.key_bytes),
        pointer(state.text_bytes),
        pointer(state.group_slots),
        rows(state.groups, GROUP_COLUMNS),
        pointer(state.producer_slots),
        rows(state.producers, PRODUCER_COLUMNS),
        pointer(state.pending_slots),
        rows(state.pending, PENDING_COLUMNS),
        rows(state.records, RECORD_COLUMNS),
        pointer(state.record_bytes),
        pointer(state.unknown_types),
    )


def new_state(*, keys: int = 1024) -> State:
    """An empty state with room for about `keys` keys before it first grows."""
    state = State(
        counts=np.zeros(COUNTS, np.int64),
        key_slots=np.zeros(_slots_for(keys), np.int64),
        keys=_aligned(keys, KEY_COLUMNS),
        key_bytes=np.empty(64 * keys, np.uint8),
        text_bytes=np.empty(16 * keys, np.uint8),
        group_slots=np.zeros(_slots_for(256), np.int64),
        groups=np.empty((256, GROUP_COLUMNS), np.int64),
        producer_slots=np.zeros(_slots_for(64), np.int64),
        producers=np.empty((64, PRODUCER_COLUMNS), np.int64),
        pending_slots=np.zeros(_slots_for(64), np.int64),
        pending=np.empty((64, PENDING_COLUMNS), np.int64),
        records=np.empty((64, RECORD_COLUMNS), np.int64),
        record_bytes=np.empty(4096, np.uint8),
        unknown_types=np.zeros(1 << 16, np.int64),
    )
    state.counts[FREE_PENDING] = -1
    state.counts[MAX_COMMIT_MS] = NONE
    state.counts[[FIRST_HASH_KEY, SECOND_HASH_KEY]] = _HASH_KEYS
    _note_limits(state)
    return state


def copy_state(state: State) -> State:
    """A state of its own with the same contents."""
    arrays: dict[str, Any] = {name: array.copy() for name, array in state._asdict().items()}
    return State(**arrays)


def grow(state: State, need: int) -> State:
    """Room for at least one more row of everything and `need` more bytes in every arena."""
    return reserve(state, rows=dict.fromkeys(ROW_TABLES, 1), sizes=dict.fromkeys(ARENAS, need))


def used_by(state: State) -> tuple[dict[str, int], dict[str, int]]:
    """What `reserve` has to be asked for before everything of `state` is joined to another one: rows and bytes."""
    sizes = {name: int(state.counts[used]) for name, used in ARENAS.items()}
    sizes["key_bytes"] += int(state.groups[: state.counts[GROUPS], GROUP_LENGTH].sum())  # once by itself, once in keys
    return {name: int(state.counts[used]) for name, used in ROW_TABLES.items()}, sizes


def reserve(state: State, *, rows: Mapping[str, int], sizes: Mapping[str, int]) -> State:
    """Room for that many more rows of each table and bytes of each arena; the state itself where it has them all."""
    used = state.counts
    bigger: dict[str, npt.NDArray[Any]] = {}
    for name, more in rows.items():
        table, filled = getattr(state, name), int(used[ROW_TABLES[name]])
        if filled + more > len(table):
            bigger[name] = _resized(table, max(2 * len(table), filled + more), filled)
    for name, more in sizes.items():
        arena, filled = getattr(state, name), int(used[ARENAS[name]])
        if filled + more > len(arena):
            bigger[name] = _resized(arena, max(2 * len(arena), filled + more), filled)
    state = state._replace(**bigger)
    for name, (slots, fill) in _SLOTS.items():
        if name in bigger:
            state = state._replace(**{slots: _no_slots(bigger[name])})
            fill(state)
    _note_limits(state)
    return state


def compact_texts(state: State, *, slack_bytes: int = 1 << 20) -> State:
    """Drop metadata that no row holds any more, once it is most of the arena."""
    used, live = int(state.counts[TEXT_BYTES]), int(state.counts[TEXT_LIVE])
    if used <= 2 * live + slack_bytes:
        return state
    fresh = np.empty(2 * live + slack_bytes, np.uint8)
    state.counts[TEXT_BYTES] = move_texts(state, fresh)
    state.counts[TEXT_BYTES_LIMIT] = len(fresh)
    return state._replace(text_bytes=fresh)


def _note_limits(state: State) -> None:
    state.counts[KEY_LIMIT : PENDING_MASK + 1] = [
        len(state.keys),
        len(state.key_bytes),
        len(state.text_bytes),
        len(state.groups),
        len(state.producers),
        len(state.pending),
        len(state.records),
        len(state.record_bytes),
        len(state.key_slots) - 1,
        len(state.group_slots) - 1,
        len(state.producer_slots) - 1,
        len(state.pending_slots) - 1,
    ]


def _no_slots(table: npt.NDArray[Any]) -> Any:
    return np.zeros(_slots_for(len(table)), np.int64)


def _slots_for(rows: int) -> int:
    """Four times the rows, as a power of two: most probes find their row, or none, in the first slot."""
    return 1 << (4 * rows - 1).bit_length()


def _resized(array: npt.NDArray[Any], length: int, used: int) -> npt.NDArray[Any]:
    if array.shape[1:] == (KEY_COLUMNS,):
        fresh: npt.NDArray[Any] = _aligned(length, KEY_COLUMNS)
    else:
        fresh = np.empty((length, *array.shape[1:]), array.dtype)
    fresh[:used] = array[:used]
    return fresh


def _aligned(length: int, columns: int) -> Int64s:
    """Rows that begin where cache lines do."""
    room = np.empty(length * columns + 8, np.int64)
    start = -room.ctypes.data % 64 // 8
    return room[start : start + length * columns].reshape(length, columns)


@compiled
def fill_key_slots(arrays: State) -> None:
    state = view_of(arrays)
    mask = len(arrays.key_slots) - 1
    for row in range(state.counts[KEYS]):
        hashed = hash_span(state, state.key_bytes, state.keys[row, KEY_AT], key_size(state, row))
        _put(state.key_slots, mask, hashed, row)


@compiled
def fill_group_slots(arrays: State) -> None:
    state = view_of(arrays)
    mask = len(arrays.group_slots) - 1
    for row in range(state.counts[GROUPS]):
        hashed = hash_span(state, state.key_bytes, state.groups[row, GROUP_AT], state.groups[row, GROUP_LENGTH])
        _put(state.group_slots, mask, hashed, row)


@compiled
def fill_producer_slots(arrays: State) -> None:
    state = view_of(arrays)
    mask = len(arrays.producer_slots) - 1
    for row in range(state.counts[PRODUCERS]):
        _put(state.producer_slots, mask, hash_numbers(state, state.producers[row, P_ID], 0), row)


@compiled
def fill_pending_slots(arrays: State) -> None:
    state = view_of(arrays)
    mask, pending = len(arrays.pending_slots) - 1, state.pending
    for row in range(state.counts[PENDING]):
        if pending[row, PENDING_VALUES] != 0:
            place = pending_hash(state, row) & mask
            pending[row, NEXT_OF_SLOT] = state.pending_slots[place] - 1
            state.pending_slots[place] = row + 1


_SLOTS = {
    "keys": ("key_slots", fill_key_slots),
    "groups": ("group_slots", fill_group_slots),
    "producers": ("producer_slots", fill_producer_slots),
    "pending": ("pending_slots", fill_pending_slots),
}


@inlined
def hash_span(state: View, data: Any, start: int, size: int) -> int:
    """The hash of a span of bytes under the keys of this state."""
    return hash_bytes(state.counts[FIRST_HASH_KEY], state.counts[SECOND_HASH_KEY], data, start, size)


@inlined
def hash_numbers(state: View, left: int, right: int) -> int:
    """The hash of two integers under the keys of this state."""
    return hash_pair(state.counts[FIRST_HASH_KEY], state.counts[SECOND_HASH_KEY], left, right)


@compiled
def pending_hash(state: View, row: int) -> int:
    """The hash by which a row of `pending` is found: of producer and key, or group where it is LEAKED."""
    key, producer = state.pending[row, PENDING_KEY], state.pending[row, PENDING_PRODUCER]
    if state.pending[row, PENDING_VALUES] == LEAKED:
        return hash_numbers(state, -1 - state.keys[key, KEY_GROUP], producer)
    return hash_numbers(state, key, producer)


@compiled
def find_pending(state: View, key: int, producer: int) -> int:
    """Row of the pending value of a producer and key, or -1."""
    pending = state.pending
    row = state.pending_slots[hash_numbers(state, key, producer) & state.counts[PENDING_MASK]] - 1
    while row >= 0:
        if (
            pending[row, PENDING_KEY] == key
            and pending[row, PENDING_PRODUCER] == producer
            and pending[row, PENDING_VALUES] != LEAKED
        ):
            return row
        row = pending[row, NEXT_OF_SLOT]
    return -1


@compiled
def find_leak(state: View, group: int, producer: int) -> int:
    """Row of the transaction that a producer has leaked for a group, or -1."""
    pending = state.pending
    row = state.pending_slots[hash_numbers(state, -1 - group, producer) & state.counts[PENDING_MASK]] - 1
    while row >= 0:
        is_leak = pending[row, PENDING_VALUES] == LEAKED and pending[row, PENDING_PRODUCER] == producer
        if is_leak and state.keys[pending[row, PENDING_KEY], KEY_GROUP] == group:
            return row
        row = pending[row, NEXT_OF_SLOT]
    return -1


@compiled
def _put(slots: Any, mask: int, hashed: int, row: int) -> None:
    at = hashed & mask
    while slots[at] != 0:
        at = (at + 1) & mask
    slots[at] = (hashed & -(1 << 32)) | (row + 1)


@compiled
def move_texts(arrays: State, fresh_array: Any) -> int:
    """Copy the metadata that rows still hold to `fresh_array` and point the rows there; return the bytes used."""
    state, fresh = view_of(arrays), pointer(fresh_array)
    to = np.int64(0)
    for row in range(state.counts[KEYS]):
        if state.keys[row, LOG_OFFSET] != NONE:
            to = _move_text(state.keys, row, state.text_bytes, fresh, to)
        else:
            state.keys[row, TEXT_SIZE] = 0
    for row in range(state.counts[PENDING]):
        if state.pending[row, PENDING_VALUES] > 0:
            to = _move_text(state.pending, row, state.text_bytes, fresh, to)
    return to


@compiled
def _move_text(table: Any, row: int, old: Any, fresh: Any, to: int) -> int:
    at, size = table[row, TEXT_AT], table[row, TEXT_SIZE]
    copy_bytes(fresh, to, old, at, size)
    table[row, TEXT_AT] = to
    return to + size


@compiled
def key_size(state: View, row: int) -> int:
    """Bytes of a key in `key_bytes`."""
    return state.keys[row, KEY_SIZES] & 0xFFFFFFFF


@compiled
def key_group_size(state: View, row: int) -> int:
    """Bytes of the group id of a key, which lies behind two bytes of length."""
    return state.keys[row, KEY_SIZES] >> 32


@inlined
def is_key(state: View, row: int, data: Any, start: int, size: int, group_size: int) -> bool:
    """Whether `row`, any number, is that of the key whose canonical bytes are the span."""
    return (
        0 <= row < state.counts[KEYS]
        and state.keys[row, KEY_SIZES] == group_size << 32 | size
        and same_bytes(state.key_bytes, state.keys[row, KEY_AT], data, start, size)
    )


@compiled
def find_key(state: View, hashed: int, data: Any, start: int, size: int, group_size: int) -> int:
    """Row of the key whose canonical bytes are the span, or -1."""
    slots, keys, mask = state.key_slots, state.keys, state.counts[KEY_MASK]
    sizes = group_size << 32 | size
    at = hashed & mask
    while True:
        slot = slots[at]
        if slot == 0:
            return -1
        if (slot ^ hashed) >> 32 == 0:
            row = (slot & 0xFFFFFFFF) - 1
            if keys[row, KEY_SIZES] == sizes and same_bytes(state.key_bytes, keys[row, KEY_AT], data, start, size):
                return row
        at = (at + 1) & mask


@compiled
def add_key(state: View, data: Any, start: int, group_size: int, topic_size: int) -> int:
    """Row of the key at `start`, which was not found by its raw bytes: canonicalise, look again, else append it."""
    counts, out = state.counts, state.key_bytes
    at = counts[KEY_BYTES]
    size = group_size + topic_size + 8
    topic_at = start + 4 + group_size
    if is_canonical(data, start + 2, group_size) and is_canonical(data, topic_at, topic_size):
        copy_bytes(out, at, data, start, size)
        group_bytes = group_size
    else:
        group_bytes = canonicalise(data, start + 2, group_size, out, at + 2)
        _put_size(out, at, group_bytes)
        topic_bytes = canonicalise(data, topic_at, topic_size, out, at + 4 + group_bytes)
        _put_size(out, at + 2 + group_bytes, topic_bytes)
        end = at + 4 + group_bytes + topic_bytes
        copy_bytes(out, end, data, start + size - 4, 4)
        size = end + 4 - at
        hashed = hash_span(state, out, at, size)
        row = find_key(state, hashed, out, at, size, group_bytes)
        if row >= 0:
            return row
    row = counts[KEYS]
    counts[KEYS] += 1
    counts[KEY_BYTES] = at + size
    _put(state.key_slots, counts[KEY_MASK], hash_span(state, out, at, size), row)
    state.keys[row, KEY_AT] = at
    state.keys[row, KEY_SIZES] = group_bytes << 32 | size
    state.keys[row, KEY_GROUP] = group_row(state, at + 2, group_bytes)
    state.keys[row, KEY_PENDING] = -1
    state.keys[row, LAST_TOMBSTONE] = NONE
    state.keys[row, SINCE] = 0
    state.keys[row, LOG_OFFSET] = NONE
    state.keys[row, PRODUCER_ID] = -1
    for column in range(VALUE, KEY_COLUMNS):
        state.keys[row, column] = 0
    return row


@compiled
def _put_size(out: Any, at: int, size: int) -> None:
    """A length of two bytes; beyond 32767 it only has to be the same for the same string."""
    out[at] = (size >> 8) & 0xFF
    out[at + 1] = size & 0xFF


@compiled
def group_row(state: View, at: int, size: int) -> int:
    """Row of the group whose canonical id is the span of `key_bytes`, appended when it is new."""
    hashed = hash_span(state, state.key_bytes, at, size)
    slots, groups, mask = state.group_slots, state.groups, state.counts[GROUP_MASK]
    place = hashed & mask
    while slots[place] != 0:
        if (slots[place] ^ hashed) >> 32 == 0:
            row = (slots[place] & 0xFFFFFFFF) - 1
            if groups[row, GROUP_LENGTH] == size and same_bytes(
                state.key_bytes, groups[row, GROUP_AT], state.key_bytes, at, size
            ):
                return row
        place = (place + 1) & mask
    row = state.counts[GROUPS]
    state.counts[GROUPS] += 1
    slots[place] = (hashed & -(1 << 32)) | (row + 1)
    groups[row, GROUP_AT] = at
    groups[row, GROUP_LENGTH] = size
    groups[row, LAST_VALUE] = NONE
    groups[row, COMMITS] = 0
    return row


@compiled
def add_group(state: View, data: Any, start: int, size: int) -> int:
    """Row of the group whose raw id is the span of `data`; its canonical id is kept in `key_bytes` when it is new."""
    at = state.counts[KEY_BYTES]
    if is_canonical(data, start, size):
        copy_bytes(state.key_bytes, at, data, start, size)
        length = size
    else:
        length = canonicalise(data, start, size, state.key_bytes, at)
    known = state.counts[GROUPS]
    row = group_row(state, at, length)
    if row == known:
        state.counts[KEY_BYTES] = at + length
    return row


@compiled
def find_producer(state: View, producer_id: int) -> int:
    """Row of a producer, or -1."""
    slots, producers, mask = state.producer_slots, state.producers, state.counts[PRODUCER_MASK]
    place = hash_numbers(state, producer_id, 0) & mask
    while slots[place] != 0:
        row = (slots[place] & 0xFFFFFFFF) - 1
        if producers[row, P_ID] == producer_id:
            return row
        place = (place + 1) & mask
    return -1


@compiled
def producer_row(state: View, producer_id: int) -> int:
    """Row of a producer, appended when it is new."""
    hashed = hash_numbers(state, producer_id, 0)
    slots, producers, mask = state.producer_slots, state.producers, state.counts[PRODUCER_MASK]
    place = hashed & mask
    while slots[place] != 0:
        row = (slots[place] & 0xFFFFFFFF) - 1
        if producers[row, P_ID] == producer_id:
            return row
        place = (place + 1) & mask
    row = state.counts[PRODUCERS]
    state.counts[PRODUCERS] += 1
    slots[place] = (hashed & -(1 << 32)) | (row + 1)
    producers[row, P_ID] = producer_id
    producers[row, P_EPOCH] = -1
    producers[row, P_FIRST] = NONE
    producers[row, P_LAST] = NONE
    producers[row, P_FIRST_MS] = NONE
    producers[row, P_CANCELLED] = 0
    producers[row, P_PENDING] = -1
    producers[row, P_MARKER] = -1
    producers[row, P_MARKER_AT] = NONE
    return row


@inlined
def is_full(counts: Any, need: int) -> bool:
    """Whether one more record whose key and value take `need` bytes may not fit. Reads `counts` alone: it is hot."""
    return (
        counts[KEYS] >= counts[KEY_LIMIT]
        or counts[KEY_BYTES] + GROWTH * need > counts[KEY_BYTES_LIMIT]
        or counts[TEXT_BYTES] + need > counts[TEXT_BYTES_LIMIT]
        or counts[GROUPS] >= counts[GROUP_LIMIT]
        or counts[PRODUCERS] >= counts[PRODUCER_LIMIT]
        or counts[PENDING] >= counts[PENDING_LIMIT]
        or counts[RECORDS] >= counts[RECORD_LIMIT]
        or counts[RECORD_BYTES] + need > counts[RECORD_BYTES_LIMIT]
    )
