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
    POSITION,
    PRODUCER,
    SIZE,
    SOURCE,
    TOLD_OFFSET,
)
from sexton.log import framing

HEADER_BYTES = 61

# tally: what the frames alone tell of a log partition
# T_NEXT is the log_offset after the last batch as it says itself, T_REACHED as far as it can be believed; T_TORN counts
# the bytes of half a batch at the end, T_LEFT_OUT the undecodable records that have no row, and T_LEFT_OUT_VALUES those
# of them that are offset values
(
    T_BYTES,
    T_BATCHES,
    T_LARGEST,
    T_FIRST,
    T_NEXT,
    T_REACHED,
    T_TORN,
    T_MAX_MS,
    T_FUTURE,
    T_MAGIC_0,
    T_MAGIC_1,
    T_LEFT_OUT,
    T_LEFT_OUT_VALUES,
    T_SIZE,
) = range(14)

T_COUNTS = [T_BYTES, T_BATCHES, T_LARGEST, T_TORN, T_FUTURE, T_MAGIC_0, T_MAGIC_1, T_LEFT_OUT, T_LEFT_OUT_VALUES]
"""What is never below 0."""

TOLD, STOPPED_AT_CUT, ODD_FRAME = range(3)


@compiled
def open_batches(
    source: Any, frames: Any, begin: int, end: int, as_of_ms: int, future_ms: int, tally: Any, batch_rows: Any
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
            return filled, row, ODD_FRAME
        max_ms = be64(data, at + 35)
        base_offset = be64(data, at)
        last_offset = base_offset + be32(data, at + 23)
        if max_ms >= as_of_ms and max_ms <= future_ms:
            return filled, row, STOPPED_AT_CUT
        count_batch(tally, size, base_offset, last_offset, max_ms, future_ms)
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
        batches[filled, TOLD_OFFSET] = base_offset
        batches[filled, POSITION] = at
        batches[filled, SIZE] = size
        filled += 1
    return filled, end, TOLD


@compiled
def count_batch(tally: Any, size: int, base_offset: int, last_offset: int, max_ms: int, future_ms: int) -> None:
    """Count one batch that is read; `tally` starts as `new_tally` leaves it."""
    tally[T_BYTES] += size
    tally[T_BATCHES] += 1
    tally[T_LARGEST] = max(tally[T_LARGEST], size)
    if tally[T_FIRST] < 0:
        tally[T_FIRST] = base_offset
    tally[T_NEXT] = tally[T_REACHED] = last_offset + 1
    if max_ms > future_ms:
        tally[T_FUTURE] += 1
    else:
        tally[T_MAX_MS] = max(tally[T_MAX_MS], max_ms)


def new_tally() -> Any:
    """Nothing counted: no first and no next log_offset, no timestamp (all -1)."""
    tally = np.zeros(T_SIZE, np.int64)
    tally[[T_FIRST, T_NEXT, T_REACHED, T_MAX_MS]] = -1
    return tally


def add_tally(left: Any, right: Any) -> None:
    """Add what follows in the log to `left`."""
    for count in (T_BYTES, T_BATCHES, T_FUTURE, T_MAGIC_0, T_MAGIC_1, T_LEFT_OUT, T_LEFT_OUT_VALUES):
        left[count] += right[count]
    for largest in (T_LARGEST, T_MAX_MS):
        left[largest] = max(left[largest], right[largest])
    if left[T_FIRST] < 0:
        left[T_FIRST] = right[T_FIRST]
    left[T_TORN] = right[T_TORN] or left[T_TORN]
    for last in (T_NEXT, T_REACHED):
        if right[last] >= 0:
            left[last] = right[last]
