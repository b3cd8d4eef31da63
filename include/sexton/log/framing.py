"""Finds where batches begin and end in the bytes of a segment: one compiled scan, for the plain reader and the kernels.

The scan never stops at bad bytes. At each position it decides, in this order:

- a batch with a good CRC whose base offset continues the batches before it: GOOD;
- a batch with a good CRC that is out of order (duplicated, swapped or renumbered: the CRC does not cover the base
  offset): DAMAGE. Where two neighbours contradict each other, the batch after both decides which one is wrong;
- a batch of plausible shape and position with a bad CRC, and no good batch begins inside it: BAD_CRC (a coordinator
  does not check the CRC and reads the batch);
- otherwise, the bytes up to the next good batch whose base offset is not below the offsets seen so far: DAMAGE;
- without such a batch, the rest: TORN if it is zeros or a batch that runs past the end of the bytes, else DAMAGE.

So where a row begins depends only on the bytes before it, and a batch inside a record's value is not found.

The work is linear in the size of the segment. The CRC of a good batch is computed once. CRCs of bytes that only look
like a batch may read a limited number of bytes in total (_RESYNC_EFFORT). Once this budget is spent, the rest of the
segment is DAMAGE from the next bytes on that are not a good batch.

Record formats are those of Kafka's DefaultRecordBatch (v2) and LegacyRecord (v0, v1). In compiled functions `data` is a
pointer to the segment and `size_bytes` its size, unless the docstring calls it an array.
"""

# Functions for numba have no type annotations that mypy could check.
# mypy: disable-error-code="no-untyped-def"

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sexton.jit.compiled import compiled
from sexton.jit.memory import be32, be64, pointer
from sexton.log.crc import U8Array, crc32_of, crc32c_of
from sexton.log.entry import (
    ATTRIBUTES_AT,
    COUNT_AT,
    CRC_AT,
    LAST_DELTA_AT,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LEGACY_TIMESTAMP_AT,
    MAGIC_AT,
    SIZE_AT,
)

FrameRows: TypeAlias = npt.NDArray[np.int64]

GOOD, BAD_CRC, DAMAGE, TORN = range(4)
# Why a row is DAMAGE.
NO_BATCH, OUT_OF_ORDER, TOO_MANY_FALSE_STARTS = range(3)
KIND, POSITION, SIZE, WHY = range(4)  # the columns of a row

_BLOCK_ROWS = 4096
_HEADER_BYTES = MAGIC_AT + 1  # of every format
# No real offset comes near this bound, below which offset arithmetic cannot overflow.
_MAX_OFFSET = 1 << 62
# Bytes to checksum in addition to good batches, per byte of the segment: keeps false starts from quadratic work.
_RESYNC_EFFORT = 8


@compiled
def _whole_size(data, size_bytes, at):
    """Size of the batch that the header at `at` claims, if all of it is in the bytes, else 0."""
    if at + _HEADER_BYTES > size_bytes:
        return 0
    base_offset = be64(data, at)
    magic = data[at + MAGIC_AT]
    body = be32(data, at + SIZE_AT)
    smallest = 49 if magic == 2 else (22 if magic == 1 else 14)
    if magic > 2 or body < smallest or base_offset < 0 or base_offset >= _MAX_OFFSET or at + 12 + body > size_bytes:
        return 0
    return 12 + body


@compiled
def _is_shaped(data, at, size):
    """Whether the fields of the whole batch at `at` agree with each other, as far as the header shows."""
    magic = data[at + MAGIC_AT]
    if magic == 2:
        last_delta = be32(data, at + LAST_DELTA_AT)
        count = be32(data, at + COUNT_AT)
        return data[at + ATTRIBUTES_AT] == 0 and last_delta >= 0 and 0 <= count <= last_delta + 1
    key_at = at + LEGACY_TIMESTAMP_AT + 8 * magic
    key_size = be32(data, key_at)
    value_at = key_at + 4 + max(key_size, 0)
    if data[at + LEGACY_ATTRIBUTES_AT] > 15 or key_size < -1 or value_at + 4 > at + size:
        return False
    value_size = be32(data, value_at)
    return value_size >= -1 and value_at + 4 + max(value_size, 0) == at + size


@compiled
def _is_crc_good(data, at, size):
    if data[at + MAGIC_AT] == 2:
        return (be32(data, at + CRC_AT) & np.int64(0xFFFFFFFF)) == np.int64(
            crc32c_of(data, at + ATTRIBUTES_AT, at + size)
        )
    return (be32(data, at + LEGACY_CRC_AT) & np.int64(0xFFFFFFFF)) == np.int64(crc32_of(data, at + MAGIC_AT, at + size))


@compiled
def _next_offset(data, at):
    """The offset after the good batch at `at`; an entry of v0 or v1 carries its last offset."""
    return be64(data, at) + (max(be32(data, at + LAST_DELTA_AT), 0) if data[at + MAGIC_AT] == 2 else 0) + 1


@compiled
def _find_good(data, size_bytes, start, limit, floor, budget):
    """First position in [start, limit) where a good batch at or above `floor` begins, and the budget left.

    The position is -1 when there is none, -2 when the budget ran out.
    """
    for at in range(start, limit):
        size = _whole_size(data, size_bytes, at)
        if size == 0 or be64(data, at) < floor or not _is_shaped(data, at, size):
            continue
        budget -= size
        if _is_crc_good(data, at, size):
            return at, budget
        if budget < 0:
            return -2, budget
    return -1, budget


@compiled
def _paid_size(data, size_bytes, at, budget):
    """Size of the batch at `at` if it is whole and its CRC is good, else 0; and the budget left after the checksum."""
    size = _whole_size(data, size_bytes, at)
    if size == 0:
        return 0, budget
    return (size if _is_crc_good(data, at, size) else 0), budget - size


@compiled
def _is_in_order(data, size_bytes, at, size, floor, budget):
    """Whether the good batch at `at` continues from `floor`, and no later good batch proves its base offset wrong.

    Also returns the remaining budget; without a budget, later batches are not read.
    """
    base_offset = be64(data, at)
    if base_offset < floor:
        return False, budget
    second = at + size
    if budget < 0 or _whole_size(data, size_bytes, second) == 0 or be64(data, second) >= _next_offset(data, at):
        return True, budget
    second_size, budget = _paid_size(data, size_bytes, second, budget)
    if second_size == 0:
        return True, budget
    end, second_base = _next_offset(data, at), be64(data, second)
    third = second + second_size
    third_size, budget = _paid_size(data, size_bytes, third, budget)
    if third_size == 0:
        return base_offset == floor or second_base < floor or second_base == base_offset, budget
    third_base = be64(data, third)
    if base_offset == floor or second_base <= floor:  # nothing is missing before the first, or it fits nowhere else
        return end <= third_base, budget
    # The first is right if the second fits between it and the third, and the second is not in its right place already.
    return end < third_base and _next_offset(data, second) != third_base, budget


@compiled
def _fits_in(data, size_bytes, at, size, floor, budget):
    """Whether the base offset of the bad batch at `at` lies between `floor` and the good batch after it, if any.

    Also returns the budget left.
    """
    base_offset = be64(data, at)
    second = at + size
    if base_offset < floor:
        return False, budget
    second_size, budget = _paid_size(data, size_bytes, second, budget)
    return second_size == 0 or be64(data, second) > base_offset, budget


@compiled
def _tail_kind(data, size_bytes, at, floor):
    """The kind of the last bytes, which no good batch follows: TORN or DAMAGE."""
    if at + _HEADER_BYTES > size_bytes:
        return TORN
    body = be32(data, at + SIZE_AT)
    if (
        data[at + MAGIC_AT] <= 2
        and body >= 14
        and at + 12 + body > size_bytes
        and floor <= be64(data, at) < _MAX_OFFSET
    ):
        return TORN
    for k in range(at, size_bytes):
        if data[k] != 0:
            return DAMAGE
    return TORN


@compiled
def _step(data, size_bytes, at, floor, budget):
    """Classify the bytes at `at`: (kind, size, why, floor, budget)."""
    size = _whole_size(data, size_bytes, at)
    if size > 0 and _is_crc_good(data, at, size):
        in_order, budget = _is_in_order(data, size_bytes, at, size, floor, budget)
        if in_order:
            return GOOD, size, 0, _next_offset(data, at), budget
        return DAMAGE, size, OUT_OF_ORDER, floor, budget
    budget -= size
    if budget < 0:
        return DAMAGE, size_bytes - at, TOO_MANY_FALSE_STARTS, floor, budget
    if size > 0 and _is_shaped(data, at, size):
        fits, budget = _fits_in(data, size_bytes, at, size, floor, budget)
        if fits:
            inside, budget = _find_good(data, size_bytes, at + 1, at + size, floor, budget)
            if inside == -1:
                return BAD_CRC, size, 0, be64(data, at) + 1, budget
    found, budget = _find_good(data, size_bytes, at + 1, size_bytes - _HEADER_BYTES, floor, budget)
    if found >= 0:
        return DAMAGE, found - at, NO_BATCH, floor, budget
    if found == -2:
        return DAMAGE, size_bytes - at, TOO_MANY_FALSE_STARTS, floor, budget
    return _tail_kind(data, size_bytes, at, floor), size_bytes - at, NO_BATCH, floor, budget


@compiled
def scan(data, start, end, floor, budget, rows):
    """Fill `rows` (int64: KIND, POSITION, SIZE, WHY) with everything that begins in [start, end) of the array `data`.

    Returns (rows filled, next position, floor, budget); the scan is complete when that position is at or after `end`. A
    batch or damage must begin at `start`, with the given floor and remaining budget (`first_frame`).
    """
    bytes_at, size_bytes = pointer(data), len(data)
    at, filled = start, 0
    while at < end and filled < len(rows):
        kind, size, why, floor, budget = _step(bytes_at, size_bytes, at, floor, budget)
        rows[filled, 0] = kind
        rows[filled, 1] = at
        rows[filled, 2] = size
        rows[filled, 3] = why
        filled += 1
        at += size
    return filled, at, floor, budget


@dataclass(frozen=True, slots=True)
class FramePosition:
    """A byte of a segment where a batch or damage begins, and the state of the scan there.

    `floor_offset` is the smallest possible log_offset, `budget` the remaining budget for false starts.
    """

    at: int
    floor_offset: int
    budget: int


def frames(
    data: U8Array, *, start: FramePosition | None = None, end: int | None = None, floor_offset: int = 0
) -> Iterator[FrameRows]:
    """Blocks of rows (KIND, POSITION, SIZE, WHY) for everything that begins in [start, end), in order, without a gap.

    `start` comes from `first_frame`; by default it is the beginning, where `floor_offset` is the smallest possible
    log_offset: a segment's base offset, or 0 when unknown.
    """
    place = start or beginning(data, floor_offset=floor_offset)
    at, floor, budget = place.at, place.floor_offset, place.budget
    stop = len(data) if end is None else min(end, len(data))
    while at < stop:
        rows = np.empty((_BLOCK_ROWS, 4), dtype=np.int64)
        filled, at, floor, budget = scan(data, at, stop, floor, budget, rows)
        yield rows[:filled]


def beginning(data: U8Array, *, floor_offset: int = 0) -> FramePosition:
    """The first byte of a segment, with the full budget."""
    return FramePosition(0, floor_offset, _RESYNC_EFFORT * len(data) + (1 << 20))


def first_frame(data: U8Array, start: int, *, floor_offset: int = 0) -> FramePosition:
    """Where the first batch (or damage) begins at or after `start`.

    The result is the same for every reader of the segment, so that readers of adjacent slices neither miss nor share a
    batch. All batches before that position are checksummed: a damaged header may point into a record's value, which can
    contain anything.
    """
    place = beginning(data, floor_offset=floor_offset)
    at, floor, budget = place.at, place.floor_offset, place.budget
    stop = min(start, len(data))
    rows = np.empty((_BLOCK_ROWS, 4), dtype=np.int64)
    while at < stop:
        _, at, floor, budget = scan(data, at, stop, floor, budget, rows)
    return FramePosition(int(at), int(floor), int(budget))
