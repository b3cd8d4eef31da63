"""Puts back commits that a deletion removed by a race: they came in between the preflight check and the tombstone.

A value is put back only while nothing newer is there, and only if it was committed outside of a transaction: a deletion
cancels what a transaction has pending, and nobody knows whether that would have been committed. A commit that arrives
while an older one is put back is put back after it. What cannot be put back is reported with the reason.

Unlike other steps this one repeats its call when there is no answer: committing the same value again is harmless.
"""

from collections.abc import Collection, Sequence

from sexton.errors import BrokerError, UsageError
from sexton.execution.delete.context import DeleteContext
from sexton.execution.delete.group_calls import PlannedGroup
from sexton.execution.engine import SETTLE_TRIES, SETTLE_WAIT_S, TRIES, Answer, Effects, Preflight, Step, execute_step
from sexton.execution.group_records import NO_PRODUCER_ID, GroupRecord
from sexton.failpoints import failpoint
from sexton.ledger.entries import Item, ItemId, Result, Value


def restore_raced(context: DeleteContext, group: PlannedGroup) -> None:
    """Put back all that, by the ledger, a race took along from this group, and that nobody has begun to put back."""
    for item, result in context.status.unreturned():
        if (item.group_id, item.log_partition) == (group.group_id, group.log_partition):
            assert result.found is not None
            assert result.written_log_offset is not None
            _restore(context, group, item, result.found, since=result.written_log_offset)


def settle_restore(context: DeleteContext, group: PlannedGroup, item: Item, *, since: int) -> Result:
    """The result of an item whose intent to put a value back has no outcome; what was not done is done now."""
    tail = context.tail(group.log_partition)
    tail.read()
    values = _values(tail.records(group.group_id, since=since), item)
    if ours := [one for one in values if _is_put_back(one, item)]:
        return Result.of(item.item_id, "done", written=ours[-1].written_at)
    if values:
        return Result.of(item.item_id, "refused", _newer(values[-1]), found=values[-1].value)
    return _read_back(context, group, item, _commit(context, group, item), since=since)


def _restore(context: DeleteContext, group: PlannedGroup, raced: Item, value: Value, *, since: int) -> None:
    """Put a value back, and what came in after it meanwhile, until the newest one is there."""
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
        overwritten = _overwritten(context.tail(group.log_partition).records(group.group_id, since=since), item, result)
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
        checks={"log_offset": since},
        preflight=preflight,
        call=lambda _: _commit(context, group, item),
        read_back=read_back,
        is_measured=False,
    )


def _objection(context: DeleteContext, group: PlannedGroup, item: Item, *, since: int) -> Result | None:
    """Why the value must not be put back; None when it may."""
    tail = context.tail(group.log_partition)
    tail.read()
    if newer := _values(tail.records(group.group_id, since=since), item):
        return Result.of(item.item_id, "gone", _newer(newer[-1]), found=newer[-1].value)
    assert item.after is not None
    original = [record for record in tail.records(group.group_id) if record.log_offset == item.after.log_offset]
    if original and original[0].producer_id != NO_PRODUCER_ID:
        return Result.of(item.item_id, "refused", "it was part of a transaction that the deletion has cancelled")
    return None


def _commit(context: DeleteContext, group: PlannedGroup, item: Item) -> Answer:
    """Commit the value as an administrator does: the coordinator accepts it only while the group has no members."""
    assert item.after is not None
    assert item.topic is not None
    assert item.partition is not None
    key = item.topic, item.partition
    try:
        answers = context.client.commit_offsets(group.group_id, {key: item.after.as_committed})
    except (UsageError, BrokerError) as error:
        return Answer(whole=error.message, is_settled=False)
    return Answer(whole=answers.get(key))


def _read_back(context: DeleteContext, group: PlannedGroup, item: Item, answer: Answer, *, since: int) -> Result:
    """What came of a commit; while it has no answer and is not in the log it is made again."""
    tail = context.tail(group.log_partition)
    for number in range(SETTLE_TRIES):
        if number:
            answer = _commit(context, group, item)
        tail.read()
        values = _values(tail.records(group.group_id, since=since), item)
        if ours := [one for one in values if _is_put_back(one, item)]:
            return Result.of(item.item_id, "done", written=ours[0].written_at)
        if answer.is_settled or values:
            break
        context.clocks.sleep(SETTLE_WAIT_S * 2**number)
    return Result.of(item.item_id, "refused", answer.whole or "the commit was answered and is not in the log")


def _is_put_back(record: GroupRecord, item: Item) -> bool:
    """Whether a record has the value that was to be put back, as a client sees it."""
    assert item.after is not None
    return record.value is not None and record.value.as_committed == item.after.as_committed


def _overwritten(records: Sequence[GroupRecord], item: Item, result: Result) -> GroupRecord | None:
    """A commit that came in before our value, so that our value, which is older, has overwritten it."""
    if result.outcome != "done" or result.written_log_offset is None:
        return None
    values = _values(records, item)
    late = [one for one in values if one.log_offset < result.written_log_offset]
    after = [one for one in values if one.log_offset > result.written_log_offset]
    if not late or after or late[-1].producer_id != NO_PRODUCER_ID:
        return None
    return late[-1]


def _values(records: Sequence[GroupRecord], item: Item) -> list[GroupRecord]:
    key = ("offset", item.topic, item.partition)
    return [record for record in records if record.record_key == key and not record.is_tombstone]


def _newer(record: GroupRecord) -> str:
    return f"a newer commit is there, at log_offset {record.log_offset}"
