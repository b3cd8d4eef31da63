"""Settles earlier deletion calls with an unknown outcome, and records the results: intents without an outcome, and
calls without an answer.

Deletions that were not done are tried again. The first call may only be late and may still be carried out: so its
effect is checked before the second try, and again when the attempt ends.
"""

from collections.abc import Sequence

from sexton.as_text import MINUTE_MS
from sexton.execution.delete.context import Comparison, DeleteContext
from sexton.execution.delete.group_calls import PlannedGroup, PlannedRow
from sexton.execution.delete.restore_raced import restore_raced, settle_restore

DOUBT_MS = MINUTE_MS
"""How long after its intent an unanswered call may take effect: twice as long as any client waits for a broker."""


def settle_open(context: DeleteContext) -> None:
    """Find out the effects of every intent without an outcome, and record them."""
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
    """Wait until every unanswered call is done or can no longer happen, and record its effects.

    There is no wait where every call was answered.
    """
    begun_ms = [context.status.intended[item_id].at_ms for item_id in context.unsettled]
    if begun_ms:
        context.watch.wait(context, until_ms=max(begun_ms) + DOUBT_MS)
    for group in context.groups:
        context.watch.settle_late(context, group)


def compare_rows(context: DeleteContext, group: PlannedGroup, rows: Sequence[PlannedRow]) -> Comparison:
    """Compare rows of a group with the cluster, settle the rows with a tombstone of Sexton, and record the results of
    rows that have changed."""
    found = context.watch.compare(context, group, rows)
    if found.ours:
        context.watch.settle_late(context, group)
    if found.results:
        decided = {result.item_id for result in found.results}
        context.conclude(found.results, beyond=[row.item for row in rows if row.item_id in decided])
    return found
