"""`sexton policy`: check a policy, run its tests, and show what it decides about a group."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton import as_text
from sexton.as_text import MINUTE_MS, now_ms
from sexton.cli.command import Without, command, command_group
from sexton.cli.input_options import LogInput
from sexton.cli.options import GroupId, Json, RetentionMinutes, option
from sexton.cli.output import print_aside, print_doubts, print_json, print_line, print_notes, print_view_json
from sexton.cli.policy_output import ONLY_SHORTENS, decision_fields, decisions_of, judged_group, print_group
from sexton.errors import DataQualityFailure, UsageError
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.policy import Policy

DEFAULT_RETENTION_MINUTES = 10_080

app = command_group("Check a policy, run its tests, and show which rule decides about a group.")

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The policy: a YAML file.", show_default=False)]


@command(app)
def check(
    file: PolicyFile,
    *,
    retention_minutes: int = option(
        "--retention-minutes N",
        "The broker's offsets.retention.minutes. Default: Kafka's, 10080.",
        default=DEFAULT_RETENTION_MINUTES,
        min=1,
    ),
    json: Json = False,
) -> int:
    """Check a policy: every mistake with its line and a correction, and warnings about rules without effect.

    Exit code 2 for a file with mistakes. Warnings do not change the exit code: holds and rules that outlast the
    broker's retention, holds that have ended, rules that can never apply.

    # is this file valid, and do its rules have an effect?
    sexton policy check policy.yaml

    # for a broker that keeps offsets for 30 days; as JSON for a pull request
    sexton policy check policy.yaml --retention-minutes 43200 --json | jq '.warnings'
    """
    from sexton.policy import PolicyError
    from sexton.policy.lint import lint_policy
    from sexton.policy.reading import open_document, policy_of

    document = open_document(file)
    try:
        policy = policy_of(document)
    except PolicyError as error:
        if json:
            print_json({"is_valid": False, "mistakes": error.diagnostics})
        else:
            for diagnostic in error.diagnostics:
                print_aside(str(diagnostic))
            print_aside(f"error: {short(str(file))}: {as_text.some(len(error.diagnostics), 'mistake')}")
        return UsageError.exit_code
    warnings = lint_policy(policy, document, retention_ms=retention_minutes * MINUTE_MS, now_ms=now_ms())
    if json:
        head = {**_identity(policy), "limits": policy.limits.model_dump(), "tests": len(policy.tests)}
        print_json({"is_valid": True, **head, "warnings": warnings})
        return 0
    print_doubts(map(str, warnings))
    counts = (as_text.some(len(policy.holds), "hold"), as_text.some(len(policy.rules), "rule"))
    print_line(f"{short(str(file))}: valid, {' and '.join(counts)}, {as_text.some(len(policy.tests), 'test')}")
    print_line(f"sha256 {policy.sha256}")
    print_line(f"What no rule matches is kept; {ONLY_SHORTENS}.")
    return 0


@command(app, "test")
def put_to_test(
    file: PolicyFile,
    *,
    tests: Path | None = option("--tests FILE", "More tests, in another file."),
    json: Json = False,
) -> int:
    """Run the tests of a policy: a group with an offset, and the expected decision.

    Exit code 3 if a test fails, with the outcome of every hold and rule.

    # the `tests:` of the policy itself, in a pipeline: exit code 3 when one fails
    sexton policy test policy.yaml

    # tests of a team in another file
    sexton policy test policy.yaml --tests team-a.yaml
    """
    from sexton.policy import read_policy
    from sexton.policy.reading import read_tests
    from sexton.policy.testing import run_tests

    policy = read_policy(file)
    expectations = [*policy.tests, *(read_tests(tests).tests if tests is not None else ())]
    if not expectations:
        raise UsageError("no tests", where=file, fix="add `tests:` to the policy, or give --tests FILE")
    results = run_tests(policy, expectations, now_ms=now_ms())
    failed = [result for result in results if not result.holds]
    if json:
        head = {**_identity(policy), "passed": len(results) - len(failed), "failed": len(failed)}
        print_json({**head, "tests": [{"holds": result.holds, **asdict(result)} for result in results]})
    else:
        for result in results:
            if result.holds:
                print_line(f"ok    {result.name}")
                continue
            print_line(f"FAIL  {result.name}: {', '.join(result.complaints)}")
            for one in result.considered:
                print_line(f"      {one.rule}: {one.outcome}, {one.why}")
        print_line(f"{len(results) - len(failed)} of {as_text.some(len(results), 'test')} passed")
    return DataQualityFailure.exit_code if failed else 0


@command(app)
def show(
    group: GroupId,
    *,
    policy: Path | None = option("--policy FILE", "The policy. Default: SEXTON_POLICY."),
    retention_minutes: RetentionMinutes = None,
    log: Annotated[LogInput, Without({"load_buffer_bytes"})],
    json: Json = False,
) -> int:
    """Show what a policy decides about each offset of a group: by which hold or rule, and why not by the others.

    The decisions are those at --as-of, at the instant of the run, or now. For a group without offsets, it shows the
    decision on the group.

    # which rule decides about each offset of a group, and why not the others?
    sexton policy show ci-build-7 --policy policy.yaml --archive s3://keep/offsets

    # as of an instant, from a broker's disk
    sexton policy show ci-build-7 --policy policy.yaml --segments backup --as-of 2026-11-21T04:00:00Z
    """
    from sexton.policy import read_policy
    from sexton.settings import settings

    file = policy or settings().policy
    if not file:
        raise UsageError("no policy", where="--policy", fix="give --policy FILE, or set SEXTON_POLICY")
    rules = read_policy(Path(file))
    view = log.view_of([group], is_quiet=json)
    at_ms = now_ms() if view.as_of_ms is None else view.as_of_ms
    judged = judged_group(view, group, log, retention_minutes=retention_minutes, now_ms=at_ms)
    decisions = [] if judged is None else decisions_of(rules, judged, now_ms=at_ms)
    if json:
        head = {"now_ms": at_ms, "policy": _identity(rules), "group": judged and judged.group}
        return print_view_json(view, "policy show", {**head, "decisions": [decision_fields(one) for one in decisions]})
    if judged is None:
        print_line(f"{short(group)}: no such group")
    else:
        print_group(judged, decisions, now_ms=at_ms)
    return print_notes(view)


def _identity(policy: "Policy") -> dict[str, Any]:
    return {"sha256": policy.sha256, "holds": len(policy.holds), "rules": len(policy.rules)}
