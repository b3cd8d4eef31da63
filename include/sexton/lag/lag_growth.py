"""Growth of lag in time, and when retention will reach the first unread record.

A group that stands still gains a millisecond of lag per millisecond; a group that keeps up with its topic gains none.
So two lags of a group in one partition show how fast its committed offset moves relative to the log's end, measured in
timestamps of messages. Unlike a count of messages, this is not distorted by bursts in the topic.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.as_text import DAY_MS

STANDS_STILL = 1.0
_LONGEST_MS = 100 * 365 * DAY_MS
"""Longest time until a loss: a lag that grows more slowly counts as losing messages after a century."""


def lag_growth(before: pa.Table, now: pa.Table, *, passed_ms: int) -> pa.Array:
    """Milliseconds of lag gained per elapsed millisecond, at most STANDS_STILL; negative where the lag shrank.

    Both tables have the same offsets, row for row: committed_offset, lag_min_ms and lag_max_ms (the interval as in
    lag.time_lag), all NULL in `before` where it lacks the offset. The result is the largest growth that the two
    intervals allow. NULL where either lag is unbounded, and where the committed offset has decreased, because growth
    across a reset is meaningless.
    """
    if passed_ms <= 0:
        return pa.nulls(now.num_rows, pa.float64())
    grown = pc.subtract(now["lag_max_ms"], before["lag_min_ms"]).cast(pa.float64(), safe=False)
    growth = pc.min_element_wise(pc.divide(grown, float(passed_ms)), STANDS_STILL, skip_nulls=False)
    goes_on = pc.greater_equal(now["committed_offset"], before["committed_offset"])
    return pc.if_else(pc.fill_null(goes_on, False), growth, None).combine_chunks()


def loses_at(loses_at_min_ms: pa.Array, growth: pa.Array, as_of_ms: int) -> pa.Array:
    """When retention reaches the first unread record if the lag keeps growing at this rate; NULL where it never does.

    If retention has reached that record already, the result is that earlier instant, whatever the growth. Where
    `growth` is NULL the group is assumed to stand still: the result is `loses_at_min_ms`, which is its lower bound.
    """
    left_ms = np.asarray(pc.subtract(pc.fill_null(loses_at_min_ms, as_of_ms), as_of_ms))
    speed = np.asarray(pc.fill_null(growth, STANDS_STILL))
    with np.errstate(divide="ignore", invalid="ignore"):
        reached_ms = np.rint(np.minimum(left_ms / speed, _LONGEST_MS))
    is_reached = (left_ms <= 0) | np.asarray(pc.is_null(growth))
    at_ms = as_of_ms + np.where(is_reached, left_ms, np.where(speed > 0, reached_ms, 0).astype(np.int64))
    is_never = (speed <= 0) & ~is_reached
    return pa.array(at_ms, pa.int64(), mask=np.asarray(pc.is_null(loses_at_min_ms)) | is_never)
