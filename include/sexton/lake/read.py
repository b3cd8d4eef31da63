"""Reads published runs as Arrow, without a JVM.

Only a run in `runs` is published. A run's rows are read at the snapshot that `runs` names. Once that snapshot has
expired, they are read from the current table if the partition is still that run's: every write replaces an entire
partition.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sexton.errors import NoCoverage, SextonError, UsageError
from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake
from sexton.tables import TABLES

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table import TableScan


class RunGone(SextonError):
    """A run was published, but its rows are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """A row of `runs`: `row` has its values by column."""

    key: RunKey
    row: dict[str, Any]

    @property
    def snapshots(self) -> dict[str, int]:
        """Iceberg snapshot by table."""
        return {each["table"]: each["snapshot_id"] for each in self.row["snapshots"]}

    @property
    def cuts(self) -> dict[int, int]:
        return {each["log_partition"]: each["cut"] for each in self.row["cuts"]}


def published_runs(lake: Lake, cluster_id: str | None = None, *, as_of_ms: int | None = None) -> list[PublishedRun]:
    """Every published run, oldest as_of first; of one cluster or of all, of one instant or of all.

    Each run returned costs reading one file of `runs`; `published_instants` reads none.
    """
    scan = _scan_runs(lake, cluster_id, as_of_ms)
    return [] if scan is None else runs_of(scan.to_arrow().to_pylist())


def published_instants(lake: Lake, cluster_id: str | None = None) -> list[tuple[int, str]]:
    """(as_of_ms, cluster_id) of every published run, in order; of one cluster or of all.

    These are the partition values of `runs`, so no data file is read.
    """
    scan = _scan_runs(lake, cluster_id)
    if scan is None:
        return []
    partitions = (task.file.partition for task in scan.plan_files())
    return sorted({(as_of_ms, cluster) for cluster, as_of_ms in partitions})


def _scan_runs(lake: Lake, cluster_id: str | None, as_of_ms: int | None = None) -> "TableScan | None":
    lake.require_readable()
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.expressions import AlwaysTrue, EqualTo

    asked = {"cluster_id": cluster_id, "as_of_ms": as_of_ms}
    where = reduce(and_, (EqualTo(name, value) for name, value in asked.items() if value is not None), AlwaysTrue())
    try:
        return load(lake, "runs").scan(row_filter=where)
    except NoSuchTableError:
        return None


def runs_of(rows: Iterable[dict[str, Any]]) -> list[PublishedRun]:
    """The runs that rows of `runs` describe, oldest as_of first."""
    runs = [
        PublishedRun(key=RunKey(cluster_id=row["cluster_id"], as_of_ms=row["as_of_ms"], run_id=row["run_id"]), row=row)
        for row in rows
    ]
    return sorted(runs, key=lambda run: (run.key.as_of_ms, run.key.cluster_id))


def runs_of_cluster(lake: Lake, cluster_id: str | None) -> list[PublishedRun]:
    """Every published run of `cluster_id`, oldest as_of first.

    Without `cluster_id` the tables must be of one cluster only, else UsageError.
    """
    runs = published_runs(lake, cluster_id)
    _require_one_cluster(lake, {run.key.cluster_id for run in runs})
    return runs


def published_at(lake: Lake, at_ms: int, *, cluster_id: str | None = None) -> PublishedRun:
    """The newest published run at or before an instant; NoCoverage when there is none.

    Without `cluster_id` the tables must be of one cluster only, else UsageError.
    """
    instants = published_instants(lake, cluster_id)
    _require_one_cluster(lake, {cluster for _, cluster in instants})
    found = [as_of_ms for as_of_ms, _ in instants if as_of_ms <= at_ms]
    runs = published_runs(lake, cluster_id, as_of_ms=found[-1]) if found else []
    if not runs:
        raise NoCoverage(f"no run is published at or before {at_ms} ms", where=cluster_id)
    return runs[-1]


def _require_one_cluster(lake: Lake, clusters: Collection[str]) -> None:
    """UsageError if the published tables have several clusters; called when the user named none."""
    if len(clusters) > 1:
        raise UsageError(
            f"the published tables hold several clusters: {', '.join(sorted(clusters))}",
            where=lake.where,
            fix="name one with --cluster-id",
        )


def read_published(lake: Lake, run: PublishedRun, table: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a published run, in the declared shape; RunGone when they are no longer there.

    Columns that were declared after the run was published are NULL.
    """
    from pyiceberg.expressions import EqualTo

    found, schema = load(lake, table), TABLES[table].arrow_schema()
    names = list(columns) if columns is not None else schema.names
    where = partition_of(run.key) & EqualTo("run_id", run.key.run_id)
    scan = found.scan(row_filter=where, snapshot_id=snapshot_of(found, run, table))
    known = {field.name for field in scan.projection().fields}  # of the snapshot, which may predate some columns
    rows = plain(scan.select(*(name for name in names if name in known)).to_arrow())
    for name in names:
        if name not in known:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, schema.field(name).type))
    return rows.select(names).cast(pa.schema([schema.field(name) for name in names]))


def snapshot_of(found: "IcebergTable", run: PublishedRun, table: str) -> int | None:
    """The snapshot at which a run's rows of a table are read, None for the table as it is now.

    Raises RunGone when another run has replaced `run` and the snapshot of `run` has expired.
    """
    snapshot_id = run.snapshots.get(table)
    if snapshot_id is not None and found.snapshot_by_id(snapshot_id) is not None:
        return snapshot_id
    if owner(found, run.key) not in (run.key.run_id, None):
        raise RunGone("its snapshot has expired, and another run has taken its place", where=table)
    return None


def branch_rows(lake: Lake, run: RunKey, table: str) -> pa.Table:
    """The rows on the run's branch as committed; UsageError without the branch."""
    found = load(lake, table)
    head = found.snapshot_by_name(run.branch)
    if head is None:
        raise UsageError(f"no branch {run.branch}", where=table, fix="run validate_tables on this run first")
    return plain(found.scan(row_filter=partition_of(run), snapshot_id=head.snapshot_id).to_arrow())


def owner(table: "IcebergTable", run: RunKey, *, snapshot_id: int | None = None) -> str | None:
    """The run id of the rows in the run's partition, on main or at a snapshot; None if the partition is empty."""
    scan = table.scan(row_filter=partition_of(run), selected_fields=("run_id",), limit=1, snapshot_id=snapshot_id)
    found: list[str] = scan.to_arrow()["run_id"].to_pylist()
    return found[0] if found else None


def load(lake: Lake, table: str) -> "IcebergTable":
    """The table as it is now."""
    with lake.reader() as catalog:
        return catalog.load_table((lake.namespace, table))


def partition_of(run: RunKey) -> "BooleanExpression":
    """`RunKey.partition` for pyiceberg."""
    from pyiceberg.expressions import And, EqualTo, In

    return And(EqualTo("cluster_id", run.cluster_id), In("as_of_ms", run.instants))


def plain(rows: pa.Table) -> pa.Table:
    """Rows without pyiceberg's large types and field metadata; other differences stay."""
    fields = [pa.field(field.name, _plain_type(field.type)) for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain_type(field.type)) for field in kind])
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)
