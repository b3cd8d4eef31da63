"""The job over recordings of real brokers; tests/integration/test_replicas.py runs it on a live cluster."""

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sexton.audits import audit_replicas
from sexton.audits.audit_replicas import ReplicaAudit, ReplicaRequest
from sexton.errors import DataQualityFailure
from sexton.kafka.client import ClientConfig
from sexton.lake.catalog import Lake
from sexton.lake.read import load
from sexton.replicas import ReplicaComparison, ReplicaFolder
from sexton.replicas.copy import CopiedReplica, ReplicaCopy
from sexton.replicas.folders import log_partitions
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from tests.replicas.recordings import unpack

BROKERS = {1: "A", 2: "B", 3: "C"}
Audit = Callable[..., ReplicaAudit]


@pytest.fixture
def audit(iceberg: Engine, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Audit:
    """Audits a recording instead of a cluster; brokers in `down` cannot be read."""

    def run(name: str, *, as_of_ms: int, down: tuple[int, ...] = (), run_id: str = "attempt") -> ReplicaAudit:
        recorded = unpack(name, tmp_path)
        logs = {node: log_partitions(ReplicaFolder.open(str(recorded / replica))) for node, replica in BROKERS.items()}

        def copy(_config: ClientConfig, folder: Path, **_options: Any) -> ReplicaCopy:
            for node, replica in BROKERS.items():
                if node not in down:
                    shutil.copytree(recorded / replica, folder / f"broker-{node}")
            common = {"is_leader": False, "in_isr": True, "reassignment": None, "leader_epoch": 0}
            states = [
                CopiedReplica(
                    broker=node,
                    log_partition=part,
                    **common,
                    **(
                        {"fault": "unreachable", "error": "no answer", "fix": "start it"}
                        if node in down
                        else {
                            "folder": f"broker-{node}/__consumer_offsets-{part}",
                            "high_watermark": logs[node][part].high_watermark,
                        }
                    ),
                )
                for node in BROKERS
                for part in (0, 1)
            ]
            return ReplicaCopy(cluster_id="recorded", topic_id=None, taken_at_ms=as_of_ms, replicas=states)

        monkeypatch.setattr(audit_replicas, "copy_replicas", copy)
        monkeypatch.setattr(
            audit_replicas, "describe_replicas", lambda *_, **__: SimpleNamespace(cluster_id="recorded")
        )
        session = SimpleNamespace(broker_version="4.3")
        request = ReplicaRequest(
            run_id=run_id, config=ClientConfig(bootstrap_servers="none:1"), archive=str(tmp_path / "archive")
        )
        (tmp_path / "archive").mkdir(exist_ok=True)
        return audit_replicas.run(
            iceberg,
            RunFolder(tmp_path / "run"),
            lake,
            request,
            as_of_ms=as_of_ms,
            connect=lambda _: nullcontext(session),  # type: ignore[arg-type,return-value]
        )

    return run


def rows(lake: Lake, table: str, as_of_ms: int) -> list[dict[str, Any]]:
    return [row for row in load(lake, table).scan().to_arrow().to_pylist() if row["as_of_ms"] == as_of_ms]


def test_what_a_replica_would_bring_back_is_published_and_an_alert(audit: Audit, lake: Lake, tmp_path: Path) -> None:
    """A second attempt replaces the rows of the first."""
    for attempt in ("first", "second"):
        done = audit("resurrected", as_of_ms=1_000, run_id=attempt)
    published = rows(lake, "replica_differences", 1_000)
    assert {row["run_id"] for row in published} == {"second"}
    assert len(published) == done.differences > 20
    assert {tuple(row["wrong_replicas"]) for row in published} == {("broker-3",)}
    assert {(row["replica"], row["status"]) for row in rows(lake, "replica_state", 1_000)} == {
        ("broker-1", "same"), ("broker-2", "same"), ("broker-3", "differs")
    }  # fmt: skip
    (alert,) = done.alerts
    assert alert.startswith(f"broker-3 would serve {done.differences} groups and offsets wrongly if it led")
    assert (tmp_path / "run" / "replicas" / "broker-1" / "__consumer_offsets-0").is_dir()


def test_replicas_that_serve_the_same_leave_no_copy_and_no_alert(audit: Audit, lake: Lake, tmp_path: Path) -> None:
    done = audit("clean", as_of_ms=2_000)
    assert (done.differences, done.behind, done.kinds, done.alerts) == (0, 0, {}, [])
    assert rows(lake, "replica_differences", 2_000) == []
    assert len(rows(lake, "replica_state", 2_000)) == 6
    assert not [*(tmp_path / "run" / "replicas").rglob("*.log")]


def test_a_broker_that_cannot_be_read_is_an_alert_and_the_others_are_compared(audit: Audit, lake: Lake) -> None:
    done = audit("stuck", as_of_ms=3_000, down=(2,))
    assert (done.replicas, done.left_out) == (6, 2)
    assert done.differences
    assert sum("on broker 2: no answer (start it)" in alert for alert in done.alerts) == 2
    assert {row["replica"] for row in rows(lake, "replica_state", 3_000)} == {"broker-1", "broker-3"}


@pytest.mark.thorough
def test_without_any_broker_that_can_be_read_nothing_is_compared(audit: Audit, lake: Lake) -> None:
    done = audit("clean", as_of_ms=4_000, down=(1, 2, 3))
    assert (done.replicas, done.left_out, len(done.alerts)) == (6, 6, 6)
    assert rows(lake, "replica_state", 4_000) == []


@pytest.mark.thorough
def test_what_breaks_a_law_is_not_published(audit: Audit, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of an earlier attempt stay."""
    audit("resurrected", as_of_ms=5_000, run_id="sound")
    published = rows(lake, "replica_differences", 5_000)
    compare = audit_replicas.compare

    def broken(*arguments: Any, **options: Any) -> ReplicaComparison:
        found = compare(*arguments, **options)
        return replace(found, differences=found.differences.slice(0, 0))

    monkeypatch.setattr(audit_replicas, "compare", broken)
    with pytest.raises(DataQualityFailure, match="a replica differs if a difference that any leader change would show"):
        audit("resurrected", as_of_ms=5_000, run_id="broken")
    assert rows(lake, "replica_differences", 5_000) == published
    assert {row["run_id"] for row in rows(lake, "replica_state", 5_000)} == {"sound"}
