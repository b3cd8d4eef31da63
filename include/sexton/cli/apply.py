"""`sexton apply`: carry out a plan that was approved, or say what would come of it now."""

import json as jsonlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from sexton.cli.apply_options import asked_to_end, publish
from sexton.cli.input_options import tell_aside, tell_line, tell_table
from sexton.cli.options import BootstrapServers, ClientConfigFile, ClusterId, Debug, Json, client_of, output
from sexton.cli.progress import bar
from sexton.errors import UsageError
from sexton.report.figures import count, some
from sexton.report.meanings import beyond_broker_sentence
from sexton.report.names import harmless

if TYPE_CHECKING:
    from sexton.execution.delete.preconditions import Rules
    from sexton.execution.delete.summary import ApplySummary
    from sexton.kafka.client import ClientConfig
    from sexton.ledger.ledger import Ledger
    from sexton.plans.plan import Plan

EXAMPLES = """\
[b]Examples[/b]

[dim]# what would come of a plan now? nothing is written, neither to Kafka nor anywhere else[/dim]
sexton apply 3f9c...

[dim]# delete what it names, through Kafka's own API[/dim]
sexton apply 3f9c... --sink coordinator --approved-by ann --client-config applier.properties

[dim]# only if it still is, byte for byte, the plan that was approved[/dim]
sexton apply 3f9c... --sink coordinator --approved-by ann --plan-sha256 5b1e...

[b]If it stops in the middle[/b]

Run it again: what it left unknown is settled by reading, what is done is not done again.
SIGTERM ends it after the group that it is in.

[b]Exit codes[/b]

0 nothing is left to do (also where offsets have changed since: those are left alone, and told), 1 something was not
done and may be tried again, 2 usage, 6 refused as a whole: nothing was touched
"""
Sink = Literal["dry_run", "coordinator", "log"]
SHOWN = 20
_COLUMNS = ("OUTCOME", "GROUP", "TOPIC", "PARTITION", "WHY")
_HOW = "How"

SinkOption = Annotated[
    Sink,
    typer.Option(
        rich_help_panel=_HOW,
        help="dry_run: only look. coordinator: delete through the group coordinators. log: also write tombstones into "
        "the log itself, for what they refuse because its topic is gone; dangerous, see docs/apply.md.",
    ),
]
ApprovedBy = Annotated[
    str | None, typer.Option(metavar="NAME", rich_help_panel=_HOW, help="Who approved it, for the ledger.")
]
PlanSha256 = Annotated[
    str | None,
    typer.Option(
        "--plan-sha256",
        metavar="HEX",
        rich_help_panel=_HOW,
        help="What was approved, see `show plan`: all else is refused.",
    ),
]
AllowLogSink = Annotated[
    bool, typer.Option("--allow-log-sink", rich_help_panel=_HOW, help="Asked for twice: --sink log needs this as well.")
]
PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        rich_help_panel=_HOW,
        help="The policy in force: a plan made by another is refused. Default: the setting SEXTON_POLICY, or none.",
    ),
]


def apply(
    plan_id: Annotated[str, typer.Argument(metavar="PLAN_ID", help="A plan that the archive keeps.")],
    *,
    archive: Annotated[
        str | None, typer.Option(metavar="URI", help="A folder or s3://, gs://, ... Default: var/archive.")
    ] = None,
    cluster_id: ClusterId = None,
    sink: SinkOption = "dry_run",
    approved_by: ApprovedBy = None,
    plan_sha256: PlanSha256 = None,
    allow_log_sink: AllowLogSink = False,
    policy: PolicyOption = None,
    bootstrap_servers: BootstrapServers = None,
    client_config_file: ClientConfigFile = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Apply a plan: delete exactly what it names, as far as it is still true, and write down what came of it.

    Right before each call the group is compared with the log's tail, its committed offsets and its state; afterwards
    both are read again. Without --sink it only looks.
    """
    if sink != "dry_run" and not (approved_by or "").strip():
        raise UsageError("who approved it?", where=f"--sink {sink}", fix="--approved-by NAME")
    if sink == "log" and not allow_log_sink:
        raise UsageError(
            "writing into the log itself has to be asked for twice",
            where="--sink log",
            fix="read docs/apply.md, then add --allow-log-sink",
        )

    from sexton.ledger.ledger import Ledger
    from sexton.plans.read_plan import read_plan
    from sexton.runs.source import filesystem, recorded_retention_ms
    from sexton.settings import settings

    fs, root = filesystem(archive or settings().archive_uri)
    plan = read_plan(fs, root, cluster_id, plan_id)
    ledger = Ledger(fs, root, plan.record.cluster_id, plan_id)
    rules = _rules(
        plan,
        approved_by=approved_by,
        plan_sha256=plan_sha256,
        allow_log_sink=allow_log_sink,
        policy=policy,
        recorded_retention_ms=recorded_retention_ms(fs, root, plan.record.cluster_id, as_of_ms=plan.record.as_of_ms),
    )
    client = client_of(bootstrap_servers, client_config_file)
    summary = _applied(plan, ledger, rules, sink=sink, client=client, json=json)
    published, trouble = (None, None) if sink == "dry_run" else publish(ledger.entries(), as_of_ms=plan.record.as_of_ms)
    code = summary.exit_code or (1 if trouble else 0)
    if json:
        told = {
            **summary.to_dict(),
            "beyond": None if plan.record.beyond is None else plan.record.beyond.model_dump(),
            "cluster_id": plan.record.cluster_id,
            "plan_sha256": plan.sha256,
            "ledger": ledger.folder,
            "published_rows": published,
            "exit_code": code,
        }
        sys.stdout.write(jsonlib.dumps(told, ensure_ascii=True, indent=2) + "\n")
    else:
        tell_line(beyond_broker_sentence(plan.record))
        _tell(summary, ledger.folder, published)
    if trouble:
        tell_aside(trouble)
    return code


def _rules(
    plan: "Plan",
    *,
    approved_by: str | None,
    plan_sha256: str | None,
    allow_log_sink: bool,
    policy: Path | None,
    recorded_retention_ms: int | None,
) -> "Rules":
    from sexton.execution.delete.preconditions import Rules
    from sexton.plans.limits import default_limits
    from sexton.policy import read_policy
    from sexton.settings import settings

    config = settings()
    file = policy or (Path(config.policy) if config.policy else None)
    in_force = None if file is None else read_policy(file)
    return Rules(
        approved_by=approved_by or "nobody: only a look",
        plan_sha256=plan_sha256 or plan.sha256,
        policy_sha256=None if in_force is None else in_force.sha256,
        limits=default_limits() if in_force is None else in_force.limits,
        recorded_retention_ms=recorded_retention_ms,
        max_age_ms=int(config.apply_max_age_hours * 3_600_000),
        lease_ms=config.apply_lease_s * 1000,
        allow_log_sink=allow_log_sink,
    )


def _applied(
    plan: "Plan", ledger: "Ledger", rules: "Rules", *, sink: Sink, client: "ClientConfig", json: bool
) -> "ApplySummary":
    """Do it. SIGTERM ends it after the group that it is in, with every outcome written down."""
    from sexton.execution.delete.apply_plan import apply_plan
    from sexton.execution.engine import Clocks
    from sexton.execution.kafka_admin import connected

    with connected(client) as cluster, asked_to_end() as is_asked, bar("Groups", is_quiet=json) as show:

        def progress(done: int, total: int) -> bool:
            show(done, total)
            return not is_asked()

        clocks = Clocks(now_ms=lambda: time.time_ns() // 1_000_000)
        return apply_plan(cluster, plan, ledger, sink=sink, rules=rules, clocks=clocks, progress=progress)


def _tell(summary: "ApplySummary", folder: str, published: int | None) -> None:
    counts = ", ".join(f"{name.replace('_', ' ')} {count(number)}" for name, number in summary.counts.items())
    tell_line(f"{some(summary.items, 'item')}: {counts or 'nothing to do'}")
    console = output()
    for warning in summary.warnings:
        console.print(Text(harmless(f"! {warning}"), style="yellow"), soft_wrap=True)
    if summary.windows.steps:
        windows = summary.windows
        tell_line(
            f"from last look to answer: {windows.p50_ms:.1f} ms (median), {windows.p99_ms:.1f} ms (99th percentile), "
            f"{windows.max_ms:.1f} ms at most, {windows.sum_ms:.0f} ms in all"
        )
    if summary.told:
        tell_table(
            _COLUMNS,
            [(told.outcome, told.group_id, told.topic, told.partition, told.error) for told in summary.told[:SHOWN]],
        )
        if len(summary.told) > SHOWN:
            tell_line(f"and {count(len(summary.told) - SHOWN)} more: --json has them")
    if summary.sink == "dry_run":
        tell_line("nothing was written: --sink coordinator --approved-by NAME does it")
    else:
        tell_line(f"ledger  {folder}" + ("" if published is None else f", {some(published, 'row')} in apply_ledger"))
