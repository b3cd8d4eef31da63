"""A lake in an object tables is read through the file system that pyiceberg reads with: DuckDB fetches no extension."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.lake.catalog import Lake, open_lake, reader_properties
from sexton.lake.published_tables import PublishedTables
from sexton.ui.group_queries import GroupQuery, find_groups
from tests.object_store import running_object_store
from tests.ui.lakes import create_table
from tests.ui.worlds import FIRST_MS


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    for name, value in {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "NO_PROXY": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    with running_object_store() as address:
        properties = {
            "type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path / 'catalog.db'}", "warehouse": "s3://keep/warehouse",
            "s3.endpoint": f"http://{address}", "s3.access-key-id": "k", "s3.secret-access-key": "s",
            "s3.region": "us-east-1",
        }  # fmt: skip
        make_bucket(properties)
        yield replace(open_lake(properties), name="lake")


def make_bucket(properties: dict[str, str]) -> None:
    from pyarrow import fs as pafs

    endpoint = properties["s3.endpoint"].removeprefix("http://")
    tables = pafs.S3FileSystem(
        access_key="k", secret_key="s", region="us-east-1", scheme="http", endpoint_override=endpoint,
        allow_bucket_creation=True,
    )  # fmt: skip
    tables.create_dir("keep")


def test_groups_of_a_run(lake: Lake) -> None:
    from pyiceberg.catalog import load_catalog

    from sexton.lake.branch import RunKey
    from sexton.tables import TABLES
    from tests.ui.lakes import WrittenLake

    catalog = load_catalog("lake", **{**reader_properties(lake.properties), "init_catalog_tables": "true"})
    catalog.create_namespace("sexton")
    for name in TABLES:
        create_table(catalog, name, TABLES[name].arrow_schema())
    written = WrittenLake(lake=lake, catalog=catalog)
    key = RunKey(cluster_id="c", as_of_ms=FIRST_MS, run_id="r")
    written.publish(key, {"groups": [{"group_id": f"g{number}", "group_type": "Classic"} for number in range(3)]})
    tables = PublishedTables(lambda: lake)
    (run,) = tables.runs()
    assert [row["group_id"] for row in find_groups(tables, run, GroupQuery()).rows] == ["g0", "g1", "g2"]
