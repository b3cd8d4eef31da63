"""Groups, members and committed_offsets from admin snapshots, as rows of their tables.

A group belongs to the log partition that its id hashes to. If the number of log partitions is not visible, all groups
are in ONLY_PARTITION. Columns that only the bytes of the log can fill are absent.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs as pafs

from sexton.archive.admin_intervals import MergedSnapshots
from sexton.archive.admin_snapshots import AdminSnapshot, AdminSnapshots, SnapshotSeries
from sexton.archive.cluster_metadata import snapshot_instants, the_cluster
from sexton.archive.folder import filesystem
from sexton.coordinator.partitioner import partition_of
from sexton.errors import UsageError
from sexton.tables import Column

ONLY_PARTITION = 0
NOT_DESCRIBED = "Dead"
"""State of a group that is listed but was not described: none of its offsets expires."""


KINDS: list[type[SnapshotSeries]] = [AdminSnapshots]
"""Kinds of evidence that can replace the log; the first that answers is used."""


def admin_snapshot_for(
    archive: str, *, cluster_id: str | None = None, as_of_ms: int | None
) -> tuple[SnapshotSeries, AdminSnapshot] | None:
    """The admin snapshot that answers for an instant in place of the log, with its series. None if there is no such
    snapshot, or if a snapshot of the log is newer or answers for the instant."""
    fs, root = filesystem(archive)
    cluster = the_cluster(fs, root, cluster_id)
    for kind in KINDS if cluster is not None else ():
        series = kind(fs, root, str(cluster))
        if (snapshot := series.at(as_of_ms)) is not None:
            needed_ms = snapshot.taken_at_ms if as_of_ms is None else as_of_ms
            is_older = any(at >= needed_ms for at in snapshot_instants(fs, root, series.cluster_id))
            return None if is_older else (series, snapshot)
    return None


def series_of(fs: pafs.FileSystem, root: str, cluster_id: str, coverage: object) -> SnapshotSeries:
    """The admin snapshots of a cluster for the `coverage` that a run, plan or ledger recorded. UsageError if no admin
    snapshots have this coverage."""
    for kind in KINDS:
        if kind.coverage == coverage:
            return kind(fs, root, cluster_id)
    raise UsageError(
        f"no admin snapshot has coverage {coverage}", where=root, fix="read it with the release that made it"
    )


def tables_of(merged: MergedSnapshots) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The tables groups, members and committed_offsets, without the columns of the run."""
    outcome = merged.groups.combine_chunks()
    count = merged.snapshot.metadata.partition_count or None
    homes = [None if count is None else partition_of(name, count) for name in outcome["group_id"].to_pylist()]
    home = pa.array(homes, pa.int32())
    part = pc.fill_null(home, ONLY_PARTITION)
    offsets, members = merged.offsets.combine_chunks(), merged.members.combine_chunks()
    at_offset, at_member = (
        pc.index_in(rows["group_id"], value_set=outcome["group_id"].combine_chunks()).combine_chunks()
        if rows.num_rows
        else pa.array([], pa.int32())
        for rows in (offsets, members)
    )
    numbers = np.asarray(at_offset)
    unstable = np.asarray(pc.fill_null(offsets["is_unstable"], False))
    held = np.bincount(numbers, minlength=outcome.num_rows)
    unsettled = np.bincount(numbers[unstable], minlength=outcome.num_rows)
    error = pc.coalesce(outcome["error"], outcome["offsets_error"]).combine_chunks()
    groups = pa.table(
        {
            **{name: outcome[name] for name in ("group_id", "group_type", "protocol_type", "protocol")},
            # A group that is listed but not described may have members: none of its offsets expires.
            "state": pc.fill_null(outcome["state"], NOT_DESCRIBED),
            "generation": outcome["group_epoch"],
            "empty_after_ms": outcome["empty_after_ms"],
            "empty_by_ms": outcome["empty_by_ms"],
            "snapshot_error": error,
            "member_count": pc.fill_null(outcome["member_count"], 0),
            "subscribed_topics": outcome["subscribed_topics"],
            "subscription_known": pc.fill_null(outcome["subscription_known"], False),
            "offset_count": pa.array(held, pa.int64()),
            "has_open_transaction": pa.array(unsettled > 0),
            "pending_count": pa.array(np.zeros(outcome.num_rows, np.int64)),
            "log_partition": part,
            "home_log_partition": home,
        }
    )
    return (
        groups,
        members.append_column("log_partition", part.take(at_member)),
        offsets.append_column("log_partition", part.take(at_offset)),
    )


def with_nulls(rows: pa.Table, columns: Iterable[Column]) -> pa.Table:
    """The rows, with NULL in the columns that they lack, such as those that admin snapshots do not fill."""
    for column in columns:
        if column.name not in rows.column_names:
            rows = rows.append_column(column.name, pa.nulls(rows.num_rows, column.type))
    return rows
