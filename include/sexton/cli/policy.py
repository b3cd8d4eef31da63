"""`sexton policy`: retention rules checked, explained for a group, and held against what their owners expect."""

import json as jsonlib
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.asking import (
    Archive,
    AsOf,
    Profile,
    RunDir,
    Segments,
    TopicsFile,
    desk_of,
    exit_code,
    tell_aside,
    tell_json,
    tell_line,
    tell_notes,
    tell_table,
)
from sexton.cli.options import Debug, Json
from sexton.errors import UsageError
from sexton.report import figures
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.policy import Considered, Decision, Policy
    from sexton.policy.trial import Trial
    from sexton.stages.questions.desk import Desk
    from sexton.stages.questions.judged import JudgedGroup, JudgedOffset

    # An offset, or None for a group that has none; what is decided, and what became of each hold and rule.
    Answer = tuple[JudgedOffset | None, Decision, list[Considered]]

CHECK_EXAMPLES = """\
[b]Examples[/b]

[dim]# is this file a policy, and does it do what it seems to?[/dim]
sexton policy check policy.yaml

[dim]# for a broker that keeps offsets for 30 days; as JSON for a pull request[/dim]
sexton policy check policy.yaml --retention-minutes 43200 --json | jq '.warnings'
"""
SHOW_EXAMPLES = """\
[b]Examples[/b]

[dim]# which rule decides about each offset of a group, and why do the others not?[/dim]
sexton policy show ci-build-7 --policy policy.yaml --archive s3://keep/offsets

[dim]# as it would have been decided then, from a broker's disk[/dim]
sexton policy show ci-build-7 --policy policy.yaml --segments backup --as-of 2026-11-21T04:00:00Z
"""
TEST_EXAMPLES = """\
[b]Examples[/b]

[dim]# the `tests:` of the policy itself, in a pipeline: exit code 3 when one fails[/dim]
sexton policy test policy.yaml

[dim]# those of a team, kept in a file of their own[/dim]
sexton policy test policy.yaml --tests team-a.yaml
"""
DEFAULT_RETENTION_MINUTES = 10_080
MINUTE_MS = 60_000
ONLY_SHORTENS = "a policy can shorten what the broker keeps, never lengthen it"
OFFSET_COLUMNS = ("TOPIC", "PARTITION", "COMMITTED-OFFSET", "BROKER", "POLICY", "REASON", "DECIDED-BY", "EXPIRES")
RULE_COLUMNS = ("RULE", "OUTCOME", "WHY")
_USAGE = 2
_FAILED = 3
_SHOWN_OFFSETS = 3

app = typer.Typer(
    help="Check retention rules, see which one decides about a group, and put them to the test.",
    rich_markup_mode="rich",
    add_completion=False,
)

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The policy: a YAML file.", show_default=False)]
RetentionMinutes = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="The broker's offsets.retention.minutes. Default: 10080.")
]


@app.callback(invoke_without_command=True)
def _help(context: typer.Context) -> int:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
    return 0


@app.command("check", epilog=CHECK_EXAMPLES)
def check(
    file: PolicyFile, *, retention_minutes: RetentionMinutes = None, json: Json = False, _debug: Debug = False
) -> int:
    """Check a policy: every mistake with its line and what to write instead, and what a valid one cannot do.

    Exit code 2 for a file with mistakes. Warnings change nothing: holds and rules that outlast the broker's own
    retention, holds that have ended, rules that can never decide.
    """
    from sexton.policy import PolicyError
    from sexton.policy.advice import advise
    from sexton.policy.reading import open_document, policy_of

    document = open_document(file)
    try:
        policy = policy_of(document)
    except PolicyError as error:
        if json:
            _print_json({"is_valid": False, "mistakes": [asdict(mistake) for mistake in error.mistakes]})
        else:
            for mistake in error.mistakes:
                tell_aside(str(mistake))
            tell_aside(f"error: {short(str(file))}: {figures.some(len(error.mistakes), 'mistake')}")
        return _USAGE
    warnings = advise(
        policy,
        document,
        retention_ms=(retention_minutes or DEFAULT_RETENTION_MINUTES) * MINUTE_MS,
        now_ms=time.time_ns() // 1_000_000,
    )
    if json:
        told = {**_identity(policy), "limits": policy.limits.model_dump(), "tests": len(policy.tests)}
        _print_json({"is_valid": True, **told, "warnings": [asdict(warning) for warning in warnings]})
        return 0
    for warning in warnings:
        tell_aside(f"! {warning}")
    counts = (figures.some(len(policy.holds), "hold"), figures.some(len(policy.rules), "rule"))
    tell_line(f"{short(str(file))}: valid, {' and '.join(counts)}, {figures.some(len(policy.tests), 'test')}")
    tell_line(f"sha256 {policy.sha256}")
    tell_line(f"What no rule matches is kept; {ONLY_SHORTENS}.")
    return 0


@app.command("test", epilog=TEST_EXAMPLES)
def put_to_test(
    file: PolicyFile,
    *,
    tests: Annotated[
        Path | None, typer.Option("--tests", metavar="FILE", help="Tests of a file of their own, beside the policy's.")
    ] = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Put expectations to a policy: facts about a group and an offset, and what has to come out.

    Exit code 3 when one does not come out, and the reason why of every hold and rule.
    """
    from sexton.policy import read_policy
    from sexton.policy.reading import read_expectations
    from sexton.policy.trial import run_tests

    policy = read_policy(file)
    expectations = [*policy.tests, *(read_expectations(tests).tests if tests is not None else ())]
    if not expectations:
        raise UsageError("no tests", place=file, fix="add `tests:` to the policy, or give --tests FILE")
    trials = run_tests(policy, expectations, now_ms=time.time_ns() // 1_000_000)
    failed = [trial for trial in trials if not trial.holds]
    if json:
        told = {**_identity(policy), "passed": len(trials) - len(failed), "failed": len(failed)}
        _print_json({**told, "tests": [{"holds": trial.holds, **asdict(trial)} for trial in trials]})
    else:
        for trial in trials:
            _tell_trial(trial)
        tell_line(f"{len(trials) - len(failed)} of {figures.some(len(trials), 'test')} passed")
    return _FAILED if failed else 0


def _tell_trial(trial: "Trial") -> None:
    if trial.holds:
        tell_line(f"ok    {trial.name}")
        return
    tell_line(f"FAIL  {trial.name}: {', '.join(trial.complaints)}")
    for one in trial.considered:
        tell_line(f"      {one.rule}: {one.outcome}, {one.why}")


@app.command("show", epilog=SHOW_EXAMPLES)
def show(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group id.")],
    *,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="The policy. Default: that of the settings (SEXTON_POLICY)."),
    ] = None,
    retention_minutes: RetentionMinutes = None,
    segments: Segments = None,
    archive: Archive = None,
    run: RunDir = None,
    topics: TopicsFile = None,
    as_of: AsOf = None,
    profile: Profile = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Show what a policy does with each offset of a group: which hold or rule decides, and why the others do not.

    Judged at --as-of, of a run at its own instant, else now. A group without offsets is shown as the group it is.
    """
    from sexton.policy import read_policy

    rules = read_policy(_policy_file(policy))
    desk = desk_of(segments, archive, run, topics=topics, as_of=as_of, profile=profile)
    desk.check_coverage([group])
    now_ms = time.time_ns() // 1_000_000 if desk.as_of_ms is None else desk.as_of_ms
    judged = _judged(desk, group, (segments, archive, run, topics), retention_minutes, now_ms)
    answers = [] if judged is None else _answers(rules, judged, now_ms=now_ms)
    if json:
        told = {"now_ms": now_ms, "policy": _identity(rules), "group": None if judged is None else asdict(judged.group)}
        tell_json(desk, "policy show", {**told, "decisions": [_answer_fields(answer) for answer in answers]})
        return exit_code(desk)
    if judged is None:
        tell_line(f"{short(group)}: no such group")
    else:
        _tell_group(judged, answers, now_ms=now_ms)
    tell_notes(desk)
    return exit_code(desk)


def _policy_file(given: Path | None) -> Path:
    from sexton.settings import settings

    if given is not None:
        return given
    if not settings().policy:
        raise UsageError("no policy", place="--policy", fix="give --policy FILE, or set SEXTON_POLICY")
    return Path(settings().policy)


def _judged(
    desk: "Desk",
    group: str,
    places: tuple[Path | None, str | None, Path | None, Path | None],
    retention_minutes: int | None,
    now_ms: int,
) -> "JudgedGroup | None":
    from sexton.stages.questions.judged import judged_in_log, judged_in_run
    from sexton.stages.source import open_archive, open_segments

    segments, archive, run, topics = places
    if run is not None:
        if retention_minutes is not None:
            raise UsageError("a run has its own", place="--retention-minutes", fix="ask the segments or the archive")
        return judged_in_run(desk, str(run), group)
    topics_file = None if topics is None else str(topics)
    if segments is not None:
        source = open_segments(str(segments), topics_file=topics_file)
    else:
        source = open_archive(str(archive), as_of_ms=desk.as_of_ms, topics_file=topics_file)
    return judged_in_log(desk, source, group, retention_minutes=retention_minutes, now_ms=now_ms)


def _answers(policy: "Policy", judged: "JudgedGroup", *, now_ms: int) -> "list[Answer]":
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


def _answer_fields(answer: "Answer") -> dict[str, Any]:
    offset, decision, considered = answer
    about = {} if offset is None else {"committed_offset": offset.committed_offset, **asdict(offset.facts)}
    return {**about, **_decided(decision), "considered": [asdict(one) for one in considered]}


def _decided(decision: "Decision") -> dict[str, Any]:
    return {f"policy_{name}": value for name, value in asdict(decision).items()}


def _tell_group(judged: "JudgedGroup", answers: "list[Answer]", *, now_ms: int) -> None:
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


def _alike(answers: "list[Answer]") -> "Iterable[tuple[str, list[Considered]]]":
    """Offsets about which every hold and rule says the same, by what to call them."""
    found: dict[str, tuple[list[str], list[Considered]]] = {}
    for offset, _, considered in answers:
        name = "the group" if offset is None else f"{short(offset.facts.topic)}-{offset.facts.partition}"
        found.setdefault(repr(considered), ([], considered))[0].append(name)
    for names, considered in found.values():
        more = len(names) - _SHOWN_OFFSETS
        yield ", ".join(names[:_SHOWN_OFFSETS]) + (f" and {more} more" if more > 0 else ""), considered


def _identity(policy: "Policy") -> dict[str, Any]:
    return {"sha256": policy.sha256, "holds": len(policy.holds), "rules": len(policy.rules)}


def _print_json(told: dict[str, Any]) -> None:
    sys.stdout.write(jsonlib.dumps(told, ensure_ascii=True, indent=2) + "\n")
