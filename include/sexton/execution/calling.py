"""One step: intent, last look, call, and what it did.

Between the last look and the tombstone a commit may still come in: no API of Kafka closes that window. It is kept as
short as one read of the log and the call itself, measured, and looked into afterwards.
"""

from collections.abc import Sequence

from sexton.errors import BrokerError
from sexton.execution.cluster_protocol import ClusterPort
from sexton.execution.context import RELOOK_MS, SETTLE_TRIES, SETTLE_WAIT_S, TRIES, ApplyContext
from sexton.execution.effects import Answer, Taken, results_of, taken_along
from sexton.execution.freshness import Against, Look, named, still_so
from sexton.execution.guards import check_stamp
from sexton.execution.restore_raced import put_back
from sexton.execution.steps import Call, GroupWork, Planned, Step
from sexton.failpoints import failpoint
from sexton.kafka.admin import GroupError, Unsettled
from sexton.kafka.failures import NotAllowed, TransientError
from sexton.ledger.entries import Intent, Item, Result


def take(attempt: ApplyContext, work: GroupWork, step: Step, found: Look) -> None:
    """Do one step of a group that was just looked at, and write down what came of it.

    Refused when the ledger has a newer claim, before anything is called, and when the broker's stamp of what was
    written shows that clocks are too far apart, after it was written down.
    """
    number = attempt.next_step()
    begun_ms = attempt.clocks.now_ms()
    checks = {**found.checks, "call": step.call}
    attempt.intend(Intent(step=number, action="tombstone", items=[row.item for row in step.rows], checks=checks))
    failpoint("apply.intended")
    window_ms: float | None = None
    taken: list[Taken] = []
    looked_ms, against = last_look(attempt, work, step.rows, since=found.end)
    if against is not None:
        results = left(step.rows, against)
    else:
        since = attempt.watch(work.log_partition).end
        failpoint("apply.relooked")
        answer = _call(attempt.port, work, step)
        window_ms = attempt.clocks.ticks_ms() - looked_ms
        failpoint("apply.called")
        results, taken = settle(attempt, work, step.rows, answer, since=since, call=step.call)
    failpoint("apply.seen")
    extras, more = beyond_plan(attempt, work, taken)
    attempt.conclude([*results, *more], step=number, window_ms=window_ms, beyond=extras)
    failpoint("apply.recorded")
    put_back(attempt, work)
    for stamp_ms in (result.written_timestamp_ms for result in results):
        if stamp_ms is not None and window_ms is not None:
            check_stamp(attempt.rules, stamp_ms=stamp_ms, begun_ms=begun_ms, ended_ms=attempt.clocks.now_ms())


def last_look(
    attempt: ApplyContext, work: GroupWork, rows: Sequence[Planned], *, since: int
) -> tuple[float, Against | None]:
    """Look at the claim, the offsets and the log once more: when the log was asked, and what is against the call.

    A look that took too long, as when this process was suspended in it, counts for nothing and is made again.
    """
    for _ in range(TRIES):
        attempt.ledger.hold()
        watch, ticks_ms = attempt.watch(work.log_partition), attempt.clocks.ticks_ms
        looked_ms, against = still_so(attempt.port, watch, work, rows, since=since, ticks_ms=ticks_ms)
        if against is not None or ticks_ms() - looked_ms <= RELOOK_MS:
            return looked_ms, against
    return looked_ms, Against(outcome="not_done", why="the cluster answers too slowly for a last look")


def left(rows: Sequence[Planned], against: Against) -> list[Result]:
    """The results of rows that no call was made for."""
    return [
        Result(
            log_partition=row.item.log_partition,
            position=row.item.position,
            outcome=against.outcome,
            error=against.why,
        )
        for row in rows
    ]


def settle(
    attempt: ApplyContext, work: GroupWork, rows: Sequence[Planned], answer: Answer, *, since: int, call: Call
) -> tuple[list[Result], list[Taken]]:
    """Read what a call did, as often as it takes; nothing is `unknown` in the end.

    What an unanswered call has not done after that may still be done: it is looked for again when the attempt ends.
    """
    watch = attempt.watch(work.log_partition)
    for number in range(SETTLE_TRIES):
        watch.read()
        seen = watch.seen(work.group_id, since=since)
        taken = taken_along(seen, rows, since=since, call=call)
        results = results_of(rows, answer, seen, taken, since=since)
        if not any(result.outcome == "unknown" for result in results):
            return results, taken
        if answer.is_settled:
            break
        attempt.clocks.sleep(SETTLE_WAIT_S * 2**number)
    if not answer.is_settled:
        attempt.unsettled |= {row.place for row in rows}
    return [_decided(attempt, work, row, result, answer) for row, result in zip(rows, results, strict=True)], taken


def beyond_plan(attempt: ApplyContext, work: GroupWork, taken: Sequence[Taken]) -> tuple[list[Item], list[Result]]:
    """Items and results of offsets that the plan does not know, and that a deleted group took along."""
    items, results = [], []
    known = attempt.status.taken_beyond()
    for each in taken:
        if each.row is None and (each.topic, each.partition, each.tombstone.log_offset) not in known[work.group_id]:
            item = Item(
                log_partition=work.log_partition,
                position=attempt.next_position(work.log_partition),
                group_id=work.group_id,
                topic=each.topic,
                partition=each.partition,
                before=each.value.value,
            )
            items.append(item)
            results.append(
                Result(
                    log_partition=item.log_partition,
                    position=item.position,
                    outcome="raced",
                    error="committed just before its group was deleted",
                    written_log_offset=each.tombstone.log_offset,
                    written_timestamp_ms=each.tombstone.timestamp_ms,
                    found=each.value.value,
                )
            )
    return items, results


def _call(port: ClusterPort, work: GroupWork, step: Step) -> Answer:
    try:
        if step.call == "delete_group":
            return Answer(whole=port.delete_group(work.group_id))
        answers = port.delete_offsets(work.group_id, [row.topic_partition for row in step.rows])
        return Answer(by_row={row.place: answers.get(row.topic_partition) for row in step.rows})
    except (GroupError, NotAllowed) as error:
        return Answer(whole=named(error))
    except Unsettled:
        return Answer(whole="no answer came", is_settled=False)
    except TransientError as error:
        return Answer(whole=error.message, was_sent=False)
    except BrokerError as error:
        return Answer(whole=error.message, is_settled=False)


def _decided(attempt: ApplyContext, work: GroupWork, row: Planned, result: Result, answer: Answer) -> Result:
    """What is left to think of a row that the log has no tombstone of."""
    if result.outcome != "unknown":
        return result
    if not answer.is_settled:
        return result.model_copy(update={"outcome": "not_done", "error": answer.whole or "no answer came"})
    if row.is_offset:
        is_there = row.topic_partition in attempt.port.committed(work.group_id, require_stable=False)
    else:
        is_there = attempt.port.group_now(work.group_id).exists
    if is_there:
        told = "the coordinator says that it is done, and it is still there"
        return result.model_copy(update={"outcome": "not_done", "error": told})
    # Up to 3.9 a group that was never more than offsets has no record of its own, and goes without one.
    return result.model_copy(update={"outcome": "gone" if row.is_offset else "done"})
