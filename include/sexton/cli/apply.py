"""`sexton apply`: carry out an approved plan, or show what it would do now."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sexton.as_text import HOUR_MS, count, now_ms, some
from sexton.cli.apply_options import EXECUTION, ApprovedBy, check_approved, progress_until_terminated, publish
from sexton.cli.options import (
    ArchiveUri,
    ClusterId,
    ClusterInput,
    Json,
    flag,
    open_archive_uri,
    option,
    read_policy_file,
)
from sexton.cli.output import print_aside, print_json, print_line, print_table, print_warnings
from sexton.errors import UsageError
from sexton.report.meanings import beyond_broker_sentence

if TYPE_CHECKING:
    from sexton.execution.delete.summary import ApplySummary

Sink = Literal["dry_run", "coordinator", "log"]
SHOWN = 20
_COLUMNS = ("OUTCOME", "GROUP", "TOPIC", "PARTITION", "WHY")


def apply(
    plan_id: Annotated[str, typer.Argument(metavar="PLAN_ID", help="A plan stored in the archive.")],
    *,
    archive: ArchiveUri = None,
    cluster_id: ClusterId = None,
    sink: Sink = option(
        "--sink",
        "dry_run: change nothing. coordinator: delete through the group coordinators. log: also write tombstones "
        "into the log, for offsets whose topic is gone, which coordinators refuse; dangerous, see docs/apply.md.",
        EXECUTION,
        default="dry_run",
    ),
    approved_by: ApprovedBy = None,
    plan_sha256: str | None = option(
        "--plan-sha256 HEX", "SHA-256 of the approved plan (see `show plan`): any other is refused.", EXECUTION
    ),
    allow_log_sink: bool = flag("--allow-log-sink", "Required for --sink log.", EXECUTION),
    policy: Path | None = option(
        "--policy FILE",
        "The policy in force: a plan made with another is refused. Default: SEXTON_POLICY, or none.",
        EXECUTION,
    ),
    cluster: ClusterInput,
    json: Json = False,
) -> int:
    """Apply a plan: delete exactly the unchanged offsets and groups that it names, and record each outcome.

    Before each call, new records at the end of the log, the group's committed offsets and its state are compared with
    the plan; after the call, its offsets and state are read again. A plan from admin snapshots is compared with fresh
    admin snapshots. Without --sink it is a dry run.

    # what would a plan do now? nothing is written, neither to Kafka nor anywhere else
    sexton apply 3f9c...

    # delete what it names, through Kafka's API
    sexton apply 3f9c... --sink coordinator --approved-by ann --client-config applier.properties

    # only if it is, byte for byte, the plan that was approved
    sexton apply 3f9c... --sink coordinator --approved-by ann --plan-sha256 5b1e...

    [b]If it stops in the middle[/b]

    Run it again: it reads back unknown outcomes, and does not repeat finished items. SIGTERM ends it after the current
    group.

    [b]Exit codes[/b]

    0 nothing is left to do (offsets that have changed since are kept and reported), 1 something was not done and may be
    tried again, 2 usage, 6 refused as a whole: nothing was changed
    """
    if sink != "dry_run":
        check_approved(approved_by, option=f"--sink {sink}", what="plan")
    if sink == "log" and not allow_log_sink:
        raise UsageError(
            "writing into the log itself needs a second option",
            where="--sink log",
            fix="read docs/apply.md, then add --allow-log-sink",
        )

    from sexton.execution.delete.apply_plan import apply_plan
    from sexton.execution.delete.preconditions import Rules
    from sexton.execution.delete.recorded import recorded_retention_ms, watch_of
    from sexton.execution.engine import Clocks
    from sexton.execution.kafka_admin import connected
    from sexton.ledger.ledger import Ledger
    from sexton.plans.limits import default_limits
    from sexton.plans.read_plan import read_plan
    from sexton.settings import settings

    fs, root = open_archive_uri(archive)
    plan = read_plan(fs, root, cluster_id, plan_id)
    ledger, config = Ledger(fs, root, plan.record.cluster_id, plan_id), settings()
    in_force = read_policy_file(policy or (Path(config.policy) if config.policy else None))
    rules = Rules(
        approved_by=approved_by or "nobody: only a dry run",
        plan_sha256=plan_sha256 or plan.sha256,
        policy_sha256=None if in_force is None else in_force.sha256,
        limits=default_limits() if in_force is None else in_force.limits,
        recorded_retention_ms=recorded_retention_ms(fs, root, plan.record),
        max_age_ms=int(config.apply_max_age_hours * HOUR_MS),
        lease_ms=config.apply_lease_s * 1000,
        allow_log_sink=allow_log_sink,
    )
    watch, clocks = watch_of(fs, root, plan), Clocks(now_ms=now_ms)
    # SIGTERM ends it after the current group, with every outcome recorded.
    with connected(cluster.client()) as admin, progress_until_terminated("Groups", is_quiet=json) as progress:
        summary = apply_plan(admin, plan, ledger, sink=sink, rules=rules, clocks=clocks, watch=watch, progress=progress)
    published, failure = (None, None) if sink == "dry_run" else publish(ledger.entries(), as_of_ms=plan.record.as_of_ms)
    code = summary.exit_code or (1 if failure else 0)
    if json:
        fields = {
            **summary.to_dict(),
            "beyond": None if plan.record.beyond is None else plan.record.beyond.model_dump(),
            "cluster_id": plan.record.cluster_id,
            "coverage": plan.record.coverage,
            "plan_sha256": plan.sha256,
            "ledger": ledger.folder,
            "published_rows": published,
            "exit_code": code,
        }
        print_json(fields)
    else:
        print_line(beyond_broker_sentence(plan.record))
        if (sentence := plan.record.basis.sentence) is not None:
            print_line(f"coverage {sentence}")
        _print(summary, ledger.folder, published)
    if failure:
        print_aside(failure)
    return code


def _print(summary: "ApplySummary", folder: str, published: int | None) -> None:
    counts = ", ".join(f"{name.replace('_', ' ')} {count(number)}" for name, number in summary.counts.items())
    print_line(f"{some(summary.items, 'item')}: {counts or 'nothing to do'}")
    print_warnings(summary.warnings)
    if summary.windows.steps:
        windows = summary.windows
        print_line(
            f"from preflight check to answer: {windows.p50_ms:.1f} ms (median), {windows.p99_ms:.1f} ms (99th "
            f"percentile), {windows.max_ms:.1f} ms at most, {windows.sum_ms:.0f} ms in all"
        )
    if summary.notable:
        print_table(_COLUMNS, ((i.outcome, i.group_id, i.topic, i.partition, i.error) for i in summary.notable[:SHOWN]))
        if len(summary.notable) > SHOWN:
            print_line(f"and {count(len(summary.notable) - SHOWN)} more: --json has them")
    if summary.sink == "dry_run":
        print_line("nothing was written; to apply: --sink coordinator --approved-by NAME")
    else:
        print_line(f"ledger  {folder}" + ("" if published is None else f", {some(published, 'row')} in apply_ledger"))
