"""What `sexton policy show` prints: a judged group, and what a policy decides about it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sexton import as_text
from sexton.cli.input_options import LogInput
from sexton.cli.output import print_aside, print_line, print_section, print_table
from sexton.errors import UsageError
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.policy import Decision, Policy, RuleTrace
    from sexton.views.coordinator_view import CoordinatorView
    from sexton.views.judged_group import JudgedGroup, JudgedOffset

    # An offset (None for a group without offsets), the decision, and the outcome of each hold and rule.
    Decided = tuple[JudgedOffset | None, Decision, list[RuleTrace]]

ONLY_SHORTENS = "a policy can shorten what the broker keeps, never lengthen it"
OFFSET_COLUMNS = ("TOPIC", "PARTITION", "COMMITTED-OFFSET", "BROKER", "POLICY", "REASON", "DECIDED-BY", "EXPIRES")
RULE_COLUMNS = ("RULE", "OUTCOME", "WHY")
_SHOWN_OFFSETS = 3


def judged_group(
    view: "CoordinatorView", group: str, log: LogInput, *, retention_minutes: int | None, now_ms: int
) -> "JudgedGroup | None":
    """A group with the broker's verdict on each offset; None if it does not exist."""
    from sexton.views.judged_group import judged_in_log, judged_in_run

    if log.run is None:
        source = log.source(view.as_of_ms)
        return judged_in_log(view, source, group, retention_minutes=retention_minutes, now_ms=now_ms)
    if retention_minutes is not None:
        raise UsageError(
            "a run already has its own verdicts", where="--retention-minutes", fix="use --segments or --archive"
        )
    return judged_in_run(view, str(log.run), group)


def decisions_of(policy: "Policy", judged: "JudgedGroup", *, now_ms: int) -> "list[Decided]":
    """What the policy decides about each offset, or about a group without offsets."""
    from sexton.policy import decide, decide_bare, explain

    group = judged.group
    if not judged.offsets:
        return [(None, decide_bare(policy, group, now_ms=now_ms), explain(policy, group, None, now_ms=now_ms))]
    return [
        (one, decide(policy, group, one.facts, now_ms=now_ms), explain(policy, group, one.facts, now_ms=now_ms))
        for one in judged.offsets
    ]


def decision_fields(one: "Decided") -> dict[str, Any]:
    """A decision in JSON."""
    offset, decision, considered = one
    about = {} if offset is None else {"committed_offset": offset.committed_offset, **asdict(offset.facts)}
    decided = {f"policy_{name}": value for name, value in asdict(decision).items()}
    return {**about, **decided, "considered": considered}


def print_group(judged: "JudgedGroup", decisions: "list[Decided]", *, now_ms: int) -> None:
    """Print the decisions on the offsets, then the outcome of each hold and rule, once for offsets that share it."""
    group = judged.group
    active = "" if group.last_active_ms is None else f", last active {as_text.instant(group.last_active_ms)}"
    print_line(f"{short(group.group_id)}: {group.group_type}, {group.state}{active}; judged {as_text.instant(now_ms)}")
    rows = (_row(offset, decision) for offset, decision, _ in decisions if offset is not None)
    print_section(OFFSET_COLUMNS, rows)
    for names, considered in _alike(decisions):
        print_line()
        print_line(names)
        print_table(RULE_COLUMNS, ((one.rule, one.outcome, one.why) for one in considered))
    lost = [
        decision
        for offset, decision, _ in decisions
        if offset is not None and offset.facts.broker_verdict == "expire" and decision.verdict != "expire"
    ]
    if lost:
        held = " (held)" if any(decision.verdict == "hold" for decision in lost) else ""
        what = f"{as_text.some(len(lost), 'offset')} that the policy keeps{held}"
        print_aside(f"! the broker expires {what} at its next sweep: {ONLY_SHORTENS}")


def _row(offset: "JudgedOffset", decision: "Decision") -> Sequence[object]:
    facts, expires = offset.facts, as_text.instant(decision.expires_at_ms)
    of_broker = f"{facts.broker_verdict} ({facts.broker_reason})"
    of_policy = decision.verdict, decision.reason, decision.rule, expires
    return facts.topic, facts.partition, offset.committed_offset, of_broker, *of_policy


def _alike(decisions: "list[Decided]") -> "Iterable[tuple[str, list[RuleTrace]]]":
    """Names of offsets with the same outcome of every hold and rule, and that outcome."""
    found: dict[str, tuple[list[str], list[RuleTrace]]] = {}
    for offset, _, considered in decisions:
        name = "the group" if offset is None else f"{short(offset.facts.topic)}-{offset.facts.partition}"
        found.setdefault(repr(considered), ([], considered))[0].append(name)
    for names, considered in found.values():
        more = len(names) - _SHOWN_OFFSETS
        yield ", ".join(names[:_SHOWN_OFFSETS]) + (f" and {more} more" if more > 0 else ""), considered
