"""A run's files are such that a reader of one group passes over nearly all of them: small row groups, in key order."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sexton.archive.folder import Folder
from sexton.lake.branch import RunKey, ensure_tables, write_branch
from sexton.lake.catalog import Lake
from sexton.lake.read import load
from sexton.tables import TABLES

pytestmark = pytest.mark.parametrize("lake", ["sqlite"], indirect=True, scope="module")

ROWS, LOG_PARTITIONS = 400_000, 4
KEY = RunKey(cluster_id="c", as_of_ms=1, run_id="r")


def test_row_groups_are_small_and_know_their_groups(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    ensure_tables(spark, lake, [TABLES["committed_offsets"]])
    write_branch(spark, lake, KEY, Folder(tmp_path), {"committed_offsets": files(tmp_path)})
    scan = load(lake, "committed_offsets").scan(snapshot_id=head(lake))
    seen = holding = 0
    for task in scan.plan_files():
        metadata = pq.read_metadata(task.file.file_path.removeprefix("file:"))
        column = metadata.schema.to_arrow_schema().names.index("group_id")
        for number in range(metadata.num_row_groups):
            statistics = metadata.row_group(number).column(column).statistics
            seen += 1
            holding += statistics.min <= "group-00077" <= statistics.max
    assert seen >= 2 * LOG_PARTITIONS
    assert holding <= seen / 2, f"{holding} of {seen} row groups may hold a group"


def head(lake: Lake) -> int:
    return int(load(lake, "committed_offsets").snapshot_by_name(KEY.branch).snapshot_id)


def files(folder: Path) -> list[str]:
    """One file a log partition, ordered by group, as a run folder has them."""
    schema, found = TABLES["committed_offsets"].arrow_schema(), []
    random = np.random.default_rng(1)
    for number in range(LOG_PARTITIONS):
        rows = ROWS // LOG_PARTITIONS
        columns = {
            "cluster_id": pa.repeat("c", rows),
            "as_of_ms": pa.repeat(1, rows),
            "run_id": pa.repeat("r", rows),
            "group_id": pa.array([f"group-{place // 20:05d}" for place in range(rows)]),
            "topic": pa.repeat("t", rows),
            "partition": pa.array(np.arange(rows) % 20, pa.int32()),
            "committed_offset": pa.array(random.integers(0, 10**12, rows)),
            "metadata": pa.repeat("", rows),
            "commit_timestamp_ms": pa.array(random.integers(0, 10**12, rows)),
            "log_partition": pa.repeat(pa.scalar(number, pa.int32()), rows),
            "log_offset": pa.array(random.integers(0, 10**12, rows)),
            "producer_id": pa.repeat(-1, rows),
        }
        table = pa.table(
            [columns.get(field.name, pa.nulls(rows, field.type)) for field in schema], names=schema.names
        ).cast(schema)
        found.append(f"{number}.parquet")
        pq.write_table(table, folder / found[-1])
    return found
