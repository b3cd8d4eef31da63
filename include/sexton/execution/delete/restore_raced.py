"""Puts back commits that a deletion removed in a race: they arrived between the preflight check and the tombstone.

A value is put back only while there is no newer value, and only if it was committed outside of a transaction: a
deletion cancels pending values, and whether they would have been committed is unknown. A value that cannot be put back
is reported with the reason. A newer commit that arrives meanwhile is not replaced (compare_and_set). Where the broker
accepts no transaction from this principal, a plain commit may replace the newer commit, which is then put back as well.

Unlike other steps this one repeats its call when there is no answer: committing the same value again is harmless.
"""

from collections.abc import Collection, Sequence

from sexton.errors import BrokerError, UsageError
from sexton.execution.delete.context import DeleteContext
from sexton.execution.delete.group_calls import PlannedGroup
from sexton.execution.engine import (
    SETTLE_TRIES,
    SETTLE_WAIT_S,
    TRIES,
    Answer,
    Effects,
    Preflight,
    Step,
    error_text,
    execute_step,
)
from sexton.execution.group_records import NO_PRODUCER_ID, GroupRecord, GroupTail
from sexton.failpoints import failpoint
from sexton.kafka.admin import GroupError
from sexton.ledger.entries import Item, ItemId, Result, Value


def restore_raced(context: DeleteContext, group: PlannedGroup) -> None:
    """Put back the values that, by the ledger, a race removed from this group, unless putting them back has begun."""
    for item, result in context.status.unreturned():
        if (item.group_id, item.log_partition) == (group.group_id, group.log_partition):
            assert result.found is not None
            assert result.written_log_offset is not None
            context.writer.begin()
            _restore(context, group, item, result.found, since=result.written_log_offset + 1)


def settle_restore(context: DeleteContext, group: PlannedGroup, item: Item, *, since: int) -> Result:
    """The result of an open intent to put a value back. If the value was not put back, this puts it back."""
    context.writer.begin()
    tail = context.tail(group.log_partition)
    tail.read()
    values = _values(tail, group, item, since=since)
    if ours := [one for one in values if _is_put_back(one, item)]:
        return Result.of(item.item_id, "done", written=ours[-1].written_at)
    if values:
        return Result.of(item.item_id, "refused", _newer(values[-1]), found=values[-1].value)
    return _read_back(context, group, item, _commit(context, group, item, since=since), since=since)


def _restore(context: DeleteContext, group: PlannedGroup, raced: Item, value: Value, *, since: int) -> None:
    """Put a value back, and newer values that arrived meanwhile, until the newest one is in place."""
    for _ in range(TRIES):
        item = Item(
            log_partition=group.log_partition,
            position=context.next_position(group.log_partition),
            group_id=group.group_id,
            topic=raced.topic,
            partition=raced.partition,
            after=value,
        )
        (result,) = execute_step(context, _step(context, group, item, since=since))
        values = _values(context.tail(group.log_partition), group, item, since=since)
        overwritten = _overwritten(values, result)
        if overwritten is None:
            return
        assert overwritten.value is not None
        assert result.written_log_offset is not None
        value, since = overwritten.value, result.written_log_offset + 1


def _step(context: DeleteContext, group: PlannedGroup, item: Item, *, since: int) -> Step:
    def preflight() -> Preflight:
        failpoint("apply.returning")
        result = _objection(context, group, item, since=since)
        return context.clocks.ticks_ms(), [] if result is None else [result]

    def read_back(_: Collection[ItemId], answer: Answer) -> Effects:
        result = _read_back(context, group, item, answer, since=since)
        failpoint("apply.returned")
        return [result], []

    return Step(
        action="restore",
        items=[item],
        checks={"log_offset": since, **context.writer.checks},
        preflight=preflight,
        call=lambda _: _commit(context, group, item, since=since),
        read_back=read_back,
        is_measured=False,
    )


def _objection(context: DeleteContext, group: PlannedGroup, item: Item, *, since: int) -> Result | None:
    """Why the value must not be put back; None when it may."""
    tail = context.tail(group.log_partition)
    tail.read()
    if newer := _values(tail, group, item, since=since):
        return Result.of(item.item_id, "gone", _newer(newer[-1]), found=newer[-1].value)
    assert item.after is not None
    original = [record for record in tail.records(group.group_id) if record.log_offset == item.after.log_offset]
    if original and original[0].producer_id != NO_PRODUCER_ID:
        return Result.of(item.item_id, "refused", "it was part of a transaction that the deletion has cancelled")
    return None


def _commit(context: DeleteContext, group: PlannedGroup, item: Item, *, since: int) -> Answer:
    """Commit the value without a member, if the group still has no members and nothing newer was committed."""
    assert item.after is not None
    assert item.topic is not None
    assert item.partition is not None
    values = {item.item_id: ((item.topic, item.partition), item.after.as_committed)}
    try:
        answer = context.writer.write(group.group_id, group.log_partition, values, since=since)
    except GroupError as error:
        return Answer(whole=error_text(error))
    except (UsageError, BrokerError) as error:
        return Answer(whole=error.message, is_settled=False)
    return answer


def _read_back(context: DeleteContext, group: PlannedGroup, item: Item, answer: Answer, *, since: int) -> Result:
    """The result of a commit. The commit is repeated while it has no answer and is not in the log."""
    tail = context.tail(group.log_partition)
    for number in range(SETTLE_TRIES):
        if number:
            answer = _commit(context, group, item, since=since)
        context.writer.settle()
        if answer.decided:
            return answer.decided[0]
        tail.read()
        values = _values(tail, group, item, since=since)
        if ours := [one for one in values if _is_put_back(one, item)]:
            return Result.of(item.item_id, "done", written=ours[0].written_at)
        if answer.is_settled or values:
            break
        context.clocks.sleep(SETTLE_WAIT_S * 2**number)
    error = answer.error_of(item.item_id) or "the commit was answered and is not in the log"
    return Result.of(item.item_id, "refused", error)


def _is_put_back(record: GroupRecord, item: Item) -> bool:
    """Whether a record has the value to be put back, as a client sees it."""
    assert item.after is not None
    return record.value is not None and record.value.as_committed == item.after.as_committed


def _overwritten(values: Sequence[GroupRecord], result: Result) -> GroupRecord | None:
    """A newer commit that precedes the restored value in the log, and was therefore replaced by this older value."""
    if result.outcome != "done" or result.written_log_offset is None:
        return None
    late = [one for one in values if one.log_offset < result.written_log_offset]
    after = [one for one in values if one.log_offset > result.written_log_offset]
    if not late or after or late[-1].producer_id != NO_PRODUCER_ID:
        return None
    return late[-1]


def _values(tail: GroupTail, group: PlannedGroup, item: Item, *, since: int) -> list[GroupRecord]:
    """The values of an offset in the log at `since` or later, without aborted ones."""
    key, aborted = ("offset", item.topic, item.partition), tail.transactions.aborted
    records = (one for one in tail.records(group.group_id, since=since) if one.record_key == key)
    return [one for one in records if not one.is_tombstone and one.log_offset not in aborted]


def _newer(record: GroupRecord) -> str:
    return f"a newer commit is there, at log_offset {record.log_offset}"
