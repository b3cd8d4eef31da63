"""Writes a run's rows to a branch of every table, where the checks read them first.

A branch starts from main and replaces the rows of the run's (cluster_id, as_of_ms). Writing a branch again replaces it.
A table without rows of the run gets no branch: there is nothing to check.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from sexton.archive.folder import Folder
from sexton.lake.append import retried
from sexton.lake.catalog import Lake
from sexton.tables import TABLES, Table
from sexton.tables.ddl import (
    RENAMED,
    add_columns,
    create_table,
    properties_of,
    rename_column,
    set_properties,
    spark_schema,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyspark.sql import Column, DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

RUN_PROPERTY = "sexton.run-id"
"""Summary property of every Iceberg snapshot with rows of a run."""
_WRITE_BRANCH = "spark.wap.branch"
"""Spark's setting for the branch that all writes go to. The first write creates the branch, which saves a commit.
Iceberg rejects writes to `table.branch_NAME` before the branch exists, and ignores an option `branch`."""
_AT_ONCE = 3  # small tables spend most time in the catalog and in planning, so a few are written in parallel
PUBLISHED = "published_"
_LONGEST_NAME = 30
_FEW_ROWS = 100_000
"""Below this row count this process reads the rows and passes them to Spark: a Python worker takes longer to start."""
_TASK_ROWS = 250_000
"""Rows per Spark task, rounded up to whole files: one task for each small file would cost more."""
_REQUESTS_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKey:
    """The key of a run: its partition (cluster and instant), and the attempt."""

    cluster_id: str
    as_of_ms: int
    run_id: str

    @property
    def branch(self) -> str:
        """A branch name that Spark SQL accepts. It is unique, also among clusters whose runs have the same id."""
        plain = re.sub(r"[^A-Za-z0-9_]", "_", self.run_id)[:_LONGEST_NAME]
        whole = "\0".join((self.cluster_id, str(self.as_of_ms), self.run_id))
        return f"run_{plain}_{sha256(whole.encode()).hexdigest()}"

    @property
    def tag(self) -> str:
        """The tag of the snapshots with the rows last published for this cluster and instant."""
        return f"{PUBLISHED}{self.as_of_ms}_{self.cluster_id}"

    @property
    def instants(self) -> Sequence[int]:
        """The instants whose rows the run replaces."""
        return (self.as_of_ms,)

    def partition(self) -> "Column":
        """The condition for the rows that the run replaces."""
        from pyspark.sql import functions as f

        return (f.col("cluster_id") == f.lit(self.cluster_id)) & f.col("as_of_ms").isin(list(self.instants))


def side_by_side(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Results of `work` for every item, with a few in parallel; the first error is raised."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, items))


def ensure_tables(spark: "SparkSession", lake: Lake, tables: Sequence[Table] = tuple(TABLES.values())) -> None:
    """Create missing tables, and add columns and properties that were declared since to existing ones."""
    retried(lambda: spark.sql(f"CREATE NAMESPACE IF NOT EXISTS `{lake.name}`.`{lake.namespace}`"))
    with lake.reader() as catalog:
        there = {name for _, name in catalog.list_tables(lake.namespace)}

        def ensure(table: Table) -> None:
            identifier = lake.identifier(table)
            if table.name not in there:
                spark.sql(create_table(table, identifier))
                return
            found = catalog.load_table((lake.namespace, table.name))
            # Values set by an operator stay. Iceberg accepts the property format-version but does not list it.
            known = {"format-version", *found.properties}
            if since := {name: value for name, value in properties_of(table).items() if name not in known}:
                spark.sql(set_properties(since, identifier))
            columns_now = set(found.schema().column_names)
            for old in columns_now & RENAMED.keys():
                spark.sql(rename_column(old, RENAMED[old], identifier))
                columns_now.add(RENAMED[old])
            if missing := [column for column in table.all_columns if column.name not in columns_now]:
                spark.sql(add_columns(missing, identifier))

        side_by_side(ensure, tables)


def write_branch(
    spark: "SparkSession", lake: Lake, run: RunKey, folder: Folder, files: Mapping[str, Sequence[str]]
) -> list[str]:
    """Write the rows of Parquet `files`, by table, to the run's branch, which starts from the current main.

    File names are relative to `folder`, which Spark's Python workers read. Returns the tables with rows (and a branch).
    """
    counts = {
        name: sum(each.num_rows for each in footers(folder, some) if each is not None) for name, some in files.items()
    }

    def write(name: str) -> None:
        if counts[name] < _FEW_ROWS:
            rows = _few_rows(spark, TABLES[name], folder, files[name])
        else:
            rows = _rows(spark, TABLES[name], folder, files[name], tasks=-(-counts[name] // _TASK_ROWS))
        replace_partition(rows, lake.identifier(name), run)

    filled = [name for name, count in counts.items() if count]
    drop_branch(lake, run, list(files))
    spark.conf.set(_WRITE_BRANCH, run.branch)
    try:
        side_by_side(write, filled)
    finally:
        spark.conf.unset(_WRITE_BRANCH)
    return filled


def footers(folder: Folder, files: Sequence[str]) -> "list[pq.FileMetaData | None]":
    """The footer of each Parquet file; None if unreadable."""
    import pyarrow.parquet as pq

    def footer(name: str) -> pq.FileMetaData | None:
        try:
            with folder.fs.open_input_file(folder.path(name)) as file:
                return pq.read_metadata(file)
        except (OSError, pa.ArrowInvalid):
            return None

    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        return list(pool.map(footer, files))


def _few_rows(spark: "SparkSession", table: Table, folder: Folder, files: Sequence[str]) -> "DataFrame":
    """The rows of Parquet files, read by this process: a Python worker would take longer to start."""
    schema = table.arrow_schema()
    # PySpark stops at an empty batch, but needs at least one batch.
    batches = [batch for batch in _read(table, folder, files) if batch.num_rows]
    found = pa.Table.from_batches(batches or [pa.RecordBatch.from_pylist([], schema)])
    return spark.createDataFrame(found, spark_schema(table)).coalesce(1)


def _rows(spark: "SparkSession", table: Table, folder: Folder, files: Sequence[str], tasks: int) -> "DataFrame":
    """The rows of Parquet files; each of the `tasks` reads neighbouring files."""

    def read(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            yield from _read(table, folder, batch["file"].to_pylist())

    tasks = min(tasks, len(files))
    numbers = pa.array([number * tasks // len(files) for number in range(len(files))], pa.int32())
    numbered = pa.table({"task": numbers, "file": pa.array(files, pa.string())})
    spread = spark.createDataFrame(numbered, "task int, file string").repartitionById(tasks, "task")
    return spread.mapInArrow(read, spark_schema(table))


def _read(table: Table, folder: Folder, files: Iterable[str]) -> "Iterator[pa.RecordBatch]":
    """The rows of Parquet files. Columns that a file lacks are NULL."""
    import pyarrow.parquet as pq

    schema = table.arrow_schema()
    for name in files:
        with folder.open(name) as file:
            for rows in pq.ParquetFile(file).iter_batches():
                there = dict(zip(rows.schema.names, rows.columns, strict=True))
                columns = [there.get(each.name, pa.nulls(len(rows), each.type)) for each in schema]
                yield pa.record_batch(columns, schema=schema)


def read_branch(spark: "SparkSession", lake: Lake, run: RunKey, table: str) -> "DataFrame":
    """The run's rows of a table on its branch."""
    return spark.table(lake.identifier(table, run.branch)).where(run.partition())


def replace_partition(rows: "DataFrame", target: str, run: RunKey) -> None:
    """Replace the run's partition of a table or branch with `rows` in one commit. There must be at least one row.

    Only commits of overwritePartitions can be cherry-picked onto a main that has moved.
    """
    rows.writeTo(target).option(f"snapshot-property.{RUN_PROPERTY}", run.run_id).overwritePartitions()


def drop_branch(lake: Lake, run: RunKey, tables: Sequence[str]) -> None:
    """Drop the run's branches, where they exist."""
    from pyiceberg.table.update import RemoveSnapshotRefUpdate

    def drop(name: str) -> None:
        with lake.reader() as catalog:
            table = catalog.load_table((lake.namespace, name))
            if run.branch in table.refs():
                catalog.commit_table(table, (), (RemoveSnapshotRefUpdate(ref_name=run.branch),))

    side_by_side(lambda name: retried(lambda: drop(name)), tables)
