"""A broker of a release that keeps its cluster in ZooKeeper, and that ZooKeeper: the jars of the release have both.

Up to 2.0 log4j:log4j is needed, too, and javax.xml.bind:jaxb-api, which was a part of Java then.
"""

import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from sexton.ports import HOST
from sexton_dev.broker import JVM_OPTIONS, EmbeddedBroker
from sexton_dev.ports import free_port

SETTINGS = {"auto.create.topics.enable": "false", "offsets.topic.replication.factor": "1"}
START_S, STOP_S = 180, 60
FIRST_WITHOUT = (3, 3)
"""The release from which on KRaft is for production, and has all that is asked of a broker here."""
_STARTED = re.compile(r"\[Kafka ?Server (id=)?1\],? started")
_LOG4J = {
    "log4j.rootLogger": "INFO, stdout",
    "log4j.appender.stdout": "org.apache.log4j.ConsoleAppender",
    "log4j.appender.stdout.layout": "org.apache.log4j.PatternLayout",
    "log4j.appender.stdout.layout.ConversionPattern": "%d [%t] %p %c - %m%n",
}
"""Up to 1.1 the server logs by log4j, whatever slf4j is bound to."""


def broker_class(release: str) -> type[EmbeddedBroker]:
    """What runs a broker of that release."""
    major, minor = (int(number) for number in release.split(".")[:2])
    return ZooKeeperBroker if (major, minor) < FIRST_WITHOUT else EmbeddedBroker


class ZooKeeperBroker(EmbeddedBroker):
    """The broker and its ZooKeeper stay what they are between starts."""

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._started: list[subprocess.Popen[bytes]] = []
        port = free_port()
        own = {"broker.id": "1", "zookeeper.connect": f"{HOST}:{port}", "log.dirs": str(self.data)}
        listeners = {"listeners": f"PLAINTEXT://{self.bootstrap_servers}"}
        self._write("server.properties", {**SETTINGS, **self._settings, **own, **listeners})
        zookeeper = {"dataDir": str(self.directory / "zookeeper"), "clientPort": str(port)}
        self._write("zookeeper.properties", {**zookeeper, "clientPortAddress": HOST, "admin.enableServer": "false"})
        self._write("log4j.properties", _LOG4J)
        try:
            self._run("org.apache.zookeeper.server.quorum.QuorumPeerMain", "zookeeper")
            self._run("kafka.Kafka", "server")
            deadline = time.monotonic() + START_S
            while not _STARTED.search(self._said()):
                is_waiting = time.monotonic() < deadline and self._started[-1].poll() is None
                assert is_waiting, self._said()[-2_000:]
                time.sleep(0.2)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """The broker first: without its ZooKeeper it would not end."""
        for process in reversed(self._started):
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def log_file(self) -> Path:
        return self.directory / "server.log"

    def _said(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def _write(self, name: str, properties: Mapping[str, str]) -> None:
        lines = [f"{name}={value}\n" for name, value in properties.items()]
        (self.directory / name).write_text("".join(lines), encoding="utf-8")

    def _run(self, main_class: str, name: str) -> None:
        jars = os.pathsep.join(map(str, self._jars))
        log4j = f"-Dlog4j.configuration=file:{self.directory}/log4j.properties"
        command = [str(self._java.java), *JVM_OPTIONS, log4j, "-Xmx600m", "-cp", jars, main_class, f"{name}.properties"]
        with (self.directory / f"{name}.log").open("wb") as log:
            self._started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory))
