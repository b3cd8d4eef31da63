"""How long a real 4.3.1 broker takes to load a log of ours, by its own account.

The broker is given the very files that we read, hard-linked into its log directory as the topic `__consumer_offsets`:
a `Cluster` lets an empty broker create the topic once, keeps what that leaves on disk, and puts the segments into a
copy of it for each log. Since the files lie there as a clean shutdown leaves them, the broker starts without recovery,
becomes leader and loads, and says so for each log partition:

    Finished loading of metadata from {} with epoch {} in {}ms where {}ms was spent in the scheduler. Loaded {} records
    which total to {} bytes.

What it worked is the sum of these times less those in the scheduler: one thread loads one log partition after another.
The first load is that of a broker just started, when the JVM has not compiled everything yet. To be loaded again by the
same JVM, a log partition has to lose its leader and get it back: a `Gate` keeps the broker's heartbeats from the
controller in the same process until that fences the broker, which gives up all partitions and forgets their state, and
lets them pass again. That is the warm figure, without the start of anything.

The JVM runs with the options of Kafka's own start scripts but for the heap; compaction and expiry, which would change
the log or take time while it is read, are put off.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sexton.java import JavaHome
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.bench.gate import Gate

# KAFKA_JVM_PERFORMANCE_OPTS of kafka-run-class.sh.
JVM_OPTIONS = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
# A line for every group after each load would compete with the next load for the processor.
QUIET = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.group.GroupMetadataManager=warn"
SETTINGS = {
    "offsets.retention.minutes": str((1 << 31) - 1),
    "offsets.retention.check.interval.ms": "86400000",
    "log.cleaner.enable": "false",
    "broker.session.timeout.ms": "6000",  # a busy machine must not fence it by itself
    "broker.heartbeat.interval.ms": "500",
}
LOAD_TIMEOUT_S = 900
FENCE_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
LOADED = re.compile(
    r"Finished loading of metadata from __consumer_offsets-(\d+) with epoch \d+ in (\d+)ms where (\d+)ms was spent in "
    r"the scheduler\. Loaded (\d+) records which total to (\d+) bytes"
)
UNLOADED = re.compile(r"Finished unloading metadata for __consumer_offsets-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load of all log partitions: seconds of work, and the records (markers included) that the broker counted."""

    seconds: float
    records: int
    size_bytes: int


class Cluster:
    """A formatted node with an empty `__consumer_offsets`, from which brokers with a log are made."""

    def __init__(self, directory: Path, *, java: JavaHome, jars: Sequence[Path], log_partitions: int) -> None:
        self.java, self.jars, self.log_partitions = java, jars, log_partitions
        settings = SETTINGS | {"offsets.topic.num.partitions": str(log_partitions)}
        broker = EmbeddedBroker(directory, port=free_port(), java=java, jars=jars, settings=settings)
        self._pristine = broker.directory
        with broker:
            _create_offsets_topic(broker.bootstrap_servers)

    def adopt(self, log: Path, directory: Path) -> None:
        """Make `directory` a node whose `__consumer_offsets` is `log`; the files are linked, not copied."""
        shutil.copytree(self._pristine, directory)
        for folder in sorted(log.iterdir()):
            target = directory / "data" / folder.name
            for empty in target.glob("0*"):
                empty.unlink()
            for file in folder.iterdir():
                os.link(file, target / file.name)


def _create_offsets_topic(bootstrap_servers: str) -> None:
    """A broker creates the topic when a client first asks for a group's coordinator."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench"})
    deadline = time.monotonic() + FENCE_TIMEOUT_S
    try:
        while True:
            try:
                consumer.committed([TopicPartition("nothing", 0)], timeout=10)
                return
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
    finally:
        consumer.close()


class LoadingBroker:
    """A broker on an adopted log, with `heap` of memory for its JVM; a context manager that starts and stops it.

    `directory` must not exist yet.
    """

    def __init__(self, cluster: Cluster, log: Path, directory: Path, *, heap: str = "4g") -> None:
        self._cluster, self._heap = cluster, heap
        cluster.adopt(log, directory)
        self._directory = directory
        self._log_file = directory / "load.log"
        self._properties = directory / "server.properties"
        controller_port = free_port()
        self._gate = Gate(controller_port)
        self._write_properties(controller_port=controller_port)
        self._process: subprocess.Popen[bytes] | None = None

    def first_load(self) -> Load:
        """The load that follows the start."""
        return self._load_told_after(0)

    def load_again(self) -> Load:
        """Take the leadership of all log partitions away and give it back; the load that follows."""
        seen = len(self._text())
        self._gate.close()
        try:
            self._wait(lambda: self._is_told_of_all(UNLOADED, seen), "unload", FENCE_TIMEOUT_S)
            seen = len(self._text())
        finally:
            self._gate.open()
        return self._load_told_after(seen)

    def _load_told_after(self, seen: int) -> Load:
        """The first load of each log partition that the broker's log tells of after its first `seen` characters."""
        self._wait(lambda: self._is_told_of_all(LOADED, seen), "load", LOAD_TIMEOUT_S)
        told: dict[int, tuple[int, int, int]] = {}
        for line in LOADED.findall(self._text()[seen:]):
            log_partition, all_ms, waited_ms, records, size_bytes = map(int, line)
            told.setdefault(log_partition, (all_ms - waited_ms, records, size_bytes))
        milliseconds, records, size_bytes = map(sum, zip(*told.values(), strict=True))
        return Load(seconds=milliseconds / 1000, records=records, size_bytes=size_bytes)

    def _is_told_of_all(self, pattern: re.Pattern[str], seen: int) -> bool:
        found = {line.group(1) for line in pattern.finditer(self._text(), seen)}
        return len(found) == self._cluster.log_partitions

    def _write_properties(self, *, controller_port: int) -> None:
        """Those of the pristine node with ports and folders of this one, and the gate before the controller."""
        port = free_port()
        own = {
            "log.dirs": str(self._directory / "data"),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.quorum.voters": f"1@127.0.0.1:{self._gate.port}",
        }
        lines = self._properties.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if line.partition("=")[0] not in own]
        self._properties.write_text("\n".join([*kept, *(f"{name}={value}" for name, value in own.items())]))

    def _wait(self, is_done: Callable[[], bool], what: str, timeout_s: float) -> None:
        assert self._process
        deadline = time.monotonic() + timeout_s
        while not is_done():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker did not {what} its log: {self._text()[-2000:]}")
            time.sleep(0.2)

    def _text(self) -> str:
        return self._log_file.read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Self:
        heap = (f"-Xms{self._heap}", f"-Xmx{self._heap}")
        classes = os.pathsep.join(map(str, self._cluster.jars))
        command = [str(self._cluster.java.java), *JVM_OPTIONS, *heap, QUIET, "-cp", classes]
        with self._log_file.open("wb") as log:
            # Its own session: Ctrl-C must not end it under whoever stops it in order.
            self._process = subprocess.Popen(
                [*command, "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                start_new_session=True,
            )
        return self

    def __exit__(self, *raised: Any) -> None:
        self._gate.__exit__(*raised)
        assert self._process
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
