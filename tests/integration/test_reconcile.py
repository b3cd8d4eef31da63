"""Reconciliation with a real broker: its answers equal the archived log, and a falsified archive is found out."""

import threading
import time
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from sexton.kafka.client import ClientConfig
from sexton.kafka.group_state import list_groups
from sexton.kafka.session import ClusterSession
from sexton.maintenance import reconcile
from sexton.maintenance.reconcile import Reconciliation
from sexton.pipeline.snapshot_log import SnapshotRequest
from sexton.runs.engine import Engine
from sexton_dev.workload import Workload
from tests.archived import list_archived
from tests.integration.test_broker import commit
from tests.record_fields import encode_key

LOCAL = pafs.LocalFileSystem()
LIAR = "reconciled-and-falsified"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, needs_spark: None) -> Path:
    return tmp_path_factory.mktemp("reconcile") / "archive"


def reconciled(config: ClientConfig, archive: Path, **options: int) -> Reconciliation:
    with Engine(iceberg=True, quiet=True) as engine:
        request = SnapshotRequest(config=config, archive=str(archive))
        told = {"seed": 1, "most_groups": 1_000, **options}
        return reconcile.run(engine, request, now_ms=lambda: time.time_ns() // 1_000_000, **told)


def falsify(archive: Path, group_id: str) -> None:
    """Change the committed_offset of the group's last commit where it is archived: one bit of one byte."""
    record_type = 1
    key = encode_key(record_type, {"group_id": group_id, "topic": "somewhere", "partition": 0})
    segments = [Path(each.path) for found in list_archived(LOCAL, str(archive)).values() for each in found]
    (segment,) = [path for path in segments if key in path.read_bytes()]
    data = bytearray(segment.read_bytes())
    value = data.rindex(key) + len(key) + 1  # the value's length is one byte
    last_byte_of_offset = value + 2 + 7  # a version, then the offset
    data[last_byte_of_offset] ^= 0x10
    segment.write_bytes(bytes(data))


def test_the_archive_answers_as_the_brokers_do(config: ClientConfig, workload: Workload, archive: Path) -> None:
    """While a group commits without a pause: it never stands still for long."""
    stopped = threading.Event()
    with ClusterSession(config) as session:
        listed = len(list_groups(session).groups)

    def keep_committing() -> None:
        while not stopped.is_set():
            commit(config, group_id="reconciled-and-restless", count=3)

    restless = threading.Thread(target=keep_committing)
    restless.start()
    try:
        found = reconciled(config, archive)
    finally:
        stopped.set()
        restless.join()
    assert found.differences == []
    assert found.alerts == []
    assert (found.refused, found.unloadable) == (0, 0)
    assert found.compared + found.unsettled == found.groups >= listed > 15
    assert found.unsettled <= 1
    assert found.offsets > 50


def test_some_of_many_groups(config: ClientConfig, workload: Workload, archive: Path) -> None:
    found = reconciled(config, archive, most_groups=3, seed=5)
    assert (found.compared, found.drifted, found.rounds) == (3, 0, 1)
    assert found.groups > 3


def test_an_archive_that_lies_is_drift(config: ClientConfig, workload: Workload, archive: Path) -> None:
    commit(config, group_id=LIAR, count=1)
    assert reconciled(config, archive).drifted == 0
    falsify(archive, LIAR)
    found = reconciled(config, archive)
    assert {(one.group_id, one.topic is None) for one in found.differences} == {(LIAR, False)}
    (difference,) = found.differences
    assert difference.by_log is not None
    assert difference.by_broker is not None
    assert difference.by_log[0] != difference.by_broker[0]
    assert difference.by_log[1:] == difference.by_broker[1:]
    assert found.drifted == 1
    assert found.rounds > 1
    (alert,) = found.alerts
    assert alert.startswith("drift: ")
    assert LIAR not in alert
