"""`sexton restore`: what would come back, shown as a diff, and on request put back."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli import restore_output as told
from sexton.cli.apply_options import asked_to_end, publish
from sexton.cli.fetch import topic_partition
from sexton.cli.input_options import tell_aside
from sexton.cli.options import (
    BootstrapServers,
    ClientConfigFile,
    ClusterId,
    Debug,
    Json,
    client_of,
    parse_instant,
)
from sexton.cli.progress import bar, working
from sexton.errors import UsageError

if TYPE_CHECKING:
    from pyarrow import fs as pafs

    from sexton.execution.admin_client import AdminClient
    from sexton.execution.restore.apply_restore import RestoreSummary
    from sexton.execution.restore.restore_plan import RestorePlan
    from sexton.execution.restore.sources import Source
    from sexton.ledger.ledger import Ledger

EXAMPLES = """\
[b]Examples[/b]

[dim]# undo a plan: what has it removed, what is there now, what would come back?[/dim]
sexton restore --from-ledger 3f2a...

[dim]# do exactly what was shown[/dim]
sexton restore --id 9c41... --apply --approved-by ann

[dim]# one group as it stood yesterday, its offsets moved to where the logs begin or end by now[/dim]
sexton restore --as-of 2026-11-20T22:00:00Z --group orders-service --clamp

[dim]# one topic of every group of a team, for scripts[/dim]
sexton restore --from-plan 3f2a... --pattern 'team-a-.*' --topic clicks --json | jq .counts

[b]What cannot come back[/b]

The instants of the commits, so that retention starts anew; an expiry that a client asked for; a deleted
group's type, generation and members: its offsets come back in a group without members.
"""
DEFAULT_ROWS = 50
_SOURCE, _WHAT, _HOW = "Values of then, one of the four", "What of it", "How"

PlanOption = Annotated[
    str | None,
    typer.Option(
        metavar="PLAN_ID", rich_help_panel=_SOURCE, help="All that a kept plan would remove, or has: its undo file."
    ),
]
LedgerOption = Annotated[
    str | None,
    typer.Option(
        metavar="PLAN_ID",
        rich_help_panel=_SOURCE,
        help="What an apply has really removed, by its ledger; of a restore, what it replaced.",
    ),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        metavar="ISO|MS", rich_help_panel=_SOURCE, help="What clients could fetch at that instant, by the archive."
    ),
]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="RESTORE_ID", rich_help_panel=_SOURCE, help="A restore that was shown before, and is kept."
    ),
]
Groups = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", rich_help_panel=_WHAT, help="A group; may be repeated.")
]
Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern", metavar="RE2", rich_help_panel=_WHAT, help="Groups whose whole id matches; may be repeated."
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="T[:P]", rich_help_panel=_WHAT, help="A topic or one of its partitions; may be repeated."
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", rich_help_panel=_HOW, help="Also replace what has been committed anew since.")
]
Clamp = Annotated[
    bool,
    typer.Option(
        "--clamp",
        rich_help_panel=_HOW,
        help="Move offsets to where their log begins or ends now. Default: as they were; consumers then start by "
        "their auto.offset.reset.",
    ),
]
Apply = Annotated[
    bool, typer.Option("--apply", rich_help_panel=_HOW, help="Put it back. Default: show, change nothing.")
]
ApprovedBy = Annotated[
    str | None, typer.Option(metavar="NAME", rich_help_panel=_HOW, help="Who approved it, for the ledger.")
]
Limit = Annotated[int, typer.Option(metavar="N", min=0, help="Show up to N offsets; 0: all. --json has all.")]


def restore(
    *,
    archive: Annotated[
        str | None, typer.Option(metavar="URI", help="A folder or s3://, gs://, ... Default: var/archive.")
    ] = None,
    cluster_id: ClusterId = None,
    from_plan: PlanOption = None,
    from_ledger: LedgerOption = None,
    as_of: AsOfOption = None,
    restore_id: IdOption = None,
    group: Groups = None,
    pattern: Patterns = None,
    topic: Topics = None,
    overwrite: Overwrite = False,
    clamp: Clamp = False,
    apply: Apply = False,
    approved_by: ApprovedBy = None,
    bootstrap_servers: BootstrapServers = None,
    client_config_file: ClientConfigFile = None,
    limit: Limit = DEFAULT_ROWS,
    json: Json = False,
    _debug: Debug = False,
) -> int:
    """Put committed offsets back: shown first as a diff of then and now, done with --apply.

    A group with members is refused, as its coordinator refuses it; so is what is no longer as it was shown. What has
    been committed anew since is kept unless --overwrite asks for it.
    """
    if apply and not (approved_by or "").strip():
        raise UsageError("who approved it?", where="--apply", fix="--approved-by NAME")
    if restore_id is not None and (
        group or pattern or topic or overwrite or clamp or from_plan or from_ledger or as_of
    ):
        raise UsageError(
            "a kept restore is done as it was shown, or not at all", where="--id", fix="leave out the rest"
        )

    from sexton.execution.kafka_admin import connected
    from sexton.execution.restore.restore_plan import read_restore
    from sexton.execution.restore.selection import Selection
    from sexton.execution.restore.sources import RestoreRequest, source_of
    from sexton.ledger.ledger import Ledger
    from sexton.runs.source import filesystem
    from sexton.settings import settings

    request = RestoreRequest(
        archive=archive or settings().archive_uri,
        cluster_id=cluster_id,
        from_plan=from_plan,
        from_ledger=from_ledger,
        as_of_ms=None if as_of is None else parse_instant(as_of, "--as-of"),
        selection=Selection(
            group_ids=tuple(group or ()),
            patterns=tuple(pattern or ()),
            topics=tuple(topic_partition(text) for text in topic or ()),
        ),
    )
    fs, root = filesystem(request.archive)
    kept = None if restore_id is None else read_restore(fs, root, cluster_id, restore_id)
    if kept is not None and not apply:
        return told.shown(kept, limit, json=json)
    with working("Replaying the log", is_quiet=json):
        source = None if kept is not None else source_of(request, taken_at_ms=_now_ms())
    with connected(client_of(bootstrap_servers, client_config_file)) as client:
        plan = _made(source, client, fs, root, overwrites=overwrite, clamps=clamp) if source is not None else kept
        assert plan is not None
        if not apply:
            return told.shown(plan, limit, json=json)
        if not json:
            told.print_diff(plan, limit)
        ledger = Ledger(fs, root, plan.cluster_id, plan.restore_id)
        summary = _applied(client, plan, ledger, approved_by=str(approved_by), quiet=json)
    entries = ledger.entries()
    trouble = publish(entries, as_of_ms=entries[0].at_ms)[1] if entries else None
    code = told.done(plan, summary, limit, json=json)
    if trouble:
        tell_aside(trouble)
    return code or int(trouble is not None)


def _made(
    source: "Source", client: "AdminClient", fs: "pafs.FileSystem", root: str, *, overwrites: bool, clamps: bool
) -> "RestorePlan":
    """The restore of a source, kept in the archive unless it would do nothing."""
    from sexton.execution.restore.apply_restore import is_done
    from sexton.execution.restore.diff import make_restore
    from sexton.execution.restore.restore_plan import keep_restore
    from sexton.ledger.ledger import Ledger

    made = make_restore(
        source,
        client,
        overwrites=overwrites,
        clamps=clamps,
        is_done=lambda plan: is_done(Ledger(fs, root, plan.cluster_id, plan.restore_id), plan),
    )
    if made.items:
        keep_restore(fs, root, made)
    return made


def _applied(
    client: "AdminClient", plan: "RestorePlan", ledger: "Ledger", *, approved_by: str, quiet: bool
) -> "RestoreSummary":
    """Carry it out. SIGTERM ends it after the step that it is in, with every outcome told."""
    from sexton.execution.engine import Clocks
    from sexton.execution.restore.apply_restore import apply_restore
    from sexton.settings import settings

    with asked_to_end() as is_asked, bar("Putting back", is_quiet=quiet) as show:

        def progress(done: int, total: int) -> bool:
            show(done, total)
            return not is_asked()

        return apply_restore(
            client,
            plan,
            ledger,
            approved_by=approved_by,
            clocks=Clocks(now_ms=_now_ms),
            lease_ms=settings().apply_lease_s * 1000,
            progress=progress,
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
