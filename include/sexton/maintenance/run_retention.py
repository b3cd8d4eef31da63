"""Which published runs are kept: all runs of the last hours, then the last run of each hour, each day, each month.

A run that a coarser rule keeps was kept by every finer rule: the last run of a month is the last of its day and hour.
So applying the rules daily gives the same result as applying them once.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np

from sexton.as_text import DAY_MS, HOUR_MS

MONTH_MS = 31 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRetention:
    """How many runs are kept at which age. Hours, days and months are those of the UTC calendar.

    `daily_months` are months of 31 days. After them the last run of each month is kept, forever.
    """

    all_hours: int
    hourly_days: int
    daily_months: int


def kept(
    instants: Collection[int], *, now_ms: int, retention: RunRetention, held: Collection[int] = frozenset()
) -> set[int]:
    """Return the `instants` (as_of_ms of one cluster's runs) that stay, because of their age at `now_ms` or because
    they are in `held`.

    The newest instant always stays, and so do instants after `now_ms`.
    """
    of_hour = _last_of_each(instants, lambda at: at // HOUR_MS)
    of_day = _last_of_each(instants, lambda at: at // DAY_MS)
    # numpy, because datetime ends with the year 9999
    of_month = _last_of_each(instants, lambda at: int(np.datetime64(at, "ms").astype("datetime64[M]").astype(np.int64)))
    return {
        at
        for at in instants
        if at in held
        or now_ms - at < retention.all_hours * HOUR_MS
        or (at in of_hour and now_ms - at < retention.hourly_days * DAY_MS)
        or (at in of_day and now_ms - at < retention.daily_months * MONTH_MS)
        or at in of_month
    }


def needed_bases(checkpoints: Iterable[int], instants: Iterable[int]) -> set[int]:
    """Return the as_of_ms of checkpoints from which replays of `instants` and of later instants would start."""
    known = sorted(set(checkpoints))
    after = [bisect_right(known, at) for at in instants] + [len(known)]
    return {known[number - 1] for number in after if number}


def _last_of_each(instants: Iterable[int], bucket: Callable[[int], int]) -> set[int]:
    return set({bucket(at): at for at in sorted(instants)}.values())
