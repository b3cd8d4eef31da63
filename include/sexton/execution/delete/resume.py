"""Finds out what earlier deletion calls did whose outcome is unknown, and records it: intents without an outcome, and
calls without an answer.

What was not done is tried again. The first call may only have been late and still be carried out: so its effect is
looked for before the second try, and again when the attempt ends.
"""

from collections.abc import Sequence

from sexton.execution.delete.context import Comparison, DeleteContext
from sexton.execution.delete.group_calls import PlannedGroup, PlannedRow
from sexton.execution.delete.restore_raced import restore_raced, settle_restore
from sexton.figures import MINUTE_MS

DOUBT_MS = MINUTE_MS
"""How long after its intent a call without an answer is waited for: twice as long as anybody waits for a broker."""


def settle_open(context: DeleteContext) -> None:
    """Find out what came of every intent without an outcome, and record it."""
    by_group = {(group.log_partition, group.group_id): group for group in context.groups}
    for step in context.status.open:
        items = [item for item in step.intent.items if step.is_open_for(item)]
        group = by_group[items[0].log_partition, items[0].group_id]
        checks = step.intent.checks
        if step.intent.action == "restore":
            since = int(checks["log_offset"])
            results = [settle_restore(context, group, item, since=since) for item in items]
            context.conclude(results, step=step.intent.step, of_attempt=step.entry.attempt)
        else:
            item_ids = {item.item_id for item in items}
            rows = [row for row in group.rows if row.item_id in item_ids]
            results, extras = context.watch.settle(context, group, rows, checks)
            context.conclude(results, step=step.intent.step, of_attempt=step.entry.attempt, beyond=extras)
            restore_raced(context, group)


def wait_for_late_calls(context: DeleteContext) -> None:
    """Wait until every call without an answer is done or never will be, and find out what they did.

    Where every call was answered there is no wait.
    """
    begun_ms = [context.status.intended[item_id].at_ms for item_id in context.unsettled]
    if begun_ms:
        context.watch.wait(context, until_ms=max(begun_ms) + DOUBT_MS)
    for group in context.groups:
        context.watch.settle_late(context, group)


def compare_rows(context: DeleteContext, group: PlannedGroup, rows: Sequence[PlannedRow]) -> Comparison:
    """Compare rows of a group with the cluster, settle those with a tombstone of ours, and record the others'
    results."""
    found = context.watch.compare(context, group, rows)
    if found.ours:
        context.watch.settle_late(context, group)
    if found.results:
        decided = {result.item_id for result in found.results}
        context.conclude(found.results, beyond=[row.item for row in rows if row.item_id in decided])
    return found
