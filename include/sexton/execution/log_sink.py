"""The sink `log`: tombstones written past the coordinator, for what it refuses because the topic is gone.

Dangerous, and guarded: only offsets, never a group's own records, which can keep a coordinator from loading;
only of groups without members; only in the log partition that the group hashes to today; only while the newest value
is still the plan's; and as the one client that brokers let write there. The coordinator's memory is not told: it goes
on serving the offset until it loads the log partition anew.
"""

from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import profile_of
from sexton.coordinator.tombstones import encode_batches
from sexton.errors import BrokerError, Refused, UsageError
from sexton.execution.calling import last_look, left, settle
from sexton.execution.context import ApplyContext
from sexton.execution.effects import Answer
from sexton.execution.freshness import SHARE, has_members, look
from sexton.execution.guards import check_stamp
from sexton.execution.restore_raced import put_back
from sexton.execution.resume import recheck
from sexton.execution.steps import GroupWork, Planned, chunks_for_log
from sexton.failpoints import failpoint
from sexton.kafka.admin import Unsettled
from sexton.kafka.failures import TransientError
from sexton.ledger.entries import Intent, Result

TOPIC_GONE = "UNKNOWN_TOPIC_OR_PARTITION"
RECORD_FORMAT = 2


def append_orphans(attempt: ApplyContext, group: GroupWork) -> None:
    """Write tombstones for the offsets of a group that the coordinator refused to delete for want of the topic."""
    rows = [row for row in group.rows if row.is_offset and _is_orphan(attempt, row)]
    if not rows:
        return
    if (why := _not_allowed(attempt, group)) is not None:
        attempt.conclude([_refused(row, why) for row in rows], beyond=[row.item for row in rows])
        return
    for chunk in chunks_for_log(rows, max_batch_bytes=attempt.max_batch_bytes):
        _append(attempt, group, chunk)


def _append(attempt: ApplyContext, group: GroupWork, rows: list[Planned]) -> None:
    watch = attempt.watch(group.log_partition)
    # Only these: the others of the group are gone or refused by now, and what was written since is still seen.
    found = look(
        attempt.port, watch, group, rows, as_of_ms=attempt.plan.record.as_of_ms, intended=attempt.status.intended
    )
    if found.ours:
        recheck(attempt, group)
    if found.results:
        told = {result.place for result in found.results}
        attempt.conclude(found.results, beyond=[row.item for row in rows if row.place in told])
    fresh = list(found.fresh)
    if not fresh:
        return
    number = attempt.next_step()
    begun_ms = attempt.clocks.now_ms()
    checks = {**found.checks, "call": "append"}
    attempt.intend(Intent(step=number, action="tombstone", items=[row.item for row in fresh], checks=checks))
    failpoint("apply.appending")
    looked_ms, against = last_look(attempt, group, fresh, since=found.end)
    window_ms: float | None = None
    if against is not None:
        results = left(fresh, against)
    else:
        since = watch.end
        answer = _produce(attempt, group, fresh, stamp_ms=begun_ms)
        window_ms = attempt.clocks.ticks_ms() - looked_ms
        failpoint("apply.appended")
        results, _ = settle(attempt, group, fresh, answer, since=since, call="delete_offsets")
    attempt.conclude(results, step=number, window_ms=window_ms)
    put_back(attempt, group)
    for result in results:
        if result.written_timestamp_ms is not None:
            stamp_ms = result.written_timestamp_ms
            check_stamp(attempt.rules, stamp_ms=stamp_ms, begun_ms=begun_ms, ended_ms=attempt.clocks.now_ms())


def _produce(attempt: ApplyContext, group: GroupWork, rows: list[Planned], *, stamp_ms: int) -> Answer:
    batches = encode_batches(
        [(group.group_id, row.key) for row in rows],
        base_offset=0,
        as_of_ms=stamp_ms,
        profile=profile_of(attempt.plan.record.profile),
        max_batch_bytes=attempt.max_batch_bytes,
    )
    try:
        attempt.port.append_tombstones(group.log_partition, batches)
    except Unsettled:
        return Answer(whole="no answer came", is_settled=False)
    except TransientError as error:
        return Answer(whole=error.message, was_sent=False)
    except (Refused, UsageError) as error:
        return Answer(whole=str(error))
    except BrokerError as error:
        return Answer(whole=error.message, is_settled=False)
    return Answer()


def _not_allowed(attempt: ApplyContext, group: GroupWork) -> str | None:
    """Why nothing of this group may be written into the log; None when it may."""
    if profile_of(attempt.plan.record.profile).record_format < RECORD_FORMAT:
        return "the log's record format is too old for what this writes"
    count = attempt.port.identity().partition_count
    if partition_of(group.group_id, count) != group.log_partition:
        return f"with {count} log partitions the group belongs to another"
    now = attempt.port.group_now(group.group_id)
    if now.exists and now.group_type == SHARE:
        return "it is a share group now"
    if has_members(now):
        return f"the group is {now.state}: the log is only written to for groups without members"
    return None


def _is_orphan(attempt: ApplyContext, row: Planned) -> bool:
    result = attempt.status.results.get(row.place)
    return result is not None and result.outcome == "refused" and result.error == TOPIC_GONE


def _refused(row: Planned, why: str) -> Result:
    return Result(
        log_partition=row.item.log_partition,
        position=row.item.position,
        outcome="refused",
        error=f"{TOPIC_GONE}; {why}",
    )
