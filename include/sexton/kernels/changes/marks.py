"""Marks batches that hold tombstones of offsets: only these are read record by record."""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

from sexton.jit.compiled import compiled
from sexton.jit.memory import be16, pointer
from sexton.kernels import layout as L
from sexton.kernels.decoding import read_head, read_varint
from sexton.kernels.layout import batches_of

HAS_REMOVAL, BEGINS_WITH_REMOVAL = 1, 2
"""Marks of a batch: it holds a tombstone of an offset; its first record is a tombstone of any type."""


@compiled
def mark_removals(source: Any, arena: Any, batch_rows: Any, marks: Any) -> None:
    """Mark the batches that hold tombstones, and those that compiled code cannot read."""
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
    """The marks of one batch: both if its records cannot be read."""
    found = 0
    for record in range(count):
        pos, _, _, at = read_head(data, pos, end)
        if at < 0:
            return HAS_REMOVAL | BEGINS_WITH_REMOVAL
        key_size, at = read_varint(data, at, pos)
        if at < 0 or key_size > pos - at:
            return HAS_REMOVAL | BEGINS_WITH_REMOVAL
        key = at
        value_size, at = read_varint(data, at + max(key_size, 0), pos)
        if at < 0:
            return HAS_REMOVAL | BEGINS_WITH_REMOVAL
        if value_size < 0 and key_size >= 2:
            if record == 0:
                found |= BEGINS_WITH_REMOVAL
            if be16(data, key) <= 1 and be16(data, key) >= 0:
                found |= HAS_REMOVAL
    return found
