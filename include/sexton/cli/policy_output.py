"""What `sexton policy show` answers: a group as it is judged, what a policy decides about it, and how that is told."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sexton.cli.input_options import tell_aside, tell_line, tell_table
from sexton.errors import UsageError
from sexton.report import figures
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.policy import Decision, Policy, RuleTrace
    from sexton.views.coordinator_view import CoordinatorView
    from sexton.views.judged import JudgedGroup, JudgedOffset

    # An offset, or None for a group that has none; what is decided, and what became of each hold and rule.
    Answer = tuple[JudgedOffset | None, Decision, list[RuleTrace]]

ONLY_SHORTENS = "a policy can shorten what the broker keeps, never lengthen it"
OFFSET_COLUMNS = ("TOPIC", "PARTITION", "COMMITTED-OFFSET", "BROKER", "POLICY", "REASON", "DECIDED-BY", "EXPIRES")
RULE_COLUMNS = ("RULE", "OUTCOME", "WHY")
_SHOWN_OFFSETS = 3


def judged_group(
    view: "CoordinatorView",
    group: str,
    segments: Path | None,
    archive: str | None,
    run: Path | None,
    *,
    topics: Path | None,
    retention_minutes: int | None,
    now_ms: int,
) -> "JudgedGroup | None":
    """A group of what the options name, with the broker's verdict on each offset; None where it is not there."""
    from sexton.runs.source import open_archive, open_segments
    from sexton.views.judged import judged_in_log, judged_in_run

    if run is not None:
        if retention_minutes is not None:
            raise UsageError("a run has its own", where="--retention-minutes", fix="ask the segments or the archive")
        return judged_in_run(view, str(run), group)
    topics_file = None if topics is None else str(topics)
    if segments is not None:
        source = open_segments(str(segments), topics_file=topics_file)
    else:
        source = open_archive(str(archive), as_of_ms=view.as_of_ms, topics_file=topics_file)
    return judged_in_log(view, source, group, retention_minutes=retention_minutes, now_ms=now_ms)


def answers_of(policy: "Policy", judged: "JudgedGroup", *, now_ms: int) -> "list[Answer]":
    """What the policy decides about each offset, or about the group where it has none."""
    from sexton.policy import decide, decide_bare, explain

    group = judged.group
    if not judged.offsets:
        return [(None, decide_bare(policy, group, now_ms=now_ms), explain(policy, group, None, now_ms=now_ms))]
    return [
        (
            offset,
            decide(policy, group, offset.facts, now_ms=now_ms),
            explain(policy, group, offset.facts, now_ms=now_ms),
        )
        for offset in judged.offsets
    ]


def answer_fields(answer: "Answer") -> dict[str, Any]:
    """An answer as JSON tells it."""
    offset, decision, considered = answer
    about = {} if offset is None else {"committed_offset": offset.committed_offset, **asdict(offset.facts)}
    decided = {f"policy_{name}": value for name, value in asdict(decision).items()}
    return {**about, **decided, "considered": [asdict(one) for one in considered]}


def tell_group(judged: "JudgedGroup", answers: "list[Answer]", *, now_ms: int) -> None:
    """Print the offsets with what is decided, then once for all that are alike what became of each hold and rule."""
    group = judged.group
    active = "" if group.last_active_ms is None else f", last active {figures.instant(group.last_active_ms)}"
    tell_line(f"{short(group.group_id)}: {group.group_type}, {group.state}{active}; judged {figures.instant(now_ms)}")
    if judged.offsets:
        tell_line("")
        tell_table(OFFSET_COLUMNS, (_row(*answer[:2]) for answer in answers))
    for names, considered in _alike(answers):
        tell_line("")
        tell_line(names)
        tell_table(RULE_COLUMNS, ((one.rule, one.outcome, one.why) for one in considered))
    lost = [answer for answer in answers if answer[0] is not None and _is_lost(*answer[:2])]
    if lost:
        held = " (held)" if any(decision.verdict == "hold" for _, decision, _ in lost) else ""
        what = f"{figures.some(len(lost), 'offset')} that the policy keeps{held}"
        tell_aside(f"! the broker expires {what} all the same, at its next sweep: {ONLY_SHORTENS}")


def _is_lost(offset: "JudgedOffset | None", decision: "Decision") -> bool:
    return offset is not None and offset.facts.broker_verdict == "expire" and decision.verdict != "expire"


def _row(offset: "JudgedOffset | None", decision: "Decision") -> Sequence[object]:
    assert offset is not None
    facts, at_ms = offset.facts, decision.expires_at_ms
    return (
        facts.topic,
        facts.partition,
        offset.committed_offset,
        f"{facts.broker_verdict} ({facts.broker_reason})",
        decision.verdict,
        decision.reason,
        decision.rule,
        None if at_ms is None else figures.instant(at_ms),
    )


def _alike(answers: "list[Answer]") -> "Iterable[tuple[str, list[RuleTrace]]]":
    """Offsets about which every hold and rule says the same, by what to call them."""
    found: dict[str, tuple[list[str], list[RuleTrace]]] = {}
    for offset, _, considered in answers:
        name = "the group" if offset is None else f"{short(offset.facts.topic)}-{offset.facts.partition}"
        found.setdefault(repr(considered), ([], considered))[0].append(name)
    for names, considered in found.values():
        more = len(names) - _SHOWN_OFFSETS
        yield ", ".join(names[:_SHOWN_OFFSETS]) + (f" and {more} more" if more > 0 else ""), considered
