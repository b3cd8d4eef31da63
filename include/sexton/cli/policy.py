"""`sexton policy`: retention rules checked, explained for a group, and held against what their owners expect."""

import json as jsonlib
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.input_options import (
    Archive,
    AsOf,
    Profile,
    RunDir,
    Segments,
    TopicsFile,
    exit_code,
    tell_aside,
    tell_json,
    tell_line,
    tell_notes,
    view_of,
)
from sexton.cli.options import Debug, Json
from sexton.cli.policy_output import ONLY_SHORTENS, answer_fields, answers_of, judged_group, tell_group
from sexton.cli.progress import working
from sexton.errors import UsageError
from sexton.report import figures
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.policy import Policy
    from sexton.policy.testing import PolicyTestResult

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
_USAGE = 2
_FAILED = 3

app = typer.Typer(
    help="Check retention rules, see which one decides about a group, and put them to the test.",
    epilog=CHECK_EXAMPLES,
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
    from sexton.policy.lint import lint_policy
    from sexton.policy.reading import open_document, policy_of

    document = open_document(file)
    try:
        policy = policy_of(document)
    except PolicyError as error:
        if json:
            _print_json({"is_valid": False, "mistakes": [asdict(diagnostic) for diagnostic in error.diagnostics]})
        else:
            for diagnostic in error.diagnostics:
                tell_aside(str(diagnostic))
            tell_aside(f"error: {short(str(file))}: {figures.some(len(error.diagnostics), 'mistake')}")
        return _USAGE
    warnings = lint_policy(
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
    from sexton.policy.reading import read_tests
    from sexton.policy.testing import run_tests

    policy = read_policy(file)
    expectations = [*policy.tests, *(read_tests(tests).tests if tests is not None else ())]
    if not expectations:
        raise UsageError("no tests", where=file, fix="add `tests:` to the policy, or give --tests FILE")
    results = run_tests(policy, expectations, now_ms=time.time_ns() // 1_000_000)
    failed = [result for result in results if not result.holds]
    if json:
        told = {**_identity(policy), "passed": len(results) - len(failed), "failed": len(failed)}
        _print_json({**told, "tests": [{"holds": result.holds, **asdict(result)} for result in results]})
    else:
        for result in results:
            _tell_result(result)
        tell_line(f"{len(results) - len(failed)} of {figures.some(len(results), 'test')} passed")
    return _FAILED if failed else 0


def _tell_result(result: "PolicyTestResult") -> None:
    if result.holds:
        tell_line(f"ok    {result.name}")
        return
    tell_line(f"FAIL  {result.name}: {', '.join(result.complaints)}")
    for one in result.considered:
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
    view = view_of(segments, archive, run, topics=topics, as_of=as_of, profile=profile)
    with working("Reading the log", is_quiet=json):
        view.check_coverage([group])
    now_ms = time.time_ns() // 1_000_000 if view.as_of_ms is None else view.as_of_ms
    judged = judged_group(
        view, group, segments, archive, run, topics=topics, retention_minutes=retention_minutes, now_ms=now_ms
    )
    answers = [] if judged is None else answers_of(rules, judged, now_ms=now_ms)
    if json:
        told = {"now_ms": now_ms, "policy": _identity(rules), "group": None if judged is None else asdict(judged.group)}
        tell_json(view, "policy show", {**told, "decisions": [answer_fields(answer) for answer in answers]})
        return exit_code(view)
    if judged is None:
        tell_line(f"{short(group)}: no such group")
    else:
        tell_group(judged, answers, now_ms=now_ms)
    tell_notes(view)
    return exit_code(view)


def _policy_file(given: Path | None) -> Path:
    from sexton.settings import settings

    if given is not None:
        return given
    if not settings().policy:
        raise UsageError("no policy", where="--policy", fix="give --policy FILE, or set SEXTON_POLICY")
    return Path(settings().policy)


def _identity(policy: "Policy") -> dict[str, Any]:
    return {"sha256": policy.sha256, "holds": len(policy.holds), "rules": len(policy.rules)}


def _print_json(told: dict[str, Any]) -> None:
    sys.stdout.write(jsonlib.dumps(told, ensure_ascii=True, indent=2) + "\n")
