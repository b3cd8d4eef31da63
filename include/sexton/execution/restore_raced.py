"""Putting back what a race took along: a newer commit that came in between the last look and the tombstone.

Only while nothing newer is there, and only what was committed plainly: a deletion cancels what a transaction has
pending, and whether that would ever have been committed nobody knows. A commit that comes in while we put an older one
back is put back in turn. What cannot be put back is told with the reason; nothing is ever left unsaid.
"""

from collections.abc import Sequence

from sexton.errors import BrokerError, UsageError
from sexton.execution.context import SETTLE_TRIES, SETTLE_WAIT_S, TRIES, ApplyContext
from sexton.execution.steps import GroupWork
from sexton.execution.watch import NO_PRODUCER_ID, Seen
from sexton.failpoints import failpoint
from sexton.kafka.failures import TransientError
from sexton.ledger.entries import Intent, Item, Result, Value


def put_back(attempt: ApplyContext, work: GroupWork) -> None:
    """Put back whatever the ledger says that a race took along from this group, and nobody has begun to put back."""
    for item, result in attempt.status.unreturned():
        if (item.group_id, item.log_partition) == (work.group_id, work.log_partition):
            assert result.found is not None
            assert result.written_log_offset is not None
            _return(attempt, work, item, result.found, since=result.written_log_offset)


def settle_restore(attempt: ApplyContext, work: GroupWork, item: Item, *, since: int) -> Result:
    """What became of a put-back whose outcome nobody wrote down; one that was not made is made now."""
    watch = attempt.watch(work.log_partition)
    watch.read()
    values = _values(watch.seen(work.group_id, since=since), item)
    assert item.after is not None
    if ours := [one for one in values if same(one.value, item.after)]:
        return _result(item, "done", written=ours[-1])
    if values:
        return _result(item, "refused", error=_newer(values[-1]), found=values[-1].value)
    return _commit(attempt, work, item, since=since)


def same(one: Value | None, other: Value) -> bool:
    """Whether two values are the same to a client."""
    return one is not None and (one.committed_offset, one.leader_epoch, one.metadata) == (
        other.committed_offset,
        other.leader_epoch,
        other.metadata,
    )


def _return(attempt: ApplyContext, work: GroupWork, taken: Item, value: Value, *, since: int) -> None:
    """Put a value back, and what came in meanwhile after it, until what is there is the newest."""
    watch = attempt.watch(work.log_partition)
    for _ in range(TRIES):
        item = Item(
            log_partition=work.log_partition,
            position=attempt.next_position(work.log_partition),
            group_id=work.group_id,
            topic=taken.topic,
            partition=taken.partition,
            after=value,
        )
        number = attempt.next_step()
        attempt.intend(Intent(step=number, action="restore", items=[item], checks={"log_offset": since}))
        failpoint("apply.returning")
        result = _checked(attempt, work, item, value, since=since)
        failpoint("apply.returned")
        attempt.conclude([result], step=number)
        overwritten = _overwritten(watch.seen(work.group_id, since=since), item, result)
        if overwritten is None:
            return
        assert overwritten.value is not None
        assert result.written_log_offset is not None
        value, since = overwritten.value, result.written_log_offset + 1


def _checked(attempt: ApplyContext, work: GroupWork, item: Item, value: Value, *, since: int) -> Result:
    watch = attempt.watch(work.log_partition)
    watch.read()
    if newer := _values(watch.seen(work.group_id, since=since), item):
        return _result(item, "gone", error=_newer(newer[-1]), found=newer[-1].value)
    original = [one for one in watch.seen(work.group_id) if one.log_offset == value.log_offset]
    if original and original[0].producer_id != NO_PRODUCER_ID:
        told = "it was part of a transaction, in which the deletion has cancelled it: nobody can put it back"
        return _result(item, "refused", error=told)
    attempt.ledger.hold()
    return _commit(attempt, work, item, since=since)


def _commit(attempt: ApplyContext, work: GroupWork, item: Item, *, since: int) -> Result:
    """Commit the value as an administrator does: the coordinator takes it only while the group has no members."""
    assert item.after is not None
    assert item.topic is not None
    assert item.partition is not None
    epoch = -1 if item.after.leader_epoch is None else item.after.leader_epoch
    told = item.after.committed_offset, epoch, item.after.metadata
    key = item.topic, item.partition
    error: str | None = None
    for number in range(SETTLE_TRIES):
        try:
            error = attempt.port.commit_offsets(work.group_id, {key: told}).get(key)
            is_settled = True
        except TransientError as failure:
            error, is_settled = failure.message, False
        except (UsageError, BrokerError) as failure:
            error, is_settled = failure.message, False
        watch = attempt.watch(work.log_partition)
        watch.read()
        values = _values(watch.seen(work.group_id, since=since), item)
        if ours := [one for one in values if same(one.value, item.after)]:
            return _result(item, "done", written=ours[0])
        if is_settled or values:
            break
        attempt.clocks.sleep(SETTLE_WAIT_S * 2**number)
    return _result(item, "refused", error=error or "the commit was answered and is not in the log")


def _overwritten(seen: Sequence[Seen], item: Item, result: Result) -> Seen | None:
    """A commit that came in before our value did, so that ours, which is older, stands over it now."""
    if result.outcome != "done" or result.written_log_offset is None:
        return None
    values = _values(seen, item)
    late = [one for one in values if one.log_offset < result.written_log_offset]
    after = [one for one in values if one.log_offset > result.written_log_offset]
    if not late or after or late[-1].producer_id != NO_PRODUCER_ID:
        return None
    return late[-1]


def _values(seen: Sequence[Seen], item: Item) -> list[Seen]:
    identity = ("offset", item.topic, item.partition)
    return [one for one in seen if one.identity == identity and not one.is_tombstone]


def _newer(one: Seen) -> str:
    return f"a newer commit is there, at log_offset {one.log_offset}"


def _result(
    item: Item, outcome: str, *, error: str | None = None, written: Seen | None = None, found: Value | None = None
) -> Result:
    return Result.model_validate(
        {
            "log_partition": item.log_partition,
            "position": item.position,
            "outcome": outcome,
            "error": error,
            "written_log_offset": written.log_offset if written else None,
            "written_timestamp_ms": written.timestamp_ms if written else None,
            "found": found,
        }
    )
