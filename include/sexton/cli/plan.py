"""`sexton plan`: make the plan of an instant and keep it in the archive until somebody approves it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sexton import as_text
from sexton.cli.audit import claim
from sexton.cli.command import Without
from sexton.cli.input_options import ReplayInput
from sexton.cli.options import OUTPUT, Json, Tree, read_policy_file, required
from sexton.cli.output import print_aside, print_doubts, print_json, print_line, print_table
from sexton.report.names import visible
from sexton.uris import uri_without_login

if TYPE_CHECKING:
    from sexton.pipeline.standalone import Planned
    from sexton.plans.plan import PlanRecord

KAFKA_COMMANDS_SHOWN = 10
LOSS_COLUMNS = ("BY", "OWNER", "OFFSETS", "GROUPS", "WHOLE-GROUPS", "REASON")


def plan(
    *,
    replay: Annotated[ReplayInput, Without({"run", "taken_at"})],
    out: Path = required("--out DIR", "Receives the run with its plan/; an earlier run is replaced.", OUTPUT),
    tree: Tree = False,
    json: Json = False,
) -> int:
    """Make the plan for an instant: every record that would be deleted, why, and how to undo it. Deletes nothing.

    A plan from an archive is stored there if it passes its checks; apply finds it by its plan_id.

    # what the broker is about to delete, as a plan that can be approved
    sexton plan --archive s3://keep/offsets --out plan

    # what a policy expires, by owner and rule
    sexton plan --archive s3://keep/offsets --policy policy.yaml --out plan --tree

    # from a broker's disk: you can read this plan, but it is not stored
    sexton plan --segments backup --retention-minutes 1440 --out plan

    # for scripts
    sexton plan --archive s3://keep/offsets --out plan --json | jq -r .plan_id

    [b]And then[/b]

    sexton show plan PLAN_ID, sexton apply PLAN_ID, or the DAG apply_tombstones
    """
    replay.check("plan")
    rules = read_policy_file(replay.policy)
    claim(out, apart_from=replay.folders)

    from sexton.runs.processes import engine_here

    with engine_here(quiet=json, reads=replay.folders) as engine:
        from sexton.pipeline.standalone import make_plan
        from sexton.report.plan_page import render_plan
        from sexton.summary.summary import outcome

        made = make_plan(engine, replay.replay("plan"), out, rules, page=render_plan)
    print_doubts(made.record.profile_doubts)
    if json:
        print_json(_fields(made, out))
    else:
        _print(made, out, replay, tree=tree)
    counts = made.record.counts
    code, reason = outcome(
        undecodable=counts["undecodable_records"],
        checks=counts["dq_results"],
        failed_critical=made.failed_checks,
        unloadable=len(made.record.unloadable),
    )
    if code:
        print_aside(f"error: {reason}")
    return code


def _fields(made: "Planned", out: Path) -> dict[str, Any]:
    return {
        "operation": "plan",
        "plan_id": made.plan.record.plan_id,
        "plan_sha256": made.plan.sha256,
        "kept_at": made.kept_at,
        "not_kept_because": made.why_not,
        "folder": str(out / "plan"),
        "kafka_commands": _kafka_commands(made),
        **made.plan.record.model_dump(mode="json"),
    }


def _print(made: "Planned", out: Path, replay: ReplayInput, *, tree: bool) -> None:
    from sexton.report.meanings import beyond_broker_sentence
    from sexton.report.tree import plan_tree

    record, counts = made.plan.record, made.plan.record.counts
    print_line(beyond_broker_sentence(record))
    print_line(f"plan_id      {record.plan_id}")
    print_line(f"plan_sha256  {made.plan.sha256}")
    print_line(f"as of        {as_text.instant(record.as_of_ms)}")
    print_line(
        f"takes        {as_text.some(counts['offsets'], 'offset')} of {as_text.count(counts['groups_losing'])} of "
        f"{as_text.some(counts['groups_total'], 'group')}, {as_text.some(counts['groups_deleted'], 'whole group')}; "
        f"{as_text.some(counts['tombstones'], 'record')}, largest batch {as_text.size(record.largest_batch_bytes)}"
    )
    if record.losses:
        print_line()
        if tree:
            for line in plan_tree(record.losses):
                print_line(line)
        else:
            print_table(LOSS_COLUMNS, _losses(record))
    print_line()
    for text in record.over_limits:
        print_line(f"over limit   {visible(text)}")
    for text in record.warnings:
        print_line(f"warning      {visible(text)}")
    if commands := _kafka_commands(made):
        print_line("Kafka's own commands for it, which check nothing first and keep no undo:")
        for command in commands:
            print_line(f"    {command}")
        if (left := counts["groups_losing"] - len(commands)) > 0:
            print_line(f"    and those of {as_text.some(left, 'group')} more")
        print_line()
    print_line(f"page         {out / 'plan' / 'plan.html'}")
    if made.kept_at is None:
        print_line(f"not kept     {made.why_not}")
        return
    print_line(f"kept at      {made.kept_at}")
    if record.is_what_if or record.over_limits:
        what_if = "it is a what-if: its retention is not the broker's"
        print_line(f"to apply it  not possible: {what_if if record.is_what_if else 'it exceeds its limits'}")
        return
    shown = uri_without_login(str(replay.archive))
    print_line(f"see it       sexton show plan {record.plan_id} --archive {shown}")
    # Without --policy, apply would compare the plan with the policy of the settings, and refuse it.
    by = "" if replay.policy is None else f" --policy {replay.policy}"
    print_line(f"to apply it  sexton apply {record.plan_id} --archive {shown}{by} --plan-sha256 {made.plan.sha256}")
    print_line("             with --sink coordinator --approved-by NAME, as the principal that may delete")
    print_line("             or run the DAG apply_tombstones with this plan_id: it asks for an approval first")


def _kafka_commands(made: "Planned") -> list[str]:
    """Kafka's own commands for the first groups of a plan that may be applied."""
    from sexton.plans.plan_content import kafka_commands

    if made.plan.record.is_what_if or made.plan.record.over_limits:
        return []
    found = kafka_commands(made.plan.tombstones, KAFKA_COMMANDS_SHOWN)
    return [command for _, command in found if command is not None]


def _losses(record: "PlanRecord") -> Iterator[tuple[object, ...]]:
    from sexton.report.meanings import cause_meaning

    for one in record.losses:
        owner = one.owner or ("-" if one.cause.startswith("rule:") else "the broker")
        yield cause_meaning(one.cause), owner, one.offsets, one.groups, one.deleted_groups, one.reason or "-"
