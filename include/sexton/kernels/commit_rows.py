"""The offset commits and tombstones of batches, one row each: `consumer_offsets` reads them without a replay."""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from collections.abc import Iterator
from typing import Any

import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import pointer
from sexton.kernels import layout as L
from sexton.kernels.decoding import fill_queue, rewind
from sexton.kernels.growth import new_state
from sexton.kernels.inflate import inflate_blocks
from sexton.kernels.layout import Bytes, FoldState, Int64s, batches_of, queue_of, view_of
from sexton.kernels.loading import new_queue
from sexton.kernels.scan import new_batch_counters, open_batches
from sexton.records.offsets import LEGACY_OFFSET_COMMIT, OFFSET_COMMIT

_NEVER = (1 << 63) - 1


def commit_rows(data: Bytes, frames: Int64s, *, cap_bytes: int) -> Iterator[tuple[Int64s, Int64s, Int64s, Bytes]]:
    """Yields (batches, batches left out, rows as in a queue, inflated bytes) of good batches of magic 2 at `frames`.

    Batches are read in order, one run at a time, with memory for all records that their headers announce. A batch is
    left out, with all its records, unless compiled code can read every record as an offset commit or a tombstone.
    """
    batches = np.empty((len(frames), L.BATCH_COLUMNS), np.int64)
    open_batches(data, frames, 0, len(frames), _NEVER, -1 - _NEVER, new_batch_counters(), batches)
    state = new_state(keys=16)
    state.counts[L.HIGHEST_VERSION] = OFFSET_COMMIT.versions[-1]
    state.counts[L.HIGHEST_LEGACY_VERSION] = LEGACY_OFFSET_COMMIT.versions[-1]
    state.counts[L.KEEPS_EXPIRE_OF_MINUS_1] = state.counts[L.READS_TOPIC_IDS] = 1
    for run, arena in inflate_blocks(data, batches, cap_bytes=cap_bytes):
        run[run[:, L.B_ATTRIBUTES] & L.CONTROL != 0, L.B_SOURCE] = L.BY_READER
        rows = np.empty((int(run[:, L.B_COUNT].sum()) + L.QUEUE_ROWS, L.QUEUE_COLUMNS), np.int64)
        left_out = np.zeros(len(run), np.bool_)
        filled = _read(state, data, arena, run, new_queue(), rows, left_out)
        yield run, run[left_out], rows[:filled], arena


@compiled
def _read(arrays: FoldState, source: Any, arena: Any, batch_rows: Any, queue_rows: Any, out: Any, left_out: Any) -> int:
    """Fill `out` and `left_out`; returns the number of rows."""
    state, in_place, inflated, batches = view_of(arrays), pointer(source), pointer(arena), batches_of(batch_rows)
    cursor_row, no_types = np.zeros(L.CURSOR_COLUMNS, np.int64), np.zeros(L.GROUP_TYPES, np.uint8)
    cursor, queue, group_types = pointer(cursor_row), queue_of(queue_rows), pointer(no_types)
    rewind(cursor)
    filled = 0
    while cursor[L.C_BATCH] < len(batch_rows):
        status = fill_queue(state, in_place, inflated, batches, len(batch_rows), cursor, queue, group_types)
        count = cursor[L.C_QUEUED]
        out[filled : filled + count] = queue_rows[:count]
        filled += count
        if status == L.FALLBACK:
            batch = cursor[L.C_BATCH]
            left_out[batch] = True
            while filled > 0 and out[filled - 1, L.Q_BATCH] == batch:
                filled -= 1
            rewind(cursor)
            cursor[L.C_BATCH] = batch + 1
    return filled
