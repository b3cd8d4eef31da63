"""`sexton lag`: how long what a group has not read has been waiting."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton.cli.command import Without
from sexton.cli.input_options import LogInput
from sexton.cli.judged_input import replayed
from sexton.cli.options import (
    DEFAULT_ROWS,
    ClusterInput,
    Json,
    ShownRows,
    archive_uri,
    now_ms,
    option,
    parse_optional_instant,
    parse_partition,
)
from sexton.cli.output import print_aside, print_json, print_line, print_table
from sexton.cli.progress import bar
from sexton.errors import NoCoverage, UsageError
from sexton.report import figures
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.pipeline.measure_lag import Instant, Looked, OffsetLag
    from sexton.runs.folder import RunFolder, RunRecord

EXAMPLES = """\
[dim]# lag in time now, to the millisecond: takes a snapshot, asks the brokers, archives what they answer[/dim]
sexton lag --bootstrap-servers kafka-1:9092 --archive archive

[dim]# a past instant, from the archive alone, as an interval[/dim]
sexton lag my-group --archive archive --as-of 2026-11-21T04:00:00Z

[dim]# who is more than an hour behind for certain, for scripts[/dim]
sexton lag --archive archive --json | jq '.offsets[] | select(.lag_min_ms > 3600000)'
"""
COLUMNS = ("GROUP", "TOPIC", "PARTITION", "COMMITTED-OFFSET", "LOG-END", "LAG", "LAG-TIME", "NOTE")
UNREFINED = 1

Log = Annotated[LogInput, Without({"segments", "run", "topics", "profile", "load_buffer_bytes"})]


def lag(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Show this group only.")] = None,
    *,
    log: Log,
    cluster: ClusterInput,
    topic: Annotated[
        str | None, option("--topic TOPIC[:PARTITION]", "Show this topic or partition only. Default: all.")
    ] = None,
    limit: ShownRows = DEFAULT_ROWS,
    json: Json = False,
) -> int:
    """Show how long the first message that a group has not read has been waiting, without reading a message.

    With --bootstrap-servers it takes a snapshot into the archive, then asks the brokers where their logs have reached
    which instant (ListOffsets, which needs DESCRIBE), until the lag is known to the millisecond. Every answer is
    archived. With --archive alone it needs no broker: the archived answers, and the ends that each snapshot recorded,
    give an interval for any instant.

    Exact where the broker stamps messages (LogAppendTime). Where producers do (CreateTime), a message counts as old as
    the newest one up to it. A group at the end of a partition has no lag; one that waits for an open transaction is
    shown as held. Exit code 1 if brokers did not answer for some partitions: these have intervals, or none.
    """
    only = (None, None) if topic is None else parse_partition(topic, "--topic")
    if cluster.is_given and log.as_of is not None:
        raise UsageError("brokers know only now", where="--as-of", fix="leave it out, or give --archive alone")
    looked: Looked | None = None
    if cluster.is_given:
        log = _with_snapshot(log, cluster, quiet=json)
    elif log.archive is None:
        raise UsageError("no archive to read", where="--archive", fix="give --archive, or --bootstrap-servers as well")
    with replayed(log, "lag", quiet=json) as (folder, record):
        instant = _instant(log, folder, record, group, only)
    if cluster.is_given:
        looked = _look(cluster, instant, quiet=json)

    from sexton.pipeline.measure_lag import measure

    _print(instant, measure(instant), looked, record.warnings, limit=limit, json=json)
    return UNREFINED if looked and looked.unanswered else 0


def _with_snapshot(log: LogInput, cluster: ClusterInput, *, quiet: bool) -> LogInput:
    """The archive, with a snapshot of now."""
    from dataclasses import replace

    from sexton.pipeline import snapshot_log
    from sexton.runs.processes import engine_here
    from sexton.settings import settings

    request = snapshot_log.SnapshotRequest(
        config=cluster.client(),
        archive=archive_uri(log.archive),
        bytes_per_second=settings().fetch_bytes_per_second or None,
    )
    with engine_here("sexton lag", quiet=quiet) as engine:
        taken = snapshot_log.run(engine, request, now_ms=now_ms)
    return replace(log, archive=request.archive, cluster_id=taken.cluster_id)


def _look(cluster: ClusterInput, instant: "Instant", *, quiet: bool) -> "Looked":
    from sexton.kafka.session import ClusterSession
    from sexton.pipeline.measure_lag import look

    with bar("Asking the brokers", is_quiet=quiet) as progress, ClusterSession(cluster.client()) as session:
        return look(session, instant, now_ms=now_ms, progress=progress)


def _instant(
    log: LogInput,
    folder: "RunFolder",
    record: "RunRecord",
    group: str | None,
    only: tuple[str | None, int | None],
) -> "Instant":
    """The committed offsets of the replayed log and the partitions of the cluster, as the snapshot recorded both."""
    from sexton.pipeline.measure_lag import Instant, LogRange
    from sexton.settings import settings

    as_of_ms = parse_optional_instant(log.as_of, "--as-of")
    if as_of_ms is None:
        as_of_ms = record.topics_at_ms
    if as_of_ms is None:
        raise NoCoverage("no snapshot recorded where logs end", where=log.archive, fix="run `sexton snapshot` first")
    return Instant(
        archive=archive_uri(log.archive),
        cluster_id=record.cluster_id,
        as_of_ms=as_of_ms,
        committed=list(_committed(folder, record, group, only)),
        partitions={
            (row["topic"], row["partition"]): LogRange(
                topic_id=row["topic_id"],
                log_start_offset=row["log_start_offset"],
                log_end_offset=row["log_end_offset"],
            )
            for row in folder.read_table("topic_partitions", 0).to_pylist()
        },
        sees_all_topics=bool(record.sees_all_topics),
        slack_ms=settings().settle_ms,
    )


def _committed(
    folder: "RunFolder", record: "RunRecord", group: str | None, only: tuple[str | None, int | None]
) -> "Iterable[Any]":
    from sexton.pipeline.measure_lag import Committed

    key = ("group_id", "topic", "partition")
    pending: dict[tuple[Any, ...], set[int]] = {}
    for part in record.log_partitions:
        for row in folder.read_table("pending_offsets", part, [*key, "producer_id"]).to_pylist():
            pending.setdefault(tuple(row[name] for name in key), set()).add(row["producer_id"])
    for part in record.log_partitions:
        columns = [*key, "committed_offset", "topic_id"]
        for row in folder.read_table("committed_offsets", part, columns).to_pylist():
            if group not in (None, row["group_id"]) or only[0] not in (None, row["topic"]):
                continue
            if only[1] not in (None, row["partition"]):
                continue
            ids = tuple(sorted(pending.get(tuple(row[name] for name in key), ())))
            yield Committed(**row, pending_producer_ids=ids)


def _print(
    instant: "Instant",
    rows: "list[OffsetLag]",
    looked: "Looked | None",
    warnings: list[str],
    *,
    limit: int,
    json: bool,
) -> None:
    unanswered = {} if looked is None else looked.unanswered
    notes = [f"{topic}-{partition}: not refined: {why}" for (topic, partition), why in sorted(unanswered.items())]
    if json:
        print_json(
            {
                "operation": "lag",
                "cluster_id": instant.cluster_id,
                "as_of_ms": instant.as_of_ms,
                "look": None if looked is None else {**_look_fields(looked), "questions": looked.questions},
                "offsets": [asdict(row) for row in rows],
                "warnings": [*warnings, *notes],
            }
        )
        return
    print_line(f"as of {figures.instant(instant.as_of_ms)}")
    if not rows:
        print_line("no committed offsets")
    else:
        print_line()
        print_table(COLUMNS, map(_shown, sorted(rows, key=_order)), limit=limit)
    for text in [*warnings, *notes]:
        print_aside(f"! {text}")
    if looked is None and any(not row.is_exact and not row.would_reset for row in rows):
        print_aside("intervals narrow with --bootstrap-servers; its answers are archived")


def _look_fields(looked: "Looked") -> dict[str, Any]:
    return {name: value for name, value in asdict(looked.look).items() if name not in ("topics", "cluster_id")}


def _order(row: "OffsetLag") -> tuple[object, ...]:
    """The longest lag first."""
    return -(row.lag_min_ms or 0), -(row.lag or 0), row.group_id, row.topic, row.partition


def _shown(row: "OffsetLag") -> tuple[object, ...]:
    return (
        short(row.group_id),
        row.topic,
        row.partition,
        row.committed_offset,
        row.log_end_offset,
        row.lag,
        "held" if row.held_at is not None else _interval(row),
        ", ".join(_notes(row)) or None,
    )


def _interval(row: "OffsetLag") -> str | None:
    if row.lag_min_ms is None:
        return None
    if row.lag_max_ms is None:
        return f"at least {_duration(row.lag_min_ms)}"
    least, most = _duration(row.lag_min_ms), _duration(row.lag_max_ms)
    if row.is_exact or least == most:
        return most
    return f"at most {most}" if row.lag_min_ms == 0 else f"{least} to {most}"


def _duration(span_ms: int) -> str:
    return figures.duration(span_ms) if span_ms else "0"


def _notes(row: "OffsetLag") -> Iterable[str]:
    if row.would_reset:
        yield row.would_reset.replace("_", " ")
    elif row.log_end_offset is None:
        yield "its log is not seen"
    if row.held_at is not None:
        yield f"open transaction at {row.held_at}"
    if row.pending_producer_ids:
        yield f"held by producer {', '.join(map(str, row.pending_producer_ids))}"
    if row.basis == "appends":
        yield "since it was appended"
    elif row.basis == "timestamps" and row.lag != 0:
        yield {"LogAppendTime": "append time", "CreateTime": "newest create time"}.get(
            row.timestamp_type or "", "newest timestamp"
        )
    if row.loses_at_min_ms is not None and row.lag:
        yield f"kept until {figures.instant(row.loses_at_min_ms)}"
