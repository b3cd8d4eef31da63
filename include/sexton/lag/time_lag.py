"""How long a group's first unread message has been waiting: an interval, from archived points alone.

The lag in time of a committed offset c at an instant is instant - M(c), where M(c) is the largest timestamp of the
records up to c (archive.time_bounds): the age of the first unread record. Under LogAppendTime that is exact. Under
CreateTime timestamps may go back, and M is the running maximum: a record that claims to be older than one before it
counts as old as that one. A group at the end of its partition has no lag, however long ago the last record came.

Where no timestamp bounds it well, the snapshots before and after the log passed c do: the record was appended between
them. `basis` says which of the two an interval is based on.

Not here: whether a group is held by an open transaction, which is no lag (lag.measure_lag).
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
    """Lags between `min_ms` and `max_ms`, both included; `max_ms` is UNBOUNDED where nothing bounds it.

    `basis` is LOG_END at the end of the partition, TIMESTAMPS for the age of the first unread record by its timestamp,
    APPENDS for the time since it was appended; UNKNOWN where nothing is known.
    """

    min_ms: Int64s
    max_ms: Int64s
    basis: Int64s


def time_lags(bounds: TimeBounds, number: Int64s, committed_offset: Int64s, as_of_ms: int) -> TimeLags:
    """The lag of committed offsets at an instant, by partition number.

    For an offset before the log's start the record is gone. Then the oldest remaining record bounds the lag from below.
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
    """The lag since an instant that is known as an interval; at least 0."""
    low, high = written
    is_bounded = has_max & (low != NO_LOW)
    least = np.where(has_min, as_of_ms - np.minimum(high, as_of_ms), 0)
    most = np.where(is_bounded, as_of_ms - np.minimum(np.where(is_bounded, low, 0), as_of_ms), UNBOUNDED)
    return least, most
