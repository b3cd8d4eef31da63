"""`sexton show`: a kept plan or restore as its approvers see it."""

import sys
from typing import Annotated, Any

import typer

from sexton.cli.command import command, command_group
from sexton.cli.options import ArchiveUri, ClusterId, Json, open_archive_uri
from sexton.cli.output import print_json

app = command_group("Show a kept plan or restore as its approvers see it.")
PlanId = Annotated[str, typer.Argument(metavar="PLAN_ID", help="SHA-256 of the plan's rows.")]
RestoreId = Annotated[str, typer.Argument(metavar="RESTORE_ID", help="SHA-256 of the restore.")]


@command(app)
def plan(
    plan_id: PlanId,
    *,
    archive: ArchiveUri = None,
    cluster_id: ClusterId = None,
    json: Json = False,
) -> int:
    """Show a plan: who loses what, and by which rule. Each of its files is verified first; a changed one is refused.

    # a plan as its approval shows it
    sexton show plan 3f9c... --archive archive

    # the number that an approval is bound to
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
    restore_id: RestoreId,
    *,
    archive: ArchiveUri = None,
    cluster_id: ClusterId = None,
    json: Json = False,
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


def _print(fields: dict[str, Any], body: str, *, json: bool) -> int:
    if json:
        print_json({**fields, "body": body})
    else:
        sys.stdout.write(body)
    return 0
