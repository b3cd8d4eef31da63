"""The sink `dry_run`: reports what `apply` would do with each item now.

Every group is compared with the plan as it would be before a call. No call is made, and nothing is written.
"""

from collections import Counter
from collections.abc import Sequence

from sexton.execution.delete.context import DeleteContext
from sexton.execution.delete.summary import SHOWN_ITEMS, ApplySummary, ItemOutcome
from sexton.execution.engine import Progress
from sexton.execution.windows import Windows

WOULD_BE_DONE = "would_be_done"


def dry_run(context: DeleteContext, *, warnings: Sequence[str], progress: Progress | None) -> ApplySummary:
    """The expected result of each item: `would_be_done`, or the outcome that a comparison already shows."""
    status, counts = context.status, Counter[str]()
    shown: list[ItemOutcome] = []
    for done, group in enumerate(context.groups):
        if progress is not None and not progress(done, len(context.groups)):
            break
        rows = [row for row in group.rows if not status.is_final(row.item_id)]
        counts.update(str(status.results[row.item_id].outcome) for row in group.rows if status.is_final(row.item_id))
        found = context.watch.compare(context, group, rows)
        counts[WOULD_BE_DONE] += len(found.fresh)
        counts["done"] += len(found.ours)
        counts.update(str(result.outcome) for result in found.results)
        items = {row.item_id: row.item for row in rows}
        shown += [ItemOutcome.of(items[result.item_id], result) for result in found.results]
    return ApplySummary(
        plan_id=context.plan.record.plan_id,
        sink="dry_run",
        attempt=0,
        items=context.plan.tombstones.num_rows,
        counts=dict(sorted((+counts).items())),
        restored={},
        windows=Windows(),
        notable=tuple(shown[:SHOWN_ITEMS]),
        warnings=tuple(warnings),
    )
