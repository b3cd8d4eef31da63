"""How long the first message that a group has not read has been waiting: an interval, from archived points alone.

The lag in time of a committed offset c at an instant is instant - M(c), where M(c) is the largest timestamp of the
records up to c (archive.time_bounds): the age of the first unread record. Under LogAppendTime that is exact. Under
CreateTime timestamps may go back, and M is the running maximum: a record that claims to be older than one before it
counts as old as that one. A group at the end of its partition has no lag, however long ago the last record came.

Where no timestamp bounds it well, the snapshots between which the log passed c do: the record was appended between
them. `basis` says which of the two an interval is.

Not here: whether a group is held by an open transaction, which is no lag (pipeline.measure_lag).
"""

from dataclasses import dataclass
from typing import Literal

from sexton.archive.time_bounds import Bounds, TimeBounds

Basis = Literal["log_end", "timestamps", "appends"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLag:
    """A lag between `min_ms` and `max_ms`, both included; `max_ms` is None where nothing bounds it.

    `basis` is `log_end` at the end of the partition, `timestamps` for the age of the first unread record by its
    timestamp, `appends` for the time since it was appended; None where nothing is known.
    """

    min_ms: int
    max_ms: int | None
    basis: Basis | None


NOTHING_KNOWN = TimeLag(min_ms=0, max_ms=None, basis=None)


def time_lag(bounds: TimeBounds, committed_offset: int, as_of_ms: int) -> TimeLag:
    """The lag of a committed offset at an instant.

    Of an offset before the log's start the record is gone. Then the oldest record that is left bounds the lag from
    below.
    """
    if bounds.was_at_end(committed_offset, as_of_ms):
        return TimeLag(min_ms=0, max_ms=0, basis="log_end")
    is_gone = committed_offset < bounds.log_start_offset
    offset = max(committed_offset, bounds.log_start_offset)
    was_there = bounds.was_there(offset, as_of_ms)
    by_timestamp = _lag(
        bounds.newest(offset), as_of_ms, has_min=was_there or bounds.is_append_time, has_max=not is_gone
    )
    by_append = _lag(bounds.appended(offset), as_of_ms, has_min=True, has_max=not is_gone)
    width, other = _width(by_timestamp), _width(by_append)
    if width is not None and (bounds.is_append_time or other is None or width <= other):
        return TimeLag(min_ms=by_timestamp[0], max_ms=by_timestamp[1], basis="timestamps")
    if other is not None:
        return TimeLag(min_ms=by_append[0], max_ms=by_append[1], basis="appends")
    basis: Basis | None = "timestamps" if by_timestamp[0] else "appends" if by_append[0] else None
    return TimeLag(min_ms=by_timestamp[0] or by_append[0], max_ms=None, basis=basis)


def _lag(written: Bounds, as_of_ms: int, *, has_min: bool, has_max: bool) -> tuple[int, int | None]:
    """The lag since an instant that is known to be between two; 0 at least."""
    least = max(0, as_of_ms - written.high_ms) if has_min and written.high_ms is not None else 0
    most = max(0, as_of_ms - written.low_ms) if has_max and written.low_ms is not None else None
    return least, most


def _width(lag: tuple[int, int | None]) -> int | None:
    return None if lag[1] is None else lag[1] - lag[0]
