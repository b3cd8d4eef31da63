"""One deletion call, from its intent to its outcome."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sexton.execution.delete.call_effects import RacedCommit, raced_commits, results_of
from sexton.execution.delete.context import DeleteContext
from sexton.execution.delete.group_calls import GroupCall, PlannedGroup, PlannedRow
from sexton.execution.delete.last_look import last_look
from sexton.execution.delete.preconditions import check_stamps
from sexton.execution.delete.restore_raced import restore_raced
from sexton.execution.engine import Answer, Effects, LastLook, Step, execute_step, read_until_settled
from sexton.execution.status import Call, call_of
from sexton.failpoints import failpoint
from sexton.ledger.entries import Item, ItemId, Result


def delete_rows(context: DeleteContext, group: PlannedGroup, call: GroupCall, checks: Mapping[str, Any]) -> None:
    """Delete rows of a group that was just compared (`checks`) through the coordinator."""

    def ask() -> Answer:
        if call.call == "delete_group":
            return Answer(whole=context.client.delete_group(group.group_id))
        answers = context.client.delete_offsets(group.group_id, [row.topic_partition for row in call.rows])
        return Answer(by_item={row.item_id: answers.get(row.topic_partition) for row in call.rows})

    deletion_step(context, group, call.rows, {**checks, "call": call.call}, ask)


def deletion_step(
    context: DeleteContext,
    group: PlannedGroup,
    rows: Sequence[PlannedRow],
    checks: Mapping[str, Any],
    ask: Callable[[], Answer],
) -> None:
    """Carry out one deletion and put back what it removed by a race.

    Refused when the ledger has a newer claim, before anything is called; and when the broker's timestamps show that the
    clocks are too far apart, after the outcome was recorded.
    """
    begun_ms = context.clocks.now_ms()
    is_append = checks["call"] == "append"

    def look() -> LastLook:
        if is_append:
            failpoint("apply.appending")
        return last_look(context, group, rows, since=int(checks["log_offset"]))

    def read_back(_: Collection[ItemId], answer: Answer) -> Effects:
        if is_append:
            failpoint("apply.appended")
        since = context.watch(group.log_partition).end
        results, raced = settle(context, group, rows, answer, since=since, call=call_of(checks))
        extras, more = beyond_plan(context, group, raced)
        return [*results, *more], extras

    step = Step(
        action="tombstone",
        items=[row.item for row in rows],
        checks=checks,
        look=look,
        call=lambda _: ask(),
        read_back=read_back,
    )
    results = execute_step(context, step)
    restore_raced(context, group)
    check_stamps(results, begun_ms=begun_ms, ended_ms=context.clocks.now_ms())


def settle(
    context: DeleteContext, group: PlannedGroup, rows: Sequence[PlannedRow], answer: Answer, *, since: int, call: Call
) -> tuple[list[Result], list[RacedCommit]]:
    """Read what a call did, as often as it takes; no result is `unknown` in the end.

    What an unanswered call has not done by then may still be done: it is looked for again when the attempt ends.
    """
    watch = context.watch(group.log_partition)
    raced: list[RacedCommit] = []

    def read() -> list[Result]:
        nonlocal raced
        watch.read()
        records = watch.records(group.group_id, since=since)
        raced = raced_commits(records, rows, since=since, call=call)
        return results_of(rows, answer, records, raced, since=since)

    results = read_until_settled(context, answer, read)
    if not answer.is_settled and any(result.outcome == "unknown" for result in results):
        context.unsettled |= {row.item_id for row in rows}
    return [_decided(context, group, row, result, answer) for row, result in zip(rows, results, strict=True)], raced


def beyond_plan(
    context: DeleteContext, group: PlannedGroup, raced: Sequence[RacedCommit]
) -> tuple[list[Item], list[Result]]:
    """Items and results of offsets that the plan does not know, and that were deleted together with their group."""
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


def _decided(context: DeleteContext, group: PlannedGroup, row: PlannedRow, result: Result, answer: Answer) -> Result:
    """The result of a row that the log has no tombstone of."""
    if result.outcome != "unknown":
        return result
    if not answer.is_settled:
        return Result.of(row.item_id, "not_done", answer.whole or "no answer came")
    if row.is_offset:
        is_there = row.topic_partition in context.client.committed(group.group_id, require_stable=False)
    else:
        is_there = context.client.group_now(group.group_id).exists
    if is_there:
        return Result.of(row.item_id, "not_done", "the coordinator says that it is done, and it is still there")
    # Up to 3.9 a group that was never more than offsets has no record of its own, and is deleted without one.
    return Result.of(row.item_id, "gone" if row.is_offset else "done")
