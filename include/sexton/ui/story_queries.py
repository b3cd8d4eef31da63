"""A group over time, from published runs: its history, and its committed offsets and lag from run to run.

A run describes one instant: commits and states between two runs are not seen. offset_changes has every disappearance
of an offset and its cause, also for instants whose runs have expired.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sexton.history.events import instant_of
from sexton.history.published_story import Row, changes_of_group, states_of_group, turns, writes
from sexton.lake.database import Rows
from sexton.lake.published_tables import PublishedTables
from sexton.lake.read import PublishedRun
from sexton.tables.change_causes import DISAPPEARANCES
from sexton.ui.lag_queries import GROUP_LAG, lag_of

POINTS = 24
"""At most this many points in a plot: each opens the files of a run."""
RUNS_A_PAGE = 48
"""Runs that one page of a history covers."""
FILES_READ = 500
"""A page of more than one run reads at most this many files of `offset_changes`. Each instant has at least one file."""
PARTITIONS_SHOWN = 6
"""An event names this many partitions; further ones are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryEvent:
    """An event in the history of a group. `kind` is appeared, became, vanished, or a kind of offset_changes.

    An event from offset_changes has the number of its rows in `count` and the first few in `offsets`; other events have
    the group's row of `groups` in `group` (None: vanished).
    """

    at_ms: int
    kind: str
    group: dict[str, Any] | None = None
    count: int = 0
    offsets: Rows
    evidence: str | None = None
    candidates: tuple[str, ...] = ()
    by_plan_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryPage:
    """Events, newest first: those of `runs` published runs since `since_ms`, and those of expired runs in that range.

    The last page also has all older events. `before_ms` is the argument for the next, older page; None on the last.
    """

    events: list[StoryEvent]
    runs: int
    since_ms: int
    before_ms: int | None


def story(
    tables: PublishedTables, runs: Sequence[PublishedRun], group_id: str, *, before_ms: int | None = None
) -> StoryPage:
    """A page of a group's history: the events of the last RUNS_A_PAGE runs up to `before_ms` (None: the newest run).

    `runs` are the cluster's runs up to the instant shown, oldest first, at least one. The page has fewer runs if they
    need more than FILES_READ files. Events of expired runs in the page's range are included.
    """
    newest_ms = runs[-1].key.as_of_ms
    until_ms = newest_ms if before_ms is None else min(before_ms, newest_ms)
    known = [run for run in runs if run.key.as_of_ms <= until_ms]
    shown = known[-RUNS_A_PAGE:]
    while True:
        is_last_page = len(shown) == len(known)
        since_ms = shown[0].key.as_of_ms if shown else until_ms
        source, files = tables.between(
            "offset_changes", runs[-1].key.cluster_id, 0 if is_last_page else since_ms, until_ms
        )
        if files <= FILES_READ or len(shown) <= 1:
            break
        shown = shown[(len(shown) + 1) // 2 :]  # runs may be days apart, but offset_changes has files for every hour
    states = states_of_group(tables, shown, group_id)
    changes = changes_of_group(tables, source, shown, group_id)
    events = [*_seen(states, shown, is_last_page=is_last_page), *map(_changed, writes(changes))]
    return StoryPage(
        events=sorted(events, key=lambda event: event.at_ms, reverse=True),
        runs=len(shown),
        since_ms=since_ms,
        before_ms=None if is_last_page else since_ms - 1,
    )


def _seen(states: dict[int, Row], runs: Sequence[PublishedRun], *, is_last_page: bool) -> Iterator[StoryEvent]:
    """An event for each run in which the group differs from the run before."""
    for run, previous, before, now in turns(states, runs):
        is_new = before is None and (previous is not None or is_last_page)
        kind = "vanished" if now is None else "appeared" if is_new else "became"
        yield StoryEvent(at_ms=run.key.as_of_ms, kind=kind, group=now, offsets=[])


def _changed(rows: Rows) -> StoryEvent:
    first = rows[0]
    at_ms = instant_of(first) if first["kind"] in DISAPPEARANCES else None
    return StoryEvent(
        at_ms=first["as_of_ms"] if at_ms is None else at_ms,
        kind=first["kind"],
        count=len(rows),
        offsets=rows[:PARTITIONS_SHOWN],
        evidence=first["evidence"],
        candidates=tuple(first["candidates"] or ()),
        by_plan_id=first["by_plan_id"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A value for each of `at_ms`; None if the run has no such offset or recorded no log end.

    The values are those of one partition, or sums over the `offset_count` partitions of a topic or group. The lag in
    time, lag_min_ms to lag_max_ms, is the longest of these partitions; None for runs whose lag no audit measured.
    """

    at_ms: list[int]
    committed_offset: list[int | None]
    log_end_offset: list[int | None]
    lag: list[int | None]
    lag_min_ms: list[int | None]
    lag_max_ms: list[int | None]
    offset_count: list[int]


def series(
    tables: PublishedTables, runs: Sequence[PublishedRun], group_id: str, *, topic: str | None, partition: int | None
) -> Series:
    """Committed offset and lag in at most POINTS of `runs`, evenly spread, including the newest."""
    chosen = _spread(runs)
    asked, values = ["group_id = ?"], [group_id]
    if topic is not None:
        asked.append("topic = ?")
        values.append(topic)
    if partition is not None:
        asked.append(f"partition = {int(partition)}")
    homes = tables.rows(
        f"SELECT DISTINCT log_partition FROM {tables.of_runs(chosen, 'groups')} WHERE group_id = ?", group_id
    )
    where = " AND ".join(asked)
    # With log_partition in the condition, DuckDB reads one Parquet row group of each run.
    at_home = f"{where} AND log_partition IN ({', '.join(str(row['log_partition']) for row in homes) or -1})"
    rows = tables.rows(
        f"""WITH chosen(at_ms) AS (VALUES {", ".join(f"({run.key.as_of_ms})" for run in chosen)}),
            o AS MATERIALIZED (SELECT as_of_ms, topic, partition, committed_offset
                FROM {tables.of_runs(chosen, "committed_offsets")} WHERE {at_home}),
            sums AS (SELECT as_of_ms AS at_ms, count(*) AS offset_count,
                sum(committed_offset)::BIGINT AS committed_offset, sum(log_end_offset)::BIGINT AS log_end_offset,
                sum(greatest(log_end_offset - committed_offset, 0))
                    FILTER (log_end_offset IS NOT NULL)::BIGINT AS lag
                FROM o LEFT JOIN {tables.of_runs(chosen, "topic_partitions")} t USING (as_of_ms, topic, partition)
                GROUP BY as_of_ms),
            latest AS (SELECT as_of_ms AS at_ms, {GROUP_LAG["lag_min_ms"]} AS lag_min_ms,
                {GROUP_LAG["lag_max_ms"]} AS lag_max_ms
                FROM {lag_of(tables, *chosen)} WHERE {where} GROUP BY as_of_ms)
            SELECT * REPLACE (coalesce(offset_count, 0) AS offset_count)
            FROM chosen LEFT JOIN sums USING (at_ms) LEFT JOIN latest USING (at_ms) ORDER BY at_ms""",
        *values,
        *values,
    )
    return Series(**{one.name: [row[one.name] for row in rows] for one in fields(Series)})


def _spread(runs: Sequence[PublishedRun]) -> list[PublishedRun]:
    if len(runs) <= POINTS:
        return list(runs)
    last = len(runs) - 1
    return [runs[round(last * number / (POINTS - 1))] for number in range(POINTS)]


def runs_with_checks(tables: PublishedTables, runs: Sequence[PublishedRun]) -> Rows:
    """Rows of `runs`, newest first, with the numbers of `checked` and `failed` expectations, and of `rows` by table."""
    if not runs:
        return []
    counted = {
        row["run_id"]: row
        for row in tables.rows(
            f"""SELECT run_id, count(*) AS checked, count(*) FILTER (NOT success) AS failed
                FROM {tables.of_runs(runs, "dq_results")} GROUP BY ALL"""
        )
    }
    nothing = {"checked": 0, "failed": 0}
    return [
        {
            **run.row,
            **counted.get(run.key.run_id, nothing),
            "rows": {each["table"]: each["rows"] for each in run.row["counts"] or ()},
        }
        for run in reversed(runs)
    ]
