"""What the dashboard reads is what was published, each run whole; and what it keeps in memory has an end."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from sexton.errors import NoCoverage
from sexton.lake import published_tables, run_cache
from sexton.lake.branch import RunKey
from sexton.lake.database import Database, UnreadableFiles
from sexton.lake.published_tables import PublishedTables, at
from sexton.lake.read import RunGone
from sexton.tables import TABLES
from sexton.ui.group_queries import GroupQuery, find_groups, groups_of
from sexton.ui.overview import overview
from tests.ui.lakes import WrittenLake, as_table, create_table, lake_at, run_row
from tests.ui.worlds import FIRST_MS, HOUR_MS, MAIN, OTHER, RUNS, key

AGAIN = RunKey(cluster_id="c", as_of_ms=FIRST_MS, run_id="again")
ONCE = RunKey(cluster_id="c", as_of_ms=FIRST_MS, run_id="once")


def group(name: str) -> dict[str, Any]:
    return {"group_id": name, "group_type": "Classic", "state": "Empty"}


def names(tables: PublishedTables, run: Any) -> list[str]:
    return [row["group_id"] for row in tables.rows(f"SELECT group_id FROM {tables.of_run(run, 'groups')} ORDER BY 1")]


def read_at_a_snapshot_that_is_gone(lake: WrittenLake, table: str) -> PublishedTables:
    """What `runs` names of the run ONCE is a snapshot that the table has not."""
    named = [{"table": table, "snapshot_id": 1}]
    lake.append("runs", as_table("runs", [run_row(ONCE, snapshots=named, counts=[])], ONCE))
    return PublishedTables(lambda: lake.lake)


def test_runs_of_every_cluster_oldest_first(tables: PublishedTables) -> None:
    assert [run.key for run in tables.runs()] == [key(0), key(0, OTHER), *(key(number) for number in range(1, RUNS))]


@pytest.mark.parametrize(
    ("cluster_id", "as_of_ms", "number"),
    [(None, None, RUNS - 1), (MAIN, FIRST_MS, 0), (MAIN, FIRST_MS + HOUR_MS + 1, 1), (None, 2**62, RUNS - 1)],
)
def test_the_run_at_an_instant(
    tables: PublishedTables, cluster_id: str | None, as_of_ms: int | None, number: int
) -> None:
    assert at(tables.runs(), cluster_id=cluster_id, as_of_ms=as_of_ms).key == key(number)


@pytest.mark.parametrize(("cluster_id", "as_of_ms"), [(MAIN, FIRST_MS - 1), ("none such", None), (OTHER, 0)])
def test_no_run_there(tables: PublishedTables, cluster_id: str, as_of_ms: int | None) -> None:
    with pytest.raises(NoCoverage):
        at(tables.runs(), cluster_id=cluster_id, as_of_ms=as_of_ms)


def test_nothing_was_ever_published(tmp_path: Path) -> None:
    lake = lake_at(tmp_path, tables=())
    assert PublishedTables(lambda: lake.lake).runs() == ()


def test_a_new_run_is_seen_once_the_list_is_not_fresh(tmp_path: Path) -> None:
    lake, now = lake_at(tmp_path), [0.0]
    tables = PublishedTables(lambda: lake.lake, clock=lambda: now[0])
    lake.publish(ONCE, {"groups": [group("a")]})
    assert len(tables.runs()) == 1
    lake.publish(key(5, "c"), {"groups": [group("a")]})
    assert len(tables.runs()) == 1
    now[0] += published_tables.FRESH_S
    assert [run.key for run in tables.runs()] == [ONCE, key(5, "c")]


def test_runs_of_two_clusters_by_the_same_name_are_told_apart(tmp_path: Path) -> None:
    """A scheduler gives runs of the same hour the same id; who reads one cluster may not read the other."""
    lake = lake_at(tmp_path)
    for cluster_id in ("ours", "theirs"):
        key = RunKey(cluster_id=cluster_id, as_of_ms=FIRST_MS, run_id="scheduled")
        lake.publish(key, {"groups": [group(cluster_id)]})
    tables = PublishedTables(lambda: lake.lake)
    assert [names(tables, run) for run in tables.runs()] == [["ours"], ["theirs"]]
    several = [tables.rows(f"SELECT group_id FROM {tables.of_runs([run], 'groups')}") for run in tables.runs()]
    assert several == [[{"group_id": "ours"}], [{"group_id": "theirs"}]]


def test_two_attempts_are_never_mixed(tmp_path: Path) -> None:
    """The second attempt's rows stand beside the first's: whoever reads the first sees none of them."""
    lake = lake_at(tmp_path)
    lake.publish(ONCE, {"groups": [group("first")]})
    lake.append("groups", as_table("groups", [group("second")], AGAIN))
    tables = PublishedTables(lambda: lake.lake)
    (run,) = tables.runs()
    assert names(tables, run) == ["first"]
    assert tables.rows(f"SELECT group_id FROM {tables.of_runs([run], 'groups')}") == [{"group_id": "first"}]
    lake.append("groups", as_table("groups", [group("third")], key(1, "c")))
    several = PublishedTables(lambda: lake.lake)
    assert several.rows(f"SELECT group_id FROM {several.of_runs([run], 'groups')}") == [{"group_id": "first"}]


def test_of_a_partition_with_two_attempts_only_the_runs_own_is_read(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    lake.append("groups", as_table("groups", [group("second")], AGAIN))
    lake.publish(ONCE, {"groups": [group("first")]})
    tables = PublishedTables(lambda: lake.lake)
    assert names(tables, tables.runs()[0]) == ["first"]


def test_a_run_is_read_at_its_snapshot(tmp_path: Path) -> None:
    """Another attempt has replaced the partition: the run's rows are still at the snapshot that `runs` names."""
    lake = lake_at(tmp_path)
    lake.publish(ONCE, {"groups": [group("first")]})
    replace(lake, "groups", [group("second")])
    tables = PublishedTables(lambda: lake.lake)
    assert names(tables, tables.runs()[0]) == ["first"]


def test_a_run_whose_rows_were_replaced_is_gone(tmp_path: Path) -> None:
    """Its snapshot is not there any more, and today's rows are another's: nothing is better than those."""
    lake = lake_at(tmp_path)
    lake.append("groups", as_table("groups", [group("second")], AGAIN))
    tables = read_at_a_snapshot_that_is_gone(lake, "groups")
    with pytest.raises(RunGone):
        names(tables, tables.runs()[0])


def test_a_snapshot_that_expired_is_read_from_today(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    lake.append("groups", as_table("groups", [group("first")], ONCE))
    tables = read_at_a_snapshot_that_is_gone(lake, "groups")
    assert names(tables, tables.runs()[0]) == ["first"]


def test_columns_declared_since_are_null(tmp_path: Path) -> None:
    lake = lake_at(tmp_path, tables=[name for name in TABLES if name != "offset_verdicts"])
    old = TABLES["offset_verdicts"].arrow_schema()
    for name in ("orphan", "left_topic", "behind_log_start", "pinned_by_producer_id"):
        old = old.remove(old.get_field_index(name))
    create_table(lake.catalog, "offset_verdicts", old)
    verdict = {"group_id": "g", "topic": "t", "broker_verdict": "expire", "broker_reason": "expired"}
    rows = as_table("offset_verdicts", [verdict], ONCE).select(old.names)
    lake.catalog.load_table("sexton.offset_verdicts").append(rows)
    lake.append("groups", as_table("groups", [group("g")], ONCE))
    tables = read_at_a_snapshot_that_is_gone(lake, "offset_verdicts")
    (found,) = find_groups(tables, tables.runs()[0], GroupQuery()).rows
    assert (found["due"], found["orphans"], found["left_topics"], found["pinned"]) == (1, 0, 0, 0)


def test_a_place_with_patterns_in_its_name(tmp_path: Path) -> None:
    """DuckDB takes * ? [ for patterns, and would read what is beside it."""
    database, places = Database(), ("a*", "ab", "a[b]", "a?", "a'")
    for number, place in enumerate(places):
        (tmp_path / place).mkdir()
        pa.parquet.write_table(pa.table({"n": [number]}), tmp_path / place / "x.parquet")
    for number, place in enumerate(places):
        read = database.reading([str(tmp_path / place / "x.parquet")], {})
        assert database.rows(f"SELECT n FROM {read}") == [{"n": number}], place


def test_what_is_kept_has_an_end(world: WrittenLake) -> None:
    now = [0.0]
    tables = PublishedTables(lambda: world.lake, clock=lambda: now[0])
    for _ in range(2):
        for run in tables.runs():
            now[0] += run_cache.GRACE_S
            overview(tables, run)
    now[0] += run_cache.GRACE_S
    tables._cache.drop_old()
    made = tables.rows("SELECT count(*) AS number FROM duckdb_tables()")[0]["number"]
    assert len(tables._cache) == run_cache.RUNS_KEPT
    assert made == 2 * run_cache.RUNS_KEPT


def test_a_table_that_is_being_read_stays_for_a_moment(world: WrittenLake) -> None:
    tables = PublishedTables(lambda: world.lake, clock=lambda: 0.0)
    first = groups_of(tables, tables.runs()[0])
    for run in tables.runs():
        overview(tables, run)
    assert tables.rows(f"SELECT count(*) AS rows FROM {first}")[0]["rows"] > 0


def test_nothing_is_computed_twice_at_once(tables: PublishedTables) -> None:
    made: list[int] = []

    def make() -> int:
        time.sleep(0.05)
        made.append(1)
        return 7

    run = tables.runs()[0]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: tables.computed(run, "slow", make), range(8)))
    assert (found, made) == ([7] * 8, [1])


def test_files_that_are_gone_are_told_and_planned_anew(tmp_path: Path) -> None:
    lake = lake_at(tmp_path)
    lake.publish(ONCE, {"groups": [group("a")]})
    tables = PublishedTables(lambda: lake.lake)
    (run,) = tables.runs()
    source = tables.of_run(run, "groups")
    (file,) = (tmp_path / "warehouse").glob("sexton/groups/data/**/*.parquet")
    moved = file.rename(tmp_path / "away")
    with pytest.raises(UnreadableFiles):
        tables.rows(f"SELECT * FROM {source}")
    moved.rename(file)
    assert names(tables, run) == ["a"]


def test_memory_has_a_limit(world: WrittenLake) -> None:
    tables = PublishedTables(lambda: world.lake, database=Database(memory_mb=64))
    with pytest.raises(UnreadableFiles):
        tables.rows("SELECT list(n) AS rows FROM range(100_000_000) t(n)")


def test_the_database_keeps_to_itself(tables: PublishedTables) -> None:
    names = ("autoinstall_known_extensions", "autoload_known_extensions", "allow_community_extensions")
    for name in (*names, "python_enable_replacements"):
        assert tables.rows(f"SELECT current_setting('{name}') AS value") == [{"value": False}]
    for statement in ("SET memory_limit='9GB'", "SET temp_directory='/tmp'", "SET autoload_known_extensions=true"):
        with pytest.raises(UnreadableFiles):
            tables.database.rows(statement)


def replace(lake: WrittenLake, table: str, rows: list[dict[str, Any]]) -> None:
    """Another attempt's rows in place of what is there."""
    found = lake.catalog.load_table(f"sexton.{table}")
    found.overwrite(as_table(table, rows, AGAIN))
