"""Publishes a run's branch: one atomic replacement of its partition on main per table, then `runs`.

If main has not moved since the branch was created, one commit sets main to the branch's head, tags it and drops the
branch, without a JVM. If main has moved, the branch's snapshot is cherry-picked onto main, and no row is written again.
If the run's partition on main was replaced meanwhile (by a second attempt, or by a backfill over a scheduled run of the
same as_of), the branch's rows overwrite it. Finished steps are detected, so a publication can be run again after a
crash at any point.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sexton.errors import UsageError
from sexton.failpoints import failpoint
from sexton.lake.append import is_about, replace_rows, retried
from sexton.lake.branch import RunKey, drop_branch, replace_partition, side_by_side
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, load, owner, partition_of, published_runs
from sexton.tables import TABLES

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import SetSnapshotRefUpdate, TableRequirement, TableUpdate
    from pyspark.sql import SparkSession

_JUDGED_BY = ("plan_id", "policy_sha256")
"""Columns of `runs` that differ if the stages after replay_groups were run again with a different result."""
_NOT_ALLOWED = ("ValidationException", "CherrypickAncestorCommitException", "IllegalArgumentException")


def publish(
    session: Callable[[], "SparkSession"], lake: Lake, run: RunKey, tables: Sequence[str], facts: Mapping[str, Any]
) -> PublishedRun:
    """Publish the run's branch of `tables`, then its row of `runs`; `facts` are the row's columns except `snapshots`.

    The branches are dropped. `session` is only called if main has moved. A run that is published already is left as it
    is. UsageError if a table with rows lacks the branch, or if the run was published with another plan or policy.
    """
    there = published_runs(lake, run.cluster_id, as_of_ms=run.as_of_ms)
    if done := next((found for found in there if found.key == run), None):
        if differing := [name for name in _JUDGED_BY if done.row[name] != facts[name]]:
            raise UsageError(
                f"run {run.run_id} is published already, with another {' and '.join(differing)}",
                fix="in Airflow, clear replay_groups and all later tasks; by hand, give another --run-id",
            )
        drop_branch(lake, run, tables)
        return done
    (row,) = publish_batch(session, lake, run, tables, {run: facts})
    return PublishedRun(key=run, row=row)


def publish_batch(
    session: Callable[[], "SparkSession"],
    lake: Lake,
    run: RunKey,
    tables: Sequence[str],
    facts: Mapping[RunKey, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Publish a branch with the rows of one run, or of many if `run` is an InstantBatch; return the new rows of `runs`,
    one for each of `facts`.

    All these rows name the same snapshots. Unlike `publish`, this does not check what is published already.
    """
    filled = {each["table"] for own in facts.values() for each in own["counts"] if each["rows"]}

    left = []  # tables whose branch may still be there

    def publish_one(name: str) -> int:
        if name not in filled:
            snapshot_id = retried(lambda: _publish_nothing(lake, run, name))
        else:
            snapshot_id, is_dropped = retried(lambda: _publish_table(session, lake, run, name))
            if not is_dropped:
                left.append(name)
        failpoint("publish.between")
        return snapshot_id

    found = side_by_side(publish_one, tables)
    failpoint("publish.unnamed")
    snapshots = [{"table": name, "snapshot_id": snapshot_id} for name, snapshot_id in zip(tables, found, strict=True)]
    rows = [{**asdict(key), **own, "snapshots": snapshots} for key, own in facts.items()]
    _write_rows(lake, run, rows)
    failpoint("publish.branched")
    drop_branch(lake, run, left)
    return rows


def _publish_table(session: Callable[[], "SparkSession"], lake: Lake, run: RunKey, name: str) -> tuple[int, bool]:
    """Replace the run's partition on main with the branch's, and tag the new snapshot of main; return that snapshot's
    id, and whether the same commit dropped the branch."""
    table = load(lake, name)
    head, main = table.snapshot_by_name(run.branch), table.current_snapshot()
    if head is not None and head.parent_snapshot_id == (main and main.snapshot_id):
        _fast_forward(lake, run, table, head.snapshot_id, main and main.snapshot_id)
        return int(head.snapshot_id), True
    if owner(table, run) != run.run_id:
        _replace(session, lake, run, name, head)
        table = load(lake, name)
    tagged = table.snapshot_by_name(run.tag)
    if tagged is None or owner(table, run, snapshot_id=tagged.snapshot_id) != run.run_id:
        _commit(lake, table, _tagged(run, _main(table)))
    return _main(table), False


def _replace(
    session: Callable[[], "SparkSession"], lake: Lake, run: RunKey, name: str, head: "Snapshot | None"
) -> None:
    """Apply the branch's rows to a main that has moved."""
    if head is None:
        raise UsageError(f"no branch {run.branch}", where=name, fix="run validate_tables on this run first")
    spark, identifier = session(), lake.identifier(name)
    try:
        call = f"CALL `{lake.name}`.system.cherrypick_snapshot('{lake.namespace}.{name}', {head.snapshot_id})"
        spark.sql(call).collect()
        return
    except Exception as error:
        if not is_about(error, _NOT_ALLOWED):
            raise
    rows = spark.read.option("versionAsOf", head.snapshot_id).table(identifier).where(run.partition())
    replace_partition(rows, identifier, run)


def _publish_nothing(lake: Lake, run: RunKey, name: str) -> int:
    """Publish a table for which the run has no row."""
    table = load(lake, name)
    if table.current_snapshot() is None or owner(table, run) is not None:
        replace_rows(lake, TABLES[name], TABLES[name].arrow_schema().empty_table(), partition_of(run))
        table = load(lake, name)
    if run.tag in table.refs():  # the tag of an earlier attempt that had rows
        _commit(lake, table, _tagged(run, _main(table)))
    return _main(table)


def _fast_forward(lake: Lake, run: RunKey, table: "IcebergTable", head: int, main: int | None) -> None:
    """Set main to the branch's head, tag it and drop the branch in one commit; fails if either ref has moved."""
    from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

    main_was = AssertRefSnapshotId(ref="main", snapshot_id=main)
    branch_was = AssertRefSnapshotId(ref=run.branch, snapshot_id=head)
    moved = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=head)
    dropped = RemoveSnapshotRefUpdate(ref_name=run.branch)
    _commit(lake, table, moved, _tagged(run, head), dropped, requires=(main_was, branch_was))


def _tagged(run: RunKey, snapshot_id: int) -> "SetSnapshotRefUpdate":
    """The update that tags a snapshot, so that expiring the table's snapshots keeps it."""
    from pyiceberg.table.update import SetSnapshotRefUpdate

    return SetSnapshotRefUpdate(ref_name=run.tag, type="tag", snapshot_id=snapshot_id)


def _commit(
    lake: Lake, table: "IcebergTable", *updates: "TableUpdate", requires: tuple["TableRequirement", ...] = ()
) -> None:
    with lake.reader() as catalog:
        catalog.commit_table(table, requires, updates)


def _write_rows(lake: Lake, run: RunKey, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of `runs`, replacing earlier runs of the same instants."""
    table = TABLES["runs"]
    schema = table.arrow_schema()
    found = pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema=schema)
    replace_rows(lake, table, found, partition_of(run))


def _main(table: "IcebergTable") -> int:
    """The current snapshot of main; a published table has one."""
    snapshot = table.current_snapshot()
    assert snapshot is not None, "a table without a snapshot"
    return int(snapshot.snapshot_id)
