"""How fast lags in time grow, and when they will reach what retention keeps.

A group that stands still gains a millisecond of lag each millisecond; one that keeps up with its topic gains none. So
two lags of one offset show how fast the group's committed offsets move against the log's end, measured in the time that
its messages span: bursts of a topic do not count as progress, as they would in messages.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.figures import DAY_MS

STANDS_STILL = 1.0
_LONGEST_MS = 100 * 365 * DAY_MS
"""A lag that hardly grows loses nothing within a century."""


def lag_growth(before: pa.Table, now: pa.Table, *, passed_ms: int) -> pa.Array:
    """Milliseconds of lag for each that passed between the two, at most STANDS_STILL; negative where it shrank.

    The rows of both are about the same offsets, one by one: committed_offset, lag_min_ms and lag_max_ms (the interval
    as in lag.time_lag), all NULL in `before` where it has no such offset. Where the lags are intervals it is the
    largest growth that fits. NULL where one of them is not bounded, and where the offset went back in between: then the
    growth before it says nothing.
    """
    if passed_ms <= 0:
        return pa.nulls(now.num_rows, pa.float64())
    grown = pc.subtract(now["lag_max_ms"], before["lag_min_ms"]).cast(pa.float64(), safe=False)
    growth = pc.min_element_wise(pc.divide(grown, float(passed_ms)), STANDS_STILL, skip_nulls=False)
    goes_on = pc.greater_equal(now["committed_offset"], before["committed_offset"])
    return pc.if_else(pc.fill_null(goes_on, False), growth, None).combine_chunks()


def loses_at(loses_at_min_ms: pa.Array, growth: pa.Array, as_of_ms: int) -> pa.Array:
    """When retention reaches the first unread record, if the lag goes on growing so; NULL where it does not.

    Where it has been reached already that is when, however the lag grows. Without a growth the group is taken to stand
    still: then it is the bound, and it is never before it.
    """
    left_ms = np.asarray(pc.subtract(pc.fill_null(loses_at_min_ms, as_of_ms), as_of_ms))
    speed = np.asarray(pc.fill_null(growth, STANDS_STILL))
    with np.errstate(divide="ignore", invalid="ignore"):
        reached_ms = np.rint(np.minimum(left_ms / speed, _LONGEST_MS))
    is_reached = (left_ms <= 0) | np.asarray(pc.is_null(growth))
    at_ms = as_of_ms + np.where(is_reached, left_ms, np.where(speed > 0, reached_ms, 0).astype(np.int64))
    is_never = (speed <= 0) & ~is_reached
    return pa.array(at_ms, pa.int64(), mask=np.asarray(pc.is_null(loses_at_min_ms)) | is_never)
