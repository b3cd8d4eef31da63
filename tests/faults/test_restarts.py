"""A real broker that is killed and started again while snapshots of it are taken."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import newest_metadata
from sexton.archive.lineages import list_lineages
from sexton.archive.verify import verify
from sexton.errors import BrokerError
from sexton.java import find_java
from sexton.kafka import jars
from sexton.kafka.client import ClientConfig, client_config
from sexton.pipeline import fetch_log, snapshot_log
from sexton.pipeline.snapshot_log import SnapshotRequest, TakenSnapshot
from sexton.settings import settings, variable
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from sexton_dev.workload import commit_offsets
from tests.archived import list_archived
from tests.clients import make_topics
from tests.faults.snapshots import InlineEngine

pytestmark = pytest.mark.thorough

LOCAL = pafs.LocalFileSystem()
# After a crash the controller waits for the session of the dead broker to end before it takes the new one.
IMPATIENT = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, needs_broker: None) -> Iterator[EmbeddedBroker]:
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    broker = EmbeddedBroker(
        tmp_path_factory.mktemp("restarts"), port=free_port(), java=java,
        jars=jars.ensure(settings().cache, "kafka"), settings=IMPATIENT,
    )  # fmt: skip
    with broker:
        config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        make_topics(config, {"somewhere": 1})
        commit(config, 40)
        yield broker


@pytest.fixture
def config(broker: EmbeddedBroker) -> ClientConfig:
    return client_config({}, bootstrap_servers=broker.bootstrap_servers)


def commit(config: ClientConfig, count: int) -> None:
    """Commits of several groups, so that every log partition has some."""
    admin = AdminClient({**config.for_confluent(), "log_level": 0})
    for number in range(count):
        commit_offsets(admin, f"group-{number % 8}", [TopicPartition("somewhere", 0, number)])


def take(config: ClientConfig, archive: Path) -> TakenSnapshot:
    request = SnapshotRequest(config=config, archive=str(archive))
    engine = InlineEngine(Random(0))
    return snapshot_log.run(engine, request, now_ms=lambda: time.time_ns() // 1_000_000)  # type: ignore[arg-type]


def test_a_broker_that_is_killed_and_comes_back(broker, config, full, tmp_path, tell, monkeypatch):
    """Every byte once, in one lineage: what is committed on the only replica survives a kill."""
    monkeypatch.setattr(fetch_log, "LOG_OFFSETS_A_TASK", 9)
    monkeypatch.setattr(fetch_log, "SEGMENT_BYTES", 500)
    kills, over = 50 if full else 2, threading.Event()
    failures: list[BaseException] = []

    def restart() -> None:
        rng = Random(kills)
        try:
            for _ in range(kills):
                time.sleep(rng.random())
                broker.kill()
                broker.start()
        except BaseException as error:
            failures.append(error)
        finally:
            over.set()

    thread = threading.Thread(target=restart)
    thread.start()
    taken: list[TakenSnapshot] = []
    gave_up = 0
    while not over.is_set():
        for name in ("archive", f"archive-{len(taken)}"):  # a new archive has something to read each time
            try:
                taken.append(take(config, tmp_path / name))
            except BrokerError:  # the broker was never up for long enough: the task would be tried again
                gave_up += 1
    thread.join()
    assert failures == []
    commit(config, 8)
    for archive in sorted(tmp_path.glob("archive*")):  # each may have been given up every time, before its facts
        taken.append(take(config, archive))
    assert not any(one.alerts for one in taken)
    for archive in tmp_path.glob("archive*"):
        facts = newest_metadata(LOCAL, str(archive), cluster_id=broker.cluster_id)
        assert facts is not None
        ids = {"cluster_id": facts.cluster_id, "topic_id": facts.topic_id}
        assert all(len(found) == 1 for found in list_lineages(LOCAL, str(archive), **ids).values())
        assert verify(LOCAL, str(archive), cluster_id=facts.cluster_id).findings == []
        for part, segments in list_archived(LOCAL, str(archive), **ids).items():
            held = b"".join(Path(segment.path).read_bytes() for segment in segments)
            assert disk(broker, part).startswith(held)
    tell(f"{kills} restarts, {len(taken)} snapshots, {gave_up} gave up")


def disk(broker: EmbeddedBroker, part: int) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((broker.data / f"{OFFSETS_TOPIC}-{part}").glob("*.log")))
