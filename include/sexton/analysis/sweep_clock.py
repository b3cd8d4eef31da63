"""When a coordinator will sweep a log partition next: an offset is due at one instant, and gone at the sweep after it.

A coordinator sweeps each log partition every offsets.retention.check.interval.ms. From 4.0 on each log partition has a
timer of its own, set again when a sweep ends, so sweeps drift by the time that they take; up to 3.9 one scheduler
sweeps all log partitions of a broker at a fixed rate. Tombstones are stamped with the instant of their sweep, so past
sweeps (expiry_sweeps) show phase and drift. A load restarts the clock: the gap before it is not a whole number of
intervals. If the archive shows that another leader has written the log since, sweeps of the previous leader are left
out (forecast_result).

Sweeps that removed nothing leave no trace, so the time between two observed sweeps may be several intervals.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

JITTER_MS = 250
"""How early or late a busy broker's timer may be, in addition to the observed drift."""
LATE_MS = 1_000
"""How much longer future sweeps may take in total than the observed ones."""
_LONGEST_GAP = 1_000
"""Maximum number of intervals between two observed sweeps that can be used to estimate drift."""
_MAX_DRIFT = 0.05
"""Maximum drift, as a share of the interval: a longer gap between sweeps is taken for a load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepClock:
    """The sweeps of one log partition: the last observed sweep, and the observed time from one sweep to the next."""

    last_ms: int
    shortest_ms: float
    typical_ms: float
    longest_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """When a due offset is gone: at `expected_ms` (None without a clock), and between `earliest_ms` and `latest_ms`
    unless a load comes in between."""

    earliest_ms: int
    expected_ms: int | None
    latest_ms: int


def clock_of(started_ms: Iterable[int], *, check_interval_ms: int) -> SweepClock | None:
    """The clock derived from the sweeps of a log partition; None without a sweep."""
    seen = sorted(set(started_ms))
    if not seen:
        return None
    periods: list[float] = []
    for before, after in pairwise(seen):
        period = _period(after - before, check_interval_ms)
        if period is None:
            periods = []
        elif period:
            periods.append(period)
    return SweepClock(
        last_ms=seen[-1],
        shortest_ms=min(periods, default=float(check_interval_ms)),
        typical_ms=median(periods) if periods else float(check_interval_ms),
        longest_ms=max(periods, default=check_interval_ms * (1 + _MAX_DRIFT)),
    )


def clock_of_leader(
    sweeps: Iterable[tuple[int, int]], *, led_from: int | None, check_interval_ms: int
) -> SweepClock | None:
    """The clock of a log partition's current leader, from the start log_offset and start instant of each sweep.

    A new leader starts its own clock: sweeps below `led_from`, the log_offset from which the leader has written the
    log, do not count; None: unknown, all sweeps count. Returns None without a sweep that counts.
    """
    own = (started_ms for at, started_ms in sweeps if led_from is None or at >= led_from)
    return clock_of(own, check_interval_ms=check_interval_ms)


def gone(clock: SweepClock | None, due_ms: int, *, check_interval_ms: int) -> Gone:
    """When an offset that is due at an instant will be gone."""
    if clock is None:
        latest_ms = due_ms + math.ceil(check_interval_ms * (1 + _MAX_DRIFT)) + JITTER_MS
        return Gone(earliest_ms=due_ms, expected_ms=None, latest_ms=latest_ms + LATE_MS)
    ahead_ms = due_ms - clock.last_ms
    expected_ms = clock.last_ms + round(_sweeps(ahead_ms, clock.typical_ms) * clock.typical_ms)
    first = _sweeps(ahead_ms - JITTER_MS - LATE_MS, clock.longest_ms)
    last = _sweeps(ahead_ms + JITTER_MS, clock.shortest_ms)
    earliest_ms = clock.last_ms + math.floor(first * clock.shortest_ms) - JITTER_MS
    latest_ms = clock.last_ms + math.ceil(last * clock.longest_ms) + JITTER_MS + LATE_MS
    return Gone(earliest_ms=max(due_ms, earliest_ms), expected_ms=max(due_ms, expected_ms), latest_ms=latest_ms)


def _sweeps(ahead_ms: float, period_ms: float) -> int:
    """Number of sweeps after the last one up to the first that is at or after an instant."""
    return max(1, math.ceil(ahead_ms / period_ms))


def _period(gap_ms: int, check_interval_ms: int) -> float | None:
    """The sweep period, from two sweeps a whole number of periods apart; 0 if they are too far apart to estimate it,
    None if a load was between them."""
    early_ms = min(JITTER_MS, check_interval_ms * _MAX_DRIFT)
    count = int((gap_ms + early_ms) // check_interval_ms)
    if count > _LONGEST_GAP:
        return 0.0
    if count == 0 or gap_ms > count * check_interval_ms * (1 + _MAX_DRIFT) + JITTER_MS:
        return None
    return gap_ms / count
