"""Start and stop the embedded system: a broker, a Spark Connect server and Airflow's API server, scheduler, DAG
processor and triggerer.

Separate processes instead of `airflow standalone`, so that each can be stopped alone. They start at the same time as
the broker, because Airflow spends its first seconds importing.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from sexton.airflow.pools import POOLS
from sexton.errors import SetupError, SextonError
from sexton.java import find_java
from sexton.kafka import jars
from sexton.local.compose_init import USER
from sexton.ports import HOST
from sexton.runs.spark_session import QUICK_JVM_OPTIONS, spark_environment
from sexton.settings import Settings, environment, program, set_variables, variable
from sexton_dev import java_home
from sexton_dev.airflow_api import AirflowApi
from sexton_dev.airflow_home import AirflowHome
from sexton_dev.broker import EmbeddedBroker, RunningBroker, require_free, running_broker, stop_broker
from sexton_dev.processes import Patience, Processes
from sexton_dev.spark_server import SparkServer, ui_of

COMPONENTS = {
    "api-server": ("api-server",),
    # Its log server would listen on every address; the API server reads the logs from the disk.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    # It raises the alerts about late runs; without it Airflow's home page reports an unhealthy installation.
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
"""Name -> arguments of the airflow command."""
SPARK = "spark"
CLIENTS = "clients"
"""The process of example_clients.py on the broker of `make up`; `is_running` does not count it."""
MAIN_DAG = "offset_retention"
READY_TIMEOUT_S = 180
MIGRATE_TIMEOUT_S = 180
POLL_S = 0.5
LOG_TAIL_LINES = 5


class System:
    """The system of `config.home`; it finds what is running, even if another process started it."""

    def __init__(self, config: Settings, console: Console, *, users: Mapping[str, str] | None = None) -> None:
        self.config = config
        self.home = AirflowHome(config, users=users)
        self._console = console
        self._processes = Processes(config.var / "pids", mark=str(config.var.resolve()))
        self.demo = config.var / "demo"
        self.demo_broker_directory = self.demo / "kafka"
        self.broker_directory = config.var / "kafka"
        self._broker_directories = (self.broker_directory, self.demo_broker_directory)

    @property
    def broker_port(self) -> int:
        """The port of the first of SEXTON_BOOTSTRAP_SERVERS, which must be on this machine."""
        host, _, port = self.config.bootstrap_servers.split(",")[0].rpartition(":")
        if host not in (HOST, "localhost") or not port.isdecimal():
            raise SetupError(
                f"SEXTON_BOOTSTRAP_SERVERS={self.config.bootstrap_servers} is not on {HOST}",
                fix="the embedded broker listens there only: unset it, or set 127.0.0.1:PORT",
            )
        return int(port)

    def api(self, user: str = USER) -> AirflowApi:
        return AirflowApi(self.home.url, user=user, password=self.home.password(user))

    def broker_address(self) -> str:
        """Address of the running broker, else of the one that would be started."""
        running = self._running_brokers()
        return running[0].bootstrap_servers if running else f"{HOST}:{self.broker_port}"

    def spark_ui(self) -> str | None:
        """Address of the running Spark server's UI; None if there is no server of our own."""
        running = self._processes.running().get(SPARK)
        return ui_of(running.cmdline()) if running else None

    def is_running(self) -> bool:
        """Whether everything that `start` starts is running."""
        return not self._not_running() and bool(self._running_brokers())

    def are_clients_running(self) -> bool:
        return CLIENTS in self._processes.running()

    def start_clients(self) -> None:
        """Start the example clients, which run until they are stopped."""
        log = self.config.var / "log" / f"{CLIENTS}.log"
        log.unlink(missing_ok=True)
        command = [sys.executable, "-m", "sexton_dev", CLIENTS]
        servers = self.config.bootstrap_servers
        given = environment(SEXTON_HOME=str(self.config.home), SEXTON_BOOTSTRAP_SERVERS=servers)
        self._processes.start(CLIENTS, command, environment=given, log=log)

    def is_anything_running(self) -> bool:
        return bool(self._processes.descendants()) or bool(self._running_brokers())

    def start(
        self,
        *,
        broker_directory: Path | None = None,
        broker_settings: Mapping[str, str] | None = None,
        meanwhile: Callable[[], None] | None = None,
        **variables: str,
    ) -> None:
        """Start everything and wait until the main DAG can be triggered.

        `meanwhile` is called once the broker answers, while Airflow is still getting ready. `variables` go into the
        environment of Airflow's processes.
        """
        broker_directory = broker_directory or self.broker_directory
        has_broker = running_broker(broker_directory) is not None  # `python -m sexton_dev.broker` starts the same one
        if not has_broker:
            require_free(self.broker_port, fix="another with SEXTON_BOOTSTRAP_SERVERS=127.0.0.1:PORT")
        require_free(self.home.port, fix="another with SEXTON_AIRFLOW_PORT=PORT")
        set_variables(java_home.variables(environment()))
        java = find_java(self.config.cache, variable("JAVA_HOME"), variable("PATH"))
        kafka_jars = jars.ensure(self.config.cache, "kafka")
        lake_jars = jars.ensure(self.config.cache, "spark")
        server = None if self._has_foreign_spark else SparkServer()
        spark = {
            **spark_environment(),
            "SEXTON_SPARK_JARS": self.config.spark_jars or ",".join(map(str, lake_jars)),
            "SPARK_SUBMIT_OPTS": QUICK_JVM_OPTIONS,
        }
        if server:
            variables[self.home.spark_connection] = json.dumps(server.connection)
            spark["SEXTON_SPARK_UI"] = server.ui
        airflow = self.home.environment(spark, **variables)
        self.home.write()
        self._migrate(airflow)
        for name, arguments in COMPONENTS.items():
            self._start(name, [program("airflow"), *arguments], airflow)
        if server:
            self._start(SPARK, server.command(self.config, lake_jars), server.environment(airflow))
        broker = EmbeddedBroker(
            broker_directory, port=self.broker_port, java=java, jars=kafka_jars, settings=broker_settings
        )
        with self.step("Kafka", broker.bootstrap_servers):
            if not has_broker:
                broker.start()
        if meanwhile:
            meanwhile()
        if server:
            with self.step("Spark", server.ui):
                self._wait_for_spark(server)
        with self.step("Airflow", self.home.url):
            self._wait_until_ready()

    def _start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        log = self._log_of(name)
        log.unlink(missing_ok=True)
        self._processes.start(name, command, environment=environment, log=log)

    def stop_airflow(self) -> bool:
        """Stop Airflow, Spark and what tasks started; True if any of it was running."""
        return self._processes.stop()

    def stop(self, patience: Patience | None = None) -> bool:
        """Stop Airflow, then the broker; True if anything was running."""
        with self.step("Stopped", "everything that was running", is_shown=self.is_anything_running()):
            was_airflow = self._processes.stop(patience)
            were_brokers = [stop_broker(directory) for directory in self._broker_directories]
        return was_airflow or any(were_brokers)

    def _running_brokers(self) -> list[RunningBroker]:
        return [broker for directory in self._broker_directories if (broker := running_broker(directory))]

    @contextmanager
    def step(self, name: str, detail: str, *, is_shown: bool = True) -> Iterator[None]:
        """Show a spinner (on a terminal) during the block, and afterwards how long it took."""
        start = time.monotonic()
        with self._console.status(f"{name} ..."):
            yield
        if is_shown:
            took = f"{time.monotonic() - start:.1f} s"
            self._console.print(f"  {name:<10} {escape(detail)}  [dim]{took}[/dim]", highlight=False)

    def _migrate(self, airflow: Mapping[str, str]) -> None:
        """Create or upgrade Airflow's database; skipped if this release has done it."""
        stamp, release = self.home.root / "migrated", metadata.version("apache-airflow-core")
        if (self.home.root / "airflow.db").exists() and stamp.exists() and stamp.read_text("utf-8") == release:
            return
        with self.step("Database", str(self.home.root / "airflow.db")):
            command = [program("airflow"), "db", "migrate"]
            done = subprocess.run(
                command,
                env=airflow,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=MIGRATE_TIMEOUT_S,
                check=False,
            )
        if done.returncode:
            raise SetupError(f"airflow db migrate failed: {_tail(done.stderr or done.stdout)}", where=self.home.root)
        stamp.write_text(release, encoding="utf-8")

    def _wait_for_spark(self, server: SparkServer) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not server.is_ready():
            self._require_alive()
            if time.monotonic() > deadline:
                raise SextonError(f"Spark is not ready after {READY_TIMEOUT_S} s", where=self._log_of(SPARK))
            time.sleep(POLL_S)

    def _wait_until_ready(self) -> None:
        api, deadline = self.api(), time.monotonic() + READY_TIMEOUT_S
        waiting_for: list[str] = [*COMPONENTS]
        while time.monotonic() < deadline:
            self._require_alive()
            waiting_for = api.unhealthy() or ([] if api.has_dag(MAIN_DAG) else [f"the DAG {MAIN_DAG}"])
            if not waiting_for:
                api.call("GET", "/execution/health", login=False)  # Airflow creates the tasks' API at its first request
                for pool, description in POOLS.items():
                    api.ensure_pool(pool, slots=1, description=description)
                return
            if waiting_for == [f"the DAG {MAIN_DAG}"] and (errors := api.import_errors()):
                raise SextonError(f"a DAG file cannot be imported: {errors[0]}", where=self.config.home / "dags")
            time.sleep(POLL_S)
        raise SextonError(f"not ready after {READY_TIMEOUT_S} s: {', '.join(waiting_for)}", where=self.home.log_folder)

    @property
    def _has_foreign_spark(self) -> bool:
        """Whether the environment names a Spark, which is used instead of one of our own."""
        return variable(self.home.spark_connection) is not None

    def _not_running(self) -> list[str]:
        started = [*COMPONENTS, *([] if self._has_foreign_spark else [SPARK])]
        return sorted(set(started) - set(self._processes.running()))

    def _log_of(self, component: str) -> Path:
        name = SPARK if component == SPARK else f"airflow-{component}"
        return self.config.var / "log" / f"{name}.log"

    def _require_alive(self) -> None:
        """SextonError with the end of its log if a process of Airflow or Spark has ended."""
        gone = self._not_running()
        if gone:
            log = self._log_of(gone[0])
            raise SextonError(f"{log.stem} ended: {_tail(log.read_text('utf-8', 'replace'))}", where=log)


def _tail(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-LOG_TAIL_LINES:])
