"""Deleting what a plan by looks names (coverage `admin`), where the log cannot be read: fresh looks stand for it.

`compare` looks at a group before an intent is written, `delete_rows` once more right before the call, and again after
it. A group that is no longer as the plan's look saw it is left alone as a whole: not Empty, another group epoch or
protocol type, any offset with another value, or a change that any look in the archive since then shows. So is what
cannot be answered.

What looks cannot show, and the log could: a commit that arrives between the last look and the call's effect is deleted
unseen. So nothing is put back here. That window is measured, and where a look after the call shows that the group has
been active, its items say so.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sexton.archive.looks_since import GroupThen
from sexton.execution.delete.context import DeleteContext
from sexton.execution.delete.group_calls import GroupCall, PlannedGroup, PlannedRow
from sexton.execution.delete.last_look import Comparison
from sexton.execution.engine import (
    NO_ANSWER,
    Answer,
    Effects,
    LastLook,
    Step,
    execute_step,
    read_until_settled,
)
from sexton.kafka.admin_look import LookedGroup
from sexton.ledger.entries import ItemId, Result, Value
from sexton.ledger.recorded_steps import RecordedStep

DOUBT_MS = 60_000
"""How long after its intent a call without an answer is waited for: twice as long as anybody waits for a broker."""
WATCH_S = 1.0
NOT_FOUND = "GROUP_ID_NOT_FOUND"
NO_ANSWER_GONE = "a call had no answer, and a look shows that it is gone"
OPEN_TRANSACTION = "a transaction that is open may change it"


def compare(context: DeleteContext, group: PlannedGroup, rows: Sequence[PlannedRow]) -> Comparison:
    """Compare some rows of a group with a fresh look."""
    now = _look(context, group, rows)
    fresh, results = _judge(context, group, rows, now)
    checks = {
        "coverage": "admin",
        "group_type": now.group_type,
        "state": now.state,
        "members": now.member_count,
        "group_epoch": now.group_epoch,
        "offsets": len(now.offsets),
    }
    return Comparison(end=0, fresh=tuple(fresh), results=tuple(results), checks=checks)


def compare_rows(context: DeleteContext, group: PlannedGroup, rows: Sequence[PlannedRow]) -> Comparison:
    """As `compare`, and record the results."""
    found = compare(context, group, rows)
    if found.results:
        decided = {result.item_id for result in found.results}
        context.conclude(found.results, beyond=[row.item for row in rows if row.item_id in decided])
    return found


def delete_rows(context: DeleteContext, group: PlannedGroup, call: GroupCall, checks: Mapping[str, Any]) -> None:
    """Delete rows of a group that was just compared (`checks`). Refused when the ledger has a newer claim."""
    rows = {row.item_id: row for row in call.rows}
    seen: list[LookedGroup] = []

    def look() -> LastLook:
        looked_ms = context.clocks.ticks_ms()  # before it is asked: what arrives while it is answered is not seen
        now = _look(context, group, call.rows)
        seen[:] = [now]
        return looked_ms, _judge(context, group, call.rows, now)[1]

    def ask(left: Collection[ItemId]) -> Answer:
        keys = {item_id: rows[item_id].topic_partition for item_id in left}
        answers = context.client.delete_offsets(group.group_id, list(keys.values()))
        return Answer(by_item={item_id: answers.get(key) for item_id, key in keys.items()})

    def read_back(left: Collection[ItemId], answer: Answer) -> Effects:
        return _settle(context, group, [rows[item_id] for item_id in left], answer, before=seen[0]), []

    execute_step(
        context,
        Step(
            action="tombstone",
            items=[row.item for row in call.rows],
            checks={**checks, "call": call.call},
            look=look,
            call=ask,
            read_back=read_back,
        ),
    )


def recall(context: DeleteContext) -> None:
    """Take from the ledger what newer values earlier attempts have seen."""
    for result in context.status.results.values():
        if result.found is not None or result.error == OPEN_TRANSACTION:
            context.newer[result.item_id] = result.found


def settle_open(context: DeleteContext) -> None:
    """Find out what came of every intent without an outcome, and record it; `unknown` where no look answers."""
    for step, rows in _open_rows(context):
        for group, own in rows:
            results = _settle(context, group, own, NO_ANSWER, before=None)
            context.conclude(results, step=step.intent.step, of_attempt=step.entry.attempt)


def wait_for_late_calls(context: DeleteContext) -> None:
    """Watch what calls without an answer are about until they certainly come no more, and record what they did.

    Where every call was answered there is no wait. A newer value that is seen to be there and then to be gone was
    removed by such a call: it is `raced`, with the value, which `sexton restore --from-ledger` puts back.
    """
    doubted = [(group, [row for row in group.rows if row.item_id in context.unsettled]) for group in context.groups]
    doubted = [(group, rows) for group, rows in doubted if rows]
    begun_ms = [context.status.intended[row.item_id].at_ms for _, rows in doubted for row in rows]
    if not begun_ms:
        return
    while True:
        is_over = context.clocks.now_ms() >= max(begun_ms) + DOUBT_MS
        looks = [(rows, _look(context, group, rows)) for group, rows in doubted]
        if is_over:
            break
        context.clocks.sleep(WATCH_S)
    late = [_late(context, row, now) for rows, now in looks for row in rows]
    if known := [result for result in late if result is not None]:
        decided = {result.item_id for result in known}
        items = [row.item for _, rows in doubted for row in rows if row.item_id in decided]
        context.conclude(known, beyond=items)


def _open_rows(context: DeleteContext) -> Iterator[tuple[RecordedStep, list[tuple[PlannedGroup, list[PlannedRow]]]]]:
    """Every open step with the rows that have no outcome yet, by group."""
    for step in context.status.open:
        item_ids = {item.item_id for item in step.intent.items if step.is_open_for(item)}
        rows = [(group, [row for row in group.rows if row.item_id in item_ids]) for group in context.groups]
        yield step, [(group, own) for group, own in rows if own]


def _look(context: DeleteContext, group: PlannedGroup, rows: Sequence[PlannedRow]) -> LookedGroup:
    then = context.then[group.group_id]
    now = context.client.look(group.group_id, then.group_type, [row.topic_partition for row in rows])
    for row in rows:
        if (found := _newer(row, now)) is not None:
            context.newer[row.item_id] = found
        elif row.topic_partition in now.unstable:
            context.newer.setdefault(row.item_id, None)
    return now


def _gone_by_doubtful_call(context: DeleteContext, row: PlannedRow) -> Result:
    """The result of an offset that is gone, and that a call without an answer was about."""
    if row.item_id not in context.newer:
        return Result.of(row.item_id, "done", NO_ANSWER_GONE)
    newer = context.newer[row.item_id]
    if newer is None:
        return Result.of(row.item_id, "done", f"{NO_ANSWER_GONE}: a transaction was open that had committed to it")
    return Result.of(row.item_id, "raced", "a call that had no answer removed a newer commit", found=newer)


def _change(then: GroupThen, now: LookedGroup) -> str | None:
    """Why nothing of a group may be deleted; None when it may."""
    return then.changed or then.change(
        state=now.state,
        protocol_type=now.protocol_type,
        group_epoch=now.group_epoch,
        member_count=now.member_count,
        offsets=now.offsets,
    )


def _judge(
    context: DeleteContext, group: PlannedGroup, rows: Sequence[PlannedRow], now: LookedGroup
) -> tuple[list[PlannedRow], list[Result]]:
    """The rows that are as the plan saw them, and the results of the others."""
    if now.error is not None:
        why = f"it cannot be looked at: {now.error}"
        return [], [Result.of(row.item_id, "refused", why) for row in rows]
    changed = _change(context.then[group.group_id], now)
    fresh: list[PlannedRow] = []
    results: list[Result] = []
    for row in rows:
        key = row.topic_partition
        assert row.item.before is not None
        if key in now.hidden:
            results.append(Result.of(row.item_id, "refused", now.hidden[key]))
        elif key not in now.offsets and key not in now.unstable:
            if row.item_id in context.status.doubtful:
                results.append(_gone_by_doubtful_call(context, row))
            else:
                results.append(Result.of(row.item_id, "gone", "somebody else has removed it"))
        elif changed is not None:
            results.append(Result.of(row.item_id, "changed_since", changed, found=_newer(row, now)))
        elif key in now.unstable:
            results.append(Result.of(row.item_id, "changed_since", OPEN_TRANSACTION))
        elif now.offsets[key] != row.item.before.as_committed:
            why = "the committed offset is another"
            results.append(Result.of(row.item_id, "changed_since", why, found=_newer(row, now)))
        else:
            fresh.append(row)
    return fresh, results


def _settle(
    context: DeleteContext,
    group: PlannedGroup,
    rows: Sequence[PlannedRow],
    answer: Answer,
    *,
    before: LookedGroup | None,
) -> list[Result]:
    """What came of a call, by looks after it; `unknown` only where no look answers.

    `before` is the last look before the call, None where that is not known any more.
    """
    if not answer.was_sent:
        return [Result.of(row.item_id, "not_done", answer.whole) for row in rows]

    def read() -> list[Result]:
        now = _look(context, group, rows)
        if now.error is not None:
            why = f"what came of the call cannot be looked at: {now.error}"
            return [Result.of(row.item_id, "unknown", why) for row in rows]
        active = None if before is None else _activity(before, now, planned={row.topic_partition for row in rows})
        return [_result(context, row, answer, now, active) for row in rows]

    results = read_until_settled(context, answer, read)
    if not answer.is_settled:
        context.unsettled |= {result.item_id for result in results if result.outcome != "done"}
    return results if answer.is_settled else [_not_done(result, answer) for result in results]


def _result(context: DeleteContext, row: PlannedRow, answer: Answer, now: LookedGroup, active: str | None) -> Result:
    key, error = row.topic_partition, answer.error_of(row.item_id)
    if key in now.hidden:
        return Result.of(row.item_id, "unknown", f"what came of the call cannot be looked at: {now.hidden[key]}")
    is_gone = key not in now.offsets and key not in now.unstable
    newer = _newer(row, now)
    if not answer.is_settled:
        if is_gone:
            return _gone_by_doubtful_call(context, row)
        if newer is not None:  # which the call may still remove
            why = "no answer came, and a newer offset is there: whether the one before it was removed cannot be seen"
            return Result.of(row.item_id, "not_done", why, found=newer)
        return Result.of(row.item_id, "unknown", _STILL_THERE)
    if error == NOT_FOUND:
        return Result.of(row.item_id, "gone", error)
    if error is not None:
        return Result.of(row.item_id, "refused", error)
    if is_gone:
        return Result.of(row.item_id, "done", active)
    if newer is not None:
        return Result.of(row.item_id, "done", "another offset was committed since", found=newer)
    # Committed again with the same value, or never deleted: in both cases it is not ours to delete any more.
    again = "the coordinator says that it is done, and a look shows it there: left alone"
    return Result.of(row.item_id, "changed_since", again)


_STILL_THERE = "no answer came, and it is still there"


def _not_done(result: Result, answer: Answer) -> Result:
    """What a call without an answer has not done so far: settled, and watched until it certainly comes no more."""
    if result.outcome != "unknown" or result.error != _STILL_THERE:
        return result
    return Result.of(result.item_id, "not_done", answer.whole or "no answer came")


def _late(context: DeleteContext, row: PlannedRow, now: LookedGroup) -> Result | None:
    """The result of a row after the watch; None where the one that is known stays."""
    known = context.status.results.get(row.item_id)
    if now.error is not None or row.topic_partition in now.hidden:
        return None
    if row.topic_partition in now.offsets or row.topic_partition in now.unstable:
        return None
    found = _gone_by_doubtful_call(context, row)
    return None if known is not None and known.outcome in ("raced", found.outcome) else found


def _activity(before: LookedGroup, now: LookedGroup, *, planned: Collection[tuple[str, int]]) -> str | None:
    """Where two looks around a call show that the group was active: a commit in between may be deleted as well."""
    if now.state is None:  # which a group is without its last offset
        return None
    moved = [key for key, value in now.offsets.items() if key not in planned and before.offsets.get(key) != value]
    is_same = replace(now, offsets=before.offsets, unstable=before.unstable, hidden=before.hidden) == before
    if is_same and not moved:
        return None
    return "the group was active during the call: a commit in that moment may be deleted as well"


def _newer(row: PlannedRow, now: LookedGroup) -> Value | None:
    """The value of an offset, if it is there and another than the plan's."""
    value = now.offsets.get(row.topic_partition)
    assert row.item.before is not None
    return None if value is None or value == row.item.before.as_committed else _value(value)


def _value(value: tuple[int, int | None, str]) -> Value:
    return Value(committed_offset=value[0], leader_epoch=value[1], metadata=value[2])
