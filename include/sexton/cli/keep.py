"""`sexton keep`: carry out the holds of a policy that keep offsets alive, or show what they would do."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

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
    now_ms,
    open_archive_uri,
    option,
    read_policy_file,
)
from sexton.cli.restore import show_or_apply
from sexton.errors import UsageError

_NOT_KEPT = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeepInput(LogInput):
    """An archive, into which a snapshot is taken first."""


Log = Annotated[_KeepInput, Without({"segments", "run", "topics", "profile", "load_buffer_bytes", "as_of"})]
Every = Annotated[
    str, option("--every DURATION", "How often this is run: what falls due before the second run from now is kept.")
]
Apply = Annotated[bool, option("--apply", "Keep the offsets. Default: only show them.", EXECUTION)]


def keep(
    *,
    log: Log,
    policy: PolicyFile = None,
    every: Every = "1h",
    retention_minutes: RetentionMinutes = None,
    apply: Apply = False,
    approved_by: ApprovedBy = None,
    cluster: ClusterInput,
    limit: ShownRows = DEFAULT_ROWS,
    json: Json = False,
) -> int:
    """Keep offsets from expiring at the broker where a hold says `keep`, without changing a committed value.

    It takes a snapshot, finds what the broker would expire before the second run from now, and shows how it would be
    kept and what is left alone, with the reason. With --apply offsets of simple, KIP-848 and streams groups are
    committed once more in a transaction that spares newer commits; an Empty classic group of consumers is joined and
    left.

    # what would expire, and what would be done about it?
    sexton keep --policy policy.yaml --archive archive --bootstrap-servers kafka-1:9092

    # do it, every hour
    sexton keep --policy policy.yaml --archive archive --bootstrap-servers kafka-1:9092 --apply --approved-by ann

    [b]Exit codes[/b]

    0 all that falls due is kept, or --apply was not given, 6 something could not be kept
    """
    if apply:
        check_approved(approved_by, option="--apply", what="hold")
    if not cluster.is_given:
        raise UsageError("only a cluster expires offsets", where="sexton keep", fix="give --bootstrap-servers")
    from sexton.policy.durations import DURATION_FORMS, parse_duration
    from sexton.settings import settings

    try:
        every_ms = parse_duration(every)
    except ValueError as error:
        raise UsageError(f"{every!r} {error}", where="--every", fix=DURATION_FORMS) from None
    path = policy or (Path(configured) if (configured := settings().policy) else None)
    rules = read_policy_file(path)
    if rules is None or all(hold.keep_ms is None for hold in rules.holds):
        raise UsageError("no hold keeps anything", where=path or "--policy", fix="write `keep: true` in a hold")
    log = with_snapshot(log, cluster, quiet=json)

    from sexton.analysis.forecast_result import FolderTables
    from sexton.execution.kafka_admin import connected
    from sexton.execution.restore.keep import due_under_holds
    from sexton.execution.restore.restore_plan import KEPT, What
    from sexton.ledger.recorded_steps import kept_commits

    fs, root = open_archive_uri(log.archive)
    with replayed(log, "keep", retention_minutes=retention_minutes, policy=path, quiet=json) as (folder, record):
        tables = FolderTables(folder, record)
        source = due_under_holds(
            tables,
            rules,
            before_ms=now_ms() + 2 * every_ms + tables.check_interval_ms(),
            now_ms=now_ms(),
            kept_commits=kept_commits(fs, root, record.cluster_id),
        )
    name = approved_by if apply else None
    with connected(cluster.client()) as client:
        plan, summary, code = show_or_apply(
            source, client, fs, root, keeps=True, approved_by=name, limit=limit, json=json
        )
    if summary is None:
        return code
    # What was committed since does not fall due.
    is_left = any(row.what not in KEPT and row.what is not What.NEWER_NOW for row in plan.rows)
    return _NOT_KEPT if is_left or summary.may_be_tried_again else code
