"""The hash tables over the rows of a fold: find and append keys, groups, producers and pending values.

A key's identity is the canonical form of its bytes after the record type: group, topic and partition as OffsetCommitKey
writes them. All bytes in the table are canonical, so only a miss has to decode UTF-8.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import copy_bytes, hash_bytes, hash_pair, same_bytes
from sexton.kernels import layout as L
from sexton.kernels.layout import View
from sexton.kernels.text import canonicalise, is_canonical


@inlined
def hash_span(state: View, data: Any, start: int, size: int) -> int:
    """The hash of a span of bytes, with the hash keys of this state."""
    return hash_bytes(state.counts[L.FIRST_HASH_KEY], state.counts[L.SECOND_HASH_KEY], data, start, size)


@inlined
def hash_numbers(state: View, left: int, right: int) -> int:
    """The hash of two integers, with the hash keys of this state."""
    return hash_pair(state.counts[L.FIRST_HASH_KEY], state.counts[L.SECOND_HASH_KEY], left, right)


@compiled
def pending_hash(state: View, row: int) -> int:
    """The hash of a row of `pending`: that of its producer and key, or of its producer and group if it is LEAKED."""
    key, producer = state.pending[row, L.PENDING_KEY], state.pending[row, L.PENDING_PRODUCER]
    if state.pending[row, L.PENDING_VALUES] == L.LEAKED:
        return hash_numbers(state, -1 - state.keys[key, L.KEY_GROUP], producer)
    return hash_numbers(state, key, producer)


@compiled
def find_pending(state: View, key: int, producer: int) -> int:
    """Row of the pending value of a producer and key, or -1."""
    pending = state.pending
    row = state.pending_slots[hash_numbers(state, key, producer) & state.counts[L.PENDING_MASK]] - 1
    while row >= 0:
        if (
            pending[row, L.PENDING_KEY] == key
            and pending[row, L.PENDING_PRODUCER] == producer
            and pending[row, L.PENDING_VALUES] != L.LEAKED
        ):
            return row
        row = pending[row, L.NEXT_OF_SLOT]
    return -1


@compiled
def find_leak(state: View, group: int, producer: int) -> int:
    """Row of the transaction that a producer has leaked for a group, or -1."""
    pending = state.pending
    row = state.pending_slots[hash_numbers(state, -1 - group, producer) & state.counts[L.PENDING_MASK]] - 1
    while row >= 0:
        is_leak = pending[row, L.PENDING_VALUES] == L.LEAKED and pending[row, L.PENDING_PRODUCER] == producer
        if is_leak and state.keys[pending[row, L.PENDING_KEY], L.KEY_GROUP] == group:
            return row
        row = pending[row, L.NEXT_OF_SLOT]
    return -1


@compiled
def put_slot(slots: Any, mask: int, hashed: int, row: int) -> None:
    at = hashed & mask
    while slots[at] != 0:
        at = (at + 1) & mask
    slots[at] = (hashed & -(1 << 32)) | (row + 1)


@compiled
def key_size(state: View, row: int) -> int:
    """Bytes of a key in `key_bytes`."""
    return state.keys[row, L.KEY_SIZES] & 0xFFFFFFFF


@compiled
def key_group_size(state: View, row: int) -> int:
    """Bytes of the group id of a key, which follows two bytes of length."""
    return state.keys[row, L.KEY_SIZES] >> 32


@inlined
def is_key(state: View, row: int, data: Any, start: int, size: int, group_size: int) -> bool:
    """Whether `row`, which may be any number, is the row of the key whose canonical bytes are the span."""
    return (
        0 <= row < state.counts[L.KEYS]
        and state.keys[row, L.KEY_SIZES] == group_size << 32 | size
        and same_bytes(state.key_bytes, state.keys[row, L.KEY_AT], data, start, size)
    )


@compiled
def find_key(state: View, hashed: int, data: Any, start: int, size: int, group_size: int) -> int:
    """Row of the key whose canonical bytes are the span, or -1."""
    slots, keys, mask = state.key_slots, state.keys, state.counts[L.KEY_MASK]
    sizes = group_size << 32 | size
    at = hashed & mask
    while True:
        slot = slots[at]
        if slot == 0:
            return -1
        if (slot ^ hashed) >> 32 == 0:
            row = (slot & 0xFFFFFFFF) - 1
            if keys[row, L.KEY_SIZES] == sizes and same_bytes(state.key_bytes, keys[row, L.KEY_AT], data, start, size):
                return row
        at = (at + 1) & mask


@compiled
def add_key(state: View, data: Any, start: int, group_size: int, topic_size: int) -> int:
    """Row of the key at `start`, which was not found by its raw bytes: found by its canonical bytes, or appended."""
    counts, out = state.counts, state.key_bytes
    at = counts[L.KEY_BYTES]
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
    row = append_key(state, at, group_bytes, size)
    put_slot(state.key_slots, counts[L.KEY_MASK], hash_span(state, out, at, size), row)
    return row


@compiled
def append_key(state: View, at: int, group_size: int, size: int) -> int:
    """Row of a new key whose canonical bytes are at the end of `key_bytes`; it has no hash slot yet."""
    row = state.counts[L.KEYS]
    state.counts[L.KEYS] += 1
    state.counts[L.KEY_BYTES] = at + size
    state.keys[row, L.KEY_AT] = at
    state.keys[row, L.KEY_SIZES] = group_size << 32 | size
    state.keys[row, L.KEY_GROUP] = group_row(state, at + 2, group_size)
    state.keys[row, L.KEY_PENDING] = -1
    state.keys[row, L.LAST_TOMBSTONE] = L.NONE
    state.keys[row, L.SINCE] = 0
    state.keys[row, L.LOG_OFFSET] = L.NONE
    state.keys[row, L.PRODUCER_ID] = -1
    for column in range(L.VALUE, L.KEY_COLUMNS):
        state.keys[row, column] = 0
    return row


@compiled
def _put_size(out: Any, at: int, size: int) -> None:
    """Write a length in two bytes. Above 32767 it need not be right, only the same for equal strings."""
    out[at] = (size >> 8) & 0xFF
    out[at + 1] = size & 0xFF


@compiled
def find_group(state: View, data: Any, start: int, size: int) -> int:
    """Row of the group whose canonical id is the span of `data`, or -1."""
    hashed = hash_span(state, data, start, size)
    slots, groups, mask = state.group_slots, state.groups, state.counts[L.GROUP_MASK]
    at = hashed & mask
    while slots[at] != 0:
        row = (slots[at] & 0xFFFFFFFF) - 1
        is_like = (slots[at] ^ hashed) >> 32 == 0 and groups[row, L.GROUP_LENGTH] == size
        if is_like and same_bytes(state.key_bytes, groups[row, L.GROUP_AT], data, start, size):
            return row
        at = (at + 1) & mask
    return -1


@compiled
def group_row(state: View, at: int, size: int) -> int:
    """Row of the group whose canonical id is the span of `key_bytes`, appended when it is new."""
    row, groups = find_group(state, state.key_bytes, at, size), state.groups
    if row >= 0:
        return row
    row = state.counts[L.GROUPS]
    state.counts[L.GROUPS] += 1
    put_slot(state.group_slots, state.counts[L.GROUP_MASK], hash_span(state, state.key_bytes, at, size), row)
    groups[row, L.GROUP_AT] = at
    groups[row, L.GROUP_LENGTH] = size
    groups[row, L.LAST_VALUE] = L.NONE
    groups[row, L.COMMITS] = 0
    return row


@compiled
def add_group(state: View, data: Any, start: int, size: int) -> int:
    """Row of the group whose raw id is the span of `data`; its canonical id is kept in `key_bytes` when it is new."""
    at = state.counts[L.KEY_BYTES]
    if is_canonical(data, start, size):
        copy_bytes(state.key_bytes, at, data, start, size)
        length = size
    else:
        length = canonicalise(data, start, size, state.key_bytes, at)
    known = state.counts[L.GROUPS]
    row = group_row(state, at, length)
    if row == known:
        state.counts[L.KEY_BYTES] = at + length
    return row


@compiled
def find_producer(state: View, producer_id: int) -> int:
    """Row of a producer, or -1."""
    slots, producers, mask = state.producer_slots, state.producers, state.counts[L.PRODUCER_MASK]
    place = hash_numbers(state, producer_id, 0) & mask
    while slots[place] != 0:
        row = (slots[place] & 0xFFFFFFFF) - 1
        if producers[row, L.P_ID] == producer_id:
            return row
        place = (place + 1) & mask
    return -1


@compiled
def producer_row(state: View, producer_id: int) -> int:
    """Row of a producer, appended when it is new."""
    row, producers = find_producer(state, producer_id), state.producers
    if row >= 0:
        return row
    row = state.counts[L.PRODUCERS]
    state.counts[L.PRODUCERS] += 1
    put_slot(state.producer_slots, state.counts[L.PRODUCER_MASK], hash_numbers(state, producer_id, 0), row)
    producers[row, L.P_ID] = producer_id
    producers[row, L.P_EPOCH] = -1
    producers[row, L.P_FIRST] = L.NONE
    producers[row, L.P_LAST] = L.NONE
    producers[row, L.P_FIRST_MS] = L.NONE
    producers[row, L.P_CANCELLED] = 0
    producers[row, L.P_PENDING] = -1
    producers[row, L.P_MARKER] = -1
    producers[row, L.P_MARKER_AT] = L.NONE
    return row
