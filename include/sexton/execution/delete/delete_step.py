"""One deletion call, from its intent to its outcome."""

from collections.abc import Callable, Collection

from sexton.execution.delete.context import Checks, DeleteContext, Rows
from sexton.execution.delete.group_calls import PlannedGroup
from sexton.execution.delete.preconditions import check_stamps
from sexton.execution.delete.restore_raced import restore_raced
from sexton.execution.engine import Answer, Effects, Preflight, Step, execute_step
from sexton.failpoints import failpoint
from sexton.ledger.entries import ItemId


def delete_rows(context: DeleteContext, group: PlannedGroup, rows: Rows, checks: Checks) -> None:
    """Delete rows of a group that was just compared, through the coordinator, with the call that `checks` name."""
    keys = {row.item_id: row.topic_partition for row in rows if row.is_offset}

    def ask(left: Collection[ItemId]) -> Answer:
        if checks["call"] == "delete_group":
            return Answer(whole=context.client.delete_group(group.group_id))
        answers = context.client.delete_offsets(group.group_id, [keys[item_id] for item_id in left])
        return Answer(by_item={item_id: answers.get(keys[item_id]) for item_id in left})

    deletion_step(context, group, rows, checks, ask)


def deletion_step(
    context: DeleteContext,
    group: PlannedGroup,
    rows: Rows,
    checks: Checks,
    ask: Callable[[Collection[ItemId]], Answer],
) -> None:
    """Carry out one deletion and put back newer commits that it removed in a race.

    Refused when the ledger has a newer claim, before any call; and when the broker's timestamps show that the clocks
    are too far apart, after the outcome was recorded.
    """
    begun_ms = context.clocks.now_ms()
    is_append = checks["call"] == "append"

    def preflight() -> Preflight:
        if is_append:
            failpoint("apply.appending")
        return context.watch.preflight_check(context, group, rows, checks)

    def read_back(left: Collection[ItemId], answer: Answer) -> Effects:
        if is_append:
            failpoint("apply.appended")
        called = set(left)
        return context.watch.effects(context, group, [row for row in rows if row.item_id in called], answer, checks)

    items = [row.item for row in rows]
    step = Step(action="tombstone", items=items, checks=checks, preflight=preflight, call=ask, read_back=read_back)
    results = execute_step(context, step)
    restore_raced(context, group)
    check_stamps(results, begun_ms=begun_ms, ended_ms=context.clocks.now_ms())
