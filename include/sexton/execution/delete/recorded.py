"""The archive's evidence for a plan: the broker's retention, and the basis of the plan."""

from pyarrow import fs as pafs

from sexton.archive.snapshots_since import groups_then, the_snapshot
from sexton.as_text import MINUTE_MS
from sexton.execution.delete.admin_watch import AdminWatch
from sexton.execution.delete.context import Watch
from sexton.execution.delete.log_watch import LogWatch
from sexton.plans.plan import Plan, PlanRecord
from sexton.runs import source
from sexton.runs.admin_tables import series_of


def recorded_retention_ms(fs: pafs.FileSystem, root: str, plan: PlanRecord) -> int | None:
    """The broker's retention in the archive at a plan's instant, None where it was not recorded."""
    if plan.admin_snapshot is None:
        return source.recorded_retention_ms(fs, root, plan.cluster_id, as_of_ms=plan.as_of_ms)
    series = series_of(fs, root, plan.cluster_id, plan.coverage)
    snapshot = the_snapshot(series, taken_at_ms=plan.admin_snapshot.taken_at_ms, sha256=plan.admin_snapshot.sha256)
    minutes = snapshot.metadata.retention_minutes
    return None if minutes is None else minutes * MINUTE_MS


def watch_of(fs: pafs.FileSystem, root: str, plan: Plan) -> Watch:
    """The watch for a plan's basis, for one attempt; Refused if the archive has lost the plan's admin snapshot."""
    snapshot = plan.record.admin_snapshot
    if snapshot is None:
        return LogWatch()
    series = series_of(fs, root, plan.record.cluster_id, plan.record.coverage)
    group_ids = plan.tombstones["group_id"].unique().to_pylist()
    then = groups_then(series, taken_at_ms=snapshot.taken_at_ms, sha256=snapshot.sha256, group_ids=group_ids)
    return AdminWatch(then, plan.record.basis)
