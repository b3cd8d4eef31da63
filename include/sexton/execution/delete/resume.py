"""Finds out what earlier deletion calls did whose outcome is unknown, and records it: intents without an outcome, and
calls without an answer.

What was not done is tried again. The first call may only have been late and still be carried out: so the log is read
for its effect before the second try, and again when the attempt ends.
"""

from collections.abc import Sequence

from sexton.execution.delete.call_effects import raced_commits, results_of, tombstones_by_key
from sexton.execution.delete.context import DeleteContext
from sexton.execution.delete.delete_step import beyond_plan, settle
from sexton.execution.delete.group_calls import PlannedGroup, PlannedRow
from sexton.execution.delete.last_look import Comparison, compare
from sexton.execution.delete.restore_raced import restore_raced, settle_restore
from sexton.execution.engine import NO_ANSWER
from sexton.execution.group_records import GroupRecord
from sexton.execution.status import call_of
from sexton.ledger.entries import Item, Result
from sexton.ledger.recorded_steps import RecordedStep

DOUBT_MS = 60_000
"""How long after its intent a call without an answer is waited for: twice as long as anybody waits for a broker."""
LATE_MS = 3_600_000
"""A tombstone that is stamped later than this after an intent is not of its call."""


def settle_open(context: DeleteContext) -> None:
    """Find out what came of every intent without an outcome, and record it."""
    by_group = {(group.log_partition, group.group_id): group for group in context.groups}
    for step in context.status.open:
        items = [item for item in step.intent.items if step.is_open_for(item)]
        group = by_group[items[0].log_partition, items[0].group_id]
        since = int(step.intent.checks["log_offset"])
        if step.intent.action == "restore":
            results = [settle_restore(context, group, item, since=since) for item in items]
            context.conclude(results, step=step.intent.step, of_attempt=step.entry.attempt)
        else:
            _settle_deletion(context, group, step, items, since=since)


def wait_for_late_calls(context: DeleteContext) -> None:
    """Wait until every call without an answer is done or never will be, and read what they did.

    Where every call was answered there is no wait.
    """
    begun_ms = [context.status.intended[item_id].at_ms for item_id in context.unsettled]
    if begun_ms and (left_ms := max(begun_ms) + DOUBT_MS - context.clocks.now_ms()) > 0:
        context.clocks.sleep(left_ms / 1000)
    for group in context.groups:
        settle_late_calls(context, group)


def compare_rows(context: DeleteContext, group: PlannedGroup, rows: Sequence[PlannedRow]) -> Comparison:
    """Compare rows of a group with the cluster, settle those with a tombstone of ours, and record the others'
    results."""
    found = compare(context, group, rows)
    if found.ours:
        settle_late_calls(context, group)
    if found.results:
        decided = {result.item_id for result in found.results}
        context.conclude(found.results, beyond=[row.item for row in rows if row.item_id in decided])
    return found


def settle_late_calls(context: DeleteContext, group: PlannedGroup) -> None:
    """Read what our calls may have done to a group since they were given up, and put back what they removed by a race.

    Also those that were made again and are done: the first call may be carried out after the second. What is stamped
    LATE_MS after the intent is taken for somebody else's.
    """
    status, watch = context.status, context.watch(group.log_partition)
    rows = [
        row
        for row in group.rows
        if row.item_id in status.intended and (not status.is_written(row.item_id) or row.item_id in context.unsettled)
    ]
    if not rows:
        return
    watch.read()
    results: list[Result] = []
    items: list[Item] = []
    for row in rows:
        known = status.results.get(row.item_id)
        written = known.written_log_offset if known is not None else None
        intended = status.intended[row.item_id]
        since = intended.since if written is None else written + 1
        records = _in_time(watch.records(group.group_id, since=since), intended.at_ms)
        raced = raced_commits(records, [row], since=since, call="delete_offsets")
        if row.record_key in tombstones_by_key(records, since=since) and (written is None or raced):
            results += results_of([row], NO_ANSWER, records, raced, since=since)
            items.append(row.item)
    extras, more = _beyond_plan(context, group, rows)
    if results or more:
        context.conclude([*results, *more], beyond=[*items, *extras])
    restore_raced(context, group)


def _beyond_plan(
    context: DeleteContext, group: PlannedGroup, rows: Sequence[PlannedRow]
) -> tuple[list[Item], list[Result]]:
    """Offsets that the plan does not know, and that were deleted together with the group since its deletion."""
    calls = [context.status.intended[row.item_id] for row in rows]
    deletions = [call for call in calls if call.call == "delete_group"]
    if not deletions:
        return [], []
    since = min(call.since for call in deletions)
    records = context.watch(group.log_partition).records(group.group_id, since=since)
    records = _in_time(records, max(call.at_ms for call in deletions))
    return beyond_plan(context, group, raced_commits(records, group.rows, since=since, call="delete_group"))


def _in_time(records: Sequence[GroupRecord], intended_at_ms: int) -> list[GroupRecord]:
    """Without the tombstones that are too late to be of a call that was intended then."""
    return [one for one in records if not one.is_tombstone or one.timestamp_ms <= intended_at_ms + LATE_MS]


def _settle_deletion(
    context: DeleteContext, group: PlannedGroup, step: RecordedStep, items: Sequence[Item], *, since: int
) -> None:
    """Read what a call did whose process ended before it recorded an answer."""
    item_ids = {item.item_id for item in items}
    rows = [row for row in group.rows if row.item_id in item_ids]
    results, raced = settle(context, group, rows, NO_ANSWER, since=since, call=call_of(step.intent.checks))
    extras, more = beyond_plan(context, group, raced)
    context.conclude([*results, *more], step=step.intent.step, of_attempt=step.entry.attempt, beyond=extras)
    restore_raced(context, group)
