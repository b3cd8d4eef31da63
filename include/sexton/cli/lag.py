"""`sexton lag`: how long a group's unread messages have been waiting."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sexton import as_text
from sexton.as_text import now_ms
from sexton.cli.command import Without
from sexton.cli.input_options import LogInput
from sexton.cli.judged_input import replayed, with_snapshot
from sexton.cli.options import (
    DEFAULT_ROWS,
    RULES,
    ClusterInput,
    Json,
    ShownRows,
    archive_uri,
    option,
    parse_optional_instant,
    parse_partition,
)
from sexton.cli.output import print_aside, print_doubts, print_json_rows, print_left_out, print_line, print_table
from sexton.cli.progress import bar
from sexton.errors import NoCoverage, UsageError
from sexton.report.names import short

if TYPE_CHECKING:
    import pyarrow as pa

    from sexton.lag.measure_lag import Instant, LookupResult
    from sexton.runs.folder import RunFolder, RunRecord

COLUMNS = ("GROUP", "TOPIC", "PARTITION", "COMMITTED-OFFSET", "LOG-END", "LAG", "LAG-TIME", "NOTE")
UNREFINED = 1
EXACT_MS = 1
"""An interval of at most this width is shown as one duration."""
ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _LagInput(LogInput):
    """An archive, by default at the newest instant at which a snapshot recorded where partitions end."""

    as_of: str | None = option(
        "--as-of ISO|MS",
        "The instant to answer for; records from that instant on are not read. Default: when the last snapshot "
        "was taken.",
        RULES,
    )


def lag(
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Show this group only.")] = None,
    *,
    log: Annotated[_LagInput, Without({"segments", "run", "topics", "profile", "load_buffer_bytes"})],
    cluster: ClusterInput,
    topic: str | None = option("--topic TOPIC[:PARTITION]", "Show this topic or partition only. Default: all."),
    limit: ShownRows = DEFAULT_ROWS,
    json: Json = False,
) -> int:
    """Show how long a group's first unread message has been waiting, without reading a message.

    With --bootstrap-servers it takes a snapshot into the archive, then queries the brokers for offsets by timestamp
    (ListOffsets, which needs DESCRIBE) until the lag is known to the millisecond. Every answer is archived. With
    --archive alone it needs no broker: the archived answers, and the log ends that each snapshot recorded, give an
    interval for any instant.

    The lag is exact with LogAppendTime. With CreateTime, the newest timestamp up to and including a message counts as
    the message's. A group at the end of a partition has no lag; a group that waits for an open transaction is shown as
    held. Exit code 1 if brokers did not answer for some partitions: their lag is an interval or is not shown.

    # lag in time now, to the millisecond: takes a snapshot, asks the brokers, archives what they answer
    sexton lag --bootstrap-servers kafka-1:9092 --archive archive

    # a past instant, from the archive alone, as an interval
    sexton lag my-group --archive archive --as-of 2026-11-21T04:00:00Z

    # who is more than an hour behind for certain, for scripts
    sexton lag --archive archive --json | jq '.offsets[] | select(.lag_min_ms > 3600000)'
    """
    only = (None, None) if topic is None else parse_partition(topic, "--topic")
    if cluster.is_given and log.as_of is not None:
        raise UsageError(
            "brokers only answer for the present", where="--as-of", fix="leave it out, or give --archive alone"
        )
    found: LookupResult | None = None
    if cluster.is_given:
        log = with_snapshot(log, cluster, quiet=json)
    elif log.archive is None:
        raise UsageError("no archive to read", where="--archive", fix="give --archive, or --bootstrap-servers as well")
    with replayed(log, "lag", quiet=json) as (folder, record):
        instant = _instant(log, folder, record, group, only)

    from sexton.lag.measure_lag import look_up, measure

    if cluster.is_given:
        from sexton.kafka.session import ClusterSession

        with bar("Asking the brokers", is_quiet=json) as progress, ClusterSession(cluster.client()) as session:
            found = look_up(session, instant, now_ms=now_ms, progress=progress)
    _print(instant, measure(instant), found, record.warnings, limit=limit, json=json)
    return UNREFINED if found and found.unanswered else 0


def _instant(
    log: LogInput, folder: "RunFolder", record: "RunRecord", group: str | None, only: tuple[str | None, int | None]
) -> "Instant":
    """The committed offsets of the replayed log and the partitions of the cluster, as the snapshot recorded both."""
    from sexton.lag.measure_lag import PARTITIONS, Instant

    as_of_ms = parse_optional_instant(log.as_of, "--as-of")
    if as_of_ms is None:
        as_of_ms = record.topics_at_ms
    if as_of_ms is None:
        raise NoCoverage("no snapshot recorded where logs end", where=log.archive, fix="run `sexton snapshot` first")
    return Instant(
        archive=archive_uri(log.archive),
        cluster_id=record.cluster_id,
        as_of_ms=as_of_ms,
        committed=_committed(folder, record, group, only),
        partitions=folder.read_table("topic_partitions", 0, PARTITIONS),
        sees_all_topics=bool(record.sees_all_topics),
    )


def _committed(
    folder: "RunFolder", record: "RunRecord", group: str | None, only: tuple[str | None, int | None]
) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    from sexton.lag.measure_lag import COMMITTED, KEY, committed_with_pending, of_held

    committed, pending, loads = (
        pa.concat_tables([folder.read_table(name, part, columns) for part in record.log_partitions])
        for name, columns in (
            ("committed_offsets", [*COMMITTED, "log_partition"]),
            ("pending_offsets", [*KEY, "producer_id"]),
            ("load_profile", ["log_partition", "load_outcome"]),
        )
    )
    committed = of_held(committed, loads)
    for name, value in zip(KEY, (group, *only), strict=True):
        if value is not None:
            committed = committed.filter(pc.equal(committed[name], value))
    return committed_with_pending(committed, pending)


def _print(
    instant: "Instant", lags: "pa.Table", found: "LookupResult | None", warnings: list[str], *, limit: int, json: bool
) -> None:
    unanswered = {} if found is None else found.unanswered
    notes = [f"{topic}-{partition}: not refined: {why}" for (topic, partition), why in sorted(unanswered.items())]
    if json:
        document = {
            "operation": "lag",
            "cluster_id": instant.cluster_id,
            "as_of_ms": instant.as_of_ms,
            "lookup": None if found is None else {**_lookup_fields(found), "questions": found.questions},
            "offsets": (row for batch in lags.to_batches(ROWS_AT_ONCE) for row in batch.to_pylist()),
            "warnings": [*warnings, *notes],
        }
        print_json_rows(document, "offsets")
        return
    print_line(f"as of {as_text.instant(instant.as_of_ms)}")
    if not lags.num_rows:
        print_line("no committed offsets")
    else:
        shown = _longest_first(lags).slice(0, limit or None)
        print_line()
        print_table(COLUMNS, map(_shown, shown.to_pylist()))
        print_left_out(lags.num_rows - shown.num_rows)
    if unvalidated := lags["leader_epoch"].null_count:
        notes.append(f"{unvalidated} offsets have no leader epoch: their consumers cannot notice a truncated log")
    print_doubts([*warnings, *notes])
    if found is None and _has_intervals(lags):
        print_aside("intervals narrow with --bootstrap-servers; its answers are archived")


def _longest_first(lags: "pa.Table") -> "pa.Table":
    import pyarrow.compute as pc

    from sexton.lag.measure_lag import KEY

    order = {"lag_min_ms": "descending", "lag": "descending"} | dict.fromkeys(KEY, "ascending")
    known = lags.select(list(order))
    for name in ("lag_min_ms", "lag"):
        known = known.set_column(known.schema.get_field_index(name), name, pc.fill_null(known[name], 0))
    return lags.take(pc.sort_indices(known, sort_keys=list(order.items())))


def _has_intervals(lags: "pa.Table") -> bool:
    """Whether for any offset from which a consumer would continue the lag is not known to the millisecond."""
    import pyarrow.compute as pc

    width_ms = pc.subtract(lags["lag_max_ms"], lags["lag_min_ms"])
    is_exact = pc.fill_null(pc.less_equal(width_ms, EXACT_MS), False)
    return bool(pc.any(pc.and_not(pc.is_null(lags["would_reset"]), is_exact)).as_py())


def _lookup_fields(found: "LookupResult") -> dict[str, Any]:
    return {name: value for name, value in asdict(found.look_up).items() if name not in ("topics", "cluster_id")}


def _shown(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        short(row["group_id"]),
        *(row[name] for name in ("topic", "partition", "committed_offset", "log_end_offset", "lag")),
        "held" if row["held_at"] is not None else _interval(row["lag_min_ms"], row["lag_max_ms"]),
        ", ".join(_notes(row)) or None,
    )


def _interval(min_ms: int | None, max_ms: int | None) -> str | None:
    if min_ms is None:
        return None
    if max_ms is None:
        return f"at least {_duration(min_ms)}"
    least, most = _duration(min_ms), _duration(max_ms)
    if max_ms - min_ms <= EXACT_MS or least == most:
        return most
    return f"at most {most}" if min_ms == 0 else f"{least} to {most}"


def _duration(span_ms: int) -> str:
    return as_text.duration(span_ms) if span_ms else "0"


def _notes(row: dict[str, Any]) -> Iterable[str]:
    if row["would_reset"]:
        at = "" if row["diverged_at"] is None else f" at {row['diverged_at']}"
        yield row["would_reset"].replace("_", " ") + at
    elif row["log_end_offset"] is None:
        yield "the log end is not known"
    if row["held_at"] is not None:
        yield f"open transaction at {row['held_at']}"
    if row["pending_producer_ids"]:
        yield f"held by producer {', '.join(map(str, row['pending_producer_ids']))}"
    if row["basis"] == "appends":
        yield "since it was appended"
    elif row["basis"] == "timestamps" and row["lag"] != 0:
        yield {"LogAppendTime": "append time", "CreateTime": "newest create time"}.get(
            row["timestamp_type"] or "", "newest timestamp"
        )
    if row["loses_at_min_ms"] is not None:
        yield f"kept until {as_text.instant(row['loses_at_min_ms'])}"
