"""Publishes a run's branch: per table one atomic replacement of its partition on main, and `runs` after all of them.

Where main has not replaced that partition since the branch was made, the branch's snapshot is cherry-picked onto main:
no row is written again. Where it has (a second attempt, or a backfill over a scheduled run of the same as_of), or where
the branch has no row, the partition is overwritten with the branch's rows. Finished steps are recognised, so that a
publication that was killed anywhere can be run again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from sexton.errors import UsageError
from sexton.failpoints import failpoint
from sexton.lake.branch import RunKey, drop_branch, replace_partition, side_by_side
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, load, owner, published_runs
from sexton.tables import TABLES
from sexton.tables.ddl import spark_schema

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import SparkSession

R = TypeVar("R")

ATTEMPTS = 6
_JUDGED_BY = ("plan_id", "policy_sha256")
"""Of `runs`: what differs where the stages after replay_groups were run once more with another outcome."""
_CONFLICTS = ("CommitFailedException", "CommitStateUnknownException", "SQLITE_BUSY", "database is locked")
_NOT_ALLOWED = ("ValidationException", "CherrypickAncestorCommitException", "IllegalArgumentException")


def publish(
    spark: "SparkSession", lake: Lake, run: RunKey, tables: Sequence[str], facts: Mapping[str, Any]
) -> PublishedRun:
    """Publish the run's branch of `tables`, then its row of `runs` with `facts`, its other columns but `snapshots`.

    The branches are dropped at the end. A run that is published already is left as it is. UsageError when a table has
    no such branch, and when the published run has another plan or policy.
    """
    if done := _published(lake, run):
        if differing := [name for name in _JUDGED_BY if done.row[name] != facts[name]]:
            raise UsageError(
                f"run {run.run_id} is published already, with another {' and '.join(differing)}",
                fix="a run id has one result: clear it from replay_groups on, by hand give another --run-id",
            )
        drop_branch(spark, lake, run, tables)
        return done

    def publish_one(name: str) -> int:
        snapshot_id = retried(lambda: _publish_table(spark, lake, run, name))
        failpoint("publish.between")
        return snapshot_id

    found = side_by_side(publish_one, tables)
    failpoint("publish.unnamed")
    snapshots = [{"table": name, "snapshot_id": snapshot_id} for name, snapshot_id in zip(tables, found, strict=True)]
    row = {
        "cluster_id": run.cluster_id,
        "as_of_ms": run.as_of_ms,
        "run_id": run.run_id,
        **facts,
        "snapshots": snapshots,
    }
    retried(lambda: _write_row(spark, lake, run, row))
    failpoint("publish.branched")
    drop_branch(spark, lake, run, tables)
    return PublishedRun(key=run, row=row)


def retried(work: Callable[[], R]) -> R:
    """Do `work` again while another commit conflicts with it."""
    retrying = Retrying(
        retry=retry_if_exception(lambda error: _is_about(error, _CONFLICTS)),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        stop=stop_after_attempt(ATTEMPTS),
        reraise=True,
    )
    return retrying(work)


def _publish_table(spark: "SparkSession", lake: Lake, run: RunKey, name: str) -> int:
    """Make the run's partition on main the branch's; the snapshot of main that holds it."""
    table = load(lake, name)
    head = table.snapshot_by_name(run.branch)
    if head is None:
        raise UsageError(f"no branch {run.branch}", where=name, fix="run validate_tables on this run first")
    wanted = owner(table, run, snapshot_id=head.snapshot_id)
    if table.current_snapshot() is None:  # the first run of all: main begins as its branch
        if (first := _call(spark, lake, "fast_forward", name, f"'main', '{run.branch}'", "updated_ref")) is not None:
            return first
        table = load(lake, name)
    if owner(table, run) == wanted:
        return _main(table)
    if wanted is not None:
        picked = _call(spark, lake, "cherrypick_snapshot", name, str(head.snapshot_id), "current_snapshot_id")
        if picked is not None:
            return picked
    rows = spark.read.option("versionAsOf", head.snapshot_id).table(lake.identifier(name)).where(run.partition())
    replace_partition(rows, lake.identifier(name), run, can_be_picked=False)
    return _main(load(lake, name))


def _call(spark: "SparkSession", lake: Lake, procedure: str, name: str, arguments: str, answer: str) -> int | None:
    """Move main by one of Iceberg's procedures; the snapshot of main after it, None where main does not allow it."""
    call = f"CALL `{lake.name}`.system.{procedure}('{lake.namespace}.{name}', {arguments})"
    try:
        return int(spark.sql(call).collect()[0][answer])
    except Exception as error:
        if _is_about(error, _NOT_ALLOWED):
            return None
        raise


def _write_row(spark: "SparkSession", lake: Lake, run: RunKey, row: Mapping[str, Any]) -> None:
    """The run's row of `runs`, in place of that of an earlier run of the same as_of."""
    names = [column.name for column in TABLES["runs"].all_columns]
    rows = spark.createDataFrame([tuple(row[name] for name in names)], spark_schema(TABLES["runs"]))
    replace_partition(rows, lake.identifier("runs"), run, can_be_picked=False)


def _published(lake: Lake, run: RunKey) -> PublishedRun | None:
    return next((found for found in published_runs(lake, run.cluster_id) if found.key == run), None)


def _main(table: "IcebergTable") -> int:
    """The snapshot that main is at; every table begins with one."""
    snapshot = table.current_snapshot()
    assert snapshot is not None, "a table without a snapshot"
    return int(snapshot.snapshot_id)


def _is_about(error: BaseException, names: Sequence[str]) -> bool:
    """Whether an error of the JVM's is one of those: PySpark hands on only its text."""
    return any(name in str(error) for name in names)
