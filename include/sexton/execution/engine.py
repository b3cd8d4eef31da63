"""Applying a plan: an attempt from its claim to its close, group by group, and going on where an earlier one stopped.

Every step can die. The next attempt reads what the ledger left open, settles it by reading the cluster, and goes on
with what has no final outcome; a plan that has only final ones is applied, and applying it again does nothing.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from sexton import __version__
from sexton.errors import Refused
from sexton.execution.calling import take
from sexton.execution.cluster_protocol import BrokerTime, ClusterPort, Identity
from sexton.execution.context import TRIES, ApplyContext, Clocks
from sexton.execution.freshness import look
from sexton.execution.guards import Rules, check_approval, check_clock, check_cluster, check_plan, check_retention
from sexton.execution.log_sink import TOPIC_GONE, append_orphans
from sexton.execution.preview import preview
from sexton.execution.restore_raced import put_back
from sexton.execution.resume import recheck, settle_open, wait_for_late_ones
from sexton.execution.status import PlanStatus
from sexton.execution.steps import GroupWork, batch_limit, work_of
from sexton.execution.summary import ApplySummary, summarize
from sexton.failpoints import failpoint
from sexton.ledger.ledger import Ledger
from sexton.plans.record import Plan

Sink = Literal["plan", "coordinator", "log"]
RETRY_WAIT_S = 0.5

Tell = Callable[[int, int], bool]
"""Hears of progress, groups done of how many, and answers whether to go on: False ends the attempt between groups."""


def apply_plan(
    port: ClusterPort,
    plan: Plan,
    ledger: Ledger,
    *,
    sink: Sink,
    rules: Rules,
    clocks: Clocks,
    tell: Tell | None = None,
) -> ApplySummary:
    """Apply a plan that was read and found whole; what became of it. With the sink `plan` only look.

    Refused when a guard says no, before anything is touched, or when another attempt has taken over. BrokerError when
    the cluster cannot be read any more: the attempt stays open, and the next one settles what is not known.
    """
    check_approval(plan, rules)
    entries = ledger.entries()
    status = PlanStatus.of(entries)
    work = work_of(plan)
    is_closed = not entries or entries[-1].kind == "close"
    if is_closed and is_applied(work, status):
        last = entries[-1].attempt if entries else 0
        return summarize(plan, status, sink=sink, attempt=last, warnings=["nothing is left to do"])
    identity = port.identity()
    check_cluster(plan, work, identity)
    time = port.broker_time()
    refusal = _refusal(plan, rules, identity, time, sink=sink, now_ms=clocks.now_ms())
    if refusal is not None and (sink == "plan" or not status.is_unsettled):
        raise refusal
    if sink == "plan":
        return preview(port, plan, work, status, warnings=_doubts(plan, rules, identity), tell=tell)
    failpoint("apply.checked")
    entries = ledger.claim(
        at_ms=clocks.now_ms(),
        lease_ms=rules.lease_ms,
        approved_by=rules.approved_by,
        sink=sink,
        plan_sha256=plan.sha256,
        about=_about(plan, time, now_ms=clocks.now_ms()),
    )
    status = PlanStatus.of(entries)
    attempt = ApplyContext(
        port=port,
        plan=plan,
        ledger=ledger,
        rules=rules,
        clocks=clocks,
        work=work,
        max_batch_bytes=batch_limit(plan.record.max_message_bytes, identity.max_message_bytes),
        status=status,
        unsettled=status.doubtful & status.intended.keys(),
    )
    try:
        settle_open(attempt)
        failpoint("apply.settled")
        for group in attempt.work:
            put_back(attempt, group)
        if refusal is not None:  # what was begun is known now; nothing more is done
            raise refusal
        _go_on(attempt, sink=sink, tell=tell)
    except Refused:
        with suppress(Refused):
            ledger.close(attempt.status.counts(), at_ms=clocks.now_ms())
        raise
    failpoint("apply.ended")
    summary = summarize(plan, attempt.status, sink=sink, attempt=ledger.attempt)
    ledger.close(summary.counts, at_ms=clocks.now_ms())
    failpoint("apply.closed")
    return summary


def is_applied(work: list[GroupWork], status: PlanStatus) -> bool:
    """Whether every item of a plan has a final outcome, and nothing is left to settle or to put back."""
    return all(status.is_final(row.place) for group in work for row in group.rows) and not status.is_unsettled


def _refusal(
    plan: Plan, rules: Rules, identity: Identity, time: BrokerTime, *, sink: Sink, now_ms: int
) -> Refused | None:
    """Why the plan must not be applied now; what an earlier attempt left open is settled all the same."""
    try:
        check_plan(plan, rules, now_ms=now_ms)
        check_clock(plan, rules, time, now_ms=now_ms)
        if sink != "plan":
            check_retention(plan, rules, live_ms=identity.retention_ms)
        if sink == "log" and not rules.allow_log_sink:
            raise Refused("writing into the log itself has to be asked for twice", fix="read docs/apply.md first")
    except Refused as refusal:
        return refusal
    return None


def _doubts(plan: Plan, rules: Rules, identity: Identity) -> list[str]:
    """What a look at the plan warns of: a what-if may be looked at, and is not applied."""
    try:
        check_retention(plan, rules, live_ms=identity.retention_ms)
    except Refused as refusal:
        return [f"it would be refused: {refusal}"]
    return []


def _go_on(attempt: ApplyContext, *, sink: Sink, tell: Tell | None) -> None:
    for done, group in enumerate(attempt.work):
        if tell is not None and not tell(done, len(attempt.work)):
            break
        _remove(attempt, group)
        if sink == "log":
            append_orphans(attempt, group)
        failpoint("apply.between")
    wait_for_late_ones(attempt)


def _remove(attempt: ApplyContext, group: GroupWork) -> None:
    """Do what is left of a group, and try again what surely was not done."""
    for number in range(TRIES):
        rows = [row for row in group.rows if not attempt.status.is_final(row.place)]
        if not rows:
            return
        found = look(
            attempt.port,
            attempt.watch(group.log_partition),
            group,
            rows,
            as_of_ms=attempt.plan.record.as_of_ms,
            intended=attempt.status.intended,
        )
        if found.ours:
            recheck(attempt, group)
        if found.results:
            told = {result.place for result in found.results}
            attempt.conclude(found.results, beyond=[row.item for row in rows if row.place in told])
        failpoint("apply.looked")
        for step in group.steps(found.fresh, max_batch_bytes=attempt.max_batch_bytes):
            take(attempt, group, step, found)
        if not any(_may_be_tried(attempt, group, row.place) for row in found.fresh):
            return
        attempt.clocks.sleep(RETRY_WAIT_S * 2**number)


def _may_be_tried(attempt: ApplyContext, group: GroupWork, where: tuple[int, int]) -> bool:
    """Whether another look may help: surely not done, or refused alone and then gone with its group."""
    result = attempt.status.results.get(where)
    if result is None:
        return False
    return result.outcome == "not_done" or (group.is_whole and result.error == TOPIC_GONE)


def _about(plan: Plan, time: BrokerTime, *, now_ms: int) -> dict[str, object]:
    return {
        "as_of_ms": plan.record.as_of_ms,
        "broker_ahead_ms": None if time.now_ms is None else time.now_ms - now_ms,
        "code_version": __version__,
        "policy_sha256": plan.record.policy_sha256,
    }
