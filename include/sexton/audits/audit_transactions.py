"""audit_transactions: owners of the open transactions of the newest published run, whether these will end, and every
transactional id.

`__transaction_state` is archived first, as snapshot_log archives the offsets log, so that the states are never older
than the run. Its partitions are loaded with one task each. Great Expectations checks the verdicts, and the tables
`transactions` and `transactional_ids` get the result; a repeated attempt replaces its rows. The cluster is only read.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sexton.audits.publish_audit import publish_audit
from sexton.coordinator.profiles import profile_of
from sexton.job_params import SnapshotRequest, TransactionRequest
from sexton.kafka.session import ClusterSession, Connect
from sexton.kafka.topics import describe_cluster
from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake
from sexton.lake.read import published_at, read_published
from sexton.pipeline import archive_transactions
from sexton.pipeline.archive_transactions import open_producers
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.runs.source import open_archive
from sexton.settings import settings
from sexton.tables import TRANSACTIONAL_IDS, TRANSACTIONS
from sexton.transactions.audit import Audit, audit
from sexton.transactions.ids import recorded_expiration_ms
from sexton.transactions.reading import in_archive
from sexton.transactions.rows import open_transactions
from sexton.transactions.verdicts import Producers, TransactionClocks


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAudit:
    """The result for the published run at `run_as_of_ms`: open transactions by verdict, and the number of transactional
    ids."""

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
    """Archive, judge, check, publish. NoCoverage without a published run; DataQualityFailure if a check fails."""
    for table in (TRANSACTIONS, TRANSACTIONAL_IDS):
        folder.remove(table.name)
    with connect(request.config) as session:
        cluster_id = describe_cluster(session, ()).cluster_id
    published = published_at(lake, as_of_ms, cluster_id=cluster_id)
    archived = archive_transactions.run(
        engine, SnapshotRequest.like(request), cluster_id=cluster_id, now_ms=now_ms, connect=connect
    )

    def producers() -> Producers:
        with connect(request.config) as session:
            return open_producers(session)

    source = open_archive(request.archive, as_of_ms=published.key.as_of_ms, cluster_id=cluster_id)
    release = profile_of(published.row["profile"]).release
    rows = [read_published(lake, published, name).to_pylist() for name in ("open_transactions", "pending_offsets")]
    found = audit(
        source,
        open_transactions(*rows),
        in_archive(request.archive, source.cluster_id, as_of_ms=None, release=release),
        TransactionClocks(read_until_ms=published.key.as_of_ms, slack_ms=settings().settle_ms),
        release=release,
        expiration_ms=recorded_expiration_ms(source.recorded.broker_settings),
        spread=lambda work, items: engine.map("Loading transaction states", items, work),
        producers=producers,
    )
    key = RunKey(cluster_id=cluster_id, as_of_ms=as_of_ms, run_id=request.run_id)
    tables = {TRANSACTIONS: found.transactions, TRANSACTIONAL_IDS: found.transactional_ids}
    cuts = {n: one.cut for n, one in source.positions.items()}
    alerts = publish_audit(engine, folder, lake, key, tables, cuts=cuts)
    return TransactionAudit(
        cluster_id=cluster_id,
        run_as_of_ms=published.key.as_of_ms,
        verdicts=found.counts(),
        ended=len(found.judgement.ended),
        transactional_ids=len(found.ids),
        alerts=[*_alerts(found), *(archived.alerts if archived else ()), *found.notes, *alerts],
    )


def _alerts(found: Audit) -> list[str]:
    """A line each for hanging transactions, overdue transactions and floods; no names of groups and ids."""
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
