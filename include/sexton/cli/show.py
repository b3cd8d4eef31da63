"""`sexton show`: what a kept plan or restore would do, as people read it before they approve it."""

import json as jsonlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.options import ClusterId, Debug, Json

if TYPE_CHECKING:
    from pyarrow import fs as pafs

EXAMPLES = """\
[b]Examples[/b]

[dim]# a plan as the approval shows it[/dim]
sexton show plan 3f9c... --archive archive

[dim]# the number that an approval is bound to[/dim]
sexton show plan 3f9c... --json | jq -r .sha256
"""
RESTORE_EXAMPLES = """\
[b]Examples[/b]

[dim]# a restore as the approval shows it: then, now, what would be written[/dim]
sexton show restore 9c41... --archive archive
"""
app = typer.Typer(
    help="Show a plan or a restore that the archive keeps, as people read it before they approve it.",
    epilog=EXAMPLES,
    rich_markup_mode="rich",
    add_completion=False,
)
Archive = Annotated[str | None, typer.Option(metavar="URI", help="A folder or s3://, gs://, ... Default: var/archive.")]
PlanId = Annotated[str, typer.Argument(metavar="PLAN_ID", help="SHA-256 of the plan's rows.")]
RestoreId = Annotated[str, typer.Argument(metavar="RESTORE_ID", help="SHA-256 of the restore.")]


@app.callback(invoke_without_command=True)
def _help(context: typer.Context) -> int:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
    return 0


@app.command("plan", epilog=EXAMPLES)
def plan(
    plan_id: PlanId,
    *,
    archive: Archive = None,
    cluster_id: ClusterId = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Show a plan: who loses what, by which rule. Every file of it is verified first; what differs is refused."""
    from sexton.plans.read_plan import read_plan
    from sexton.report.approval_text import PLAN_QUESTIONS, plan_text
    from sexton.report.meanings import beyond_broker_sentence, what_if_sentence

    fs, root = _opened(archive)
    found = read_plan(fs, root, cluster_id, plan_id)
    counts = {name: found.record.counts[name] for name in ("tombstones", "offsets", "groups_losing", "groups_deleted")}
    told = {
        "kind": "plan",
        "id": found.record.plan_id,
        "sha256": found.sha256,
        "counts": counts,
        "lead": beyond_broker_sentence(found.record),
        "what_if": what_if_sentence(found.record) if found.record.is_what_if else None,
        "over_limits": found.record.over_limits,
        "questions": PLAN_QUESTIONS,
    }
    return _tell(told, plan_text(found), json=json)


@app.command("restore", epilog=RESTORE_EXAMPLES)
def restore(
    restore_id: RestoreId,
    *,
    archive: Archive = None,
    cluster_id: ClusterId = None,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Show a restore: what was committed then, what is now, and what would be written."""
    from sexton.execution.restore.restore_plan import read_restore
    from sexton.report.approval_text import RESTORE_QUESTION, restore_text

    fs, root = _opened(archive)
    found = read_restore(fs, root, cluster_id, restore_id)
    counts = {"offsets": len(found.items), "groups": len({row.group_id for row in found.items})}
    told = {
        "kind": "restore",
        "id": found.restore_id,
        "sha256": found.restore_id,
        "counts": counts,
        "over_limits": [],
        "questions": {"restore": RESTORE_QUESTION},
    }
    return _tell(told, restore_text(found), json=json)


def _opened(archive: str | None) -> "tuple[pafs.FileSystem, str]":
    from sexton.runs.source import filesystem
    from sexton.settings import settings

    return filesystem(archive or settings().archive_uri)


def _tell(told: dict[str, Any], body: str, *, json: bool) -> int:
    sys.stdout.write(jsonlib.dumps({**told, "body": body}, ensure_ascii=True, indent=2) + "\n" if json else body)
    return 0
