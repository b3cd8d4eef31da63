"""Great Expectations on Spark agrees with DuckDB on every expectation; its Data Docs show the rows that break one."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sexton.pipeline.validate_tables import CONF_FOR_FEW_ROWS
from sexton.quality.expectation import Expectation, ExpectationResult
from sexton.quality.laws import CHANGE_LAWS
from sexton.quality.queried_views import KEY, CheckedRun
from sexton.quality.spark_checks import CONF_FOR_MANY_ROWS, check, count_broken, create_views, frame
from sexton.quality.suites import suites_of
from sexton.runs.spark_session import SHUFFLE_PARTITIONS, session_conf, spark_session
from sexton.tables import INTERVAL_TABLES
from tests.quality import test_change_expectations as changes
from tests.quality import world
from tests.quality.test_expectations import BY_ROWS, POLICY
from tests.ui import chromium

IN_INTERVAL = replace(world.RUN, has_changes=True, policy=POLICY.canonical)
MANY_ROWS = {**CONF_FOR_MANY_ROWS, SHUFFLE_PARTITIONS: "2"}
LAWS_OF_CHANGES = {law.name: law for law in CHANGE_LAWS}


@pytest.fixture(scope="module")
def spark(needs_spark: None) -> Iterator[SparkSession]:
    session = spark_session(iceberg=True)  # the JVM stays for the tests after it
    with session_conf(session, CONF_FOR_FEW_ROWS):
        yield session
    session.catalog.clearCache()


def judged(
    spark: SparkSession,
    tables: dict[str, pa.Table],
    run: CheckedRun = world.RUN,
    docs: Path | None = None,
    own: tuple[Expectation, ...] = (),
) -> list[ExpectationResult]:
    frames = {name: spark.createDataFrame(rows) for name, rows in tables.items()}
    try:
        return check(spark, frames, world.shapes_of(tables), suites_of(run, own), run, docs=docs)
    finally:
        spark.catalog.clearCache()


def outcome(result: ExpectationResult) -> tuple[str, str, bool, str]:
    observed = result.observed.split(" in ")[0]  # the number of rows of a table without failure is DuckDB's to say
    return result.table, result.expectation, result.success, observed


def test_a_sound_run_passes_in_both(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tables = world.tables_of(world.sound())
    capfd.readouterr()
    found = judged(spark, tables, docs=tmp_path / "dq")
    assert capfd.readouterr() == ("", ""), "the library has nothing to say"
    assert [result for result in found if not result.success] == []
    assert [outcome(result) for result in found] == [outcome(result) for result in world.judged(tables)]
    assert (tmp_path / "dq" / "index.html").is_file()


def broken_worlds() -> Iterator[tuple[dict[str, pa.Table], dict[tuple[str, str], int]]]:
    """Tables in which each law of BY_ROWS is broken, as many at once as break beside the others; DuckDB's counts."""

    def removes(name: tuple[str, str]) -> bool:  # then the rows after it have other numbers
        rows = world.sound()
        BY_ROWS[name](rows)
        return sum(map(len, rows.values())) < sum(map(len, world.sound().values()))

    left = sorted(BY_ROWS, key=removes)
    while left:
        rows = world.sound()
        for name in left:
            BY_ROWS[name](rows)
        counts = world.counts(tables := world.tables_of(rows))
        yield tables, counts
        before, left = left, [name for name in left if not counts[name]]
        assert len(left) < len(before), left


@pytest.mark.thorough
@pytest.mark.parametrize("conf", [{}, MANY_ROWS], ids=["few rows", "many rows"])
def test_every_query_returns_as_many_rows_in_both(spark: SparkSession, conf: dict[str, str]) -> None:
    """Of worlds in which every law is broken. Without Great Expectations: the next tests are about what it adds."""
    suites = suites_of(world.RUN)
    for tables, in_duckdb in broken_worlds():
        frames = {name: spark.createDataFrame(found) for name, found in tables.items()}
        with session_conf(spark, conf):
            views = create_views(spark, frames, world.RUN, counted=suites)
            counts = count_broken(spark, suites, views)
        assert {key: counts[key] for key in in_duckdb} == in_duckdb
        spark.catalog.clearCache()


@pytest.mark.thorough
def test_many_rows_are_shown_whole(spark: SparkSession) -> None:
    """Although the queries that count them name few columns."""
    tables, _ = next(broken_worlds())
    with session_conf(spark, MANY_ROWS):
        found = judged(spark, tables)
    expected = world.judged(tables)
    assert [outcome(result) for result in found] == [outcome(result) for result in expected]
    assert [sorted(result.failing_rows) for result in found] == [sorted(result.failing_rows) for result in expected]


def test_only_columns_that_queries_name_are_kept(spark: SparkSession) -> None:
    """All of them, where a query of a user may depend on columns that it does not name."""
    frames = {name: spark.createDataFrame(rows) for name, rows in world.tables_of(world.sound()).items()}
    query = "SELECT DISTINCT * FROM committed_offsets"
    own = Expectation(table="groups", name="own", sentence="of a user", sql=query, is_users=True)
    columns = []
    for more in ([], [own]):
        with session_conf(spark, MANY_ROWS):
            views = create_views(spark, frames, world.RUN, counted=suites_of(world.RUN, more), known=["groups"])
        columns.append(set(views["committed_offsets"].columns))
        assert set(views["whole_committed_offsets"].columns) == set(frames["committed_offsets"].columns)
        assert "whole_groups" not in views
        spark.catalog.clearCache()
    assert {*KEY, "committed_offset"} <= columns[0] < columns[1] == set(frames["committed_offsets"].columns)


@pytest.mark.full
@pytest.mark.usefixtures("needs_browser")
def test_an_interval_and_a_policy_in_both(spark: SparkSession, tmp_path: Path) -> None:
    """The laws of offset_changes, holds, declared columns, and the expectation of a user; the pages show their rows."""
    rows = {**world.sound(), **{table.name: [] for table in INTERVAL_TABLES}}
    for name in ("another end", "ambiguous with one", "expired too early", "set to what it was"):
        own = changes.world()
        changes.BROKEN[name][0](own)
        shared = {"cluster_id": "c1", "as_of_ms": 1_000, "run_id": "r1"}
        rows["offset_changes"] += [
            {**world.row("offset_changes"), **row, **shared, "group_id": f"{row['group_id']} {name}"}
            for row in own["offset_changes"]
        ]
    rows["groups"][2].update(state="Odd", member_count=-1, protocol_type=None)
    rows["members"].append(rows["members"][0])
    rows["committed_offsets"][0].update(topic=None, leader_epoch=-1, log_offset=100)
    mine = Expectation(
        table="groups", name="mine", sentence="no group of mine is {empty}", severity="warning",
        sql="SELECT * FROM groups WHERE state = '{empty}' OR offset_count = 1",
    )  # fmt: skip
    tables = world.tables_of(rows)
    found = judged(spark, tables, IN_INTERVAL, docs=tmp_path, own=(mine,))
    suites = suites_of(IN_INTERVAL, (mine,))
    in_duckdb = world.check(tables, world.shapes_of(tables), suites, IN_INTERVAL)
    assert [outcome(result) for result in found] == [outcome(result) for result in in_duckdb]
    assert [sorted(result.failing_rows) for result in found] == [sorted(result.failing_rows) for result in in_duckdb]
    failed = {result.expectation: result for result in found if not result.success}
    assert failed[mine.sentence].failing_rows
    assert failed["nothing is planned for a group that the policy holds"].observed == "3"
    assert LAWS_OF_CHANGES["other_end"].sentence in failed
    pages = "".join(page.read_text() for page in tmp_path.rglob("*.html"))
    assert "no group of mine is {empty}" in pages
    assert "a another end" in pages
    index, groups = shown_by_browser(tmp_path)
    assert "offset_changes" in index
    assert '"state": "Odd"' in groups


def shown_by_browser(docs: Path) -> list[str]:
    """The texts of the index and of the page of `groups`, which load nothing from elsewhere."""
    (groups,) = docs.glob("validations/groups/**/*.html")
    handler = partial(SimpleHTTPRequestHandler, directory=str(docs))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}"
        pages = [
            {"name": page.stem, "url": f"{base}/{page.relative_to(docs)}", "tell": "body"}
            for page in (docs / "index.html", groups)
        ]
        found = chromium.run_script("check.mjs", docs, cookies=[], pages=pages, looks=[(1280, "light")], shots=False)
        server.shutdown()
    assert [(page["foreign"], page["errors"]) for page in found] == [([], []), ([], [])]
    return [page["text"] for page in found]


def test_rows_after_an_empty_chunk_are_checked_too(spark: SparkSession) -> None:
    """A table that was joined from those of log partitions begins with the chunk of one that has no row."""
    empty, found = (
        pa.record_batch({"member_ids": pa.array(rows, pa.list_(pa.string()))}) for rows in ([], [["m"], []])
    )
    assert frame(spark, pa.Table.from_batches([empty, empty, found])).count() == 2
    assert frame(spark, pa.Table.from_batches([empty, empty])).count() == 0


def test_what_is_not_there_is_no_pass(spark: SparkSession) -> None:
    tables = world.tables_of(world.sound())
    del tables["groups"]
    tables["members"] = tables["members"].drop_columns(["member_id"])
    found = judged(spark, tables)
    assert [outcome(result) for result in found] == [outcome(result) for result in world.judged(tables)]
    assert {"groups", "members"} <= {result.table for result in found if result.stops_publication}


def test_a_query_that_fails_on_a_name_is_not_measured(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's error quotes the name, and the library's pages show tracebacks as HTML."""
    name = "<img src=x onerror=alert(1)>\x1b[31m\u202e"
    tables = world.tables_of({"groups": [world.group(name, 0)]})
    sql = "SELECT * FROM groups WHERE CAST(group_id AS INT) > 0"
    mine = Expectation(table="groups", name="mine", sentence="ids are numbers", sql=sql)
    rows = {"groups": spark.createDataFrame(tables["groups"])}
    (result,) = check(spark, rows, world.shapes_of(tables), {"groups": [mine]}, world.RUN, docs=tmp_path)
    assert (result.success, result.failing_rows) == (False, [])
    assert result.observed == "not measured: [CAST_INVALID_INPUT]", "an alert names no group"
    pages = "".join(page.read_text("utf-8") for page in tmp_path.rglob("*.html"))
    assert "CAST_INVALID_INPUT" in pages
    assert not [mark for mark in ("<img src=x", "\x1b", "\u202e") if mark in pages]
