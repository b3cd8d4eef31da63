"""A scripted day of a real broker, its snapshots, and afterwards every hour of it run and backfilled by a real Airflow.

An hour (its seconds divide a minute) is a data interval of the DAG's schedule. What the broker answered at its end is
held against the tables that are published for it, and the disappearances of the whole day against the script, which
knows why each of them came about.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console

from sexton.lake.read import PublishedRun, published_runs, read_published
from sexton.settings import Settings
from sexton_dev.airflow_api import AirflowApi
from sexton_dev.system import MAIN_DAG, System
from tests import airflow_calls
from tests.airflow_database import lake_of, migrated_home
from tests.integration.day_clock import SETTLE_MS, Boundary, Day, LogOffsets, Say, archived_offsets
from tests.integration.day_script import DayScript
from tests.integration.random_work import UNSTABLE
from tests.waiting import until

RUN_TIMEOUT_S = 1_200
"""Of one run, on a machine that is busy with something else."""
TABLES = ("committed_offsets", "pending_offsets", "groups", "offset_changes")

Key = tuple[str, str, int]
Interval = tuple[int, int]
Rows = list[dict[str, Any]]


@dataclass(slots=True)
class Lived:
    """A day that is over. `tasks` are the states of all tasks by interval; `again` was run once more in the end."""

    config: Settings
    script: DayScript
    boundaries: list[Boundary] = field(default_factory=list)
    on_disk: LogOffsets = field(default_factory=dict)
    tasks: dict[Interval, dict[str, str]] = field(default_factory=dict)
    again: Interval | None = None

    @property
    def intervals(self) -> list[Interval]:
        instants = [boundary.at_ms for boundary in self.boundaries]
        return list(pairwise(instants))


def schedule_of(begin_s: int, intervals: int, hour_s: int) -> str:
    """A cron, with seconds, whose ticks are the day's boundaries; there is none behind the last for half an hour."""
    ticks = [datetime.fromtimestamp(begin_s + number * hour_s, UTC) for number in range(intervals + 1)]
    assert (ticks[-1].second + hour_s) % 60 == 0
    minutes, hours = (sorted({getattr(tick, name) for tick in ticks}) for name in ("minute", "hour"))
    told = [",".join(map(str, numbers)) for numbers in (minutes, hours, range(0, 60, hour_s))]
    return f"{told[0]} {told[1]} * * * {told[2]}"


@contextmanager
def live_a_day(home: Path, *, intervals: int, hour_s: int, rng: random.Random, say: Say) -> Iterator[Lived]:
    """Play the day while Airflow starts, compact, stop the broker for good, then have Airflow run every interval.

    One of them is backfilled once more when all have been run.
    """
    day = Day(home, hour_s=hour_s, say=say)
    system = System(day.config, Console(quiet=True))
    migrated_home(system.home.root)
    with ThreadPoolExecutor(1) as aside:
        starting: Future[None] | None = None
        try:
            lived = Lived(config=day.config, script=day.dawn())
            begin_s = day.begin_s(intervals)
            starting = aside.submit(
                system.start,
                SEXTON_SCHEDULE=schedule_of(begin_s, intervals, hour_s),
                SEXTON_SETTLE_MS=str(SETTLE_MS),
                SEXTON_MAX_ACTIVE_RUNS="2",
            )
            lived.boundaries = day.live(begin_s, intervals)
            lived.on_disk = day.compact()
            starting.result()
            day.close()  # past intervals are told from the archive alone
            say("the day is over, its log compacted and the broker gone; Airflow runs it")
            backfill = run_all(system.api(), lived, rng, say)
            run_again(system.api(), lived, rng.choice(lived.intervals), backfill, say)
            yield lived
        finally:
            if starting:
                starting.exception()
            system.stop()
            day.close()


def run_all(api: AirflowApi, lived: Lived, rng: random.Random, say: Say) -> int:
    """Run all intervals in random order, half of them by a backfill, the others one by one; the id of the backfill."""
    intervals = lived.intervals
    size = len(intervals) // 2
    first = rng.randrange(len(intervals) - size + 1)
    backfilled = intervals[first : first + size]
    single = [interval for interval in intervals if interval not in backfilled]
    rng.shuffle(single)
    backwards = rng.random() < 0.5
    backfill = airflow_calls.backfill(api, MAIN_DAG, backfilled[0][0], backfilled[-1][0], backwards=backwards)
    for interval in single:
        airflow_calls.trigger_interval(api, MAIN_DAG, *interval)
    api.set_paused(MAIN_DAG, False)
    lived.tasks = _ended(api, intervals, say)
    return backfill


def run_again(api: AirflowApi, lived: Lived, interval: Interval, backfill: int, say: Say) -> None:
    """Backfill an interval that has a run already, which takes its place."""
    until(lambda: airflow_calls.is_backfill_over(api, backfill), "the backfill is over")  # a DAG has one at a time
    lived.again = interval
    airflow_calls.backfill(api, MAIN_DAG, interval[0], interval[0], reprocess="completed")
    lived.tasks |= _ended(api, [interval], say)


def _ended(api: AirflowApi, intervals: list[Interval], say: Say) -> dict[Interval, dict[str, str]]:
    """The tasks of the runs of these intervals, once all runs have ended."""
    deadline = time.monotonic() + RUN_TIMEOUT_S * len(intervals)
    over = 0
    while True:
        runs = airflow_calls.runs_by_interval(api, MAIN_DAG)
        ended = [at for at in intervals if at in runs and runs[at]["state"] in ("success", "failed")]
        if len(ended) > over:
            over = len(ended)
            say(f"{over} of {len(intervals)} runs have ended")
        if over == len(intervals):
            break
        assert time.monotonic() < deadline, "runs do not end"
        time.sleep(1)
    return {
        at: {name: str(task["state"]) for name, task in api.task_states(MAIN_DAG, runs[at]["dag_run_id"]).items()}
        for at in intervals
    }


# --- what is compared; each returns how many things were equal, and raises AssertionError where one is not


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What was published for the end of an hour."""

    run: PublishedRun
    tables: dict[str, Rows]


def published(lived: Lived) -> dict[int, Published]:
    """The ends of the day's hours, read as any reader would: through `runs`. The scheduler may have run others, too."""
    config, ends = lived.config, {end_ms for _, end_ms in lived.intervals}
    lake = lake_of(config)
    return {
        run.key.as_of_ms: Published(
            run=run, tables={name: read_published(lake, run, name).to_pylist() for name in TABLES}
        )
        for run in published_runs(lake)
        if run.key.as_of_ms in ends
    }


def compare_runs(lived: Lived, found: dict[int, Published]) -> int:
    """Every interval was run, and covered from its first byte on; what was run again replaced the run before."""
    failed = {at: tasks for at, tasks in lived.tasks.items() if set(tasks.values()) != {"success"}}
    assert not failed, failed
    wanted = {end_ms: (start_ms, "complete") for start_ms, end_ms in lived.intervals}
    told = {at: (one.run.row["changes_since_ms"], one.run.row["coverage"]) for at, one in found.items()}
    assert told == wanted
    assert lived.again is not None
    assert found[lived.again[1]].run.key.run_id.rpartition(".")[2] != "1", "the later attempt is not there"
    return len(wanted)


def compare_offsets(lived: Lived, found: dict[int, Published]) -> int:
    """Committed offsets, and those that an open transaction may still change, are what the broker answered."""
    equal = 0
    for boundary in lived.boundaries[1:]:
        tables = found[boundary.at_ms].tables
        told = {
            _key(row): (row["committed_offset"], row["leader_epoch"], row["metadata"])
            for row in tables["committed_offsets"]
        }
        _same(told, _offsets(boundary), f"committed offsets at {boundary.at_ms}")
        unstable = {
            (group_id, *place)
            for group_id, offsets in boundary.answers.stable.items()
            for place, answer in offsets.items()
            if answer == UNSTABLE
        }
        pending = {_key(row) for row in tables["pending_offsets"]}
        assert pending & told.keys() == unstable, f"pending offsets at {boundary.at_ms}"
        equal += len(told) + len(unstable)
    return equal


def compare_groups(lived: Lived, found: dict[int, Published]) -> int:
    """Groups, their types, states and protocol types are what the broker answered."""
    equal = 0
    for boundary in lived.boundaries[1:]:
        told = {
            row["group_id"]: (row["group_type"].lower(), row["state"], row["protocol_type"] or "")
            for row in found[boundary.at_ms].tables["groups"]
        }
        _same(told, boundary.answers.groups, f"groups at {boundary.at_ms}")
        equal += len(told)
    return equal


def compare_values(lived: Lived, found: dict[int, Published]) -> int:
    """offset_changes has each offset that the broker answered with another value when the hour ended, and no other."""
    equal = 0
    for before, after in pairwise(lived.boundaries):
        was, now = _offsets(before), _offsets(after)
        rows = found[after.at_ms].tables["offset_changes"]
        told = {_key(row): row["new_committed_offset"] for row in rows if row["kind"] == "set"}
        wanted = {key: value[0] for key, value in now.items() if key not in was or was[key][0] != value[0]}
        _same(told, wanted, f"values set until {after.at_ms}")
        equal += len(told)
    return equal


def compare_disappearances(lived: Lived, found: dict[int, Published]) -> Counter[str]:
    """Each is told once, in the hour in which it came about, by its cause or as ambiguous; how many of each kind."""
    script, last = lived.script, _offsets(lived.boundaries[-1])
    wanted = {key: like for key, (_, like) in script.truth.items() if key in script.back or key not in last}
    told: dict[Key, set[str]] = {}
    kinds: Counter[str] = Counter()
    for before, after in pairwise(lived.boundaries):
        for row in found[after.at_ms].tables["offset_changes"]:
            if row["kind"] == "set":
                continue
            key = _key(row)
            assert key not in told, f"told twice: {row}"
            assert (key in _offsets(after)) == (key in script.back), f"not in this hour: {row}"
            assert before.at_ms <= row["timestamp_ms"] < after.at_ms, row
            told[key] = set(row["candidates"] or [row["kind"]])
            kinds[row["kind"]] += 1
    _same(told, wanted, "disappearances")
    return kinds


def compare_compaction(lived: Lived, found: dict[int, Published]) -> tuple[int, int]:
    """How many archived records the broker has no longer, and how many it has.

    Of every hour there are offsets that the broker answered when it ended, and that its log cannot tell any more.
    """
    for boundary in lived.boundaries[1:]:
        rows = found[boundary.at_ms].tables["committed_offsets"]
        lost = [row for row in rows if row["log_offset"] not in lived.on_disk[row["log_partition"]]]
        assert lost, f"the broker could still answer for {boundary.at_ms}"
    held, _ = archived_offsets(lived.config.archive_uri)
    gone = sum(len(offsets - lived.on_disk[part]) for part, offsets in held.items())
    return gone, sum(map(len, held.values())) - gone


def _key(row: dict[str, Any]) -> Key:
    return row["group_id"], row["topic"], row["partition"]


def _offsets(boundary: Boundary) -> dict[Key, Any]:
    return {
        (group_id, *place): answer
        for group_id, offsets in boundary.answers.offsets.items()
        for place, answer in offsets.items()
    }


def _same(told: dict[Any, Any], wanted: dict[Any, Any], what: str) -> None:
    """AssertionError that names what differs, as (by Sexton, by the broker or the script)."""
    keys = sorted(told.keys() | wanted.keys())
    differing = {key: (told.get(key), wanted.get(key)) for key in keys if told.get(key) != wanted.get(key)}
    assert not differing, f"{what}: {differing}"
