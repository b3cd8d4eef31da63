"""Applies a plan: one attempt, group by group, which continues where an earlier attempt stopped.

Once all items of a plan have final outcomes, the plan counts as applied, and applying it again does nothing.
"""

from sexton import __version__
from sexton.errors import Refused
from sexton.execution.delete.context import DeleteContext, Watch
from sexton.execution.delete.delete_step import delete_rows
from sexton.execution.delete.dry_run import dry_run
from sexton.execution.delete.group_calls import PlannedGroup, batch_limit, planned_groups
from sexton.execution.delete.log_sink import TOPIC_GONE, append_orphans
from sexton.execution.delete.preconditions import (
    Rules,
    check_approval,
    check_clock,
    check_cluster,
    check_plan,
    check_retention,
)
from sexton.execution.delete.restore_raced import restore_raced
from sexton.execution.delete.resume import compare_rows, settle_open, wait_for_late_calls
from sexton.execution.delete.summary import ApplySummary, Sink, summarize
from sexton.execution.engine import TRIES, Clocks, Progress, attempt
from sexton.execution.kafka_admin import BrokerTime, ClusterIdentity, KafkaAdmin
from sexton.execution.status import PlanStatus
from sexton.failpoints import failpoint
from sexton.ledger.entries import ItemId
from sexton.ledger.ledger import Ledger
from sexton.plans.plan import Plan

RETRY_WAIT_S = 0.5


def apply_plan(
    client: KafkaAdmin,
    plan: Plan,
    ledger: Ledger,
    *,
    watch: Watch,
    sink: Sink,
    rules: Rules,
    clocks: Clocks,
    progress: Progress | None = None,
) -> ApplySummary:
    """Apply a plan that was read and checked, and return its summary. The sink `dry_run` only compares.

    `watch` fits the basis of the plan (watch_of), and is used for this attempt only.

    Refused when a precondition does not hold, before anything is changed, or when another attempt has taken over.
    BrokerError when the cluster cannot be read any more: the attempt stays open, because an unanswered call may still
    be carried out, and the next attempt settles it.
    """
    check_approval(plan, rules)
    entries = ledger.entries()
    status, groups = PlanStatus.of(entries), planned_groups(plan)
    is_closed = not entries or entries[-1].kind == "close"
    basis = plan.record.basis
    assert watch.basis == basis, "a plan must be compared with the evidence it was made from"
    if is_closed and is_applied(groups, status):
        last = entries[-1].attempt if entries else 0
        return summarize(plan, status, sink=sink, attempt=last, warnings=["nothing is left to do"])
    identity = client.identity(may_hide_log=not basis.needs_log)
    check_cluster(plan, groups, identity)
    time = client.broker_time()
    refusal = _refusal(plan, rules, identity, time, sink=sink, now_ms=clocks.now_ms())
    if refusal is not None and (sink == "dry_run" or not status.is_unsettled):
        raise refusal
    context = DeleteContext(
        client=client,
        plan=plan,
        watch=watch,
        ledger=ledger,
        clocks=clocks,
        groups=groups,
        max_batch_bytes=batch_limit(plan.record.max_message_bytes, identity.max_message_bytes),
        status=status,
    )
    if sink == "dry_run":
        return dry_run(context, warnings=_what_if_warnings(plan, rules, identity), progress=progress)
    failpoint("apply.checked")

    def summary() -> ApplySummary:
        warnings = [*_window_warnings(context), *context.writer.warnings]
        return summarize(plan, context.status, sink=sink, attempt=ledger.attempt, warnings=warnings)

    about = {
        "as_of_ms": plan.record.as_of_ms,
        "broker_ahead_ms": None if time.now_ms is None else time.now_ms - clocks.now_ms(),
        "code_version": __version__,
        "policy_sha256": plan.record.policy_sha256,
        **basis.about,
    }
    with attempt(
        context,
        counts=lambda: summary().counts,
        closes_on=Refused,
        lease_ms=rules.lease_ms,
        approved_by=rules.approved_by,
        sink=sink,
        plan_sha256=plan.sha256,
        about=about,
    ):
        context.unsettled = context.status.doubtful & context.status.intended.keys()
        settle_open(context)
        failpoint("apply.settled")
        for group in groups:
            restore_raced(context, group)
        if refusal is not None:  # earlier calls are settled now; nothing more is deleted
            raise refusal
        _apply_groups(context, sink=sink, progress=progress)
        return summary()


def is_applied(groups: list[PlannedGroup], status: PlanStatus) -> bool:
    """Whether every item of a plan has a final outcome, and nothing is left to settle or to put back."""
    return not status.is_unsettled and all(status.is_final(row.item_id) for group in groups for row in group.rows)


def _refusal(
    plan: Plan, rules: Rules, identity: ClusterIdentity, time: BrokerTime, *, sink: Sink, now_ms: int
) -> Refused | None:
    """Why the plan must not be applied now; None if it may. The caller settles open steps in any case."""
    try:
        check_plan(plan, rules, now_ms=now_ms)
        check_clock(plan, time, now_ms=now_ms)
        if sink != "dry_run":
            check_retention(plan, rules, live_ms=identity.retention_ms)
        if sink == "log" and not rules.allow_log_sink:
            raise Refused("sink `log` also needs --allow-log-sink", fix="read docs/apply.md first")
        if sink == "log" and not plan.record.basis.needs_log:
            raise Refused(
                "the plan was made from admin snapshots (coverage admin): its offsets have no known place in the log, "
                "and nobody could see what was written",
                fix="use the sink coordinator; an offset whose topic is gone stays until the broker expires it",
            )
    except Refused as refusal:
        return refusal
    return None


def _what_if_warnings(plan: Plan, rules: Rules, identity: ClusterIdentity) -> list[str]:
    """The warning of a dry run about a plan that was made with another retention than the broker's."""
    try:
        check_retention(plan, rules, live_ms=identity.retention_ms)
    except Refused as refusal:
        return [f"it would be refused: {refusal}"]
    return []


def _window_warnings(context: DeleteContext) -> list[str]:
    unseen, windows_ms = context.watch.basis.unseen, context.status.windows_ms
    if unseen is None or not windows_ms:
        return []
    calls = f"{len(windows_ms)} calls, {sum(windows_ms):.0f} ms in all, {max(windows_ms):.0f} ms at most"
    return [f"{unseen}: {calls}"]


def _apply_groups(context: DeleteContext, *, sink: Sink, progress: Progress | None) -> None:
    for done, group in enumerate(context.groups):
        if progress is not None and not progress(done, len(context.groups)):
            break
        _apply_group(context, group)
        if sink == "log":
            append_orphans(context, group)
        failpoint("apply.between")
    wait_for_late_calls(context)


def _apply_group(context: DeleteContext, group: PlannedGroup) -> None:
    """Delete the remaining items of a group, and retry items that certainly were not deleted."""
    for number in range(TRIES):
        rows = [row for row in group.rows if not context.status.is_final(row.item_id)]
        if not rows:
            return
        found = compare_rows(context, group, rows)
        failpoint("apply.compared")
        for call, some in group.calls(found.fresh, max_batch_bytes=context.max_batch_bytes):
            delete_rows(context, group, some, {**found.checks, "call": call})
        if not any(_may_be_tried(context, group, row.item_id) for row in found.fresh):
            return
        context.clocks.sleep(RETRY_WAIT_S * 2**number)


def _may_be_tried(context: DeleteContext, group: PlannedGroup, item_id: ItemId) -> bool:
    """Whether another try may help: the item certainly was not deleted, or its topic is gone, so that the offset alone
    was refused, and its group may now be deleted as a whole."""
    result = context.status.results.get(item_id)
    if result is None:
        return False
    return result.outcome == "not_done" or (group.is_whole and result.error == TOPIC_GONE)
