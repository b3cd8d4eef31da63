"""When the next sweep comes: held against the sweeps of real brokers, and against made-up ones of Kafka's interval."""

import json
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from sexton.analysis.sweep_clock import SweepClock, clock_of, clock_of_leader, gone

GOLDEN = Path(__file__).parents[1] / "golden" / "sweep-instants"
RECORDED_MS = 150
KAFKAS_MS = 600_000
START_MS = 1_790_000_000_000


def predictions(
    sweeps: Sequence[int], seen: Sequence[int], *, interval_ms: int, rng: Random, ahead: int
) -> list[tuple[int, bool]]:
    """For instants at which offsets fall due after the last sweep that was seen: how far off, and whether inside."""
    clock = clock_of(seen, check_interval_ms=interval_ms)
    found = []
    for _ in range(ahead):
        due_ms = seen[-1] + 1 + rng.randrange(ahead * interval_ms)
        at = bisect_left(sweeps, due_ms)
        if at < len(sweeps):
            told = gone(clock, due_ms, check_interval_ms=interval_ms)
            assert told.expected_ms is not None
            found.append((abs(sweeps[at] - told.expected_ms), told.earliest_ms <= sweeps[at] <= told.latest_ms))
    return found


@pytest.mark.parametrize("release", ["4.3.1", "3.9.1", "2.8.2"])
def test_sweeps_of_brokers(release: str) -> None:
    """An interval is told that holds, whatever was seen before."""
    rng, found = Random(1), []
    for line in (GOLDEN / f"{release}.jsonl").read_text().splitlines()[1:]:
        sweeps = [stamp for stamp, _, _ in json.loads(line)["sweeps"]]
        for count in range(1, len(sweeps) - 6):
            found += predictions(sweeps, sweeps[:count], interval_ms=RECORDED_MS, rng=rng, ahead=6)
    assert len(found) > 2_000
    assert all(inside for _, inside in found)
    assert sum(off_ms <= 1_000 for off_ms, _ in found) >= 0.95 * len(found)


@pytest.mark.parametrize("takes_ms", [0, 40, 700], ids=["at a fixed rate", "quick sweeps", "slow sweeps"])
def test_at_kafkas_interval(takes_ms: int) -> None:
    """A third of the sweeps leave tombstones; two days are seen, four hours are foretold."""
    rng, found = Random(2), []
    for _ in range(40):
        sweeps, now_ms = [], START_MS + rng.randrange(KAFKAS_MS)
        for _ in range(24 * 15):
            sweeps.append(now_ms + rng.randrange(20))
            now_ms += KAFKAS_MS + (takes_ms and round(takes_ms * rng.uniform(0.8, 1.2)))
        seen = [sweep for sweep in sweeps[: 24 * 12] if rng.random() < 1 / 3]
        found += predictions(sweeps, seen, interval_ms=KAFKAS_MS, rng=rng, ahead=24)
    assert len(found) > 900
    assert all(inside for _, inside in found)
    assert sum(off_ms <= 1_000 for off_ms, _ in found) >= 0.95 * len(found)


def test_without_a_sweep() -> None:
    found = gone(None, START_MS, check_interval_ms=KAFKAS_MS)
    assert (found.earliest_ms, found.expected_ms) == (START_MS, None)
    assert START_MS + KAFKAS_MS < found.latest_ms < START_MS + 1.1 * KAFKAS_MS
    assert clock_of([], check_interval_ms=KAFKAS_MS) is None


def test_one_sweep_gives_the_phase() -> None:
    clock = clock_of([START_MS], check_interval_ms=KAFKAS_MS)
    assert clock is not None
    assert gone(clock, START_MS + 10, check_interval_ms=KAFKAS_MS).expected_ms == START_MS + KAFKAS_MS
    assert gone(clock, START_MS + KAFKAS_MS + 1, check_interval_ms=KAFKAS_MS).expected_ms == START_MS + 2 * KAFKAS_MS


def test_what_is_overdue_goes_with_the_next() -> None:
    clock = clock_of([START_MS], check_interval_ms=KAFKAS_MS)
    assert gone(clock, START_MS - 5, check_interval_ms=KAFKAS_MS).expected_ms == START_MS + KAFKAS_MS


def test_a_load_begins_it_anew() -> None:
    """By a gap that fits no number of intervals."""
    drifting = [START_MS + number * (KAFKAS_MS + 500) for number in range(5)]
    later = drifting[-1] + KAFKAS_MS + KAFKAS_MS // 2
    clock = clock_of([*drifting, later, later + KAFKAS_MS], check_interval_ms=KAFKAS_MS)
    assert clock == SweepClock(
        last_ms=later + KAFKAS_MS, shortest_ms=KAFKAS_MS, typical_ms=KAFKAS_MS, longest_ms=KAFKAS_MS
    )


def test_a_new_leader_is_foretold_from_its_own_sweeps() -> None:
    """Not before the first of them, and never by the phase of the leader before."""
    before = [(at, START_MS + at * KAFKAS_MS) for at in range(5)]
    first_ms = before[-1][1] + KAFKAS_MS // 3
    own = [(10, first_ms), (11, first_ms + KAFKAS_MS)]

    def clock(*sweeps: tuple[int, int], led_from: int | None = 10) -> SweepClock | None:
        return clock_of_leader([*before, *sweeps], led_from=led_from, check_interval_ms=KAFKAS_MS)

    assert clock() is None
    for seen in (1, 2):
        told = gone(clock(*own[:seen]), first_ms + 2 * KAFKAS_MS - 1, check_interval_ms=KAFKAS_MS)
        assert told.expected_ms == first_ms + 2 * KAFKAS_MS
    known = clock(led_from=None)
    assert known is not None
    assert known.last_ms == before[-1][1], "who leads is not known: all that was seen counts"
