"""From the frames of a segment to the rows of a block: which batches there are and where their records lie.

`log.framing` says where batches begin and end and whether their CRCs are good; here their headers are read,
the cut is found and stamps from the future are passed over. Batches of magic 2 with a good CRC go on to the record
loop; anything else stops here and is handed to `log.batch` by `fold`.
"""

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import be16, be32, be64, pointer, rows
from sexton.kernels.decode import (
    ATTRIBUTES,
    BASE_MS,
    BASE_OFFSET,
    BATCH_COLUMNS,
    BODY,
    BODY_END,
    COUNT,
    EPOCH,
    IN_PLACE,
    LAST_DELTA,
    MAX_MS,
    ORIGIN_OFFSET,
    POSITION,
    PRODUCER,
    SIZE,
    SOURCE,
)
from sexton.log import framing

HEADER_BYTES = 61

# batch counters: what batch headers alone say of a log partition
# READ_NEXT is the log_offset after the last batch by its header, READ_REACHED as far as it can be believed. READ_TORN
# counts the bytes of half a batch at the end, READ_LEFT_OUT the undecodable records that have no row, and
# READ_LEFT_OUT_VALUES the offset values among these
(
    READ_BYTES,
    READ_BATCHES,
    READ_LARGEST,
    READ_FIRST,
    READ_NEXT,
    READ_REACHED,
    READ_TORN,
    READ_MAX_MS,
    READ_FUTURE,
    READ_MAGIC_0,
    READ_MAGIC_1,
    READ_LEFT_OUT,
    READ_LEFT_OUT_VALUES,
    READ_COUNTERS,
) = range(14)

READ_COUNTS = [
    READ_BYTES,
    READ_BATCHES,
    READ_LARGEST,
    READ_TORN,
    READ_FUTURE,
    READ_MAGIC_0,
    READ_MAGIC_1,
    READ_LEFT_OUT,
    READ_LEFT_OUT_VALUES,
]
"""What is never below 0."""

ALL_READ, STOPPED_AT_CUT, FALLBACK_FRAME = range(3)


@compiled
def open_batches(
    source: Any, frames: Any, begin: int, end: int, as_of_ms: int, future_ms: int, counters: Any, batch_rows: Any
) -> Any:
    """Read the headers of `frames[begin:end]` into `batch_rows`.

    Returns (batches filled, frame where it stopped, status): TOLD when all frames were read, STOPPED_AT_CUT at the
    first batch that reaches `as_of_ms`, ODD_FRAME at a frame that is no plain good batch of magic 2.
    """
    data, batches = pointer(source), rows(batch_rows, BATCH_COLUMNS)
    filled = 0
    for row in range(begin, end):
        at = frames[row, framing.POSITION]
        size = frames[row, framing.SIZE]
        if frames[row, framing.KIND] != framing.GOOD or data[at + 16] != 2:
            return filled, row, FALLBACK_FRAME
        max_ms = be64(data, at + 35)
        base_offset = be64(data, at)
        last_offset = base_offset + be32(data, at + 23)
        if max_ms >= as_of_ms and max_ms <= future_ms:
            return filled, row, STOPPED_AT_CUT
        count_batch(counters, size, base_offset, last_offset, max_ms, future_ms)
        batches[filled, SOURCE] = IN_PLACE
        batches[filled, BODY] = at + HEADER_BYTES
        batches[filled, BODY_END] = at + size
        batches[filled, BASE_OFFSET] = base_offset
        batches[filled, ATTRIBUTES] = be16(data, at + 21)
        batches[filled, BASE_MS] = be64(data, at + 27)
        batches[filled, MAX_MS] = max_ms
        batches[filled, PRODUCER] = be64(data, at + 43)
        batches[filled, EPOCH] = be16(data, at + 51)
        batches[filled, COUNT] = be32(data, at + 57)
        batches[filled, LAST_DELTA] = last_offset - base_offset
        batches[filled, ORIGIN_OFFSET] = base_offset
        batches[filled, POSITION] = at
        batches[filled, SIZE] = size
        filled += 1
    return filled, end, ALL_READ


@compiled
def count_batch(counters: Any, size: int, base_offset: int, last_offset: int, max_ms: int, future_ms: int) -> None:
    """Count one batch that is read; `batch_counters` starts as `new_batch_counters` leaves it."""
    counters[READ_BYTES] += size
    counters[READ_BATCHES] += 1
    counters[READ_LARGEST] = max(counters[READ_LARGEST], size)
    if counters[READ_FIRST] < 0:
        counters[READ_FIRST] = base_offset
    counters[READ_NEXT] = counters[READ_REACHED] = last_offset + 1
    if max_ms > future_ms:
        counters[READ_FUTURE] += 1
    else:
        counters[READ_MAX_MS] = max(counters[READ_MAX_MS], max_ms)


def new_batch_counters() -> Any:
    """Nothing counted: no first and no next log_offset, no timestamp (all -1)."""
    counters = np.zeros(READ_COUNTERS, np.int64)
    counters[[READ_FIRST, READ_NEXT, READ_REACHED, READ_MAX_MS]] = -1
    return counters


def add_batch_counters(left: Any, right: Any) -> None:
    """Add what follows in the log to `left`."""
    for count in (
        READ_BYTES,
        READ_BATCHES,
        READ_FUTURE,
        READ_MAGIC_0,
        READ_MAGIC_1,
        READ_LEFT_OUT,
        READ_LEFT_OUT_VALUES,
    ):
        left[count] += right[count]
    for largest in (READ_LARGEST, READ_MAX_MS):
        left[largest] = max(left[largest], right[largest])
    if left[READ_FIRST] < 0:
        left[READ_FIRST] = right[READ_FIRST]
    left[READ_TORN] = right[READ_TORN] or left[READ_TORN]
    for last in (READ_NEXT, READ_REACHED):
        if right[last] >= 0:
            left[last] = right[last]
