"""What the archive has recorded that a plan is held to: the broker's retention, and what it was made by."""

from pyarrow import fs as pafs

from sexton.archive.looks_since import groups_then, the_look
from sexton.execution.delete.context import Watch
from sexton.execution.delete.log_watch import LogWatch
from sexton.execution.delete.look_watch import LookWatch
from sexton.figures import MINUTE_MS
from sexton.plans.plan import Plan, PlanRecord
from sexton.runs import source
from sexton.runs.look_tables import looks_of


def recorded_retention_ms(fs: pafs.FileSystem, root: str, plan: PlanRecord) -> int | None:
    """The broker's retention as the archive has it for a plan's instant, None where nothing recorded it."""
    if plan.look is None:
        return source.recorded_retention_ms(fs, root, plan.cluster_id, as_of_ms=plan.as_of_ms)
    looks = looks_of(fs, root, plan.cluster_id, plan.coverage)
    look = the_look(looks, taken_at_ms=plan.look.taken_at_ms, sha256=plan.look.sha256)
    minutes = look.metadata.retention_minutes
    return None if minutes is None else minutes * MINUTE_MS


def watch_of(fs: pafs.FileSystem, root: str, plan: Plan) -> Watch:
    """The watch by a plan's basis, for one attempt; Refused when its look is not in the archive any more."""
    look = plan.record.look
    if look is None:
        return LogWatch()
    looks = looks_of(fs, root, plan.record.cluster_id, plan.record.coverage)
    group_ids = plan.tombstones["group_id"].unique().to_pylist()
    then = groups_then(looks, taken_at_ms=look.taken_at_ms, sha256=look.sha256, group_ids=group_ids)
    return LookWatch(then, plan.record.basis)
