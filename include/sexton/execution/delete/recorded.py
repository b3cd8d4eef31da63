"""What the archive has recorded that a plan is held to: the broker's retention, and its groups by looks."""

from pyarrow import fs as pafs

from sexton.archive.looks_since import GroupThen, groups_then, the_look
from sexton.plans.plan import Plan, PlanRecord
from sexton.runs import source


def recorded_retention_ms(fs: pafs.FileSystem, root: str, plan: PlanRecord) -> int | None:
    """The broker's retention as the archive has it for a plan's instant, None where nothing recorded it."""
    if plan.look is None:
        return source.recorded_retention_ms(fs, root, plan.cluster_id, as_of_ms=plan.as_of_ms)
    look = the_look(fs, root, plan.cluster_id, taken_at_ms=plan.look.taken_at_ms, sha256=plan.look.sha256)
    minutes = look.metadata.retention_minutes
    return None if minutes is None else minutes * 60_000


def recorded_then(fs: pafs.FileSystem, root: str, plan: Plan) -> dict[str, GroupThen] | None:
    """The groups of a plan by looks as its look saw them, and what looks since then show; None for one by the log.

    Refused when its look is not in the archive any more.
    """
    look = plan.record.look
    if look is None:
        return None
    return groups_then(
        fs,
        root,
        plan.record.cluster_id,
        taken_at_ms=look.taken_at_ms,
        sha256=look.sha256,
        group_ids=plan.tombstones["group_id"].unique().to_pylist(),
    )
