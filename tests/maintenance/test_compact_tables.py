"""Tidying keeps all that a reader can name, and only says what it would remove until it is told to."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sexton.as_text import DAY_MS, HOUR_MS
from sexton.lake.catalog import Lake
from sexton.lake.read import load
from sexton.maintenance import compact_tables, expire_runs
from sexton.maintenance.compact_tables import SMALL_FILES, CompactedTables
from sexton.maintenance.run_retention import RunRetention
from sexton.runs.engine import Engine
from tests.maintenance.lakes import CHANGES, GROUPS_OF_A_RUN, STATE, Runs, append, fill, row

pytestmark = pytest.mark.thorough

CLUSTER = "compacted"
FIRST, SECOND, THIRD = 1_000, 2_000, 3_000
DAYS = 7
NOTHING = CompactedTables(snapshots=0, branches=0, tags=0, small_files=0, new_files=0)


def test_old_snapshots_go_but_for_those_that_somebody_names(
    iceberg: Engine, lake: Lake, runs_of: Callable[[str], Runs]
) -> None:
    runs, session, states = runs_of(CLUSTER), iceberg.session, lake.identifier(STATE)
    fill(session, lake, [(CLUSTER, FIRST)])
    fill(session, lake, [(CLUSTER, SECOND)])
    named = {run.snapshots[STATE] for run in runs.published()}
    assert len(named) == 2
    append(session, lake, STATE, [row(STATE, (CLUSTER, THIRD), group_id="seen by nobody")])
    unnamed = _head(lake, STATE)
    session.sql(f"ALTER TABLE {states} CREATE BRANCH run_failed")
    session.sql(f"ALTER TABLE {states} CREATE BRANCH somebodys")
    session.sql(f"DELETE FROM {states} WHERE cluster_id = '{CLUSTER}'")
    before, seen = _files(lake, STATE), runs.seen()
    newest_ms = max(snapshot.timestamp_ms for snapshot in load(lake, "runs").snapshots())
    old_ms = newest_ms + DAYS * DAY_MS + 60_000

    def compacted(now_ms: int = old_ms, **options: bool) -> CompactedTables:
        return compact_tables.run(iceberg, lake, now_ms=now_ms, days=DAYS, **options)

    assert compacted(old_ms - DAY_MS, deletes=True) == NOTHING
    told = compacted()
    assert told.branches == 1
    assert told.snapshots > 0
    assert "run_failed" in load(lake, STATE).refs()
    assert compacted() == told

    assert compacted(deletes=True) == told
    table = load(lake, STATE)
    assert set(table.refs()) == {"main", "somebodys", *(run.key.tag for run in runs.published())}
    assert {snapshot.snapshot_id for snapshot in table.snapshots()} == {*named, unnamed, _head(lake, STATE)}
    assert _files(lake, STATE) == before
    assert runs.seen() == seen

    session.sql(f"ALTER TABLE {states} DROP BRANCH somebodys")
    assert compacted(deletes=True).snapshots == 1
    assert len(_files(lake, STATE)) == len(before) - 1, "the row that nobody saw"
    assert runs.seen() == seen
    assert compacted(deletes=True) == NOTHING

    theirs = f"CALL `{lake.name}`.system.expire_snapshots('{lake.namespace}.{STATE}', TIMESTAMP '2200-01-01', 1)"
    session.sql(theirs).collect()
    assert runs.seen() == seen, "another tool knows the tags"
    assert named <= {snapshot.snapshot_id for snapshot in load(lake, STATE).snapshots()}


def test_a_snapshot_of_several_runs_goes_with_the_last_of_them(
    iceberg: Engine, lake: Lake, runs_of: Callable[[str], Runs]
) -> None:
    """Runs that were published together name the same snapshots."""
    runs, session = runs_of("together"), iceberg.session
    noon_ms = 1_000 * DAY_MS + DAY_MS // 2
    batch = [noon_ms - age * HOUR_MS for age in (1, 2, 3)]
    fill(session, lake, [("together", at) for at in batch])
    (shared,) = {run.snapshots[STATE] for run in runs.published()}
    fill(session, lake, [("together", noon_ms)])
    later_ms = max(snapshot.timestamp_ms for snapshot in load(lake, "runs").snapshots()) + 99 * DAY_MS
    for kept in (2, 1, 0):
        retention = RunRetention(all_hours=1 + kept, hourly_days=0, daily_months=0)
        expire_runs.run(
            iceberg, lake, str(runs.archive), now_ms=noon_ms, retention=retention, deletes=True, only="together"
        )
        compact_tables.run(iceberg, lake, now_ms=later_ms, days=DAYS, deletes=True)
        assert runs.seen() == dict.fromkeys((*batch[:kept], noon_ms), (GROUPS_OF_A_RUN, 1))
        assert (load(lake, STATE).snapshot_by_id(shared) is not None) == (kept > 0)


def test_small_files_are_made_few_where_runs_write_piece_by_piece(
    iceberg: Engine, lake: Lake, runs_of: Callable[[str], Runs]
) -> None:
    runs = runs_of("pieces")
    fill(iceberg.session, lake, [("pieces", FIRST)])
    for number in range(SMALL_FILES):
        append(iceberg.session, lake, CHANGES, [row(CHANGES, ("pieces", SECOND), group_id=f"g{number}")])
    append(iceberg.session, lake, STATE, [row(STATE, ("pieces", FIRST), group_id="g") for _ in range(SMALL_FILES)])
    before, seen = load(lake, CHANGES).scan().count(), runs.seen()
    found = compact_tables.run(iceberg, lake, now_ms=0, days=DAYS)
    assert (found.small_files, found.new_files) == (SMALL_FILES, 1)
    assert load(lake, CHANGES).scan().count() == before
    assert runs.seen() == seen
    assert compact_tables.run(iceberg, lake, now_ms=0, days=DAYS) == NOTHING


def _head(lake: Lake, table: str) -> int:
    snapshot = load(lake, table).current_snapshot()
    assert snapshot is not None
    return int(snapshot.snapshot_id)


def _files(lake: Lake, table: str) -> set[str]:
    """Data files on the disk."""
    folder = Path(load(lake, table).location().removeprefix("file:"))
    return {path.name for path in folder.rglob("*.parquet")}
