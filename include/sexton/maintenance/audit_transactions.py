"""audit_transactions: whose the open transactions of the newest published run are, whether they will end, and every
transactional id.

`__transaction_state` is archived first, as snapshot_log archives the offsets log, so that the states are never older
than the run. Its partitions are loaded a task each, the verdicts are checked by Great Expectations, and the tables
`transactions` and `transactional_ids` get the result; a repeated attempt replaces its rows. The cluster is only read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from sexton.coordinator.profiles import profile_of
from sexton.errors import DataQualityFailure
from sexton.kafka.client import ClientConfig
from sexton.kafka.session import ClusterSession, Connect
from sexton.kafka.topics import describe_cluster
from sexton.lake.append import replace_rows
from sexton.lake.branch import RunKey, ensure_tables
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, partition_of, published_at, read_published
from sexton.pipeline import archive_transactions
from sexton.pipeline.archive_transactions import open_producers
from sexton.pipeline.snapshot_log import SnapshotRequest
from sexton.pipeline.validate_tables import CONF_FOR_FEW_ROWS, FEW_ROWS
from sexton.quality import spark_checks
from sexton.quality.relations import CheckedRun
from sexton.quality.suites import audit_suites, shape
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.runs.source import LogSource, open_archive
from sexton.settings import settings
from sexton.tables import TRANSACTIONAL_IDS, TRANSACTIONS
from sexton.transactions.audit import Audit, audit
from sexton.transactions.ids import DEFAULT_EXPIRATION_MS, EXPIRATION
from sexton.transactions.reading import in_archive
from sexton.transactions.rows import open_transactions
from sexton.transactions.verdicts import Clocks, Producers

TABLES = TRANSACTIONS, TRANSACTIONAL_IDS


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRequest:
    """Which cluster, and the archive that knows it. `bytes_per_second` bounds the copy."""

    run_id: str
    config: ClientConfig
    archive: str
    bytes_per_second: int | None = None
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAudit:
    """The result: of the published run at `run_as_of_ms`, open transactions by verdict, and how many transactional ids
    there are."""

    cluster_id: str
    run_as_of_ms: int
    verdicts: dict[str, int]
    ended: int
    transactional_ids: int
    alerts: list[str] = field(default_factory=list)


def run(
    engine: Engine,
    folder: RunFolder,
    lake: Lake,
    request: TransactionRequest,
    *,
    as_of_ms: int,
    now_ms: Callable[[], int],
    connect: Connect = ClusterSession,
) -> TransactionAudit:
    """Archive, judge, check, publish. NoCoverage without a published run; DataQualityFailure when a check fails."""
    for table in TABLES:
        folder.remove(table.name)
    with connect(request.config) as session:
        cluster_id = describe_cluster(session, ()).cluster_id
    published = published_at(lake, as_of_ms, cluster_id=cluster_id)
    archived = archive_transactions.run(
        engine,
        SnapshotRequest(
            config=request.config,
            archive=request.archive,
            bytes_per_second=request.bytes_per_second,
            cluster_id=request.cluster_id,
        ),
        cluster_id=cluster_id,
        now_ms=now_ms,
        connect=connect,
    )

    def producers() -> Producers:
        with connect(request.config) as session:
            return open_producers(session)

    source = open_archive(request.archive, as_of_ms=published.key.as_of_ms, topics_file=None, cluster_id=cluster_id)
    found = _audit(engine, lake, request, source, published, producers)
    key = RunKey(cluster_id=cluster_id, as_of_ms=as_of_ms, run_id=request.run_id)
    alerts = _publish(engine, folder, lake, key, found, {n: one.cut for n, one in source.positions.items()})
    return TransactionAudit(
        cluster_id=cluster_id,
        run_as_of_ms=published.key.as_of_ms,
        verdicts=found.counts(),
        ended=len(found.judgement.ended),
        transactional_ids=len(found.ids),
        alerts=[*_alerts(found), *(archived.alerts if archived else ()), *found.notes, *alerts],
    )


def _audit(
    engine: Engine,
    lake: Lake,
    request: TransactionRequest,
    source: LogSource,
    published: PublishedRun,
    producers: Callable[[], Producers],
) -> Audit:
    release = profile_of(published.row["profile"]).release
    rows = [read_published(lake, published, name).to_pylist() for name in ("open_transactions", "pending_offsets")]
    state_log = in_archive(
        request.archive,
        source.cluster_id,
        cap_bytes=settings().inflated_cap_bytes,
        as_of_ms=None,
        release=release,
    )
    return audit(
        source,
        open_transactions(*rows),
        state_log,
        Clocks(read_until_ms=published.key.as_of_ms, slack_ms=settings().settle_ms),
        release=release,
        expiration_ms=int(source.recorded.broker_settings.get(EXPIRATION) or DEFAULT_EXPIRATION_MS),
        spread=lambda work, items: engine.map("Loading transaction states", items, work),
        producers=producers,
    )


def _publish(
    engine: Engine, folder: RunFolder, lake: Lake, run: RunKey, found: Audit, cuts: Mapping[int, int]
) -> list[str]:
    """Check the rows, write them to the run folder and replace those of the instant in the lake; returns alerts."""
    names = {"cluster_id": run.cluster_id, "as_of_ms": run.as_of_ms, "run_id": run.run_id}
    whole = {}
    for table, rows in zip(TABLES, (found.transactions, found.transactional_ids), strict=True):
        own = {name: pa.array([value] * rows.num_rows, table.column(name).type) for name, value in names.items()}
        whole[table] = pa.table({**own, **{name: rows[name] for name in rows.column_names}}).cast(table.arrow_schema())
        folder.write_rows(whole[table], table.name)
    if sum(rows.num_rows for rows in whole.values()) < FEW_ROWS:
        for name, setting in CONF_FOR_FEW_ROWS.items():
            engine.session.conf.set(name, setting)
    checked = CheckedRun(cluster_id=run.cluster_id, as_of_ms=run.as_of_ms, run_id=run.run_id, cuts=cuts)
    results = spark_checks.check(
        engine.session,
        {table.name: spark_checks.frame(engine.session, rows) for table, rows in whole.items()},
        shape({table.name: (1, [rows.schema]) for table, rows in whole.items()}),
        audit_suites(checked, TABLES),
        checked,
        docs=None,
    )
    failed = [one for one in results if not one.success]
    if critical := [one for one in failed if one.stops_publication]:
        raise DataQualityFailure(f"{critical[0].table}: {critical[0].expectation}", fix="nothing was published")
    ensure_tables(engine.session, lake, TABLES)
    for table, rows in whole.items():
        replace_rows(lake, table, rows, partition_of(run))
    return [f"{one.table}: {one.expectation}: {one.observed}" for one in failed]


def _alerts(found: Audit) -> list[str]:
    """A line for what hangs, one for what should have ended, one for floods; without names of groups and ids."""
    alerts = []
    if hanging := found.judgement.of("hanging"):
        groups = {group_id for one in hanging for group_id in one.transaction.group_ids}
        oldest = min(one.transaction.since_ms or 0 for one in hanging)
        alerts.append(
            f"{len(hanging)} hanging transactions, the oldest since {oldest} ms, hold offsets of {len(groups)} groups: "
            "nothing will end them; the table transactions has the arguments for kafka-transactions.sh"
        )
    if overdue := [one for one in found.judgement.judged if one.is_overdue]:
        alerts.append(f"{len(overdue)} transactions should have ended: their coordinators do not end them")
    if found.floods:
        alerts.append(f"{found.floods[0].ids} transactional ids differ only in numbers: a program makes up new ones")
    return alerts
