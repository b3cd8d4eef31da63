"""`LogWatch`: the watch for a plan made from the log. The log shows the effects of a call, whatever its answer was."""

from collections.abc import Sequence

from sexton.as_text import HOUR_MS
from sexton.execution.delete.call_effects import RacedCommit, raced_commits, results_of, tombstones_by_key
from sexton.execution.delete.context import Checks, DeleteContext, Rows
from sexton.execution.delete.group_calls import PlannedGroup, PlannedRow
from sexton.execution.delete.preflight_check import compare, preflight_check
from sexton.execution.delete.restore_raced import restore_raced
from sexton.execution.engine import NO_ANSWER, Answer, Effects, read_until_settled
from sexton.execution.group_records import GroupRecord
from sexton.execution.status import Call, call_of
from sexton.ledger.entries import Item, Result
from sexton.plans.basis import BY_LOG

LATE_MS = HOUR_MS
"""A tombstone stamped more than this after an intent is not from the intent's call."""


class LogWatch:
    """Watches the tails of the log partitions of a plan."""

    basis = BY_LOG

    compare = staticmethod(compare)
    preflight_check = staticmethod(preflight_check)

    def effects(
        self, context: DeleteContext, group: PlannedGroup, rows: Rows, answer: Answer, checks: Checks
    ) -> Effects:
        since = context.tail(group.log_partition).end
        return _settle(context, group, rows, answer, since=since, call=call_of(checks))

    def settle(self, context: DeleteContext, group: PlannedGroup, rows: Rows, checks: Checks) -> Effects:
        since = int(checks["log_offset"])
        return _settle(context, group, rows, NO_ANSWER, since=since, call=call_of(checks))

    def wait(self, context: DeleteContext, *, until_ms: int) -> None:
        if (left_ms := until_ms - context.clocks.now_ms()) > 0:
            context.clocks.sleep(left_ms / 1000)

    def settle_late(self, context: DeleteContext, group: PlannedGroup) -> None:
        """Read the effects of abandoned calls on a group, and put back commits that they removed in a race.

        Rows that a repeated call has deleted are included: the first call may be carried out after the second. A
        tombstone stamped more than LATE_MS after the intent counts as another client's.
        """
        status, tail = context.status, context.tail(group.log_partition)
        rows = [row for row in group.rows if row.item_id in status.intended]
        rows = [row for row in rows if not status.is_written(row.item_id) or row.item_id in context.unsettled]
        if not rows:
            return
        tail.read()
        results: list[Result] = []
        items: list[Item] = []
        for row in rows:
            known = status.results.get(row.item_id)
            written = known.written_log_offset if known is not None else None
            intended = status.intended[row.item_id]
            since = intended.since if written is None else written + 1
            records = _in_time(tail.records(group.group_id, since=since), intended.at_ms)
            raced = raced_commits(records, [row], since=since, call="delete_offsets")
            if row.record_key in tombstones_by_key(records, since=since) and (written is None or raced):
                results += results_of([row], NO_ANSWER, records, raced, since=since)
                items.append(row.item)
        extras, more = _late_beyond_plan(context, group, rows)
        if results or more:
            context.conclude([*results, *more], beyond=[*items, *extras])
        restore_raced(context, group)


def _settle(
    context: DeleteContext, group: PlannedGroup, rows: Rows, answer: Answer, *, since: int, call: Call
) -> Effects:
    """Read the effects of a call, as often as needed; no result is `unknown` in the end.

    An unanswered call without an effect so far may still take effect: it is checked again when the attempt ends.
    """
    tail = context.tail(group.log_partition)
    raced: list[RacedCommit] = []

    def read() -> list[Result]:
        nonlocal raced
        tail.read()
        records = tail.records(group.group_id, since=since)
        raced = raced_commits(records, rows, since=since, call=call)
        return results_of(rows, answer, records, raced, since=since)

    results = read_until_settled(context, answer, read)
    if not answer.is_settled and any(result.outcome == "unknown" for result in results):
        context.unsettled |= {row.item_id for row in rows}
    results = [_decided(context, group, row, result, answer) for row, result in zip(rows, results, strict=True)]
    extras, more = _beyond_plan(context, group, raced)
    return [*results, *more], extras


def _beyond_plan(
    context: DeleteContext, group: PlannedGroup, raced: Sequence[RacedCommit]
) -> tuple[list[Item], list[Result]]:
    """Items and results of offsets that are not in the plan and were deleted together with their group."""
    items, results = [], []
    known = context.status.raced_tombstones()[group.group_id]
    for each in raced:
        topic, partition = each.value.topic_partition
        if each.row is None and (topic, partition, each.tombstone.log_offset) not in known:
            item = Item(
                log_partition=group.log_partition,
                position=context.next_position(group.log_partition),
                group_id=group.group_id,
                topic=topic,
                partition=partition,
                before=each.value.value,
            )
            text = "committed just before its group was deleted"
            items.append(item)
            results.append(
                Result.of(item.item_id, "raced", text, written=each.tombstone.written_at, found=each.value.value)
            )
    return items, results


def _late_beyond_plan(context: DeleteContext, group: PlannedGroup, rows: Rows) -> tuple[list[Item], list[Result]]:
    """`_beyond_plan` for the abandoned calls that may have deleted the group itself."""
    calls = [context.status.intended[row.item_id] for row in rows]
    deletions = [call for call in calls if call.call == "delete_group"]
    if not deletions:
        return [], []
    since = min(call.since for call in deletions)
    records = context.tail(group.log_partition).records(group.group_id, since=since)
    records = _in_time(records, max(call.at_ms for call in deletions))
    return _beyond_plan(context, group, raced_commits(records, group.rows, since=since, call="delete_group"))


def _in_time(records: Sequence[GroupRecord], intended_at_ms: int) -> list[GroupRecord]:
    """The records, without tombstones that are too late to be from a call intended at `intended_at_ms`."""
    return [one for one in records if not one.is_tombstone or one.timestamp_ms <= intended_at_ms + LATE_MS]


def _decided(context: DeleteContext, group: PlannedGroup, row: PlannedRow, result: Result, answer: Answer) -> Result:
    """The result of a row; if that is `unknown`, what the answer and the coordinator say instead."""
    if result.outcome != "unknown":
        return result
    if not answer.is_settled:
        return Result.of(row.item_id, "not_done", answer.whole or "no answer came")
    if row.is_offset:
        is_there = row.topic_partition in context.client.committed(group.group_id, require_stable=False)
    else:
        is_there = context.client.group_now(group.group_id).exists
    if is_there:
        return Result.of(row.item_id, "not_done", "the coordinator reported success, but it is still there")
    # Up to 3.9 a group that never had anything but offsets has no record of its own, so its deletion writes none.
    return Result.of(row.item_id, "gone" if row.is_offset else "done")
