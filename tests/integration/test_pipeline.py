"""What the stages find in the log of real clients is what the broker itself says, and does.

First the tables are held against the broker's own answers, then the broker is started again with a retention of one
minute and its log is a minute older; what its sweep writes is held against the plan.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sexton.as_text import now_ms
from sexton.java import JavaHome
from sexton.job_params import ReplayRequest
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.session import ClusterSession
from sexton.log.batch import Batch, read_batches, read_records
from sexton.pipeline import find_expired, plan_tombstones, replay_groups, snapshot_log, validate_tables
from sexton.pipeline.snapshot_log import SnapshotRequest
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from sexton_dev.workload import drive
from tests.aged import age
from tests.record_fields import decode_key

UNSTABLE = 88
RETENTION_MS = 60_000
SWEEP_MS = 3_000
GRACE_MS = 1_000  # a sweep's batches carry their append time, up to this much after the instant it judged by
TABLES = ("committed_offsets", "groups", "pending_offsets", "topic_partitions", "dq_results")

Rows = list[dict[str, Any]]


@dataclass
class Ran:
    """What the stages found in the workload while its members were still open, and what the broker said meanwhile."""

    folder: Path
    port: int
    tables: dict[str, Rows]
    listed: Counter[tuple[str, str, str, str | None]]
    committed: dict[tuple[str, str, int], tuple[int, int | None, str]]
    unstable: set[tuple[str, str, int]]

    @property
    def clients(self) -> ClientConfig:
        return client_config({}, bootstrap_servers=f"127.0.0.1:{self.port}")

    @property
    def data(self) -> Path:
        return self.folder / "kafka" / "data"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path], needs_spark: None) -> Ran:
    folder, port = tmp_path_factory.mktemp("pipeline"), free_port()
    with EmbeddedBroker(folder / "kafka", port=port, java=java, jars=kafka_jars) as broker:
        clients = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        with drive(clients, seed=11), ClusterSession(clients) as session:
            run = run_stages(clients, folder, "state", as_of_ms=now_ms(), settle_ms=500)
            listed = list_groups(session).groups
            answers: dict[str, dict[bool, dict[tuple[str, int], Any]]] = {
                group.group_id: {
                    stable: committed_offsets(session, group.group_id, require_stable=stable)
                    for stable in (False, True)
                }
                for group in listed
                if group.group_type.lower() != "share"
            }
    validate_tables.check_folder(run)
    return Ran(
        folder=folder,
        port=port,
        tables={name: rows_of(run, name) for name in TABLES},
        listed=Counter((g.group_id, g.group_type.lower(), g.state, g.protocol_type or None) for g in listed),
        committed={
            (group_id, *place): found.as_committed
            for group_id, answer in answers.items()
            for place, found in answer[False].items()
        },
        unstable={
            (group_id, *place)
            for group_id, answer in answers.items()
            for place, found in answer[True].items()
            if found.error_code == UNSTABLE
        },
    )


def run_stages(
    clients: ClientConfig, folder: Path, name: str, *, as_of_ms: int, settle_ms: int, **asked: Any
) -> RunFolder:
    """A snapshot of the broker, and a run that ends with a plan."""
    run, archive = RunFolder(folder / name), str(folder / f"archive-{name}")
    with Engine(iceberg=True, quiet=True) as engine:
        taken = SnapshotRequest(config=clients, archive=archive, as_of_ms=as_of_ms, settle_ms=settle_ms)
        snapshot_log.run(engine, taken, now_ms=now_ms)
        replayed = ReplayRequest(
            run_id=name, archive=archive, as_of_ms=as_of_ms, settle_ms=settle_ms, taken_at_ms=now_ms(), **asked
        )
        replay_groups.run(engine, run, replayed)
        find_expired.run(engine, run)
        plan_tombstones.run(engine, run)
    return run


def test_committed_offsets_are_what_the_broker_answers(ran: Ran) -> None:
    assert {
        (r["group_id"], r["topic"], r["partition"]): (r["committed_offset"], r["leader_epoch"], r["metadata"])
        for r in ran.tables["committed_offsets"]
    } == ran.committed
    assert len(ran.committed) > 50


def test_offsets_under_an_open_transaction_are_those_the_broker_holds_back(ran: Ran) -> None:
    pending = {(row["group_id"], row["topic"], row["partition"]) for row in ran.tables["pending_offsets"]}
    assert pending & ran.committed.keys() == ran.unstable  # asked for all, it names committed offsets only
    assert ran.unstable


def test_groups_are_those_the_broker_lists(ran: Ran) -> None:
    rows = ran.tables["groups"]
    assert Counter((r["group_id"], r["group_type"].lower(), r["state"], r["protocol_type"]) for r in rows) == ran.listed
    assert {row["group_type"] for row in rows} >= {"Classic", "Consumer", "Share"}


def test_the_checks_ran_and_passed(ran: Ran) -> None:
    assert ran.tables["dq_results"]
    assert [row for row in ran.tables["dq_results"] if row["severity"] == "critical" and not row["success"]] == []


def test_topics_are_those_of_the_snapshot(ran: Ran) -> None:
    topics = {row["topic"] for row in ran.tables["topic_partitions"]}
    assert "orders" in topics
    assert "doomed" not in topics


def test_the_plan_is_what_the_brokers_own_sweep_writes(ran: Ran, java: JavaHome, kafka_jars: list[Path]) -> None:
    before = ends(ran.data)
    age(ran.data, RETENTION_MS)  # the first sweep finds all that is ever due
    quick = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": str(SWEEP_MS)}
    with EmbeddedBroker(ran.folder / "kafka", port=ran.port, java=java, jars=kafka_jars, settings=quick):
        sweep = first_sweep(ran.data, after=before)
        at_ms = min(batch_ms for _, batch_ms, _ in sweep)
        folder = run_stages(ran.clients, ran.folder, "sweep", as_of_ms=at_ms, retention_minutes=1, settle_ms=0)

    due = {
        (row["group_id"], row["topic"], row["partition"]): row["broker_expires_at_ms"]
        for row in rows_of(folder, "offset_verdicts")
    }
    keys = [(part, decode_key(key)) for part, batch_ms, key in sweep if batch_ms <= at_ms + GRACE_MS]
    late = {
        fields["group_id"]
        for _, (record_type, fields) in keys
        if record_type == 1
        and at_ms < (due[fields["group_id"], fields["topic"], fields["partition"]] or 0) <= at_ms + GRACE_MS
    }
    written = Counter((part, record_type, *fields.values()) for part, (record_type, fields) in keys)
    planned = Counter(
        (row["log_partition"], record_type, *fields.values())
        for row in rows_of(folder, "tombstones")
        for record_type, fields in [decode_key(row["key"])]
    )
    assert {key: n for key, n in written.items() if key[2] not in late} == {
        key: n for key, n in planned.items() if key[2] not in late
    }
    assert len(planned) > 50


def rows_of(folder: RunFolder, table: str) -> Rows:
    files = sorted((folder.local / table).glob("*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def batches(data: Path) -> Iterator[tuple[int, Batch]]:
    for file in sorted(data.glob("__consumer_offsets-*/*.log")):
        for batch in read_batches(file.read_bytes()):
            if isinstance(batch, Batch):
                yield int(file.parent.name.rpartition("-")[2]), batch


def ends(data: Path) -> dict[int, int]:
    return {part: batch.next_offset for part, batch in batches(data)}


def first_sweep(data: Path, *, after: dict[int, int]) -> list[tuple[int, int, bytes]]:
    """(log partition, timestamp, key) of the tombstones that the broker wrote since, once they are quiet."""
    found: list[tuple[int, int, bytes]] = []
    deadline = time.monotonic() + RETENTION_MS / 1000 + 60
    while time.monotonic() < deadline:
        seen = [
            (part, batch.max_timestamp_ms, record.key)
            for part, batch in batches(data)
            if batch.base_offset >= after.get(part, 0) and not batch.is_control
            for record in read_records(batch, cap_bytes=1 << 24)
            if record.value is None
        ]
        if seen and len(seen) == len(found):
            return found
        found = seen
        time.sleep(SWEEP_MS / 1000)
    raise AssertionError("the broker does not sweep")
