"""`sexton transactions`: open transactions that hold offsets, whose they are, and whether they will end."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from sexton import as_text
from sexton.as_text import now_ms
from sexton.cli.command import Without
from sexton.cli.input_options import LogInput
from sexton.cli.judged_input import replayed
from sexton.cli.options import (
    DEFAULT_ROWS,
    INPUT,
    RULES,
    ClusterInput,
    Json,
    ShownRows,
    flag,
    option,
    parse_optional_instant,
)
from sexton.cli.output import print_aside, print_doubts, print_json, print_line, print_section, print_table
from sexton.errors import DataQualityFailure, UsageError
from sexton.kafka_commands import SERVERS, abort_transaction
from sexton.report.names import short

if TYPE_CHECKING:
    from sexton.kafka.client import ClientConfig
    from sexton.kafka.failures import NotAllowed
    from sexton.runs.folder import RunFolder, RunRecord
    from sexton.transactions.audit import Audit
    from sexton.transactions.ids import IdForecast

COLUMNS = (
    *("LOG-PARTITION", "PRODUCER-ID", "EPOCH", "VERDICT", "TRANSACTIONAL-ID", "STATE"),
    *("SINCE", "ENDS", "GROUPS", "OFFSETS", "HELD"),
)
ID_COLUMNS = ("TRANSACTIONAL-ID", "STATE", "PRODUCER-ID", "EPOCH", "UPDATED", "EXPIRES")
FORECAST_COLUMNS = ("EXPIRATION", "IDS", "OPEN", "DUE", "1-DAY", "7-DAYS", "30-DAYS")


def transactions(
    *,
    log: Annotated[LogInput, Without({"run", "topics", "load_buffer_bytes"})],
    cluster: ClusterInput,
    taken_at: str | None = option(
        "--taken-at ISO|MS", "When the segments were copied, all at one instant. Default: unknown.", INPUT
    ),
    expiration_ms: int | None = option(
        "--expiration-ms N",
        "Compare this transactional.id.expiration.ms with the recorded one, else Kafka's default of 7 days.",
        RULES,
        min=1,
    ),
    ids: bool = flag("--ids", "Also list the transactional ids."),
    limit: ShownRows = DEFAULT_ROWS,
    json: Json = False,
) -> int:
    """Show the transactions that hold offsets: their producers, whether they will end, and how to end a hanging one.

    A transaction that never ends keeps its offsets pending, prevents the deletion of its groups, and stops the log
    cleaner at its first record. Reads the offsets log and `__transaction_state` from --segments, from --archive, or
    from the brokers. With --bootstrap-servers, also together with --archive, it queries the brokers for transactions
    that are open now.

    It ends no transaction: for a hanging one it prints the command to run. Exit code 3 if a transaction hangs. Exit
    code 2 if this principal may not read `__transaction_state`; then only what the offsets log proves is shown.

    # what is open now, and will it end? (reads both topics, READ is all it needs)
    sexton transactions --bootstrap-servers kafka-1:9092

    # from a copy of a broker's disk: __consumer_offsets-* and __transaction_state-*, copied in this order
    sexton transactions --segments backup

    # a past instant, from archives that `sexton snapshot --transactions` has filled
    sexton transactions --archive s3://keep/offsets --as-of 2026-11-21T04:00:00Z

    # how many transactional ids would expire immediately with one day instead of seven?
    sexton transactions --segments backup --expiration-ms 86400000

    # how many hang, run, complete, for scripts
    sexton transactions --bootstrap-servers kafka-1:9092 --json | jq .counts
    """
    if log.segments is not None and (log.archive is not None or cluster.is_given):
        raise UsageError("no other input goes with it", where="--segments", fix="see `sexton transactions --help`")
    if log.segments is None and taken_at is not None:
        raise UsageError("applies only to segments", where="--taken-at", fix="leave it out")
    if log.archive is None and log.segments is None and (log.as_of is not None or log.cluster_id is not None):
        raise UsageError(
            "brokers only answer for the present", where="--as-of, --cluster-id", fix="give --archive or --segments"
        )
    taken_at_ms = parse_optional_instant(taken_at, "--taken-at")
    with _input(log, cluster, quiet=json) as given:
        with replayed(given.log, "transactions", quiet=json) as (folder, record):
            found = _audit(given, folder, record, taken_at_ms=taken_at_ms, quiet=json)
        _print(given, found, record, expiration_ms, with_ids=ids, limit=limit, json=json)
    if given.refusal is not None:
        return given.refusal.exit_code
    return DataQualityFailure.exit_code if found.judgement.of("hanging") else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """The log to replay, and the cluster to query. `refusal`: the principal may not read __transaction_state."""

    log: LogInput
    config: "ClientConfig | None"
    refusal: "NotAllowed | None" = None


@contextmanager
def _input(log: LogInput, cluster: ClusterInput, *, quiet: bool) -> Iterator[_Input]:
    """The input of the options; without a log, both topics are copied from the cluster first."""
    if log.is_log:
        yield _Input(log=log, config=cluster.client() if cluster.is_given else None)
        return
    from sexton.job_params import SnapshotRequest
    from sexton.kafka.failures import NotAllowed
    from sexton.pipeline import archive_transactions, snapshot_log
    from sexton.runs.processes import engine_here
    from sexton.settings import settings

    with tempfile.TemporaryDirectory(prefix="sexton-") as place:
        request = SnapshotRequest(
            config=cluster.client(), archive=place, bytes_per_second=settings().fetch_bytes_per_second or None
        )
        with engine_here(quiet=quiet) as engine:
            taken = snapshot_log.run(engine, request, now_ms=now_ms)
            refusal = None
            try:
                archive_transactions.run(engine, request, cluster_id=taken.cluster_id, now_ms=now_ms)
            except NotAllowed as error:
                refusal = error
        yield _Input(log=replace(log, archive=place), config=request.config, refusal=refusal)


def _audit(given: _Input, folder: "RunFolder", record: "RunRecord", *, taken_at_ms: int | None, quiet: bool) -> "Audit":
    from sexton.coordinator.profiles import profile_of
    from sexton.runs.processes import engine_here
    from sexton.settings import settings
    from sexton.transactions.audit import audit
    from sexton.transactions.ids import recorded_expiration_ms
    from sexton.transactions.reading import state_log
    from sexton.transactions.rows import open_transactions
    from sexton.transactions.verdicts import TransactionClocks

    log, config = given.log, given.config
    as_of_ms, release = parse_optional_instant(log.as_of, "--as-of"), profile_of(record.profile).release
    source, states = log.source(as_of_ms), None
    if given.refusal is None:
        states = state_log(
            source.uris,
            source.cluster_id if source.is_archive else None,
            as_of_ms=as_of_ms,
            taken_at_ms=now_ms() if taken_at_ms is None else taken_at_ms,
            release=release,
        )
    # Without --taken-at, assume that the disk was copied at the earliest possible instant, after its newest batch.
    read_until_ms = record.as_of_ms if log.as_of is not None else taken_at_ms or source.taken_at_ms or record.as_of_ms
    rows = [
        [row for part in record.log_partitions for row in folder.read_table(name, part).to_pylist()]
        for name in ("open_transactions", "pending_offsets")
    ]
    with engine_here(quiet=quiet) as engine:
        return audit(
            source,
            open_transactions(*rows),
            states,
            TransactionClocks(read_until_ms=read_until_ms, slack_ms=settings().settle_ms),
            release=release,
            expiration_ms=recorded_expiration_ms(record.broker_settings),
            spread=lambda work, items: engine.map(
                "Reading transactions", items, work, work_bytes=sum(item.size_bytes for item in items)
            ),
            producers=None if config is None else lambda: _producers(config),
        )


def _producers(config: "ClientConfig") -> "Any":
    from sexton.kafka.session import ClusterSession
    from sexton.pipeline.archive_transactions import open_producers

    with ClusterSession(config) as session:
        return open_producers(session)


def _print(
    given: _Input,
    found: "Audit",
    record: "RunRecord",
    instead_ms: int | None,
    *,
    with_ids: bool,
    limit: int,
    json: bool,
) -> None:
    from sexton.transactions.ids import forecast, recorded_expiration_ms

    rows, notes, now = found.transactions.to_pylist(), [*found.notes], found.read_at_ms or record.as_of_ms
    servers = given.config.bootstrap_servers if given.config else SERVERS
    for row in rows:
        arguments = row["abort_arguments"]
        row["abort_command"] = arguments and abort_transaction(arguments, servers=servers)
    if given.refusal is not None:
        proven = "the offsets log alone shows which transactions are open, since when, and what they hold"
        notes.insert(0, f"{given.refusal}: {proven}; whether they end is unknown")
    expirations = [recorded_expiration_ms(record.broker_settings), *([] if instead_ms is None else [instead_ms])]
    forecasts = [forecast(found.ids, expiration_ms=each, now_ms=now) for each in expirations]
    if json:
        print_json(
            {
                "operation": "transactions",
                "cluster_id": record.cluster_id,
                "as_of_ms": record.as_of_ms,
                "read_at_ms": found.read_at_ms,
                "counts": found.counts(),
                "transactions": rows,
                "forecasts": forecasts,
                "floods": found.floods,
                **({"transactional_ids": found.transactional_ids.to_pylist()} if with_ids else {}),
                "notes": notes,
            }
        )
    else:
        _print_transactions(rows, limit)
        print_section(FORECAST_COLUMNS, map(_forecast_row, forecasts if found.ids else ()))
        for flood in found.floods:
            print_line(f"{as_text.some(flood.ids, 'transactional id')} of one family: {short(flood.family)}")
        if with_ids:
            print_line()
            print_table(ID_COLUMNS, map(_id_row, found.transactional_ids.to_pylist()), limit=limit)
    print_doubts(notes)


def _print_transactions(rows: list[dict[str, Any]], limit: int) -> None:
    if not rows:
        print_line("no open transaction holds offsets")
        return
    order = ("hanging", "unknown", "two_phase", "completing", "running")
    rows = sorted(rows, key=lambda row: (order.index(row["verdict"]), row["since_ms"] or 0))
    print_table(COLUMNS, map(_transaction_row, rows), limit=limit)
    for row in rows[: limit or None]:
        if row["verdict"] != "running" or row["is_overdue"]:
            print_aside(f"producer {row['producer_id']} in log partition {row['log_partition']}: {row['evidence']}")
    if commands := [row["abort_command"] for row in rows if row["abort_command"]]:
        print_line()
        print_line("to end what hangs (drops its offsets; needs ALTER on the cluster, before 3.8 CLUSTER_ACTION):")
        for command in commands:
            print_line(f"    {command}")


def _transaction_row(row: dict[str, Any]) -> tuple[object, ...]:
    groups = ", ".join(map(short, row["group_ids"][:3])) + (", ..." if len(row["group_ids"]) > 3 else "")
    return (
        *(row[name] for name in ("log_partition", "producer_id", "producer_epoch")),
        f"{row['verdict']} (overdue)" if row["is_overdue"] else row["verdict"],
        row["transactional_id"] and short(row["transactional_id"]),
        row["state"],
        *map(as_text.instant, (row["since_ms"], row["ends_at_ms"])),
        groups or None,
        len(row["offsets"]),
        None if row["held_bytes"] is None else as_text.size(row["held_bytes"]),
    )


def _forecast_row(each: "IdForecast") -> tuple[object, ...]:
    counts = (each.ids, each.open, each.due, *each.within_days.values())
    return as_text.duration(each.expiration_ms), *map(as_text.count, counts)


def _id_row(row: dict[str, Any]) -> tuple[object, ...]:
    instants = map(as_text.instant, (row["updated_at_ms"], row["expires_at_ms"]))
    return short(row["transactional_id"]), row["state"], row["producer_id"], row["producer_epoch"], *instants
