"""Where batches begin and end in the bytes of a segment: one compiled scan, for the plain reader and the kernels.

The scan never stops at bad bytes. At each place it decides, in this order:

- a batch with a good CRC whose base offset goes on from the batches before it: GOOD;
- the same, but out of order (a duplicated, swapped or renumbered batch: the base offset is outside the CRC): DAMAGE.
  Where two neighbours contradict each other, the batch after them says which one is wrong;
- a batch of believable shape and place with a bad CRC, and no good batch begins inside it: BAD_CRC (a coordinator
  does not check it and reads on);
- otherwise the next place where a good batch begins, not below the offsets seen so far: DAMAGE up to there;
- no such place: TORN when the tail is zeros or a batch that runs past the end of the bytes, else DAMAGE.

Record formats are those of Kafka's DefaultRecordBatch (v2) and LegacyRecord (v0, v1).
"""

from collections.abc import Iterator
from typing import TypeAlias

import numba
import numpy as np
import numpy.typing as npt

from sexton.log.crc import U8Array, crc32_range, crc32c_range

FrameRows: TypeAlias = npt.NDArray[np.int64]

GOOD, BAD_CRC, DAMAGE, TORN = range(4)
# Why a row is DAMAGE.
NO_BATCH, OUT_OF_ORDER, TOO_MANY_FALSE_STARTS = range(3)
KIND, POSITION, SIZE, WHY = range(4)  # the columns of a row

_BLOCK_ROWS = 4096
_HEADER_BYTES = 17  # offset, size, CRC or leader epoch, magic: all formats have the magic byte at 16
# A real offset never comes near; with the bound, offset arithmetic cannot overflow.
_MAX_OFFSET = 1 << 62
# Bytes summed while looking for a good batch, per byte of the segment: false starts cannot make the scan quadratic.
_RESYNC_EFFORT = 8

_njit = numba.njit(cache=True, nogil=True)


@_njit
def _be32(data, at):  # type: ignore[no-untyped-def]
    return np.int64(
        np.int32(
            (np.uint32(data[at]) << np.uint32(24))
            | (np.uint32(data[at + 1]) << np.uint32(16))
            | (np.uint32(data[at + 2]) << np.uint32(8))
            | np.uint32(data[at + 3])
        )
    )


@_njit
def _be64(data, at):  # type: ignore[no-untyped-def]
    return (_be32(data, at) << np.int64(32)) | (_be32(data, at + 4) & np.int64(0xFFFFFFFF))


@_njit
def _whole_size(data, at):  # type: ignore[no-untyped-def]
    """Size of the batch that the header at `at` claims and the bytes hold, or 0."""
    if at + _HEADER_BYTES > len(data):
        return 0
    base_offset = _be64(data, at)
    magic = data[at + 16]
    body = _be32(data, at + 8)
    smallest = 49 if magic == 2 else (22 if magic == 1 else 14)
    if magic > 2 or body < smallest or base_offset < 0 or base_offset >= _MAX_OFFSET or at + 12 + body > len(data):
        return 0
    return 12 + body


@_njit
def _is_shaped(data, at, size):  # type: ignore[no-untyped-def]
    """Whether the fields of the whole batch at `at` agree with each other, as far as the header tells."""
    magic = data[at + 16]
    if magic == 2:
        last_delta = _be32(data, at + 23)
        count = _be32(data, at + 57)
        return data[at + 21] == 0 and last_delta >= 0 and 0 <= count <= last_delta + 1
    key_at = at + 18 + 8 * magic
    key_size = _be32(data, key_at)
    value_at = key_at + 4 + max(key_size, 0)
    if data[at + 17] > 15 or key_size < -1 or value_at + 4 > at + size:
        return False
    value_size = _be32(data, value_at)
    return value_size >= -1 and value_at + 4 + max(value_size, 0) == at + size


@_njit
def _is_crc_good(data, at, size):  # type: ignore[no-untyped-def]
    if data[at + 16] == 2:
        return (_be32(data, at + 17) & np.int64(0xFFFFFFFF)) == np.int64(crc32c_range(data, at + 21, at + size))
    return (_be32(data, at + 12) & np.int64(0xFFFFFFFF)) == np.int64(crc32_range(data, at + 16, at + size))


@_njit
def _good_size(data, at):  # type: ignore[no-untyped-def]
    """Size of the batch at `at` when it is whole and its CRC is good, or 0."""
    size = _whole_size(data, at)
    return size if size > 0 and _is_crc_good(data, at, size) else 0


@_njit
def _next_offset(data, at):  # type: ignore[no-untyped-def]
    """The offset after the good batch at `at`; an entry of v0 or v1 carries its last offset."""
    return _be64(data, at) + (max(_be32(data, at + 23), 0) if data[at + 16] == 2 else 0) + 1


@_njit
def _find_good(data, start, limit, floor, budget):  # type: ignore[no-untyped-def]
    """First place in [start, limit) where a good batch at or above `floor` begins, and the budget left.

    The place is -1 when there is none, -2 when the budget ran out.
    """
    for at in range(start, limit):
        size = _whole_size(data, at)
        if size == 0 or _be64(data, at) < floor or not _is_shaped(data, at, size):
            continue
        budget -= size
        if _is_crc_good(data, at, size):
            return at, budget
        if budget < 0:
            return -2, budget
    return -1, budget


@_njit
def _is_in_order(data, at, size, floor):  # type: ignore[no-untyped-def]
    """Whether the good batch at `at` goes on from `floor`, and no later good batch shows its base offset wrong."""
    base_offset = _be64(data, at)
    if base_offset < floor:
        return False
    second = at + size
    second_size = _whole_size(data, second)
    if second_size == 0 or _be64(data, second) >= _next_offset(data, at) or not _is_crc_good(data, second, second_size):
        return True
    end, second_base = _next_offset(data, at), _be64(data, second)
    third = second + second_size
    if _good_size(data, third) == 0:
        return base_offset == floor or second_base < floor or second_base == base_offset
    third_base = _be64(data, third)
    if base_offset == floor or second_base <= floor:  # nothing is missing before it, or there is no other place for it
        return end <= third_base
    # It is right if there is room for the second between it and the third, and the second is not in its place already.
    return end < third_base and _next_offset(data, second) != third_base


@_njit
def _fits_in(data, at, size, floor):  # type: ignore[no-untyped-def]
    """Whether the base offset of the bad batch at `at` lies between `floor` and the good batch behind it, if any."""
    base_offset = _be64(data, at)
    second = at + size
    return base_offset >= floor and (_good_size(data, second) == 0 or _be64(data, second) > base_offset)


@_njit
def _tail_kind(data, at, floor):  # type: ignore[no-untyped-def]
    """What bytes are after which no good batch comes: TORN or DAMAGE."""
    size = len(data)
    if at + _HEADER_BYTES > size:
        return TORN
    body = _be32(data, at + 8)
    if data[at + 16] <= 2 and body >= 14 and at + 12 + body > size and floor <= _be64(data, at) < _MAX_OFFSET:
        return TORN
    for k in range(at, size):
        if data[k] != 0:
            return DAMAGE
    return TORN


@_njit
def _step(data, at, floor, budget):  # type: ignore[no-untyped-def]
    """Judge the bytes at `at`: (kind, size, why, floor, budget)."""
    size = _whole_size(data, at)
    if size > 0 and _is_crc_good(data, at, size):
        if _is_in_order(data, at, size, floor):
            return GOOD, size, 0, _next_offset(data, at), budget
        return DAMAGE, size, OUT_OF_ORDER, floor, budget
    if size > 0 and _is_shaped(data, at, size) and _fits_in(data, at, size, floor):
        inside, budget = _find_good(data, at + 1, at + size, floor, budget)
        if inside == -1:
            return BAD_CRC, size, 0, _be64(data, at) + 1, budget
    found, budget = _find_good(data, at + 1, len(data) - _HEADER_BYTES, floor, budget)
    if found >= 0:
        return DAMAGE, found - at, NO_BATCH, floor, budget
    if found == -2:
        return DAMAGE, len(data) - at, TOO_MANY_FALSE_STARTS, floor, budget
    return _tail_kind(data, at, floor), len(data) - at, NO_BATCH, floor, budget


@_njit
def scan(data, start, end, floor, budget, rows):  # type: ignore[no-untyped-def]
    """Fill `rows` (int64, columns KIND, POSITION, SIZE, WHY) with what begins in [start, end).

    Returns (rows filled, where to go on, floor, budget); all is told when that place is at or past `end`.
    `start` must be a place where a batch or damage begins (see `first_place`).
    """
    at, filled = start, 0
    while at < end and filled < len(rows):
        kind, size, why, floor, budget = _step(data, at, floor, budget)
        rows[filled, 0] = kind
        rows[filled, 1] = at
        rows[filled, 2] = size
        rows[filled, 3] = why
        filled += 1
        at += size
    return filled, at, floor, budget


def resync_budget(size_bytes: int) -> int:
    """The `budget` to give `scan` for bytes of this size."""
    return _RESYNC_EFFORT * size_bytes + (1 << 20)


def frames(data: U8Array, *, start: int = 0, end: int | None = None, floor_offset: int = 0) -> Iterator[FrameRows]:
    """Blocks of rows (KIND, POSITION, SIZE, WHY) for all that begins in [start, end), in order, without a gap.

    `floor_offset` is the smallest log_offset that may come: a segment's base offset, or 0 when unknown.
    """
    at, floor, budget = start, floor_offset, resync_budget(len(data))
    stop = len(data) if end is None else min(end, len(data))
    while at < stop:
        rows = np.empty((_BLOCK_ROWS, 4), dtype=np.int64)
        filled, at, floor, budget = scan(data, at, stop, floor, budget, rows)
        yield rows[:filled]


@_njit
def _hop(data, start, floor):  # type: ignore[no-untyped-def]
    """First boundary at or after `start` going by headers alone, and its floor; -1 where they leave a doubt."""
    at = 0
    while at < start:
        size = _whole_size(data, at)
        if size == 0 or not _is_shaped(data, at, size) or _be64(data, at) < floor:
            return -1, floor
        if at + size >= start and not (_is_crc_good(data, at, size) and _is_in_order(data, at, size, floor)):
            return -1, floor
        floor = _next_offset(data, at)
        at += size
    return at, floor


def first_place(data: U8Array, start: int, *, floor_offset: int = 0) -> tuple[int, int]:
    """Where the first batch (or damage) begins at or after `start`, and the floor to scan on with from there.

    The same for every reader of the segment, so that readers of neighbouring pieces miss nothing and share nothing.
    Headers are hopped over, which touches one page a batch; only a doubt before `start` makes it read everything.
    """
    if start <= 0:
        return 0, floor_offset
    stop = min(start, len(data))
    at, floor = _hop(data, stop, floor_offset)
    if at >= 0:
        return int(at), int(floor)
    rows = np.empty((_BLOCK_ROWS, 4), dtype=np.int64)
    at, floor, budget = 0, floor_offset, resync_budget(len(data))
    while at < stop:
        _, at, floor, budget = scan(data, at, stop, floor, budget, rows)
    return int(at), int(floor)


def first_boundary(data: U8Array, start: int, *, floor_offset: int = 0) -> int:
    """The place of `first_place` alone."""
    return first_place(data, start, floor_offset=floor_offset)[0]
