"""`sexton show`: a kept plan or restore, or the terms of a standing approval, as approvers see them; the runs."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sexton.as_text import duration, instant
from sexton.cli.command import command, command_group
from sexton.cli.options import ArchiveUri, ClusterId, Json, PolicyFile, RunDir, open_archive_uri, required
from sexton.cli.output import print_json, print_table

app = command_group(
    "Show a stored plan or restore, or the terms of a standing approval, as approvers see them; list the runs."
)
PlanId = Annotated[str, typer.Argument(metavar="PLAN_ID", help="SHA-256 of the plan's content.")]
RestoreId = Annotated[str, typer.Argument(metavar="RESTORE_ID", help="SHA-256 of the restore.")]


@command(app)
def plan(plan_id: PlanId, *, archive: ArchiveUri = None, cluster_id: ClusterId = None, json: Json = False) -> int:
    """Show a plan: who loses what, and by which rule. First verifies each file of the plan; a changed file is refused.

    # a plan as its approval shows it
    sexton show plan 3f9c... --archive archive

    # the hash that an approval is bound to
    sexton show plan 3f9c... --json | jq -r .sha256
    """
    from sexton.plans.read_plan import read_plan
    from sexton.report.approval_page import PLAN_QUESTIONS, plan_text
    from sexton.report.meanings import beyond_broker_sentence, what_if_sentence

    fs, root = open_archive_uri(archive)
    found = read_plan(fs, root, cluster_id, plan_id)
    counts = {name: found.record.counts[name] for name in ("tombstones", "offsets", "groups_losing", "groups_deleted")}
    fields = {
        "kind": "plan",
        "cluster_id": found.record.cluster_id,
        "id": found.record.plan_id,
        "sha256": found.sha256,
        "counts": counts,
        "coverage": found.record.coverage,
        "lead": beyond_broker_sentence(found.record),
        "what_if": what_if_sentence(found.record) if found.record.is_what_if else None,
        "over_limits": found.record.over_limits,
        "questions": PLAN_QUESTIONS,
    }
    return _print(fields, plan_text(found), json=json)


@command(app)
def restore(
    restore_id: RestoreId, *, archive: ArchiveUri = None, cluster_id: ClusterId = None, json: Json = False
) -> int:
    """Show a restore: what was committed then, what is committed now, and what would be written.

    # a restore as its approval shows it: then, now, what would be written
    sexton show restore 9c41... --archive archive
    """
    from sexton.execution.restore.restore_plan import read_restore
    from sexton.report.approval_page import RESTORE_QUESTION, restore_text

    fs, root = open_archive_uri(archive)
    found = read_restore(fs, root, cluster_id, restore_id)
    counts = {"offsets": len(found.items), "groups": len({row.group_id for row in found.items})}
    fields = {
        "kind": "restore",
        "cluster_id": found.cluster_id,
        "id": found.restore_id,
        "sha256": found.restore_id,
        "counts": counts,
        "over_limits": [],
        "questions": {"restore": RESTORE_QUESTION},
    }
    return _print(fields, restore_text(found), json=json)


@command(app)
def runs(*, run: RunDir = None, cluster_id: ClusterId = None, json: Json = False) -> int:
    """List the published runs, oldest first: their instants, rules and warnings.

    # which instants can be asked about?
    sexton show runs

    # the run of a folder
    sexton show runs --run audit

    # runs that are not complete, for scripts
    sexton show runs --json | jq '.runs[] | select(.coverage != "complete").as_of_ms'
    """
    rows = _published_runs(cluster_id) if run is None else [_run_of(run)]
    if json:
        print_json({"operation": "show runs", "runs": rows})
    else:
        columns = ("AS-OF", "CLUSTER", "COVERAGE", "RETENTION", "PROFILE", "RUN", "WARNINGS")
        print_table(columns, map(_run_row, rows))
    return 0


def _run_row(row: dict[str, Any]) -> tuple[object, ...]:
    as_of, retention = instant(row["as_of_ms"]), duration(row["retention_ms"])
    return as_of, row["cluster_id"], row["coverage"], retention, row["profile"], row["run_id"], len(row["warnings"])


RUN_FIELDS = (
    *("cluster_id", "as_of_ms", "run_id", "taken_at_ms", "profile", "retention_ms", "coverage", "plan_id"),
    *("policy_sha256", "warnings"),
)


def _published_runs(cluster_id: str | None) -> list[dict[str, Any]]:
    from sexton.lake.catalog import open_lake
    from sexton.lake.read import published_runs

    return [
        {name: run.row[name] for name in RUN_FIELDS}
        | {"counts": {each["table"]: each["rows"] for each in run.row["counts"] or ()}}
        for run in published_runs(open_lake(), cluster_id)
    ]


def _run_of(folder: Path) -> dict[str, Any]:
    from sexton.runs.folder import RunFolder

    record = RunFolder(folder).read_run()
    return {name: getattr(record, name) for name in (*RUN_FIELDS, "counts")}


@command(app)
def approval(
    *,
    policy: PolicyFile = None,
    pattern: list[str] = required("--pattern RE2", "Groups whose whole id matches; may be repeated."),
    max_offsets: int = required("--max-offsets N", "Offsets per hour, at most.", min=0),
    max_joins: int = required("--max-joins N", "Joins per hour, at most.", min=0),
    days: int = required("--days N", "Days from the answer until the approval ends.", min=1, max=90),
    archive: ArchiveUri = None,
    cluster_id: ClusterId = None,
    json: Json = False,
) -> int:
    """Show what a standing approval of `sexton keep` would allow. The DAG approve_keep asks a person for it.

    # what the DAG asks about with the defaults of its form
    sexton show approval --policy policy.yaml --pattern '.*' --max-offsets 10000 --max-joins 1000 --days 30
    """
    from sexton.archive.cluster_metadata import require_cluster
    from sexton.cli.keep import read_keep_policy
    from sexton.execution.restore.selection import Selection
    from sexton.execution.standing_approval import Terms
    from sexton.report.approval_page import KEEP_QUESTION, terms_text

    _, rules = read_keep_policy(policy)
    Selection(patterns=tuple(pattern)).group_test()
    terms = Terms(
        cluster_id=require_cluster(*open_archive_uri(archive), cluster_id),
        policy_sha256=rules.sha256,
        patterns=pattern,
        max_offsets_per_hour=max_offsets,
        max_joins_per_hour=max_joins,
        days=days,
    )
    fields = {
        "kind": "standing approval",
        "cluster_id": terms.cluster_id,
        "id": terms.sha256,
        "sha256": terms.sha256,
        "counts": {"offsets_an_hour": max_offsets, "joins_an_hour": max_joins, "days": days},
        "terms": terms.model_dump(),
        "questions": {"keep": KEEP_QUESTION},
    }
    return _print(fields, terms_text(terms, rules), json=json)


def _print(fields: dict[str, Any], body: str, *, json: bool) -> int:
    if json:
        print_json({**fields, "body": body})
    else:
        sys.stdout.write(body)
    return 0
