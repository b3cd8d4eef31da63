"""Whether a group is still as the plan saw it: by OffsetFetch, by the coordinator's own word, and by the log's tail.

There is no compare-and-delete in Kafka's API, so this is looked at as late as can be, and what fell in between is
looked for afterwards (putback.py). A group that has written anything but tombstones since the plan was made is left
alone as a whole: a rule may hang on what the group did, and the next plan will see it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sexton.execution.cluster_protocol import ClusterPort, TopicPartition
from sexton.execution.steps import GroupWork, Planned
from sexton.execution.watch import LogWatch, Seen
from sexton.kafka.admin import GroupError, GroupNow
from sexton.kafka.failures import NotAllowed
from sexton.kafka.group_state import CommittedOffset
from sexton.ledger.entries import Item, Outcome, Result, Value

UNSTABLE = 88
"""UNSTABLE_OFFSET_COMMIT: a transaction may still change it (KIP-447)."""
EMPTY_STATES = frozenset({"Empty", "Dead"})
SHARE = "share"

Offsets = Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look at a group found: `fresh` rows are as planned, `ours` have a tombstone that may be of a call of ours,
    all others have a result.

    `end` is up to where the log was read before, `checks` are what the ledger keeps of it.
    """

    end: int
    fresh: tuple[Planned, ...]
    results: tuple[Result, ...]
    checks: dict[str, Any]
    ours: tuple[Planned, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """Why a call is not made after all, and what its rows' outcome is then."""

    outcome: Outcome
    why: str


def look(
    port: ClusterPort,
    watch: LogWatch,
    work: GroupWork,
    rows: Sequence[Planned],
    *,
    as_of_ms: int,
    intended: Collection[tuple[int, int]],
) -> Look:
    """Compare some rows of a group with the cluster. `intended` are those that a call of ours may have removed.

    A group that this principal may not look at is refused, with the ACL that is missing; the others go on.
    """
    try:
        stable = port.committed(work.group_id, require_stable=True)
        plain = port.committed(work.group_id, require_stable=False)
        now = port.group_now(work.group_id)
    except (GroupError, NotAllowed) as error:
        refused = tuple(_result(row.item, "refused", named(error)) for row in rows)
        return Look(end=watch.end, fresh=(), results=refused, checks={})
    end = watch.read()  # last, so that whatever was different in an answer is in here
    seen = watch.seen(work.group_id, since=work.cut)
    checks = {
        "log_offset": end,
        "records_since": len(seen),
        "group_type": now.group_type,
        "state": now.state,
        "members": now.member_count,
        "offsets": len(plain),
    }
    buried = {one.identity: one for one in seen if one.is_tombstone}
    why = _why_not(work, now, seen, plain)
    results: list[Result] = []
    fresh: list[Planned] = []
    ours: list[Planned] = []
    for row in rows:
        grave = buried.get(row.identity)
        if grave is not None and row.place in intended:
            ours.append(row)
        elif grave is not None and not _is_back(row, plain):
            results.append(_buried(row, grave))
        elif why is not None:
            results.append(_result(row.item, "changed_since", why[0], found=why[1]))
        elif (result := _differs(row, stable, plain, as_of_ms=as_of_ms)) is not None:
            results.append(result)
        else:
            fresh.append(row)
    if work.is_whole and any(result.outcome != "gone" for result in results):
        # A group goes as a whole or not at all: what is left of it was not looked at as a whole either.
        told = "the group is no longer what the plan would remove as a whole"
        results += [_result(row.item, "changed_since", told) for row in fresh]
        fresh = []
    return Look(end=end, fresh=tuple(fresh), results=tuple(results), checks=checks, ours=tuple(ours))


def still_so(
    port: ClusterPort,
    watch: LogWatch,
    work: GroupWork,
    rows: Sequence[Planned],
    *,
    since: int,
    ticks_ms: Callable[[], float],
) -> tuple[float, Against | None]:
    """The last look before a call: since when it may be out of date, and what has changed since the look before it.

    OffsetFetch that asks for what is stable waits for commits that are being written; whatever was committed before its
    answer is then below the high watermark, so that the log tells the rest.
    """
    try:
        stable = port.committed(work.group_id, require_stable=True)
    except (GroupError, NotAllowed) as error:
        return ticks_ms(), Against(outcome="refused", why=named(error))
    read_ms = ticks_ms()
    watch.read()
    if late := [one for one in watch.seen(work.group_id, since=since) if not one.is_tombstone]:
        return read_ms, Against(outcome="changed_since", why=_written(late[-1]))
    for row in rows:
        if row.is_offset and not equals(row.item.before, stable.get(row.topic_partition)):
            told = f"{row.item.topic}-{row.item.partition} is no longer what it was a moment ago"
            return read_ms, Against(outcome="changed_since", why=told)
    return read_ms, None


def named(error: GroupError | NotAllowed) -> str:
    """Kafka's name of a refusal, with the ACL that mends it."""
    is_about_rights = error.fix and error.error_name.endswith("AUTHORIZATION_FAILED")
    return f"{error.error_name} ({error.fix})" if is_about_rights else error.error_name


def equals(planned: Value | None, now: CommittedOffset | None) -> bool:
    """Whether a committed offset is the one of the plan, as far as OffsetFetch tells."""
    if planned is None or now is None or now.error_code:
        return False
    epoch = -1 if planned.leader_epoch is None else planned.leader_epoch
    told = planned.committed_offset, epoch, planned.metadata
    return told == (now.committed_offset, now.leader_epoch, now.metadata)


def has_members(now: GroupNow) -> bool:
    """Whether a group that is there has members, or may have."""
    return now.exists and (now.state not in EMPTY_STATES or bool(now.member_count))


def _why_not(work: GroupWork, now: GroupNow, seen: Sequence[Seen], plain: Offsets) -> tuple[str, Value | None] | None:
    """Why nothing of the group is touched, None when it may be; and the newer value when it is one."""
    if written := [one for one in seen if not one.is_tombstone]:
        return _written(written[-1]), written[-1].value
    if now.exists and now.group_type == SHARE:
        return "it is a share group now", None
    if not work.is_whole:
        return None
    if has_members(now):
        return f"the group is {now.state}", None
    known = {row.topic_partition for row in work.rows if row.is_offset}
    if more := sorted(set(plain) - known):
        return (
            f"the group has offsets that the plan does not know: {more[0][0]}-{more[0][1]} and {len(more) - 1} more",
            None,
        )
    return None


def _written(one: Seen) -> str:
    what = "a commit" if one.is_offset else f"a record of type {one.record_type}"
    by = f" of producer {one.producer_id}" if one.producer_id >= 0 else ""
    return f"the group has written since the plan was made: {what}{by} at log_offset {one.log_offset}"


def _is_back(row: Planned, plain: Offsets) -> bool:
    return row.is_offset and row.topic_partition in plain


def _buried(row: Planned, grave: Seen) -> Result:
    """A row whose tombstone is in the log, and that no call of ours was ever about."""
    return Result(
        log_partition=row.item.log_partition,
        position=row.item.position,
        outcome="gone",
        error="somebody else has removed it",
        written_log_offset=grave.log_offset,
        written_timestamp_ms=grave.timestamp_ms,
    )


def _differs(row: Planned, stable: Offsets, plain: Offsets, *, as_of_ms: int) -> Result | None:
    """The result of an offset that is not the plan's any more; None when it is, and for a record of the group."""
    item = row.item
    if not row.is_offset:
        return None
    assert item.before is not None
    stamp_ms = item.before.commit_timestamp_ms
    if stamp_ms is not None and stamp_ms > as_of_ms:
        return _result(item, "refused", f"it is stamped {stamp_ms} ms, after the instant of the plan: never early")
    now, unstable = plain.get(row.topic_partition), stable.get(row.topic_partition)
    if now is None and unstable is None:
        told = "neither OffsetFetch nor the log since the plan shows it: allow this principal DESCRIBE on the topic"
        return _result(item, "refused", told)
    if unstable is not None and unstable.error_code == UNSTABLE:
        return _result(item, "changed_since", "a transaction that is open may change it")
    for answer in (now, unstable):
        if not equals(item.before, answer):
            return _result(item, "changed_since", "the committed offset is another", found=_value(answer))
    return None


def _value(now: CommittedOffset | None) -> Value | None:
    if now is None or now.error_code:
        return None
    epoch = None if now.leader_epoch < 0 else now.leader_epoch
    return Value(committed_offset=now.committed_offset, leader_epoch=epoch, metadata=now.metadata)


def _result(item: Item, outcome: Any, error: str, *, found: Value | None = None) -> Result:
    return Result(log_partition=item.log_partition, position=item.position, outcome=outcome, error=error, found=found)
