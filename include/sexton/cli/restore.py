"""`sexton restore`: show committed offsets of the past as a diff, and on request put them back."""

from functools import partial
from typing import TYPE_CHECKING

from sexton.as_text import now_ms
from sexton.cli.apply_options import EXECUTION, ApprovedBy, check_approved, progress_until_terminated, publish
from sexton.cli.options import (
    DEFAULT_ROWS,
    ArchiveUri,
    ClusterId,
    ClusterInput,
    Json,
    ShownRows,
    archive_uri,
    flag,
    open_archive_uri,
    option,
    parse_optional_instant,
    parse_partition,
)
from sexton.cli.output import print_aside
from sexton.cli.progress import working
from sexton.cli.restore_output import print_diff, print_restore, print_result
from sexton.errors import UsageError
from sexton.kafka_commands import SERVERS

if TYPE_CHECKING:
    from pyarrow import fs as pafs

    from sexton.execution.kafka_admin import KafkaAdmin
    from sexton.execution.restore.apply_restore import RestoreSummary
    from sexton.execution.restore.restore_plan import RestorePlan
    from sexton.execution.restore.sources import Source
    from sexton.execution.standing_approval import Allowance

_source, _selection = partial(option, panel="Source of the values (give one)"), partial(option, panel="Selection")


def restore(
    *,
    archive: ArchiveUri = None,
    cluster_id: ClusterId = None,
    from_plan: str | None = _source("--from-plan PLAN_ID", "Everything that a stored plan removes: its undo file."),
    from_ledger: str | None = _source(
        "--from-ledger PLAN_ID", "What an apply removed, or what a restore replaced, by its ledger."
    ),
    as_of: str | None = _source("--as-of ISO|MS", "What clients could fetch at that instant, from the archive."),
    restore_id: str | None = _source("--id RESTORE_ID", "A stored restore, which was shown before."),
    group: list[str] | None = _selection("--group GROUP", "A group; may be repeated."),
    pattern: list[str] | None = _selection("--pattern RE2", "Groups whose whole id matches; may be repeated."),
    topic: list[str] | None = _selection("--topic T[:P]", "A topic or one of its partitions; may be repeated."),
    overwrite: bool = flag("--overwrite", "Also replace newer commits.", EXECUTION),
    clamp: bool = flag(
        "--clamp",
        "Move offsets outside of their log to its start or end. Default: keep them; consumers then follow their "
        "auto.offset.reset.",
        EXECUTION,
    ),
    apply: bool = flag("--apply", "Put the offsets back. Default: only show them.", EXECUTION),
    approved_by: ApprovedBy = None,
    cluster: ClusterInput,
    limit: ShownRows = DEFAULT_ROWS,
    json: Json = False,
) -> int:
    """Restore committed offsets: show how past and present offsets differ; with --apply, commit the past ones.

    Groups with members are refused, because their coordinator refuses such commits. Offsets that have changed since the
    diff was shown are refused, too. Newer commits are kept unless --overwrite is given.

    # undo a plan: what did it remove, what is there now, what would come back?
    sexton restore --from-ledger 3f2a...

    # do exactly what was shown
    sexton restore --id 9c41... --apply --approved-by ann

    # one group as of yesterday, its offsets moved into the range of the logs
    sexton restore --as-of 2026-11-20T22:00:00Z --group orders-service --clamp

    # one topic of every group of a team, for scripts
    sexton restore --from-plan 3f2a... --pattern 'team-a-.*' --topic clicks --json | jq .counts

    [b]What cannot come back[/b]

    Commit timestamps, so retention starts again; a retention that a client requested; the type, generation and
    members of a deleted group: its offsets come back in a group without members.
    """
    if apply:
        check_approved(approved_by, option="--apply", what="restore")
    if restore_id is not None and (
        group or pattern or topic or overwrite or clamp or from_plan or from_ledger or as_of
    ):
        raise UsageError(
            "a kept restore is applied exactly as it was shown", where="--id", fix="leave out the other options"
        )

    from sexton.execution.kafka_admin import connected
    from sexton.execution.restore.restore_plan import read_restore
    from sexton.execution.restore.selection import Selection
    from sexton.execution.restore.sources import RestoreRequest, source_of

    request = RestoreRequest(
        archive=archive_uri(archive),
        cluster_id=cluster_id,
        from_plan=from_plan,
        from_ledger=from_ledger,
        as_of_ms=parse_optional_instant(as_of, "--as-of"),
        selection=Selection(
            group_ids=tuple(group or ()),
            patterns=tuple(pattern or ()),
            topics=tuple(parse_partition(text, "--topic") for text in topic or ()),
        ),
    )
    fs, root = open_archive_uri(archive)
    config = cluster.client()
    found: Source | RestorePlan
    if restore_id is None:
        with working("Replaying the log", is_quiet=json):
            found = source_of(request, taken_at_ms=now_ms())
    else:
        found = read_restore(fs, root, cluster_id, restore_id)
        if not apply:
            return print_restore(found, limit, servers=config.bootstrap_servers, json=json)
    with connected(config) as client:
        _, _, code = show_or_apply(
            found,
            client,
            fs,
            root,
            approved_by=approved_by if apply else None,
            limit=limit,
            json=json,
            overwrites=overwrite,
            clamps=clamp,
            servers=config.bootstrap_servers,
        )
        return code


def show_or_apply(
    found: "Source | RestorePlan",
    client: "KafkaAdmin",
    fs: "pafs.FileSystem",
    root: str,
    *,
    approved_by: str | None,
    limit: int,
    json: bool,
    overwrites: bool = False,
    clamps: bool = False,
    keeps: bool = False,
    servers: str = SERVERS,
    allowance: "Allowance | None" = None,
) -> "tuple[RestorePlan, RestoreSummary | None, int]":
    """Make the restore of a source, and store it in the archive unless it does nothing; or take a stored restore. Show
    it, and apply it if `approved_by` is given. Returns the restore, its summary (None if only shown), the exit code."""
    from sexton.execution.engine import Clocks
    from sexton.execution.restore.apply_restore import apply_restore, is_done
    from sexton.execution.restore.diff import make_restore
    from sexton.execution.restore.restore_plan import RestorePlan, keep_restore
    from sexton.ledger.ledger import Ledger
    from sexton.settings import settings

    def ledger_of(made: RestorePlan) -> Ledger:
        return Ledger(fs, root, made.cluster_id, made.restore_id)

    if isinstance(found, RestorePlan):
        plan = found
    else:
        plan = make_restore(
            found,
            client,
            overwrites=overwrites,
            clamps=clamps,
            keeps=keeps,
            is_done=lambda made: is_done(ledger_of(made), made),
        )
        if plan.items or plan.left_alone:
            keep_restore(fs, root, plan)
    if approved_by is None:
        return plan, None, print_restore(plan, limit, servers=servers, json=json)
    if not json:
        print_diff(plan, limit)
    ledger = ledger_of(plan)
    # SIGTERM ends it after the current step, with every outcome recorded.
    with progress_until_terminated("Restoring", is_quiet=json) as progress:
        summary = apply_restore(
            client,
            plan,
            ledger,
            approved_by=approved_by,
            clocks=Clocks(now_ms=now_ms),
            lease_ms=settings().apply_lease_s * 1000,
            progress=progress,
            allowance=allowance,
        )
    entries = ledger.entries()
    failure = publish(entries, as_of_ms=entries[0].at_ms)[1] if entries else None
    code = print_result(plan, summary, limit, json=json)
    if failure:
        print_aside(failure)
    return plan, summary, code or int(failure is not None)
