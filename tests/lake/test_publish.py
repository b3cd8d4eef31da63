"""Publishing is all or nothing to whoever reads through `runs`, whatever attempts, overlaps and crashes come.

What a catalog could do differently is tried on each kind of them.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import DataScan
from pyspark.sql import SparkSession

from sexton.archive.folder import Folder
from sexton.errors import NoCoverage, SextonError, UsageError
from sexton.lake import publish as publishing
from sexton.lake.branch import RunKey, drop_branch, ensure_tables, read_branch, write_branch
from sexton.lake.catalog import Lake
from sexton.lake.publish import publish
from sexton.lake.read import (
    PublishedRun,
    load,
    owner,
    published_at,
    published_instants,
    published_runs,
    read_published,
)
from sexton.tables import TABLES
from sexton.tables.ddl import spark_schema
from tests.killed import Killed
from tests.quality import world
from tests.tiers import later

NAMES = ("groups", "tombstones")
HOUR = 3_600_000
FACTS: dict[str, Any] = {
    "topic_id": "T", "taken_at_ms": 5, "profile": "group_coordinator", "retention_ms": 60_000,
    "cuts": [{"log_partition": 0, "cut": 100}, {"log_partition": 1, "cut": 100}], "coverage": "complete",
    "changes_since_ms": None, "missing_log_partitions": [], "checkpoint_sha256": None, "plan_id": None,
    "plan_sha256": None, "policy_sha256": None, "code_version": "1", "engine": "spark",
    "counts": [{"table": "groups", "rows": 2}, {"table": "tombstones", "rows": 1}], "warnings": ["one"],
}  # fmt: skip


any_catalog = pytest.mark.parametrize("lake", ["sqlite"], indirect=True, scope="module")
"""About rows and readers: one kind of catalog is enough."""


def write_rows(spark: SparkSession, lake: Lake, folder: Path, key: RunKey, rows: world.Rows) -> None:
    """The branch of a run with these rows, by table; the files lie in `folder`."""
    own = {"cluster_id": key.cluster_id, "as_of_ms": key.as_of_ms, "run_id": key.run_id}
    files = {name: [f"{key.run_id}.{key.as_of_ms}.{name}.parquet"] for name in rows}
    for name, found in rows.items():
        table = pa.Table.from_pylist([{**row, **own} for row in found], schema=TABLES[name].arrow_schema())
        pq.write_table(table, folder / files[name][0])
    write_branch(spark, lake, key, Folder(folder), files)


class Runs:
    """Writes and publishes runs of a cluster of their own, so that tests share tables but no rows."""

    def __init__(self, spark: SparkSession, lake: Lake, folder: Path, cluster_id: str) -> None:
        self.spark, self.lake, self.folder, self.cluster_id = spark, lake, folder, cluster_id
        self.facts: dict[RunKey, dict[str, Any]] = {}

    def key(self, run_id: str, hour: int = 1) -> RunKey:
        return RunKey(cluster_id=self.cluster_id, as_of_ms=hour * HOUR, run_id=run_id)

    def write(self, run_id: str, hour: int = 1, *, groups: int = 2, tombstones: int = 1) -> RunKey:
        """The branch of a run with so many rows, each marked by its run."""
        key = self.key(run_id, hour)
        rows = {
            "groups": [world.group(f"g{n}", 0) for n in range(groups)],
            "tombstones": [world.tombstone(n, n) for n in range(tombstones)],
        }
        write_rows(self.spark, self.lake, self.folder, key, rows)
        counts = [{"table": "groups", "rows": groups}, {"table": "tombstones", "rows": tombstones}]
        self.facts[key] = {**FACTS, "counts": counts}
        return key

    def publish(self, key: RunKey, **facts: Any) -> PublishedRun:
        return publish(lambda: self.spark, self.lake, key, NAMES, {**self.facts.get(key, FACTS), **facts})

    def both(self, run_id: str, hour: int = 1, **rows: int) -> PublishedRun:
        return self.publish(self.write(run_id, hour, **rows))

    def published(self) -> list[PublishedRun]:
        return published_runs(self.lake, self.cluster_id)

    def counts(self, run: PublishedRun) -> tuple[int, ...]:
        """Rows of the run, read as its readers do; each is the run's own."""
        tables = [read_published(self.lake, run, name) for name in NAMES]
        assert all(table["run_id"].unique().to_pylist() in ([run.key.run_id], []) for table in tables)
        return tuple(table.num_rows for table in tables)

    def seen(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """Everything that readers see: (run, hour) -> rows of every table."""
        return {(run.key.run_id, run.key.as_of_ms // HOUR): self.counts(run) for run in self.published()}

    def on_main(self, key: RunKey) -> tuple[str | None, ...]:
        return tuple(owner(load(self.lake, name), key) for name in NAMES)

    def tagged(self, key: RunKey) -> tuple[str | None, ...]:
        """The run whose rows the tag of the instant shows, by table; "" without a tag."""
        tables = [load(self.lake, name) for name in NAMES]
        heads = [table.snapshot_by_name(key.tag) for table in tables]
        return tuple(
            owner(table, key, snapshot_id=head.snapshot_id) if head else ""
            for table, head in zip(tables, heads, strict=True)
        )

    def branches(self, key: RunKey) -> list[str]:
        return [name for name in NAMES if key.branch in load(self.lake, name).refs()]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, lake: Lake) -> None:
    """Tables with a first run in them, as they are on any day but the first."""
    ensure_tables(spark, lake, [TABLES[name] for name in (*NAMES, "runs")])


@pytest.fixture
def runs(spark: SparkSession, lake: Lake, tables: None, tmp_path: Path, request: pytest.FixtureRequest) -> Runs:
    return Runs(spark, lake, tmp_path, request.node.name)


def test_the_first_runs_of_a_new_lake(runs: Runs) -> None:
    """Before anything is on main, branches share no ancestor with it. This test comes first in a new lake."""
    assert load(runs.lake, "groups").current_snapshot() is None
    one, other = runs.write("one", 1), runs.write("other", 2)
    runs.publish(one)
    runs.publish(other)
    assert runs.seen() == {("one", 1): (2, 1), ("other", 2): (2, 1)}


@any_catalog
def test_the_option_named_branch_writes_to_main(runs: Runs) -> None:
    """Why a setting of the session names the branch: Iceberg ignores the option, silently."""
    key = runs.write("one")
    rows = runs.spark.table(runs.lake.identifier("groups", key.branch)).where(key.partition())
    runs.spark.sql(f"ALTER TABLE {runs.lake.identifier('groups')} CREATE BRANCH trap")
    rows.writeTo(runs.lake.identifier("groups")).option("branch", "trap").overwritePartitions()
    assert owner(load(runs.lake, "groups"), key) == "one"


@any_catalog
def test_a_branch_is_no_publication(runs: Runs) -> None:
    key = runs.write("one")
    assert runs.branches(key) == list(NAMES)
    assert runs.on_main(key) == (None, None)
    assert runs.published() == []


@any_catalog
def test_a_branch_is_read_back(runs: Runs) -> None:
    key = runs.write("one", groups=3)
    rows = read_branch(runs.spark, runs.lake, key, "groups")
    assert rows.count() == 3
    declared = runs.spark.createDataFrame([], spark_schema(TABLES["groups"])).schema
    assert [field.dataType for field in rows.schema] == [field.dataType for field in declared]


@any_catalog
def test_writing_a_branch_again_replaces_it(runs: Runs) -> None:
    runs.write("one", groups=3)
    assert runs.counts(runs.publish(runs.write("one", groups=1, tombstones=0))) == (1, 0)


def test_publishing_twice_is_publishing_once(runs: Runs) -> None:
    key = runs.write("one")
    first = runs.publish(key)
    assert runs.branches(key) == []
    before = [load(runs.lake, name).metadata_location for name in (*NAMES, "runs")]
    second = runs.publish(key)
    assert second.snapshots == first.snapshots
    assert before == [load(runs.lake, name).metadata_location for name in (*NAMES, "runs")]


@pytest.mark.thorough
@any_catalog
@pytest.mark.parametrize("name", ["plan_id", "policy_sha256"])
def test_what_is_published_is_not_judged_anew_by_the_same_name(runs: Runs, name: str) -> None:
    """Else the archive would keep a plan that the tables know nothing of."""
    key = runs.write("one")
    runs.publish(key)
    runs.write("one", groups=5)
    with pytest.raises(UsageError, match=f"run one is published already, with another {name}"):
        runs.publish(key, **{name: "another"})
    assert runs.seen() == {("one", 1): (2, 1)}


@any_catalog
def test_what_runs_tells_comes_back(runs: Runs) -> None:
    run = runs.both("one")
    (found,) = runs.published()
    assert found == run
    assert found.cuts == {0: 100, 1: 100}
    assert {name: found.row[name] for name in FACTS} == FACTS


@any_catalog
def test_two_commits_for_a_table_with_rows_and_none_for_one_without(runs: Runs) -> None:
    """Each writes all metadata of the table anew: the branch, then main in its place; and one for the row of `runs`."""
    runs.both("first", 1)

    def commits() -> list[int]:
        files = [load(runs.lake, name).metadata_location.rpartition("/")[2] for name in (*NAMES, "runs")]
        return [int(file.partition("-")[0]) for file in files]

    before = commits()
    runs.both("next", 2, tombstones=0)
    assert [after - count for after, count in zip(commits(), before, strict=True)] == [2, 0, 1]


@any_catalog
def test_a_run_without_a_branch_is_refused(runs: Runs) -> None:
    with pytest.raises(UsageError, match="validate_tables"):
        runs.publish(runs.key("one"))
    assert runs.published() == []


@pytest.mark.thorough
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "in reverse"])
def test_runs_of_two_instants_overlap(runs: Runs, order: tuple[int, int]) -> None:
    """Both branches are made before either is published: neither's main is the other's."""
    keys = [runs.write("early", 1, groups=1), runs.write("late", 2, groups=4)]
    for at in order:
        runs.publish(keys[at])
    assert [runs.tagged(key) for key in keys] == [("early", "early"), ("late", "late")]
    assert runs.seen() == {("early", 1): (1, 1), ("late", 2): (4, 1)}
    assert runs.on_main(keys[0]) == ("early", "early")
    assert runs.on_main(keys[1]) == ("late", "late")


@pytest.mark.thorough
@any_catalog
def test_rows_that_nobody_replaced_are_not_written_again(runs: Runs) -> None:
    early, late = runs.write("early", 1), runs.write("late", 2)
    files = {
        task.file.file_path for task in load(runs.lake, "groups").scan(snapshot_id=branch_head(runs, late)).plan_files()
    }
    runs.publish(early)
    runs.publish(late)
    assert files <= {task.file.file_path for task in load(runs.lake, "groups").scan().plan_files()}


def branch_head(runs: Runs, key: RunKey) -> int:
    head = load(runs.lake, "groups").snapshot_by_name(key.branch)
    assert head is not None
    return head.snapshot_id


@any_catalog
@pytest.mark.parametrize("second", [(3, 2), (0, 2), (0, 0)], ids=["other rows", "one table empty", "all empty"])
def test_a_later_attempt_replaces_an_earlier_one(runs: Runs, second: tuple[int, int]) -> None:
    """Also where it has no row: overwritePartitions alone would leave the earlier rows there."""
    runs.both("first", groups=2, tombstones=1)
    later = runs.both("second", groups=second[0], tombstones=second[1])
    assert runs.seen() == {("second", 1): second}
    assert runs.tagged(later.key) == tuple("second" if count else None for count in second)


@pytest.mark.thorough
@pytest.mark.parametrize("rows", [(3, 2), (0, 0)], ids=["rows", "empty"])
def test_main_replaced_the_partition_since_the_branch_was_made(runs: Runs, rows: tuple[int, int]) -> None:
    runs.both("before")
    slow = runs.write("slow", groups=rows[0], tombstones=rows[1])
    runs.both("quick", groups=5)
    runs.publish(slow)
    assert runs.seen() == {("slow", 1): rows}
    assert runs.on_main(slow) == runs.tagged(slow) == tuple("slow" if count else None for count in rows)


@pytest.mark.thorough
@any_catalog
def test_an_empty_first_attempt_is_filled_by_a_second(runs: Runs) -> None:
    slow = runs.write("slow", groups=2)
    runs.both("empty", groups=0, tombstones=0)
    assert runs.seen() == {("empty", 1): (0, 0)}
    runs.publish(slow)
    assert runs.seen() == {("slow", 1): (2, 1)}


@any_catalog
def test_other_clusters_are_left_alone(runs: Runs) -> None:
    """Schedulers give runs of several clusters the same id, and they go on side by side."""
    folder = runs.folder / "theirs"
    folder.mkdir()
    other = Runs(runs.spark, runs.lake, folder, "of another's")
    ours = runs.write("same", groups=2)
    theirs = other.write("same", groups=1)
    runs.publish(ours)
    other.publish(theirs)
    assert other.seen() == {("same", 1): (1, 1)}
    assert runs.seen() == {("same", 1): (2, 1)}


STEPS = ("_publish_table groups", "_publish_table tombstones", "_write_rows", "drop_branch")


def failpoint(monkeypatch: pytest.MonkeyPatch, step: str, *, after: bool) -> None:
    """Die before or after one step of publishing."""
    name, _, table = step.partition(" ")
    real: Callable[..., Any] = getattr(publishing, name)

    def dying(*args: Any) -> Any:
        if table and args[3] != table:
            return real(*args)
        if after:
            real(*args)
        raise Killed(step)

    monkeypatch.setattr(publishing, name, dying)


@any_catalog
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", later(pytest.mark.thorough, STEPS, but=["_publish_table tombstones"]))
def test_a_crash_anywhere_and_again(runs: Runs, monkeypatch: pytest.MonkeyPatch, step: str, after: bool) -> None:
    """Until `runs` names the new run, readers see all of the old one; afterwards, all of the new one."""
    runs.both("old", groups=1, tombstones=0)
    key = runs.write("new", groups=4, tombstones=3)
    failpoint(monkeypatch, step, after=after)
    with pytest.raises(Killed):
        runs.publish(key)
    is_named = step == "drop_branch" or (step == "_write_rows" and after)
    assert runs.seen() == ({("new", 1): (4, 3)} if is_named else {("old", 1): (1, 0)})
    monkeypatch.undo()
    runs.publish(key)
    assert runs.seen() == {("new", 1): (4, 3)}
    assert runs.on_main(key) == runs.tagged(key) == ("new", "new")
    assert runs.branches(key) == []


@pytest.mark.thorough
def test_a_crash_and_then_another_attempt(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    key = runs.write("dead", groups=4, tombstones=3)
    failpoint(monkeypatch, "_publish_table tombstones", after=False)
    with pytest.raises(Killed):
        runs.publish(key)
    monkeypatch.undo()
    runs.both("alive", groups=2, tombstones=2)
    assert runs.seen() == {("alive", 1): (2, 2)}
    assert runs.on_main(key) == ("alive", "alive")


@pytest.mark.thorough
def test_publishers_side_by_side(runs: Runs) -> None:
    """Two at once get into each other's way; both land."""
    keys = [runs.write(f"r{hour}", hour, groups=hour) for hour in (1, 2)]
    errors: list[BaseException] = []

    def work(key: RunKey) -> None:
        try:
            runs.publish(key)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert runs.seen() == {("r1", 1): (1, 1), ("r2", 2): (2, 1)}


@any_catalog
def test_the_newest_run_at_an_instant(runs: Runs) -> None:
    for hour in (1, 3):
        runs.both(f"r{hour}", hour)
    for at, expected in ((HOUR, "r1"), (3 * HOUR - 1, "r1"), (3 * HOUR, "r3"), (99 * HOUR, "r3")):
        assert published_at(runs.lake, at, cluster_id=runs.cluster_id).key.run_id == expected
    with pytest.raises(NoCoverage):
        published_at(runs.lake, HOUR - 1, cluster_id=runs.cluster_id)


def test_the_instants_of_runs_are_known_without_reading_them(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """`runs` has a file for each run: in a year, thousands."""
    for run_id, hour in (("one", 1), ("two", 2), ("again", 1)):
        runs.both(run_id, hour)
    monkeypatch.setattr(DataScan, "to_arrow", None)
    assert published_instants(runs.lake, runs.cluster_id) == [(hour * HOUR, runs.cluster_id) for hour in (1, 2)]


@any_catalog
def test_a_run_outlives_its_snapshot(runs: Runs) -> None:
    """Maintenance may expire the snapshot that `runs` names, as long as the rows stay."""
    gone = PublishedRun(key=(run := runs.both("one")).key, row={**run.row, "snapshots": []})
    assert runs.counts(gone) == (2, 1)
    runs.both("two")
    with pytest.raises(SextonError, match="expired"):
        read_published(runs.lake, gone, "groups")


@any_catalog
def test_columns_can_be_chosen(runs: Runs) -> None:
    run = runs.both("one")
    found = read_published(runs.lake, run, "groups", ["group_id", "subscribed_topics"])
    assert found.schema.names == ["group_id", "subscribed_topics"]
    assert sorted(found["group_id"].to_pylist()) == ["g0", "g1"]


@pytest.mark.thorough
@any_catalog
def test_an_older_table_gets_new_columns_and_names(runs: Runs) -> None:
    table = TABLES["load_profile"]
    identifier = runs.lake.identifier(table)
    runs.spark.sql(f"CREATE TABLE {identifier} (cluster_id STRING, as_of_ms BIGINT, stray_groups BIGINT) USING iceberg")
    runs.spark.sql(f"INSERT INTO {identifier} VALUES ('a', 1, 7)")
    ensure_tables(runs.spark, runs.lake, [table])
    assert {field.name for field in load(runs.lake, table.name).schema().fields} == set(table.arrow_schema().names)
    assert runs.spark.sql(f"SELECT misplaced_groups FROM {identifier}").collect()[0][0] == 7


@any_catalog
def test_dropping_a_branch_that_is_not_there(runs: Runs) -> None:
    drop_branch(runs.lake, runs.key("nobody"), NAMES)
