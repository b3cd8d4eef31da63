"""Lag in time from points alone: whatever was asked and whenever, the interval contains the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from sexton.archive.time_bounds import TimeBounds
from sexton.archive.time_points import POINTS, TimePoint
from sexton.lag.time_lag import UNBOUNDED, time_lags
from sexton.tables.time_lag import BASES
from tests.plain_lag import NOTHING_KNOWN, TimeLag

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000


@dataclass
class History:
    """A log: (instant of append, timestamp) of each record. Its head is cut off at instants."""

    records: list[tuple[int, int]]
    cuts: list[tuple[int, int]]
    """(instant, log start from then on)."""

    def end(self, at_ms: int) -> int:
        return sum(appended_ms <= at_ms for appended_ms, _ in self.records)

    def start(self, at_ms: int) -> int:
        return max((start for cut_ms, start in self.cuts if cut_ms <= at_ms), default=0)

    def newest(self, offset: int, start: int) -> int:
        return max(timestamp_ms for _, timestamp_ms in self.records[start : offset + 1])

    def ask(self, timestamp_ms: int, at_ms: int) -> TimePoint:
        start, end = self.start(at_ms), self.end(at_ms)
        found = next((n for n in range(start, end) if self.records[n][1] >= timestamp_ms), None)
        return TimePoint(
            offset=end if found is None else found,
            timestamp_ms=None if found is None else self.records[found][1],
            source="list_offsets",
            asked_ms=timestamp_ms,
            log_start_offset=start,
        )


def history(rng: Random, *, is_append_time: bool) -> History:
    instants = sorted(START_MS + rng.randrange(HOUR_MS) for _ in range(rng.randint(1, 40)))
    if is_append_time:
        records = [(at_ms, at_ms) for at_ms in instants]
    else:
        records = [
            (at_ms, at_ms - rng.choice((0, 0, rng.randrange(HOUR_MS), -rng.randrange(9_000)))) for at_ms in instants
        ]
    cuts, start = [], 0
    for at_ms in sorted(START_MS + rng.randrange(HOUR_MS) for _ in range(rng.randint(0, 3))):
        held = sum(appended_ms <= at_ms for appended_ms in instants)
        start = rng.randint(start, held)
        cuts.append((at_ms, start))
    return History(records=records, cuts=cuts)


def points(rng: Random, log: History) -> list[TimePoint]:
    """Admin snapshots and snapshots at any instants."""
    found = []
    for _ in range(rng.randint(0, 30)):
        at_ms = START_MS + rng.randrange(HOUR_MS + 1_000)
        if rng.random() < 0.6:
            found.append(log.ask(rng.choice((0, START_MS + rng.randrange(-HOUR_MS, HOUR_MS))), at_ms))
        else:
            source = rng.choice(("snapshot", "log_end"))
            found.append(TimePoint(offset=log.end(at_ms), timestamp_ms=at_ms, source=source))
    return found


@pytest.mark.parametrize("is_append_time", [True, False], ids=["LogAppendTime", "CreateTime"])
def test_the_truth_is_inside(is_append_time: bool) -> None:
    """75,000 (group, partition, instant)."""
    rng, seen, bounded, bases = Random(3), 0, 0, set()
    for _ in range(50):
        logs = [history(rng, is_append_time=is_append_time) for _ in range(30)]
        known = {number: points(rng, log) for number, log in enumerate(logs)}
        for _ in range(10):
            as_of_ms = START_MS + rng.randrange(HOUR_MS + 1_000)
            starts, ends = [log.start(as_of_ms) for log in logs], [log.end(as_of_ms) for log in logs]
            asked = [
                (number, rng.randint(start, end))
                for number, (start, end) in enumerate(zip(starts, ends, strict=True))
                for _ in range(5)
            ]
            found = lags(known, starts, asked, as_of_ms, is_append_time=is_append_time)
            for (number, offset), each in zip(asked, found, strict=True):
                log = logs[number]
                if offset == ends[number]:
                    truth_ms = 0
                elif each.basis == "appends":
                    truth_ms = as_of_ms - log.records[offset][0]
                else:
                    truth_ms = max(0, as_of_ms - log.newest(offset, starts[number]))
                assert each.min_ms <= truth_ms, (each, truth_ms)
                assert each.max_ms is None or truth_ms <= each.max_ms, (each, truth_ms)
                seen += 1
                bounded += each.max_ms is not None
                bases.add(each.basis)
    assert seen == 75_000
    assert bounded > seen / 2
    assert bases >= {"log_end", "timestamps", "appends" if not is_append_time else "timestamps"}


def lags(
    known: Mapping[int, Sequence[TimePoint]],
    starts: Sequence[int],
    asked: Sequence[tuple[int, int]],
    as_of_ms: int,
    *,
    is_append_time: bool,
    slack_ms: int = 0,
) -> list[TimeLag]:
    """Of (partition number, committed offset)."""
    rows = [{"number": number, **asdict(point)} for number, some in known.items() for point in some]
    bounds = TimeBounds(
        pa.Table.from_pylist(rows, POINTS),
        log_start_offset=np.array(starts, np.int64),
        is_append_time=np.full(len(starts), is_append_time),
        slack_ms=slack_ms,
    )
    number, offset = np.array(asked, np.int64).T
    found = time_lags(bounds, number, offset, as_of_ms)
    return [
        TimeLag(min_ms=least, max_ms=None if most == UNBOUNDED else most, basis=(*BASES, None)[basis])
        for least, most, basis in zip(found.min_ms.tolist(), found.max_ms.tolist(), found.basis.tolist(), strict=True)
    ]


def lag(*known: TimePoint, offset: int = 5, start: int = 0, is_append_time: bool = False, slack_ms: int = 0) -> TimeLag:
    (found,) = lags({0: known}, [start], [(0, offset)], START_MS, is_append_time=is_append_time, slack_ms=slack_ms)
    return found


def snapshot(end: int, ago_ms: int) -> TimePoint:
    return TimePoint(offset=end, timestamp_ms=START_MS - ago_ms, source="snapshot")


def answer(offset: int, ago_ms: int, *, start: int = 0) -> TimePoint:
    """An answer that is the very instant that was asked for."""
    at_ms = START_MS - ago_ms
    return TimePoint(offset=offset, timestamp_ms=at_ms, source="list_offsets", asked_ms=at_ms, log_start_offset=start)


def test_nothing_is_known() -> None:
    assert lag() == NOTHING_KNOWN


def test_at_the_end() -> None:
    """Also when the last record came long ago."""
    assert lag(snapshot(5, 0), answer(4, HOUR_MS)) == TimeLag(min_ms=0, max_ms=0, basis="log_end")


def test_between_two_snapshots() -> None:
    assert lag(snapshot(4, 9_000), snapshot(6, 4_000)) == TimeLag(min_ms=4_000, max_ms=9_000, basis="appends")
    assert lag(snapshot(4, 9_000), snapshot(6, 4_000), is_append_time=True).basis == "timestamps"


def test_clocks_may_differ() -> None:
    known = snapshot(4, 9_000), snapshot(6, 4_000)
    assert lag(*known, slack_ms=500) == TimeLag(min_ms=3_500, max_ms=9_000, basis="appends")
    assert lag(*known, slack_ms=500, is_append_time=True) == TimeLag(min_ms=3_500, max_ms=9_500, basis="timestamps")


def test_between_two_answers() -> None:
    known = answer(3, 9_000), answer(8, 4_000), snapshot(9, 0)
    assert lag(*known) == TimeLag(min_ms=4_001, max_ms=9_000, basis="timestamps")


def test_the_record_itself() -> None:
    assert lag(answer(5, 7_000), snapshot(9, 0)) == TimeLag(min_ms=7_000, max_ms=7_000, basis="timestamps")


def test_a_record_that_is_gone() -> None:
    """The oldest one that is left bounds the lag from below."""
    found = lag(answer(8, 7_000, start=8), snapshot(9, 0), start=8)
    assert found == TimeLag(min_ms=7_000, max_ms=None, basis="timestamps")


def test_an_answer_about_a_shorter_log_bounds_nothing_above() -> None:
    """A record that was deleted before may have been newer."""
    assert lag(answer(8, 4_000, start=3), snapshot(9, 0)).min_ms == 0


def test_answers_that_contradict_each_other() -> None:
    found = lag(answer(4, 1_000), answer(6, 9_000), snapshot(9, 0))
    assert (found.min_ms, found.max_ms) == (1_000, 9_001)
