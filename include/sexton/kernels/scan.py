"""From the frames of a segment to the batches of a block: what their headers say and where their records lie.

`log.framing` finds batches and checks their CRCs. This module reads their headers, finds the cut and ignores timestamps
from the future. Batches of magic 2 with a good CRC go on to the record loop. It stops at any other frame, which `fold`
reads with `log.batch`.
"""

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import be16, be32, be64, pointer
from sexton.kernels import layout as L
from sexton.kernels.layout import batches_of
from sexton.log import framing
from sexton.log.entry import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    COUNT_AT,
    HEADER_BYTES,
    LAST_DELTA_AT,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
)


@compiled
def open_batches(
    source: Any, frames: Any, begin: int, end: int, as_of_ms: int, future_ms: int, counters: Any, batch_rows: Any
) -> Any:
    """Read the headers of `frames[begin:end]` into `batch_rows`.

    Returns (batches filled, frame where it stopped, status): ALL_READ, STOPPED_AT_CUT at the first batch that reaches
    `as_of_ms`, or FALLBACK_FRAME at a frame that is not a good batch of magic 2.
    """
    data, batches = pointer(source), batches_of(batch_rows)
    filled = 0
    for row in range(begin, end):
        at = frames[row, framing.POSITION]
        size = frames[row, framing.SIZE]
        if frames[row, framing.KIND] != framing.GOOD or data[at + MAGIC_AT] != 2:
            return filled, row, L.FALLBACK_FRAME
        max_ms = be64(data, at + MAX_TIMESTAMP_AT)
        base_offset = be64(data, at)
        last_offset = base_offset + be32(data, at + LAST_DELTA_AT)
        if max_ms >= as_of_ms and max_ms <= future_ms:
            return filled, row, L.STOPPED_AT_CUT
        count_batch(counters, size, base_offset, last_offset, max_ms, future_ms)
        batches[filled, L.B_SOURCE] = L.IN_PLACE
        batches[filled, L.B_BODY] = at + HEADER_BYTES
        batches[filled, L.B_BODY_END] = at + size
        batches[filled, L.B_BASE_OFFSET] = base_offset
        batches[filled, L.B_ATTRIBUTES] = be16(data, at + ATTRIBUTES_AT)
        batches[filled, L.B_BASE_MS] = be64(data, at + BASE_TIMESTAMP_AT)
        batches[filled, L.B_MAX_MS] = max_ms
        batches[filled, L.B_PRODUCER] = be64(data, at + PRODUCER_ID_AT)
        batches[filled, L.B_EPOCH] = be16(data, at + PRODUCER_EPOCH_AT)
        batches[filled, L.B_COUNT] = be32(data, at + COUNT_AT)
        batches[filled, L.B_LAST_DELTA] = last_offset - base_offset
        batches[filled, L.B_ORIGIN_OFFSET] = base_offset
        batches[filled, L.B_POSITION] = at
        batches[filled, L.B_SIZE] = size
        filled += 1
    return filled, end, L.ALL_READ


@compiled
def count_batch(counters: Any, size: int, base_offset: int, last_offset: int, max_ms: int, future_ms: int) -> None:
    """Add one batch that is read to `counters`, which come from `new_batch_counters`.

    No producer or broker writes a `last_offset` below `base_offset`, but no broker checks it: it may even be negative.
    """
    counters[L.READ_BYTES] += size
    counters[L.READ_BATCHES] += 1
    counters[L.READ_LARGEST] = max(counters[L.READ_LARGEST], size)
    if counters[L.READ_FIRST] < 0:
        counters[L.READ_FIRST] = base_offset
    counters[L.READ_NEXT] = last_offset + 1
    counters[L.READ_REACHED] = max(base_offset, last_offset) + 1
    if max_ms > future_ms:
        counters[L.READ_FUTURE] += 1
    else:
        counters[L.READ_MAX_MS] = max(counters[L.READ_MAX_MS], max_ms)


def new_batch_counters() -> Any:
    """Zeros, but -1 for the timestamp and the log_offsets, which mean nothing as long as READ_BATCHES is 0."""
    counters = np.zeros(L.READ_COUNTERS, np.int64)
    counters[[L.READ_FIRST, L.READ_NEXT, L.READ_REACHED, L.READ_MAX_MS]] = -1
    return counters


def add_batch_counters(left: Any, right: Any) -> None:
    """Add `right`, the counters of the next part of the log, to `left`."""
    left[L.READ_ADDED] += right[L.READ_ADDED]
    for largest in (L.READ_LARGEST, L.READ_MAX_MS):
        left[largest] = max(left[largest], right[largest])
    if left[L.READ_FIRST] < 0:
        left[L.READ_FIRST] = right[L.READ_FIRST]
    left[L.READ_TORN] = right[L.READ_TORN] or left[L.READ_TORN]
    if right[L.READ_BATCHES]:
        left[[L.READ_NEXT, L.READ_REACHED]] = right[[L.READ_NEXT, L.READ_REACHED]]
