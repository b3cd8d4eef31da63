"""The archive against the broker's own disk: every byte, once, and what happens when the log does not go on."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import newest_metadata
from sexton.archive.verify import verify
from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.fetch import LogReader
from sexton.kafka.session import ClusterSession
from sexton.pipeline import fetch_log, import_log
from sexton.pipeline.import_log import ImportRequest
from sexton.pipeline.snapshot_log import TakenSnapshot
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.broker import EmbeddedBroker, dump_log
from sexton_dev.workload import Workload
from tests.archived import list_archived, read_manifest
from tests.integration.test_broker import commit

LOCAL = pafs.LocalFileSystem()
Take = Callable[[ClientConfig], TakenSnapshot]
PROJECT = Path(__file__).parents[2]


def archived_bytes(archive: Path) -> dict[int, bytes]:
    """The archived log of every log partition, its segments one after the other."""
    segments = list_archived(LOCAL, str(archive))
    return {n: b"".join(Path(segment.path).read_bytes() for segment in found) for n, found in segments.items()}


def disk_bytes(broker: EmbeddedBroker) -> dict[int, bytes]:
    """The log of every log partition on the broker's disk; those without a record are left out, as in an archive."""
    folders = {int(path.name.rpartition("-")[2]): path for path in broker.data.glob(f"{OFFSETS_TOPIC}-*")}
    found = {n: b"".join(file.read_bytes() for file in sorted(path.glob("*.log"))) for n, path in folders.items()}
    return {n: data for n, data in found.items() if data}


def assert_same(archive: Path, broker: EmbeddedBroker, *, at_least: dict[int, bytes]) -> None:
    """The archive holds what was on disk before the snapshot, and what it holds is on disk; members may write more."""
    archived, now = archived_bytes(archive), disk_bytes(broker)
    assert archived.keys() >= at_least.keys()
    for log_partition, data in archived.items():
        assert len(data) >= len(at_least.get(log_partition, b""))
        assert now[log_partition].startswith(data)


@pytest.mark.usefixtures("workload")
def test_every_byte_once_and_then_only_the_new_ones(
    broker: EmbeddedBroker, config: ClientConfig, snapshot: Take, tmp_path: Path, java: JavaHome, kafka_jars: list[Path]
) -> None:
    archive = tmp_path / "archive"
    before = disk_bytes(broker)
    first = snapshot(config)
    assert_same(archive, broker, at_least=before)  # leader epochs included: they are in the batches' headers
    assert first.size_bytes >= sum(map(len, before.values()))
    assert first.warnings == []

    commit(config, group_id="later", count=5)
    before, held = disk_bytes(broker), sum(map(len, archived_bytes(archive).values()))
    second = snapshot(config)
    assert_same(archive, broker, at_least=before)
    assert second.size_bytes == sum(map(len, archived_bytes(archive).values())) - held
    assert 5 <= second.batches < first.batches

    segments = [segment for found in list_archived(LOCAL, str(archive)).values() for segment in found]
    assert verify(LOCAL, str(archive)).findings == []
    for segment in segments:
        manifest = read_manifest(LOCAL, segment)
        assert manifest.high_watermark >= manifest.next_log_offset
        assert [epoch for epoch, _ in manifest.leader_epochs] == [0]
    printed = dump_log([Path(segment.path) for segment in segments], java=java, jars=kafka_jars)
    assert printed.count("baseOffset:") == first.batches + second.batches
    assert "later" in printed
    assert "endTxnMarker: COMMIT" in printed
    assert "склад-учёт" in printed


@pytest.mark.parametrize(
    "limit, log_offsets, at_least",
    [pytest.param("DRIVER_BYTES", 60, 1, marks=pytest.mark.thorough), ("SEGMENT_BYTES", 23, 2)],
    ids=["by Spark tasks", "small"],
)
@pytest.mark.usefixtures("workload")
def test_pieces_hold_the_same_bytes(
    broker: EmbeddedBroker, config: ClientConfig, snapshot: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    limit: str, log_offsets: int, at_least: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(fetch_log, limit, at_least - 1)
    monkeypatch.setattr(fetch_log, "LOG_OFFSETS_A_TASK", log_offsets)
    before = disk_bytes(broker)
    assert snapshot(config).segments > at_least * len(before)
    assert_same(tmp_path / "archive", broker, at_least=before)


@pytest.mark.usefixtures("workload")
def test_a_disk_is_taken_in_and_snapshots_go_on(
    broker: EmbeddedBroker, config: ClientConfig, snapshot: Take, tmp_path: Path
) -> None:
    """The copy of a disk that is being written is as good as a snapshot."""
    shutil.copytree(broker.data, tmp_path / "copy", ignore=lambda _, names: [n for n in names if n.endswith("index")])
    copied = {
        int(folder.name.rpartition("-")[2]): b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
        for folder in (tmp_path / "copy").glob(f"{OFFSETS_TOPIC}-*")
    }
    archive = tmp_path / "archive"
    request = ImportRequest(source=str(tmp_path / "copy"), archive=str(archive), taken_at_ms=1_799_999_999_999)
    taken = import_log.run(request)
    assert (taken.cluster_id, taken.lineages) == (broker.cluster_id, 4)
    held = archived_bytes(archive)
    for part, data in held.items():
        assert copied[part].startswith(data)
        assert len(copied[part]) - len(data) < 200  # at most a batch that was half written
    commit(config, group_id="after-the-copy", count=3)
    before = disk_bytes(broker)
    assert snapshot(config).alerts == []
    assert_same(archive, broker, at_least=before)
    assert verify(LOCAL, str(archive)).findings == []
    assert import_log.run(request).segments == 0


def test_a_quota_is_waited_for(
    own_broker: EmbeddedBroker, snapshot: Take, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker asks this client to wait, and no request is sent, refused or lost in between."""
    bytes_per_second = 8_000
    config = client_config({"client.id": "held-back"}, bootstrap_servers=own_broker.bootstrap_servers)
    commit(config, group_id="g", count=150)
    entity = AlterClientQuotasRequest.EntryData.EntityData(entity_type="client-id", entity_name="held-back")
    rate = AlterClientQuotasRequest.EntryData.OpData(
        key="consumer_byte_rate", value=float(bytes_per_second), remove=False
    )
    with ClusterSession(config) as session:
        entry = AlterClientQuotasRequest.EntryData(entity=[entity], ops=[rate])
        (answer,) = session.call(AlterClientQuotasRequest(entries=[entry], validate_only=False)).entries
        assert answer.error_code == 0
    throttles: list[int] = []
    call = ClusterSession.call

    def watched(self: ClusterSession, request: Any, **options: Any) -> Any:
        answer = call(self, request, **options)
        throttles.append(getattr(answer, "throttle_time_ms", 0))
        return answer

    monkeypatch.setattr(ClusterSession, "call", watched)
    monkeypatch.setattr(LogReader, "__init__", partialmethod(LogReader.__init__, response_bytes=4_000))
    monkeypatch.setattr(ClusterSession, "refresh", lambda self: pytest.fail("a request was refused"))
    begun = time.monotonic()
    taken = snapshot(config)
    assert taken.size_bytes / (time.monotonic() - begun) < bytes_per_second * 1.5  # Kafka counts by windows of a second
    assert max(throttles) > 0
    assert archived_bytes(tmp_path / "archive") == disk_bytes(own_broker)


def test_a_log_that_lost_its_end_starts_a_new_lineage(
    own_broker: EmbeddedBroker, snapshot: Take, tmp_path: Path
) -> None:
    config = client_config({}, bootstrap_servers=own_broker.bootstrap_servers)
    commit(config, group_id="g", count=8)
    snapshot(config)
    again = snapshot(config)
    assert (again.segments, again.size_bytes, again.log_offsets) == (0, 0, 0)
    newest = newest_metadata(LOCAL, str(tmp_path / "archive"))
    assert newest.taken_at_ms == again.taken_at_ms  # facts are kept every time
    own_broker.kill()  # without a clean shutdown the log is recovered from its segments alone
    (log,) = (path for path in own_broker.data.glob(f"{OFFSETS_TOPIC}-*/*.log") if path.stat().st_size)
    log.write_bytes(log.read_bytes()[:-1])
    own_broker.start()
    (warning,) = snapshot(config).warnings
    assert "below the archived" in warning
    assert archived_bytes(tmp_path / "archive") == disk_bytes(own_broker)

    # Cut off again, and grown beyond the archived end before anybody looks: only the leader epoch tells.
    own_broker.kill()
    log.write_bytes(log.read_bytes()[:-1])
    own_broker.start()
    commit(config, group_id="g", count=8)
    (warning,) = snapshot(config).warnings
    assert "diverged from the archived leader epoch" in warning
    assert archived_bytes(tmp_path / "archive") == disk_bytes(own_broker)
    assert snapshot(config).warnings == []


def test_the_job(config: ClientConfig, workload: Workload, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("client.id=the-job\n")
    command = [sys.executable, str(PROJECT / "spark_jobs" / "snapshot_log.py"), "--json"]
    places = [f"--archive={tmp_path / 'archive'}", f"--run-dir={tmp_path / 'run'}"]
    reach = [f"--bootstrap-servers={config.bootstrap_servers}", f"--client-config={tmp_path / 'client.properties'}"]
    done = subprocess.run([*command, *places, *reach], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["fetched"] == "new batches"

    absent = subprocess.run([*command, *places, *reach, "--topic=nowhere"], capture_output=True, text=True, check=False)
    assert (absent.returncode, absent.stderr.count("\n")) == (2, 1)
    assert "topic nowhere does not exist" in absent.stderr
