"""The view of an archive that has admin snapshots instead of the log: what coordinators answered."""

import pyarrow as pa
import pyarrow.compute as pc

from sexton.archive.admin_intervals import merge_snapshots
from sexton.archive.admin_snapshots import AdminSnapshot, SnapshotSeries
from sexton.coordinator.api.configs import Recorded
from sexton.coordinator.api.coordinator import Coordinator, CoordinatorShard, Status
from sexton.coordinator.api.tables_view import TablesView
from sexton.coordinator.api.topics import Topics
from sexton.job_params import ReplayRequest
from sexton.runs.admin_tables import ONLY_PARTITION, tables_of, with_nulls
from sexton.runs.choose_profile import choose
from sexton.tables import TABLES
from sexton.uris import uri_without_login
from sexton.views.coordinator_view import CoordinatorView, LazyShards, LoadedPartition


def view_of_snapshots(request: ReplayRequest, series: SnapshotSeries, snapshot: AdminSnapshot) -> CoordinatorView:
    """The view of the admin snapshot that answers for the request's instant."""
    choice = choose(request.profile, snapshot.metadata.broker_version)
    groups, members, offsets = tables_of(merge_snapshots(series, snapshot))
    parts = _SnapshotParts({"groups": groups, "members": members, "committed_offsets": offsets})
    count = snapshot.metadata.partition_count or None
    return CoordinatorView(
        where=uri_without_login(str(request.archive)),
        as_of_ms=snapshot.taken_at_ms if request.as_of_ms is None else request.as_of_ms,
        coordinator=Coordinator(
            profile=choice.profile,
            partition_count=count,
            shards=LazyShards(range(count) if count else [ONLY_PARTITION], parts.shard),
        ),
        topics=Topics.from_rows(snapshot.metadata.topics),
        read=parts.read,
        recorded=Recorded(broker_settings=snapshot.metadata.settings),
        doubts=choice.doubts,
        warnings=[
            f"coverage {series.coverage}: {series.source}, the log is not read: {snapshot.reason}",
            *snapshot.warnings,
        ],
    )


class _SnapshotParts:
    """The log partitions that the groups of an admin snapshot hash to."""

    def __init__(self, tables: dict[str, pa.Table]) -> None:
        self.read: dict[int, LoadedPartition] = {}
        self._tables = tables

    def shard(self, log_partition: int) -> CoordinatorShard:
        own = {name: rows.filter(pc.equal(rows["log_partition"], log_partition)) for name, rows in self._tables.items()}
        # The order of these offsets in the log is not known: commits in flight come after all of them.
        nowhere = pa.repeat(pa.scalar(0, pa.int64()), own["committed_offsets"].num_rows)
        own["committed_offsets"] = own["committed_offsets"].append_column("log_offset", nowhere)
        unstable = own["committed_offsets"].filter(pc.fill_null(own["committed_offsets"]["is_unstable"], False))
        own |= {"unreachable_offsets": own["committed_offsets"].slice(0, 0), "pending_offsets": unstable}
        held = TablesView({name: with_nulls(rows, TABLES[name].columns) for name, rows in own.items()})
        self.read[log_partition] = LoadedPartition(held=held)
        return CoordinatorShard(status=Status.ACTIVE, view=held)
