"""Copies new records of `__transaction_state` into the archive, as snapshot_log copies the offsets log.

The copy is a separate archive in a folder of the cluster (transactions.reading), so lineages, cuts and verification
apply to it too, and a log that does not continue the archived bytes is never joined to them.
"""

from collections.abc import Callable, Sequence

from sexton.errors import UsageError
from sexton.job_params import SnapshotRequest
from sexton.kafka.failures import NotAllowed
from sexton.kafka.replicas import probe_replicas
from sexton.kafka.session import ClusterSession, Connect
from sexton.kafka.topics import describe_topic
from sexton.pipeline import snapshot_log
from sexton.pipeline.snapshot_log import TakenSnapshot
from sexton.runs.engine import Engine
from sexton.topics import TRANSACTIONS_TOPIC
from sexton.transactions.reading import transactions_archive
from sexton.transactions.verdicts import Producers


def run(
    engine: Engine,
    request: SnapshotRequest,
    *,
    cluster_id: str,
    now_ms: Callable[[], int],
    connect: Connect = ClusterSession,
    notify: Callable[[Sequence[str]], None] | None = None,
) -> TakenSnapshot | None:
    """Take one snapshot of `__transaction_state`. `request` is the offsets log's; its topic and archive are replaced.

    None if the cluster has no such topic, because no transaction was ever used. `notify` is as in snapshot_log.
    """
    with connect(request.config) as session:
        try:
            session.retrying(lambda: describe_topic(session, TRANSACTIONS_TOPIC, call="Fetch"))
        except NotAllowed:
            raise
        except UsageError:
            return None
    archive = transactions_archive(request.archive, cluster_id)
    own = request.model_copy(update={"topic": TRANSACTIONS_TOPIC, "archive": archive, "cluster_id": cluster_id})
    return snapshot_log.run(engine, own, now_ms=now_ms, connect=connect, notify=notify)


def open_producers(session: ClusterSession) -> Producers:
    """The transactions that are open in the offsets topic now, as the leaders of its log partitions report them.

    Log partitions whose leader does not answer, or runs a release before Kafka 2.8, are left out.
    """
    return {
        row.log_partition: row.open_transactions
        for row in probe_replicas(session, catch_up_s=0)
        if row.is_leader and row.open_transactions is not None
    }
