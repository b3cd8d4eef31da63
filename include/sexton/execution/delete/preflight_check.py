"""Whether a group is still as the plan saw it: by OffsetFetch, by the coordinator's description, and by the log's tail.

`compare` reads the group before an intent is written, `preflight_check` reads it again right before the call. If
anything but tombstones was written for a group since the plan was made, the whole group is left alone: a rule may
depend on that activity, and the next plan will see it. Commits after the preflight check are found afterwards
(call_effects) and put back (restore_raced).
"""

from collections.abc import Mapping, Sequence

from sexton.coordinator.api.view import TopicPartition
from sexton.execution.delete.context import Checks, Comparison, DeleteContext, Rows
from sexton.execution.delete.group_calls import PlannedGroup, PlannedRow
from sexton.execution.engine import Preflight, error_text
from sexton.execution.group_records import GroupRecord
from sexton.kafka.admin import GroupError, GroupNow
from sexton.kafka.failures import NotAllowed
from sexton.kafka.group_state import CommittedOffset
from sexton.ledger.entries import Outcome, Result, Value

UNSTABLE = 88
"""UNSTABLE_OFFSET_COMMIT: an open transaction may still change the offset (KIP-447)."""
EMPTY_STATES = frozenset({"Empty", "Dead"})
SHARE = "share"

Offsets = Mapping[TopicPartition, CommittedOffset]


def compare(context: DeleteContext, group: PlannedGroup, rows: Rows) -> Comparison:
    """Compare some rows of a group with the cluster.

    The rows of a group that this principal may not see are `refused`, with the ACL that is missing.
    """
    client, tail = context.client, context.tail(group.log_partition)
    try:
        stable = client.committed(group.group_id, require_stable=True)
        plain = client.committed(group.group_id, require_stable=False)
        now = client.group_now(group.group_id)
    except (GroupError, NotAllowed) as error:
        refused = tuple(Result.of(row.item_id, "refused", error_text(error)) for row in rows)
        return Comparison(fresh=(), results=refused, checks={})
    end = tail.read()  # last, so that the log has every change that the answers show
    records = tail.records(group.group_id, since=group.cut)
    checks = {
        "log_offset": end,
        "records_since": len(records),
        "group_type": now.group_type,
        "state": now.state,
        "members": now.member_count,
        "offsets": len(plain),
    }
    tombstones_by_key = {record.record_key: record for record in records if record.is_tombstone}
    changed = _group_change(group, now, records, plain)
    results: list[Result] = []
    fresh: list[PlannedRow] = []
    ours: list[PlannedRow] = []
    for row in rows:
        tombstone = tombstones_by_key.get(row.record_key)
        is_back = row.is_offset and row.topic_partition in plain
        if tombstone is not None and row.item_id in context.status.intended:
            ours.append(row)
        elif tombstone is not None and not is_back:
            results.append(
                Result.of(
                    row.item_id, "gone", "already deleted, by a sweep or another client", written=tombstone.written_at
                )
            )
        elif changed is not None:
            results.append(Result.of(row.item_id, "changed_since", changed[0], found=changed[1]))
        elif (result := _offset_change(row, stable, plain, as_of_ms=context.plan.record.as_of_ms)) is not None:
            results.append(result)
        else:
            fresh.append(row)
    if group.is_whole and any(result.outcome != "gone" for result in results):
        # A group is deleted as a whole or not at all.
        partly = "the group is no longer exactly what the plan deletes"
        results += [Result.of(row.item_id, "changed_since", partly) for row in fresh]
        fresh = []
    return Comparison(fresh=tuple(fresh), results=tuple(results), checks=checks, ours=tuple(ours))


def preflight_check(context: DeleteContext, group: PlannedGroup, rows: Rows, checks: Checks) -> Preflight:
    """The preflight check before a call. If the group has changed since the comparison (`checks`), no row is deleted.

    OffsetFetch with require_stable waits for commits that are being written. So every commit that precedes the answer
    is below the high watermark. The log is read after the answer, so no commit is missed.
    """

    def all_rows(outcome: Outcome, why: str) -> list[Result]:
        return [Result.of(row.item_id, outcome, why) for row in rows]

    try:
        stable = context.client.committed(group.group_id, require_stable=True)
    except (GroupError, NotAllowed) as error:
        return context.clocks.ticks_ms(), all_rows("refused", error_text(error))
    checked_ms = context.clocks.ticks_ms()
    tail = context.tail(group.log_partition)
    tail.read()
    records = tail.records(group.group_id, since=int(checks["log_offset"]))
    if late := [record for record in records if not record.is_tombstone]:
        return checked_ms, all_rows("changed_since", _written(late[-1]))
    for row in rows:
        if row.is_offset and not _equals(row.item.before, stable.get(row.topic_partition)):
            return checked_ms, all_rows(
                "changed_since", f"{row.item.topic}-{row.item.partition} has changed since it was compared"
            )
    return checked_ms, []


def has_members(now: GroupNow) -> bool:
    """Whether a group that exists has members, or may have."""
    return now.exists and (now.state not in EMPTY_STATES or bool(now.member_count))


def _equals(planned: Value | None, now: CommittedOffset | None) -> bool:
    """Whether a committed offset is the plan's, as far as OffsetFetch shows."""
    if planned is None or now is None or now.error_code:
        return False
    return planned.as_committed == now.as_committed


def _group_change(
    group: PlannedGroup, now: GroupNow, records: Sequence[GroupRecord], plain: Offsets
) -> tuple[str, Value | None] | None:
    """Why no row of the group may be deleted, with the newer value if that is the reason; None when rows may be
    deleted."""
    if written := [record for record in records if not record.is_tombstone]:
        return _written(written[-1]), written[-1].value
    if now.exists and now.group_type == SHARE:
        return "it is a share group now", None
    if not group.is_whole:
        return None
    if has_members(now):
        return f"the group is {now.state}", None
    known = {row.topic_partition for row in group.rows if row.is_offset}
    if more := sorted(set(plain) - known):
        first = f"{more[0][0]}-{more[0][1]}"
        return f"the group has offsets that the plan does not know: {first} and {len(more) - 1} more", None
    return None


def _written(record: GroupRecord) -> str:
    what = "a commit" if record.is_offset else f"a record of type {record.record_type}"
    by = f" of producer {record.producer_id}" if record.producer_id >= 0 else ""
    return f"the group has written since the plan was made: {what}{by} at log_offset {record.log_offset}"


def _offset_change(row: PlannedRow, stable: Offsets, plain: Offsets, *, as_of_ms: int) -> Result | None:
    """The result of an offset that differs from the plan's; None when it is equal, and for a record of the group
    itself."""
    item = row.item
    if not row.is_offset:
        return None
    assert item.before is not None
    stamp_ms = item.before.commit_timestamp_ms
    if stamp_ms is not None and stamp_ms > as_of_ms:
        return Result.of(
            item.item_id, "refused", f"its commit timestamp, {stamp_ms} ms, is later than the plan's as_of"
        )
    now, unstable = plain.get(row.topic_partition), stable.get(row.topic_partition)
    if now is None and unstable is None:
        hidden = "neither OffsetFetch nor the log since the plan shows it: allow this principal DESCRIBE on the topic"
        return Result.of(item.item_id, "refused", hidden)
    if unstable is not None and unstable.error_code == UNSTABLE:
        return Result.of(item.item_id, "changed_since", "a transaction that is open may change it")
    for answer in (now, unstable):
        if not _equals(item.before, answer):
            return Result.of(item.item_id, "changed_since", "the committed offset has changed", found=_value(answer))
    return None


def _value(now: CommittedOffset | None) -> Value | None:
    if now is None or now.error_code:
        return None
    return Value(committed_offset=now.committed_offset, leader_epoch=now.leader_epoch, metadata=now.metadata)
