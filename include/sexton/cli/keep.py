"""`sexton keep`: carry out the holds of a policy that keep offsets alive, or show what they would do."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sexton.as_text import now_ms
from sexton.cli.apply_options import EXECUTION, ApprovedBy, check_approved
from sexton.cli.command import Without
from sexton.cli.input_options import LogInput
from sexton.cli.judged_input import replayed, with_snapshot
from sexton.cli.options import (
    DEFAULT_ROWS,
    ClusterInput,
    Json,
    PolicyFile,
    RetentionMinutes,
    ShownRows,
    archive_uri,
    flag,
    open_archive_uri,
    option,
    read_policy_file,
)
from sexton.cli.output import print_json, print_line
from sexton.cli.restore import show_or_apply
from sexton.errors import UsageError

if TYPE_CHECKING:
    from sexton.execution.restore.apply_restore import RestoreSummary
    from sexton.execution.restore.restore_plan import RestorePlan
    from sexton.execution.restore.sources import Source
    from sexton.execution.standing_approval import StandingApproval
    from sexton.policy import Policy

_NOT_KEPT = 6
_STANDING = "Standing approval"


def keep(
    *,
    log: Annotated[LogInput, Without({"segments", "run", "topics", "profile", "load_buffer_bytes", "as_of"})],
    policy: PolicyFile = None,
    every: str = option(
        "--every DURATION", "Time between your runs: what is due before the run after next is kept.", default="1h"
    ),
    retention_minutes: RetentionMinutes = None,
    no_snapshot: bool = flag("--no-snapshot", "Use the archive as it is: something else has just taken a snapshot."),
    apply: bool = flag("--apply", "Keep the offsets. Default: only show them.", EXECUTION),
    approved_by: ApprovedBy = None,
    approval: str | None = option(
        "--approval ID", "Act on this standing approval, within its limits, instead of --approved-by.", _STANDING
    ),
    revoke: str | None = option(
        "--revoke ID", "End a standing approval at once and for good, and do nothing else.", _STANDING
    ),
    cluster: ClusterInput,
    limit: ShownRows = DEFAULT_ROWS,
    json: Json = False,
) -> int:
    """Where a hold says `keep`, keep offsets from expiring at the broker, without changing a committed value.

    Takes a snapshot, finds what the broker would expire before the run after next, and shows how each offset would be
    kept, and what is left alone and why. With --apply, offsets of simple, KIP-848 and streams groups, and those of
    topics that a live group does not subscribe to, are committed again, in a transaction that leaves newer
    commits alone; a member joins an Empty classic group of consumers or of Connect workers and leaves it.

    # what would expire, and what would be done about it?
    sexton keep --policy policy.yaml --archive archive --bootstrap-servers kafka-1:9092

    # do it; run this every hour, for example from cron
    sexton keep --policy policy.yaml --archive archive --bootstrap-servers kafka-1:9092 --apply --approved-by ann

    # under a standing approval, within its limits; then revoke it
    sexton keep --policy policy.yaml --archive archive --bootstrap-servers kafka-1:9092 --apply --approval 7d20...
    sexton keep --archive archive --revoke 7d20...

    [b]Exit codes[/b]

    0 everything that is due before the next run is kept, or --apply was not given, 6 something could not be kept, or
    the standing approval is not in force
    """
    if revoke is not None:
        return _revoke(log, revoke, json=json)
    if approval is not None and (not apply or approved_by is not None):
        fix = "give it with --apply, without --approved-by"
        raise UsageError("it replaces --approved-by", where="--approval", fix=fix)
    if apply and approval is None:
        check_approved(approved_by, option="--apply", what="hold")
    if not cluster.is_given:
        raise UsageError("only a cluster expires offsets", where="sexton keep", fix="give --bootstrap-servers")
    from sexton.policy.durations import DURATION_FORMS, parse_duration

    try:
        every_ms = parse_duration(every)
    except ValueError as error:
        raise UsageError(f"{every!r} {error}", where="--every", fix=DURATION_FORMS) from None
    path, rules = read_keep_policy(policy)
    log = _archived(log) if no_snapshot else with_snapshot(log, cluster, quiet=json)

    from sexton.analysis.forecast_result import FolderTables
    from sexton.execution.kafka_admin import connected
    from sexton.execution.restore.keep import due_under_holds
    from sexton.execution.restore.swept import swept_under_holds
    from sexton.execution.standing_approval import Allowance, approval_in_force

    fs, root = open_archive_uri(log.archive)
    standing = None
    if approval is not None:
        assert log.cluster_id is not None
        standing = approval_in_force(fs, root, log.cluster_id, approval, policy_sha256=rules.sha256, now_ms=now_ms())
    with replayed(log, "keep", retention_minutes=retention_minutes, policy=path, quiet=json) as (folder, record):
        tables = FolderTables(folder, record)
        next_run_ms = now_ms() + every_ms + tables.check_interval_ms()
        source = due_under_holds(tables, rules, before_ms=next_run_ms + every_ms, now_ms=now_ms())
        assert log.archive is not None
        swept = swept_under_holds(log.archive, rules, tables, now_ms=now_ms())
    if swept is not None:
        source = replace(
            source,
            values={**swept.values, **source.values},
            swept=frozenset(swept.values),
            warnings=[*source.warnings, *swept.warnings],
        )
    allowance, name = None, approved_by if apply else None
    if standing is not None:
        source, name = _covered(source, standing), standing.approved_by
        allowance = Allowance(fs=fs, root=root, approval=standing, due_ms=source.due_ms, now_ms=now_ms())
    with connected(cluster.client()) as client:
        plan, summary, code = show_or_apply(
            source, client, fs, root, keeps=True, approved_by=name, limit=limit, json=json, allowance=allowance
        )
    if summary is None:
        return code
    if _is_left(plan, summary, source, next_run_ms=next_run_ms):
        return _NOT_KEPT
    return 0 if summary.may_be_tried_again else code


def read_keep_policy(policy: Path | None) -> "tuple[Path | None, Policy]":
    """The policy in force and its file; UsageError if no hold keeps anything."""
    from sexton.settings import settings

    path = policy or (Path(configured) if (configured := settings().policy) else None)
    rules = read_policy_file(path)
    if rules is None or all(hold.keep_ms is None for hold in rules.holds):
        raise UsageError("no hold keeps anything", where=path or "--policy", fix="write `keep: true` in a hold")
    return path, rules


def _is_left(plan: "RestorePlan", summary: "RestoreSummary", source: "Source", *, next_run_ms: int) -> bool:
    """Whether something was not kept and cannot wait for the next run.

    An offset that a client has committed since is not due; an offset beyond a standing approval's limits may wait.
    """
    from sexton.execution.restore.restore_plan import WRITTEN, What
    from sexton.execution.standing_approval import PACED
    from sexton.ledger.entries import FINAL

    return any(row.what not in WRITTEN and row.what is not What.NEWER_NOW for row in plan.rows) or any(
        result.outcome not in FINAL and (result.error != PACED or source.due_ms.get(row.key, next_run_ms) < next_run_ms)
        for row, result in summary.results
    )


def _covered(source: "Source", standing: "StandingApproval") -> "Source":
    """The values of the groups that the approval covers, with a warning about other groups."""
    from sexton.execution.restore.selection import Selection

    is_covered = Selection(patterns=tuple(standing.terms.patterns)).test()
    values = {key: then for key, then in source.values.items() if is_covered(key)}
    others = len(source.values) - len(values)
    more = [f"{others} offsets belong to groups that the standing approval does not cover, and are left alone"]
    return replace(source, values=values, warnings=[*source.warnings, *(more if others else [])])


def _archived(log: LogInput) -> LogInput:
    """The archive as it is, with the id of its cluster."""
    from sexton.archive.cluster_metadata import require_cluster

    fs, root = open_archive_uri(log.archive)
    return replace(log, archive=archive_uri(log.archive), cluster_id=require_cluster(fs, root, log.cluster_id))


def _revoke(log: LogInput, approval_id: str, *, json: bool) -> int:
    from sexton.archive.cluster_metadata import require_cluster
    from sexton.execution.standing_approval import revoke

    fs, root = open_archive_uri(log.archive)
    revoke(fs, root, require_cluster(fs, root, log.cluster_id), approval_id, at_ms=now_ms())
    if json:
        print_json({"operation": "revoke", "approval_id": approval_id})
    else:
        print_line(f"revoked: standing approval {approval_id}")
    return 0
