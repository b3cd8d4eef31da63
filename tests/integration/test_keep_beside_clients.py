"""Keeping offsets while their real consumers come: a Java and a librdkafka consumer that start at any moment see no
error, and read on where they left."""

import json
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, Producer
from pyarrow import fs as pafs

from sexton.as_text import now_ms
from sexton.execution.engine import Clocks
from sexton.execution.kafka_admin import KafkaAdmin, connected
from sexton.execution.restore.apply_restore import apply_restore
from sexton.execution.restore.diff import make_restore
from sexton.execution.restore.restore_plan import OffsetValue, Then
from sexton.execution.restore.sources import Source
from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import committed_offsets
from sexton.kafka.session import ClusterSession
from sexton.ledger.ledger import Ledger
from sexton.ports import HOST
from sexton_dev.broker import JVM_OPTIONS
from sexton_dev.ports import free_port
from sexton_dev.workload import QUIET, TIMEOUT_S
from tests.clients import commit_when_ready, make_topics
from tests.integration.test_keep import SETTINGS
from tests.release_jars import jars_of
from tests.waiting import until
from tests.zookeeper_broker import broker_class

pytestmark = pytest.mark.thorough

PINNED = "4.3.1"
TOPIC, KEY = "t", ("t", 0)
FIRST, MESSAGES = 3, 200
CONSUMER_S = 120
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@dataclass
class Keeper:
    """Keeps the offset of one group again and again, in a thread of its own. `outcomes` say how often what came of it,
    a `what` alone that there was nothing to do."""

    config: ClientConfig
    root: Path
    group_id: str
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[BaseException] = field(default_factory=list)

    def __enter__(self) -> "Keeper":
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert not self.failures, self.failures

    def _run(self) -> None:
        try:
            with connected(self.config) as client:
                number = 0
                while not self._stop.is_set():
                    self._keep(client, number)
                    number += 1
        except BaseException as error:
            self.failures.append(error)

    def _keep(self, client: KafkaAdmin, number: int) -> None:
        found = committed_offsets(client.reading, self.group_id)[KEY]
        values = {(self.group_id, *KEY): Then(value=OffsetValue(*found.as_committed))}
        source = Source(name=f"keep {number}", cluster_id=client.identity().cluster_id, values=values)
        plan = make_restore(source, client, keeps=True)
        if not plan.items:
            self.outcomes[plan.rows[0].what] += 1
            return
        ledger = Ledger(pafs.LocalFileSystem(), str(self.root), plan.cluster_id, plan.restore_id)
        done = apply_restore(client, plan, ledger, approved_by="ann", lease_ms=60_000, clocks=Clocks(now_ms=now_ms))
        ((row, result),) = done.results
        self.outcomes[f"{row.what} {result.outcome}"] += 1


@dataclass
class Consumers:
    """Real consumers of a group, one after the other: each reads one message, commits and leaves."""

    config: ClientConfig
    java: JavaHome
    jars: list[Path]

    def read_one(self, client: str, protocol: str, group_id: str) -> int:
        """The offset of the first message that a new consumer reads."""
        return self._java(protocol, group_id) if client == "java" else self._librdkafka(protocol, group_id)

    def _librdkafka(self, protocol: str, group_id: str) -> int:
        errors: list[object] = []
        own = {"group.id": group_id, "group.protocol": protocol, "auto.offset.reset": "error"}
        settings = {**self.config.for_confluent(), **QUIET, **own, "enable.auto.commit": False}
        consumer = Consumer({**settings, "error_cb": errors.append})
        consumer.subscribe([TOPIC])
        try:
            message = until(lambda: consumer.poll(1), within_s=CONSUMER_S, every_s=0)
            assert message.error() is None, message.error()
            consumer.commit(message, asynchronous=False)
        finally:
            consumer.close()
        assert errors == []
        return int(message.offset())

    def _java(self, protocol: str, group_id: str) -> int:
        jars = ":".join(map(str, self.jars))
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        command = [str(self.java.java), *JVM_OPTIONS, "-Xmx128m", level, "-cp", jars, CONSOLE]
        command += ["--bootstrap-server", self.config.bootstrap_servers, "--topic", TOPIC, "--group", group_id]
        command += ["--max-messages", "1", "--timeout-ms", str(CONSUMER_S * 1000)]
        for name, value in (("group.protocol", protocol), ("auto.offset.reset", "none")):
            command += ["--command-property", f"{name}={value}"]
        command += ["--formatter-property", "print.offset=true"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not re.search(r"ERROR|Exception|INCONSISTENT", done.stderr), done.stderr
        found = re.search(r"Offset:(\d+)", done.stdout)
        assert found, done.stdout + done.stderr
        return int(found[1])


@pytest.fixture(
    scope="module", params=[PINNED, *(pytest.param(old, marks=pytest.mark.full) for old in ("3.9.1", "2.8.2"))]
)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["0", pytest.param("3000", marks=pytest.mark.full)])
def clients(
    request: pytest.FixtureRequest,
    release: str,
    tmp_path_factory: pytest.TempPathFactory,
    java: JavaHome,
    kafka_jars: list[Path],
) -> Iterator[Consumers]:
    """With a rebalance that ends at once, or is held open for new members."""
    jars = kafka_jars if release == PINNED else jars_of(release)
    settings = {**SETTINGS, "group.initial.rebalance.delay.ms": request.param, "offsets.retention.minutes": "600"}
    folder = tmp_path_factory.mktemp("beside")
    with broker_class(release)(folder, port=free_port(), java=java, jars=jars, settings=settings) as broker:
        config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        make_topics(config, {TOPIC: 1})
        producer = Producer({**config.for_confluent(), **QUIET})
        for _ in range(MESSAGES):
            producer.produce(TOPIC, b"x", partition=0)
        producer.flush(TIMEOUT_S)
        yield Consumers(config, java, kafka_jars)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("count", [5, pytest.param(30, marks=pytest.mark.full)])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_consumer_that_comes_at_any_moment(
    client: str,
    protocol: str,
    count: int,
    release: str,
    clients: Consumers,
    tmp_path: Path,
    tell: Callable[[str], None],
) -> None:
    """Each right after a keep has begun, once one before it is done."""
    if protocol == "consumer" and release != PINNED:
        pytest.skip("KIP-848 is for production since 4.0")
    group_id = f"{client}-{protocol}-{count}"
    done = "join done" if protocol == "classic" else "keep done"
    with ClusterSession(clients.config) as session:
        commit_when_ready(session, group_id, {KEY: (FIRST, 0, "m")})
    clients.read_one(client, protocol, group_id)
    with Keeper(clients.config, tmp_path, group_id) as keeper:
        for number in range(count):
            kept = keeper.outcomes[done]
            until(lambda kept=kept: keeper.failures or keeper.outcomes[done] > kept, within_s=CONSUMER_S)
            assert clients.read_one(client, protocol, group_id) == FIRST + 1 + number
    tell(f"Kafka {release}, {client}, {protocol}: {count} came, {dict(keeper.outcomes)}")


@dataclass
class Worker:
    """A real worker of Kafka Connect with a connector that has one task."""

    config: ClientConfig
    java: JavaHome
    folder: Path
    group_id: str

    def __post_init__(self) -> None:
        self.log = self.folder / "worker.log"
        self.source = self.folder / "lines.txt"
        self.source.write_text("line\n")
        self._port = free_port()
        topics = {f"{what}.storage.topic": f"{self.group_id}-{what}" for what in ("config", "offset", "status")}
        counts = {f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")}
        converter = "org.apache.kafka.connect.storage.StringConverter"
        properties = {
            "bootstrap.servers": self.config.bootstrap_servers,
            "group.id": self.group_id,
            "key.converter": converter,
            "value.converter": converter,
            "listeners": f"http://{HOST}:{self._port}",
            "plugin.discovery": "service_load",
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            **topics,
            **counts,
        }
        self._file = self.folder / "worker.properties"
        self._file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    @contextmanager
    def running(self) -> Iterator[None]:
        """From a start until it has left the group; its connector and its task run."""
        jars = ":".join(map(str, jars_of(PINNED, "connect-runtime", "connect-file")))
        command = [str(self.java.java), *JVM_OPTIONS, "-Xmx300m", "-cp", jars]
        command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(self._file)]
        with self.log.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                until(self._has_connector, self.log.read_text, within_s=CONSUMER_S, every_s=0.5, passing=(OSError,))
                until(self._runs, self.log.read_text, within_s=CONSUMER_S, every_s=0.5, passing=(OSError,))
                yield
            finally:
                process.terminate()
                process.wait()

    def _has_connector(self) -> bool:
        connector = "org.apache.kafka.connect.file.FileStreamSourceConnector"
        own = {"connector.class": connector, "tasks.max": "1", "file": str(self.source), "topic": TOPIC}
        return bool(self._ask("PUT", "connectors/lines/config", own))

    def _runs(self) -> bool:
        status = self._ask("GET", "connectors/lines/status")
        parts = [status["connector"], *status["tasks"]]
        return len(parts) == 2 and all(part["state"] == "RUNNING" for part in parts)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(f"http://{HOST}:{self._port}/{path}", data, headers, method=method)
        with urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())


@pytest.mark.full
@pytest.mark.timeout(0)
def test_a_connect_worker_that_comes_at_any_moment(
    release: str, clients: Consumers, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """Its connector and task run each time, and nothing that it says is an error."""
    worker = Worker(clients.config, clients.java, tmp_path, "workers")
    with worker.running():
        pass
    with ClusterSession(clients.config) as session:
        commit_when_ready(session, "workers", {KEY: (FIRST, 0, "m")})
    failed = 0
    with Keeper(clients.config, tmp_path, "workers") as keeper:
        for _ in range(5):
            kept = keeper.outcomes["join done"]
            until(lambda kept=kept: keeper.failures or keeper.outcomes["join done"] > kept, within_s=CONSUMER_S)
            with worker.running():
                said = worker.log.read_text()
            assert not re.search(r" ERROR |INCONSISTENT|rebalance delay: [1-9]", said), said[-8_000:]
            failed += said.count("assignment failed")
    tell(f"Kafka {release}, Connect: 5 came, {failed} saw our member, {dict(keeper.outcomes)}")
