"""The job without a broker: a published run, archives of both topics, and what brokers would report."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sexton.audits import audit_transactions
from sexton.audits.audit_transactions import TransactionAudit, TransactionRequest
from sexton.errors import NoCoverage
from sexton.kafka.client import ClientConfig
from sexton.kafka.replicas import ReplicaTransaction as OpenProducer
from sexton.lake.branch import ensure_tables
from sexton.lake.catalog import Lake
from sexton.lake.read import load
from sexton.log.batch import encode_batch
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.tables import TABLES
from sexton.transactions.reading import transactions_archive
from sexton.transactions.states import TransactionState
from tests.archived import Archive
from tests.maintenance.lakes import publish, row
from tests.transactions.logs import BASE_MS, OFFSETS, state_log, value

CLUSTER = "transactions"
AS_OF, NOW = BASE_MS + 600_000, BASE_MS + 700_000
GAP = "log partition 3: a gap"
"""What its archiving found broken in the history of `__transaction_state`."""
RUNNING, LATE, GONE = 1, 2, 3
"""Producer ids, each with one record."""
LOG = b"".join(
    encode_batch(
        [(b"\0\1", b"")], base_offset=n, timestamp_ms=BASE_MS, producer_id=n, producer_epoch=0, transactional=True
    )
    for n in range(4)
)


@pytest.fixture(scope="module")
def published(iceberg: Engine, lake: Lake) -> None:
    """A run with three open transactions."""
    names = ("open_transactions", "pending_offsets", "runs")
    ensure_tables(iceberg.session, lake, [TABLES[name] for name in names])
    key = CLUSTER, AS_OF
    common = {"log_partition": 0, "producer_epoch": 0, "first_timestamp_ms": BASE_MS}
    rows = [
        row(
            "open_transactions", key, producer_id=n, first_log_offset=n, last_log_offset=n, group_ids=[f"g{n}"],
            **common,
        )
        for n in (RUNNING, LATE, GONE)
    ]  # fmt: skip
    held = [
        row(
            "pending_offsets", key, group_id=f"g{n}", topic="t", partition=0, committed_offset=7, producer_id=n,
            log_partition=0, log_offset=n,
        )
        for n in (RUNNING, LATE, GONE)
    ]  # fmt: skip
    told = {"cuts": [{"log_partition": 0, "cut": 4}], "profile": "group_coordinator:4.3.1"}
    publish(iceberg.session, lake, key, {"open_transactions": rows, "pending_offsets": held}, **told)


def audit(
    iceberg: Engine, lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch, *, run_id: str, at_ms: int = NOW
) -> TransactionAudit:
    """LATE's transaction is still open, GONE's has ended since the run."""
    archive = folder / "archive"
    if not archive.exists():
        offsets = Archive(archive, cluster_id=CLUSTER)
        offsets.snapshot(AS_OF + 120_000, {0: LOG})
        states = Archive(Path(transactions_archive(str(archive), CLUSTER)), cluster_id=CLUSTER, topic_id="states")
        running = value(TransactionState.ONGOING, producer_id=RUNNING, partitions={OFFSETS: [0]}, started_at_ms=BASE_MS)
        late = value(TransactionState.COMPLETE_COMMIT, producer_id=LATE, partitions={}, started_at_ms=BASE_MS)
        states.snapshot(AS_OF + 120_000, {0: state_log(("payments", running), ("late-1", late), version=1)})
    still = [OpenProducer(producer_id=n, producer_epoch=0, start_offset=n) for n in (RUNNING, LATE)]
    archived = SimpleNamespace(alerts=[GAP])
    monkeypatch.setattr(audit_transactions.archive_transactions, "run", lambda *_, **__: archived)
    monkeypatch.setattr(audit_transactions, "open_producers", lambda _: {0: still})
    monkeypatch.setattr(audit_transactions, "describe_cluster", lambda *_: SimpleNamespace(cluster_id=CLUSTER))
    return audit_transactions.run(
        iceberg,
        RunFolder(folder / "run"),
        lake,
        TransactionRequest(run_id=run_id, config=ClientConfig(bootstrap_servers="none:1"), archive=str(archive)),
        as_of_ms=at_ms,
        now_ms=lambda: NOW,
        connect=lambda _: nullcontext(None),  # type: ignore[arg-type,return-value]
    )


def rows(lake: Lake, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load(lake, table).scan().to_arrow().to_pylist()
    return found


@pytest.mark.usefixtures("published")
def test_verdicts_and_ids_are_published_and_what_hangs_is_an_alert(
    iceberg: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = audit(iceberg, lake, tmp_path, monkeypatch, run_id="attempt")
    assert (done.run_as_of_ms, done.verdicts, done.ended) == (AS_OF, {"running": 1, "hanging": 1}, 1)
    assert [one.partition(",")[0] for one in done.alerts if "hanging" in one] == ["1 hanging transactions"]
    assert GAP in done.alerts
    found = {one["producer_id"]: one for one in rows(lake, "transactions")}
    assert {one["run_id"] for one in found.values()} == {"attempt"}
    late = found[LATE]
    assert (late["verdict"], late["reason"], late["transactional_id"]) == ("hanging", "ended", "late-1")
    assert late["abort_arguments"] == f"abort --topic {OFFSETS} --partition 0 --start-offset {LATE}"
    assert late["offsets"] == [{"group_id": "g2", "topic": "t", "partition": 0, "committed_offset": 7}]
    assert found[RUNNING]["ends_at_ms"] == BASE_MS + 60_000
    assert found[RUNNING]["held_bytes"] - late["held_bytes"] == len(LOG) // 4
    ids = {one["transactional_id"]: (one["state"], one["family"]) for one in rows(lake, "transactional_ids")}
    assert ids == {"payments": ("Ongoing", "payments"), "late-1": ("CompleteCommit", "late-*")}


def test_without_a_published_run_there_is_nothing_to_judge(
    iceberg: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoCoverage, match="no run is published"):
        audit(iceberg, lake, tmp_path, monkeypatch, run_id="early", at_ms=1)
