"""How long a group's first unread message has been waiting: an interval, from archived points alone.

The lag in time of a committed offset c at an instant is instant - M(c), where M(c) is the largest timestamp of the
records up to c (archive.time_bounds): the age of the first unread record. With LogAppendTime that is exact. With
CreateTime timestamps may decrease, and M is the running maximum: a record with a smaller timestamp than an earlier
record counts with the timestamp of that earlier record. A group at the end of its partition has no lag, however old the
last record is.

Where timestamps do not bound the lag well, snapshots do: the record was appended after the last snapshot whose log end
was at most c, and before the next one. `basis` says whether an interval is based on timestamps or on snapshots.

Not here: whether an open transaction holds up a group, which is not lag (lag.measure_lag).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from sexton.archive.partition_index import Flags, Int64s
from sexton.archive.time_bounds import NO_LOW, TimeBounds
from sexton.tables.time_lag import BASES

LOG_END, TIMESTAMPS, APPENDS, UNKNOWN = range(len(BASES) + 1)
"""The basis of an interval: an index into BASES, or len(BASES) where nothing is known."""
UNBOUNDED: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLags:
    """Lags between `min_ms` and `max_ms`, both inclusive; `max_ms` is UNBOUNDED where nothing bounds the lag.

    `basis` is LOG_END at the end of the partition, TIMESTAMPS where the lag comes from the first unread record's
    timestamp, APPENDS where it comes from the time of its append, UNKNOWN where nothing is known.
    """

    min_ms: Int64s
    max_ms: Int64s
    basis: Int64s


def time_lags(bounds: TimeBounds, number: Int64s, committed_offset: Int64s, as_of_ms: int) -> TimeLags:
    """The lag of committed offsets at an instant; `number` has the partition number of each offset.

    Below the log start the first unread record is gone: the oldest remaining record then bounds the lag from below.
    """
    start, is_append = bounds.log_start_offset[number], bounds.is_append_time[number]
    is_there = committed_offset >= start
    offset = np.maximum(committed_offset, start)
    has_min = bounds.was_there(number, offset, as_of_ms) | is_append
    stamped_min, stamped_max = _lag(bounds.newest(number, offset), as_of_ms, has_min=has_min, has_max=is_there)
    appended_min, appended_max = _lag(
        bounds.appended(number, offset), as_of_ms, has_min=np.ones_like(is_there), has_max=is_there
    )
    is_stamped, is_appended = stamped_max != UNBOUNDED, appended_max != UNBOUNDED
    is_narrower = stamped_max - stamped_min <= appended_max - appended_min
    cases = [
        bounds.was_at_end(number, committed_offset, as_of_ms),
        is_stamped & (is_append | ~is_appended | is_narrower),
        is_appended,
        stamped_min > 0,
        appended_min > 0,
    ]
    return TimeLags(
        min_ms=np.select(cases, [0, stamped_min, appended_min, stamped_min, appended_min], 0),
        max_ms=np.select(cases, [0, stamped_max, appended_max, UNBOUNDED, UNBOUNDED], UNBOUNDED),
        basis=np.select(cases, [LOG_END, TIMESTAMPS, APPENDS, TIMESTAMPS, APPENDS], UNKNOWN),
    )


def _lag(written: tuple[Int64s, Int64s], as_of_ms: int, *, has_min: Flags, has_max: Flags) -> tuple[Int64s, Int64s]:
    """(min_ms, max_ms) of the lag since an instant that is known as an interval; at least 0."""
    low, high = written
    is_bounded = has_max & (low != NO_LOW)
    least = np.where(has_min, as_of_ms - np.minimum(high, as_of_ms), 0)
    most = np.where(is_bounded, as_of_ms - np.minimum(np.where(is_bounded, low, 0), as_of_ms), UNBOUNDED)
    return least, most
