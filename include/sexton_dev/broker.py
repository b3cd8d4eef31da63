"""A real Kafka broker in one process, for the demo, for tests and for looking at other people's segments.

KRaft, broker and controller in one JVM (`kafka.Kafka`), formatted by Kafka's own `StorageTool`, bound to 127.0.0.1
only, with topics small enough to start in seconds. It runs in its own session and leaves a pid file, so that another
process can find it and stop it. `kafka-dump-log` is here too: it reads the archive.

`python -m sexton_dev.broker [NAME=VALUE ...]` starts the broker of `make up` alone, with your properties; `make down`
stops it.

Not here: which Java and which jars (`sexton.java`, `sexton.kafka.jars`), and anything that speaks to the broker.
"""

import argparse
import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from sexton.errors import BrokerError, SetupError, SextonError
from sexton.java import JavaHome, find_java
from sexton.kafka import jars as pinned
from sexton.ports import HOST, probe_port
from sexton.settings import settings, variable
from sexton_dev.ports import free_port

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
TOOL_TIMEOUT_S = 120
HEAP_MB = 700
READY = "Kafka Server started"
LOG_TAIL_LINES = 6

# Short-lived JVMs on small machines: the quick compiler and the small collector start twice as fast.
JVM_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
)

DEFAULT_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBroker:
    """A running broker, as its pid file describes it."""

    pid: int
    port: int

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"


class EmbeddedBroker:
    """One broker whose configuration, data, log and pid file lie in `directory`; a context manager.

    `settings` are broker properties that override DEFAULT_SETTINGS; their `listeners` are added to the plaintext
    listener on `port`. A node of a larger cluster needs `process.roles` (broker or controller),
    `controller.quorum.voters` and the `cluster_id` that all nodes share; a controller listens on `port` alone.
    `scram` are credentials of users as `kafka-storage.sh --add-scram` takes them; the list of processes shows them
    while a new directory is formatted. A broker in a directory that was used before continues its cluster.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int,
        java: JavaHome,
        jars: Sequence[Path],
        settings: Mapping[str, str] | None = None,
        scram: Sequence[str] = (),
        jvm_options: Sequence[str] = (),
        cluster_id: str | None = None,
    ) -> None:
        self.directory = directory.resolve()
        self.port = port
        self._java = java
        self._jars = jars
        self._settings = dict(settings or {})
        self._scram = tuple(scram)
        self._jvm_options = tuple(jvm_options)
        self._new_cluster_id = cluster_id or new_cluster_id()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def data(self) -> Path:
        """The broker's log directory: `__consumer_offsets-N/` and its siblings."""
        return self.directory / "data"

    @property
    def log_file(self) -> Path:
        return self.directory / "broker.log"

    @property
    def cluster_id(self) -> str:
        """The id given when the directory was formatted."""
        meta = (self.data / "meta.properties").read_text(encoding="utf-8")
        found = re.search(r"^cluster\.id=(\S+)", meta, flags=re.MULTILINE)
        if not found:
            raise BrokerError("no cluster.id in meta.properties", where=self.data)
        return found[1]

    def start(self) -> None:
        """Format the directory if it is new, start, and return when the broker answers.

        SetupError when the port or the directory is taken; BrokerError, with the end of its log, when it dies or is
        not ready in time.
        """
        if running := running_broker(self.directory):
            raise SetupError(
                f"a broker already runs here (pid {running.pid}, port {running.port})",
                where=self.directory,
                fix="stop it with `make down`",
            )
        require_free(self.port)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_properties(controller_port=free_port())
        self._format()
        if self.log_file.exists():
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        self._launch()
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Let the broker close its logs and end; kill it when it does not within 30 s. Nothing when none runs."""
        stop_broker(self.directory)
        if self._process:
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """End the broker immediately, as a crash would: logs stay as they are."""
        if self._process:
            _signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        _pid_file(self.directory).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _properties_file(self) -> Path:
        return self.directory / "server.properties"

    def _write_properties(self, *, controller_port: int) -> None:
        settings = DEFAULT_SETTINGS | self._settings
        own = {
            "broker": [f"PLAINTEXT://{HOST}:{self.port}"],
            "controller": [f"CONTROLLER://{HOST}:{self.port}"],
            "broker,controller": [f"PLAINTEXT://{HOST}:{self.port}", f"CONTROLLER://{HOST}:{controller_port}"],
        }[settings["process.roles"]]
        further = self._settings.get("listeners", "").split(",")
        settings["listeners"] = ",".join(own + [listener for listener in further if listener])
        settings.setdefault("controller.quorum.voters", f"1@{HOST}:{controller_port}")
        settings["log.dirs"] = str(self.data)
        text = "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())
        self._properties_file.touch(mode=0o600)
        self._properties_file.write_text(text, encoding="utf-8")

    def _format(self) -> None:
        if (self.data / "meta.properties").exists():
            return
        arguments = ["format", "-t", self._new_cluster_id, "-c", str(self._properties_file)]
        for credential in self._scram:
            arguments += ["--add-scram", credential]
        run_tool(self._java, self._jars, "kafka.tools.StorageTool", *arguments)

    def _launch(self) -> None:
        command = [
            *_java_command(self._java, self._jars, f"-Xmx{HEAP_MB}m", *self._jvm_options),
            "kafka.Kafka",
            str(self._properties_file),
        ]
        with self.log_file.open("wb") as log:
            # A new session: Ctrl-C in the terminal must not kill the broker before it is stopped in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, start_new_session=True
            )
        running = RunningBroker(pid=self._process.pid, port=self.port)
        _pid_file(self.directory).write_text(json.dumps(asdict(running)), encoding="utf-8")

    def _wait_until_ready(self) -> None:
        assert self._process
        deadline = time.monotonic() + START_TIMEOUT_S
        while READY not in self.log_file.read_text(encoding="utf-8", errors="replace"):
            if self._process.poll() is not None:
                code = self._process.returncode
                raise BrokerError(f"the broker ended with code {code}: {self._tail()}", where=self.log_file)
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"the broker is not ready after {START_TIMEOUT_S} s: {self._tail()}", where=self.log_file
                )
            time.sleep(0.1)

    def _tail(self) -> str:
        return _telling(self.log_file.read_text(encoding="utf-8", errors="replace"))


def running_broker(directory: Path) -> RunningBroker | None:
    """The broker that runs in `directory`, whoever started it; None when there is none."""
    try:
        said = json.loads(_pid_file(directory).read_text(encoding="utf-8"))
        broker = RunningBroker(pid=int(said["pid"]), port=int(said["port"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # Process ids are reused: only a process that was started with these properties is the broker.
    return broker if str(directory.resolve() / "server.properties") in _command_line(broker.pid) else None


def stop_broker(directory: Path) -> bool:
    """Stop the broker that runs in `directory`, whoever started it; False when none runs."""
    broker = running_broker(directory)
    if broker:
        _signal_group(broker.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while running_broker(directory) and time.monotonic() < deadline:
            time.sleep(0.05)
        if running_broker(directory):
            _signal_group(broker.pid, signal.SIGKILL)
    _pid_file(directory).unlink(missing_ok=True)
    return broker is not None


def dump_log(files: Sequence[Path], *, java: JavaHome, jars: Sequence[Path]) -> str:
    """What Kafka's own `kafka-dump-log --offsets-decoder` prints of these segment files."""
    names = ",".join(str(path) for path in files)
    return run_tool(java, jars, "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", names)


def require_free(port: int, *, fix: str = "another port") -> None:
    """SetupError if something listens on a port of this machine; `fix` is what to choose instead."""
    try:
        probe_port(port)
    except OSError as error:
        raise SetupError(
            f"port {port} cannot be used: {os.strerror(error.errno or 0)}",
            where=HOST,
            fix=f"stop what listens there, or choose {fix}",
        ) from None


def _java_command(java: JavaHome, jars: Sequence[Path], *options: str) -> list[str]:
    return [str(java.java), *JVM_OPTIONS, *options, "-cp", os.pathsep.join(str(jar) for jar in jars)]


def run_tool(java: JavaHome, jars: Sequence[Path], main_class: str, *arguments: str) -> str:
    """Run one of Kafka's command line tools and return what it prints."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [*_java_command(java, jars, "-Xmx512m", quiet), main_class, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TOOL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokerError(f"{main_class} could not be run: {error}", where=java.home) from None
    if done.returncode:
        raise BrokerError(f"{main_class} ended with code {done.returncode}: {_telling(done.stderr + done.stdout)}")
    return done.stdout


def new_cluster_id() -> str:
    """A cluster id as Kafka's Uuid.randomUuid makes them: base64url that does not look like an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _telling(text: str) -> str:
    """The last lines that say why something went wrong: errors when there are any, else whatever is last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"ERROR|FATAL|Exception|Error:", line)]
    return " | ".join((errors or lines)[-LOG_TAIL_LINES:])


def _pid_file(directory: Path) -> Path:
    return directory / "broker.pid"


def _command_line(pid: int) -> str:
    """The command line of a process, empty when it does not run or is a zombie."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


def _escaped(value: str) -> str:
    """A value as a Java properties file wants it: backslashes doubled, all but ASCII as UTF-16 escapes."""
    value = value.replace("\\", "\\\\")
    return "".join(
        char if " " <= char <= "~" else "".join(f"\\u{unit}" for unit in char.encode("utf-16-be").hex(" ", 2).split())
        for char in value
    )


def main() -> int:
    """Start the broker and leave it running; its data stays in var/kafka until you delete it."""
    parser = argparse.ArgumentParser(prog="python -m sexton_dev.broker", description=main.__doc__)
    parser.add_argument("properties", nargs="*", metavar="NAME=VALUE", type=_property, help="properties of the broker")
    properties, config = parser.parse_args().properties, settings()
    try:
        broker = EmbeddedBroker(
            config.var / "kafka",
            port=int(config.bootstrap_servers.split(",")[0].rpartition(":")[2]),
            java=find_java(config.cache, variable("JAVA_HOME"), variable("PATH")),
            jars=pinned.ensure(config.cache, "kafka"),
            settings=dict(properties),
        )
        broker.start()
    except SextonError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    sys.stdout.write(f"Kafka runs at {broker.bootstrap_servers}, its segments are in {broker.data}\n")
    return 0


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"not NAME=VALUE: {text!r}")
    return name.strip(), value.strip()


if __name__ == "__main__":
    sys.exit(main())
