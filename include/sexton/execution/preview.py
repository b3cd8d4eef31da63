"""The sink `plan`: every group is looked at as before a call, and no call is made; nothing is written anywhere."""

from collections import Counter
from collections.abc import Callable, Sequence

from sexton.execution.cluster_protocol import ClusterPort
from sexton.execution.freshness import look
from sexton.execution.status import PlanStatus
from sexton.execution.steps import GroupWork
from sexton.execution.summary import TOLD_ITEMS, ApplySummary, Told, Windows
from sexton.execution.watch import LogWatch
from sexton.plans.record import Plan

PLANNED = "would_be_done"


def preview(
    port: ClusterPort,
    plan: Plan,
    work: Sequence[GroupWork],
    status: PlanStatus,
    *,
    warnings: Sequence[str],
    tell: Callable[[int, int], bool] | None,
) -> ApplySummary:
    """What would become of each item now: `would_be_done`, or what a look already tells against it."""
    counts: Counter[str] = Counter()
    told: list[Told] = []
    watches: dict[int, LogWatch] = {}
    for done, group in enumerate(work):
        if tell is not None and not tell(done, len(work)):
            break
        if group.log_partition not in watches:
            own = {other.group_id for other in work if other.log_partition == group.log_partition}
            watches[group.log_partition] = LogWatch(port, group.log_partition, cut=group.cut, group_ids=own)
        rows = [row for row in group.rows if not status.is_final(row.place)]
        counts.update(str(status.results[row.place].outcome) for row in group.rows if status.is_final(row.place))
        found = look(
            port,
            watches[group.log_partition],
            group,
            rows,
            as_of_ms=plan.record.as_of_ms,
            intended=status.intended,
        )
        counts[PLANNED] += len(found.fresh)
        counts["done"] += len(found.ours)
        counts.update(str(result.outcome) for result in found.results)
        items = {row.place: row.item for row in rows}
        told += [Told.of(items[result.place], result) for result in found.results]
    return ApplySummary(
        plan_id=plan.record.plan_id,
        sink="plan",
        attempt=0,
        items=plan.tombstones.num_rows,
        counts=dict(sorted((+counts).items())),
        restored={},
        windows=Windows(),
        told=tuple(told[:TOLD_ITEMS]),
        warnings=tuple(warnings),
    )
