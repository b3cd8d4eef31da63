"""`sexton plan`: make the plan of an instant, look at it, and keep it in the archive for whoever may approve it."""

import json as jsonlib
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.audit import check_replay, claim, policy_from
from sexton.cli.input_options import Archive, Segments, TopicsFile, tell_aside, tell_doubts, tell_line, tell_table
from sexton.cli.options import (
    DEFAULT_PROFILE,
    PROFILE_HELP,
    ClusterId,
    Codec,
    Debug,
    Full,
    Json,
    LoadBuffer,
    check_profile,
    codec_number,
    complete_profile,
    parse_instant,
)
from sexton.report import figures
from sexton.report.names import visible
from sexton.uris import uri_without_login

if TYPE_CHECKING:
    from sexton.pipeline.replay_groups import ReplayRequest
    from sexton.pipeline.standalone_plan import Planned
    from sexton.plans.plan import PlanRecord

EXAMPLES = """\
[b]Examples[/b]

[dim]# what the broker is about to delete, as a plan that can be approved[/dim]
sexton plan --archive s3://keep/offsets --out plan

[dim]# what a policy wants to go[/dim]
sexton plan --archive s3://keep/offsets --policy policy.yaml --out plan

[dim]# only to look at, from a broker's disk: nothing is kept[/dim]
sexton plan --segments backup --retention-minutes 1440 --out plan

[dim]# for scripts[/dim]
sexton plan --archive s3://keep/offsets --out plan --json | jq -r .plan_id

[b]And then[/b]

sexton show plan PLAN_ID, sexton apply PLAN_ID, or the DAG apply_tombstones
"""
LOSS_COLUMNS = ("BY", "OWNER", "OFFSETS", "GROUPS", "WHOLE-GROUPS", "REASON")
_RULES = "Rules"
_OUTPUT = "Output"

RetentionMinutes = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        rich_help_panel=_RULES,
        help="offsets.retention.minutes. Default: the recorded broker's, else Kafka's: 10080 (1440 before 2.0).",
    ),
]
PolicyFile = Annotated[
    Path | None,
    typer.Option("--policy", metavar="FILE", rich_help_panel=_RULES, help="Retention rules: what they expire goes."),
]


def plan(
    *,
    segments: Segments = None,
    archive: Archive = None,
    cluster_id: ClusterId = None,
    full: Full = False,
    topics: TopicsFile = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="ISO|MS", rich_help_panel=_RULES, help="The instant to plan for. Default: of the newest batch."
        ),
    ] = None,
    retention_minutes: RetentionMinutes = None,
    policy: PolicyFile = None,
    profile: Annotated[
        str,
        typer.Option(
            metavar="NAME[:RELEASE]", rich_help_panel=_RULES, help=PROFILE_HELP, autocompletion=complete_profile
        ),
    ] = DEFAULT_PROFILE,
    load_buffer_bytes: LoadBuffer = None,
    codec: Codec = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", rich_help_panel=_OUTPUT, help="Receives the run with its plan/; an earlier run is replaced."
        ),
    ],
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Make the plan of an instant: every record that would be deleted, why, and what undoes it. Deletes nothing.

    A plan of an archive that its checks passed is kept there, where apply finds it by its plan_id.
    """
    request = replay_request(
        segments,
        archive,
        cluster_id=cluster_id,
        is_full=full,
        topics=topics,
        as_of=as_of,
        retention_minutes=retention_minutes,
        profile=profile,
        load_buffer_bytes=load_buffer_bytes,
        codec=codec_number(codec),
        name="plan",
    )
    claim(out, apart_from=None if "://" in str(segments or archive) else Path(str(segments or archive)))
    rules = policy_from(policy)

    from sexton.runs.checker import Checker
    from sexton.runs.processes import engine_here

    with Checker() as checker, engine_here("sexton plan", quiet=json) as engine:
        from sexton.pipeline.standalone_plan import PlanRequest, make_plan
        from sexton.report.plan_page import render_plan

        made = make_plan(
            engine, PlanRequest(replay=request, policy=rules, out=out), page=render_plan, validate=checker.validate
        )
    tell_doubts(made.record.profile_doubts)
    if json:
        sys.stdout.write(jsonlib.dumps(_fields(made, out), ensure_ascii=True, indent=2) + "\n")
    else:
        _print(made, out, archive, policy)
    return _exit_code(made)


def replay_request(
    segments: Path | None,
    archive: str | None,
    *,
    cluster_id: str | None,
    is_full: bool,
    topics: Path | None,
    as_of: str | None,
    retention_minutes: int | None,
    profile: str,
    name: str,
    load_buffer_bytes: int | None = None,
    codec: int | None = None,
) -> "ReplayRequest":
    """What the options of a command ask to be replayed; UsageError for what does not go together."""
    check_replay(
        segments,
        archive,
        cluster_id=cluster_id,
        is_full=is_full,
        topics=topics,
        retention_minutes=retention_minutes,
        name=name,
    )
    as_of_ms = None if as_of is None else parse_instant(as_of, "--as-of")
    check_profile(profile)

    from sexton.pipeline.replay_groups import ReplayRequest, now_ms

    return ReplayRequest(
        run_id=f"{name}-{uuid.uuid4().hex[:16]}",
        segments=None if segments is None else str(segments),
        archive=archive,
        as_of_ms=as_of_ms,
        taken_at_ms=now_ms(),
        retention_minutes=retention_minutes,
        profile=profile,
        load_buffer_bytes=load_buffer_bytes,
        codec=codec,
        topics_file=None if topics is None else str(topics),
        cluster_id=cluster_id,
        is_full=is_full,
    )


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for a replay of which nothing is to be left."""
    with tempfile.TemporaryDirectory(prefix="sexton-") as folder:
        yield Path(folder)


def _exit_code(made: "Planned") -> int:
    from sexton.report.summary import outcome

    counts = made.record.counts
    code, reason = outcome(
        undecodable=counts["undecodable_records"],
        checks=counts["dq_results"],
        failed_critical=made.failed_checks,
        endless=len(made.record.endless),
    )
    if code:
        tell_aside(f"error: {reason}")
    return code


def _fields(made: "Planned", out: Path) -> dict[str, Any]:
    told = made.plan.record.model_dump(mode="json")
    return {
        "operation": "plan",
        "plan_id": made.plan.record.plan_id,
        "plan_sha256": made.plan.sha256,
        "kept_at": made.kept_at,
        "not_kept_because": made.why_not,
        "folder": str(out / "plan"),
        **told,
    }


def _print(made: "Planned", out: Path, archive: str | None, policy: Path | None) -> None:
    from sexton.report.meanings import beyond_broker_sentence

    record, counts = made.plan.record, made.plan.record.counts
    tell_line(beyond_broker_sentence(record))
    tell_line(f"plan_id      {record.plan_id}")
    tell_line(f"plan_sha256  {made.plan.sha256}")
    tell_line(f"as of        {figures.instant(record.as_of_ms)}")
    tell_line(
        f"takes        {figures.some(counts['offsets'], 'offset')} of {figures.count(counts['groups_losing'])} of "
        f"{figures.some(counts['groups_total'], 'group')}, {figures.some(counts['groups_deleted'], 'whole group')}; "
        f"{figures.some(counts['tombstones'], 'record')}, largest batch {figures.size(record.largest_batch_bytes)}"
    )
    if record.losses:
        tell_line("")
        tell_table(LOSS_COLUMNS, _losses(record))
    tell_line("")
    for text in record.over_limits:
        tell_line(f"over limit   {visible(text)}")
    for text in record.warnings:
        tell_line(f"warning      {visible(text)}")
    tell_line(f"page         {out / 'plan' / 'plan.html'}")
    if made.kept_at is None:
        tell_line(f"not kept     {made.why_not}")
        return
    tell_line(f"kept at      {made.kept_at}")
    if record.is_what_if or record.over_limits:
        over = "it is over its limits"
        why = "it is a what-if, by another retention than the broker's" if record.is_what_if else over
        tell_line(f"to apply it  not possible: {why}")
        return
    shown = uri_without_login(str(archive))
    tell_line(f"look at it   sexton show plan {record.plan_id} --archive {shown}")
    by = "" if policy is None else f" --policy {policy}"  # else apply takes the setting's, and refuses this plan
    tell_line(f"to apply it  sexton apply {record.plan_id} --archive {shown}{by} --plan-sha256 {made.plan.sha256}")
    tell_line("             with --sink coordinator --approved-by NAME, as the principal that may delete")
    tell_line("             or run the DAG apply_tombstones with this plan_id: it asks for an approval first")


def _losses(record: "PlanRecord") -> Iterator[tuple[object, ...]]:
    from sexton.report.meanings import cause_meaning

    for one in record.losses:
        owner = one.owner or ("-" if one.cause.startswith("rule:") else "the broker")
        yield cause_meaning(one.cause), owner, one.offsets, one.groups, one.deleted_groups, one.reason or "-"
