"""Marks batches that hold tombstones of offsets: only these are read record by record."""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import be16, pointer
from sexton.kernels import layout as L
from sexton.kernels.layout import batches_of

HAS_REMOVAL, BEGINS_WITH_REMOVAL = 1, 2
"""Marks of a batch: it holds a tombstone of an offset; its first record is a tombstone of any type."""


@compiled
def mark_removals(source: Any, arena: Any, batch_rows: Any, marks: Any) -> None:
    """Mark the batches that hold tombstones, and those that cannot be read plainly."""
    in_place, inflated = pointer(source), pointer(arena)
    batches = batches_of(batch_rows)
    for batch in range(len(batch_rows)):
        where = batches[batch, L.B_SOURCE]
        if where == L.BY_READER:
            marks[batch] = HAS_REMOVAL | BEGINS_WITH_REMOVAL
        elif batches[batch, L.B_ATTRIBUTES] & L.CONTROL == 0:
            data = inflated if where == L.IN_ARENA else in_place
            marks[batch] = _marks(
                data, batches[batch, L.B_BODY], batches[batch, L.B_BODY_END], batches[batch, L.B_COUNT]
            )


@compiled
def _marks(data: Any, pos: int, end: int, count: int) -> int:
    found = 0
    for record in range(count):
        size, at = _varint(data, pos, end)
        if at < 0 or size < 1 or size > end - at:
            return HAS_REMOVAL | BEGINS_WITH_REMOVAL
        pos = at + size
        at = _skip_varint(data, _skip_varint(data, at + 1, pos), pos)
        key_size, at = _varint(data, at, pos)
        if at < 0 or key_size > pos - at:
            return HAS_REMOVAL | BEGINS_WITH_REMOVAL
        key = at
        value_size, at = _varint(data, at + max(key_size, 0), pos)
        if at < 0:
            return HAS_REMOVAL | BEGINS_WITH_REMOVAL
        if value_size < 0 and key_size >= 2:
            if record == 0:
                found |= BEGINS_WITH_REMOVAL
            if be16(data, key) <= 1 and be16(data, key) >= 0:
                found |= HAS_REMOVAL
    return found


@compiled
def _varint(data: Any, pos: int, end: int) -> tuple[int, int]:
    """Zigzag varint and the position after it; -1 there when it is not one, or when `pos` is -1."""
    value, shift = np.int64(0), 0
    while 0 <= pos < end and shift < 35:
        byte = np.int64(data[pos])
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
    return 0, -1


@compiled
def _skip_varint(data: Any, pos: int, end: int) -> int:
    """The position after a varint of any length; -1 when it does not end before `end`."""
    while 0 <= pos < end:
        if data[pos] < 0x80:
            return pos + 1
        pos += 1
    return -1
