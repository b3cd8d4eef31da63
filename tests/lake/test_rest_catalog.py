"""A REST catalog, named by the setting alone: from an archive to published tables and their readers, Spark's and ours.

What a catalog could do differently while runs overlap is in test_publish.py.
"""

import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from sexton.lake import catalog as catalog_module
from sexton.lake.catalog import Lake, open_lake
from sexton.lake.published_tables import PublishedTables
from sexton.lake.read import PublishedRun, published_runs, read_published
from sexton.pipeline import find_expired, plan_tombstones, publish_tables, validate_tables
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.runs.processes import AutoEngine
from sexton.settings import Settings
from sexton.tables import SNAPSHOT_TABLES
from tests.archived import CLUSTER
from tests.commands import sexton
from tests.lake_session import check_by_duckdb, engine_of, use_lake
from tests.pipeline.archive_runs import instant, run, three_minutes
from tests.rest_catalog import RestCatalog

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.parametrize("lake", ["rest"], indirect=True, scope="module"),
]
BACKFILLED, SCHEDULED = 1, 3
"""Minutes; the later one is published first."""
ENGINES: dict[int, Callable[[SparkSession], Engine]] = {SCHEDULED: engine_of, BACKFILLED: lambda _: AutoEngine()}


@pytest.fixture(scope="module")
def folders(lake: Lake, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[int, RunFolder]:
    """A backfill whose branch was written before a scheduled run was published, and which is published after it: the
    one by Spark's engine, the other by the local one, each with the folder that it was published from."""
    root = tmp_path_factory.mktemp("runs")
    archive = three_minutes(root / "archive")
    folders = {number: RunFolder(root / f"r{number}") for number in ENGINES}
    with pytest.MonkeyPatch.context() as patch:
        use_lake(patch, lake)
        check_by_duckdb(patch)
        assert published_runs(lake) == []
        for number, engine in ENGINES.items():
            run(engine(spark), folders[number].local, archive, instant(number))
            find_expired.run(engine(spark), folders[number])
            plan_tombstones.run(engine(spark), folders[number])
            validate_tables.run(engine_of(spark), folders[number])
        for number in (SCHEDULED, BACKFILLED):
            publish_tables.run(engine_of(spark), folders[number])
    return folders


@pytest.fixture
def runs(lake: Lake, folders: dict[int, RunFolder]) -> dict[int, PublishedRun]:
    """The published runs, by minute."""
    found = published_runs(lake, CLUSTER)
    assert [published.key.as_of_ms for published in found] == [instant(number) for number in sorted(folders)]
    return dict(zip(sorted(folders), found, strict=True))


def written(folder: RunFolder, table: str) -> pa.Table:
    """A table as the run folder has it."""
    return pa.concat_tables(pq.read_table(file, partitioning=None) for file in (folder.local / table).glob("*.parquet"))


def test_a_backfill_over_a_scheduled_run_loses_nothing(
    lake: Lake, folders: dict[int, RunFolder], runs: dict[int, PublishedRun]
) -> None:
    assert {number: published.row["engine"] for number, published in runs.items()} == {1: "local", 3: "spark"}
    for number, published in runs.items():
        for table in SNAPSHOT_TABLES:
            order = [(name, "ascending") for name in table.key] or [("log_partition", "ascending")]
            expected = written(folders[number], table.name).sort_by(order)
            assert read_published(lake, published, table.name).sort_by(order).equals(expected), (number, table.name)


def test_readers(
    rest_catalog: RestCatalog, lake: Lake, spark: SparkSession, folders: dict[int, RunFolder],
    runs: dict[int, PublishedRun],
) -> None:  # fmt: skip
    """Of every run, at the snapshot that it names: pyiceberg and Spark as anybody has them, DuckDB as the dashboard."""
    ours = PublishedTables(lambda: lake)
    assert ours.runs() == tuple(runs.values())
    for number, published in runs.items():
        expected = sorted(written(folders[number], "groups")["group_id"].to_pylist())
        snapshot_id, own = published.snapshots["groups"], f"run_id = '{published.key.run_id}'"
        with load_catalog("any", **rest_catalog.properties) as catalog:
            by_pyiceberg = catalog.load_table("sexton.groups").scan(row_filter=own, snapshot_id=snapshot_id).to_arrow()
        by_spark = spark.read.option("versionAsOf", snapshot_id).table(lake.identifier("groups")).where(own).toArrow()
        by_duckdb = ours.rows(f"SELECT group_id FROM {ours.of_run(published, 'groups')}")
        for found in (by_pyiceberg.to_pylist(), by_spark.to_pylist(), by_duckdb):
            assert sorted(row["group_id"] for row in found) == expected


def test_the_setting_is_enough_for_commands(
    rest_catalog: RestCatalog, runs: dict[int, PublishedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEXTON_CATALOG_PROPERTIES", json.dumps(rest_catalog.properties))
    monkeypatch.setattr(catalog_module, "settings", Settings)
    assert open_lake().properties == rest_catalog.properties
    assert [row["as_of_ms"] for row in sexton("show", "runs")["runs"]] == [
        published.key.as_of_ms for published in runs.values()
    ]


def test_both_clients_log_in_and_no_one_shows_how(
    rest_catalog: RestCatalog, lake: Lake, spark: SparkSession, runs: dict[int, PublishedRun],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """The server gives a token for any credential and asks for none, so its log shows that each request has one."""
    asked = [request for request in rest_catalog.requests() if not request[1].endswith("/oauth/tokens")]
    assert {client.split("/")[0] for _, _, client, _ in asked} == {"PyIceberg", "Apache-HttpClient"}
    assert {authorization.split(":")[0] for *_, authorization in asked} == {"Bearer client-credentials-token"}
    options = "\n".join(str(row) for row in spark.sql("SET").collect())
    assert f"spark.sql.catalog.{lake.name}.credential" in options
    for told in (options, caplog.text, repr(lake), lake.where):
        assert rest_catalog.secret not in told
