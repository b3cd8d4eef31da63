"""The services of docker-compose.yaml as processes of this machine: its commands, its variables, its health checks.

What an image or a volume would settle is told here: addresses and folders are other ones, `spark-worker` is there
twice, Kafka is the embedded broker, Postgres the one of a wheel, and the object store moto's server, which asks nobody
who one is. A process gets the variables of its service and nothing of the caller's environment.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import psutil

from sexton.java import find_java
from sexton.kafka import jars
from sexton.local import compose_health, compose_init
from sexton.settings import settings, variable
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from sexton_dev.processes import Patience, Processes
from tests.deploy.compose import ROOT, SERVICES, environment, mounts
from tests.deploy.databases import make_databases
from tests.object_store import running_object_store
from tests.postgres import running_postgres

WORKERS = ("spark-worker-1", "spark-worker-2")
SPARK = ("spark-master", *WORKERS)
AIRFLOW = ("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")
IMAGE_HOME = "/opt/sexton"
HOME = ("include", "dags", "plugins", "spark_jobs")
"""What the image has of the project."""
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""None of Spark's processes lives for long: the quick compiler and the small collector start sooner."""
READY_S = 300
INIT_S = 300
LOG_TAIL = 3_000
PATIENCE = Patience(polite_s=15.0, firm_s=10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where everything listens, on 127.0.0.1."""

    airflow: int
    kafka: int
    postgres: int
    object_store: int
    spark_master: int
    master_page: int
    spark_connect: int
    connect_page: int
    worker_pages: Mapping[str, int]

    @classmethod
    def free(cls, **known: int) -> "Ports":
        """Those that are not known are free ones."""
        names = [field.name for field in fields(cls) if field.name != "worker_pages"]
        found = {name: known.get(name) or free_port() for name in names}
        return cls(**found, worker_pages={name: free_port() for name in WORKERS})


class Services:
    """The services in `folder`; `python` is the executors', `changes` are variables that all of them get besides."""

    def __init__(self, folder: Path, ports: Ports, *, python: Path, changes: Mapping[str, str]) -> None:
        self.ports = ports
        self.folder = folder
        self.home = folder / "home"
        self.secrets = folder / "secrets"
        self.python = python
        self._changes = dict(changes)
        self._java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH")).home
        self._processes = Processes(folder / "pids", mark=str(folder))
        for home in (self.home, *map(self.home_of, WORKERS)):
            home.mkdir(parents=True)
            (home.parent / "tmp").mkdir(exist_ok=True)
            for name in HOME:
                (home / name).symlink_to(ROOT / name)
            (home / ".cache").symlink_to(settings().cache)

    def home_of(self, service: str) -> Path:
        """The project's folder of a service: a worker has one of its own."""
        return self.folder / service / "home" if service in WORKERS else self.home

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports.airflow}"

    @property
    def master_page(self) -> str:
        return f"http://127.0.0.1:{self.ports.master_page}"

    def here(self, text: str, service: str) -> str:
        """`text` of docker-compose.yaml as it has to be on this machine."""
        ports = self.ports
        page = ports.worker_pages.get(service, ports.master_page)
        for theirs, ours in (
            *self._database(),
            ("kafka:9092", f"127.0.0.1:{ports.kafka}"),
            ("object-store:8333", f"127.0.0.1:{ports.object_store}"),
            ("airflow-api-server", "127.0.0.1"),
            ("airflow-scheduler", "127.0.0.1"),
            ("spark-master", "127.0.0.1"),
            ("spark-connect", "127.0.0.1"),
            ("0.0.0.0", "127.0.0.1"),
            ("/run/sexton", str(self.secrets / _secrets_of(service))),
            (IMAGE_HOME, str(self.home_of(service))),
            ("/opt/airflow", str(self.folder / "airflow")),
            ("/opt/venv/bin/python", str(self.python)),
            ("/tmp/spark", str(self.folder / service)),
        ):
            text = text.replace(theirs, ours)
        for port, our_port in (
            ("8080", ports.airflow),
            ("7077", ports.spark_master),
            ("8081", page),
            ("15002", ports.spark_connect),
            ("4040", ports.connect_page),
        ):
            text = re.sub(rf"\b{port}\b", str(our_port), text)
        return text

    def _database(self) -> tuple[tuple[str, str], ...]:
        address = f"127.0.0.1:{self.ports.postgres}"
        return ("@postgres/", f"@{address}/"), ("postgres:5432", address)

    def write_secrets(self) -> None:
        """New ones, as the one-shot service of this name makes them; some of the files hold the database's address."""
        compose_init.write_secrets(self.secrets)
        for name in ("airflow/sql_alchemy_conn", "airflow/pgpass", "spark-worker/pgpass"):
            file = self.secrets / name
            text = file.read_text("utf-8")
            for theirs, ours in self._database():
                text = text.replace(theirs, ours)
            file.write_text(text, encoding="utf-8")

    def environment(self, service: str) -> dict[str, str]:
        """What a service's process sees: the image's variables, the service's, and those that are other ones here."""
        told = {**_image_variables(), **environment(_in_file(service))}
        return {
            **{name: self.here(value, service) for name, value in told.items()},
            "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
            "HOME": str(self.home_of(service).parent),
            "TMPDIR": str(self.home_of(service).parent / "tmp"),
            "JAVA_HOME": str(self._java),
            "JAVA_TOOL_OPTIONS": QUICK_JVM,
            "NO_PROXY": "127.0.0.1",
            **self._spark(service),
            **{name: self.here(value, service) for name, value in self._changes.items()},
        }

    def _spark(self, service: str) -> dict[str, str]:
        """What follows from one machine: loopback addresses, a core for each worker, and two Pythons."""
        if service in WORKERS:
            return {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_CORES": "1"}
        if service == "airflow-scheduler":
            return {"PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_CONF_DIR": str(self.folder / "spark-conf")}
        return {}

    def start(self, *services: str) -> None:
        for service in services:
            command = [self.here(word, service) for word in SERVICES[_in_file(service)]["command"]]
            self._processes.start(service, command, environment=self.environment(service), log=self.log(service))

    def wait(self, *services: str) -> None:
        """Until the health check of each says so."""
        deadline = time.monotonic() + READY_S
        for service in services:
            asked = [self.here(word, service) for word in SERVICES[_in_file(service)]["healthcheck"]["test"]]
            assert asked[:4] == ["CMD", "python", "-m", "sexton.local.compose_health"]
            while complaint := compose_health.complaint(*asked[4:]):
                assert service in self._processes.running(), f"{service} ended: {self.told(service)}"
                assert time.monotonic() < deadline, f"{complaint}\n{self.told(service)}"
                time.sleep(0.5)

    def init(self) -> None:
        """The one-shot service of this name."""
        program, *arguments = SERVICES["init"]["command"]
        assert program == "python"
        with self.log("init").open("wb") as log:
            command = [sys.executable, *arguments]
            given = self.environment("init")
            code = subprocess.run(command, env=given, stdout=log, stderr=log, timeout=INIT_S, check=False).returncode
        assert code == 0, self.told("init")

    def pid(self, service: str) -> int:
        return self._processes.running()[service].pid

    def log(self, service: str) -> Path:
        return self.folder / "log" / f"{service}.log"

    def told(self, service: str) -> str:
        """The end of a service's log."""
        return self.log(service).read_text("utf-8", "replace")[-LOG_TAIL:]

    def stop(self) -> None:
        self._processes.stop(PATIENCE)

    def processes(self) -> list[psutil.Process]:
        """Everything that runs of them, executors among it."""
        return self._processes.descendants()


@contextmanager
def running_services(
    folder: Path, *, python: Path, changes: Mapping[str, str], broker_settings: Mapping[str, str]
) -> Iterator[Services]:
    """What Airflow needs is started; the caller does `init`, starts Airflow and waits. All is stopped in the end."""
    for name in ("log", "spark-conf"):
        (folder / name).mkdir(parents=True)
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres())
        store = stack.enter_context(running_object_store())
        ports = Ports.free(postgres=postgres.port, object_store=int(store.rpartition(":")[2]))
        services = Services(folder, ports, python=python, changes=changes)
        services.write_secrets()
        make_databases(postgres, services.secrets / "postgres")
        java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
        kafka = jars.ensure(settings().cache, "kafka")
        stack.enter_context(
            EmbeddedBroker(folder / "kafka", port=ports.kafka, java=java, jars=kafka, settings=broker_settings)
        )
        stack.callback(services.stop)
        services.start(*SPARK)
        yield services
    assert services.processes() == []


def _in_file(service: str) -> str:
    return "spark-worker" if service in WORKERS else service


def _secrets_of(service: str) -> str:
    """The folder of secrets whose volume the service mounts."""
    (volume,) = (name for name, place in mounts(_in_file(service)).items() if place.startswith("/run/sexton"))
    return volume.removeprefix("secrets-")


def _image_variables() -> dict[str, str]:
    """ENV of the Dockerfile, but for the search path."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^ENV (.*)$", text, flags=re.MULTILINE)
    found = dict(pair.split("=", 1) for pair in line.split())
    return {name: value for name, value in found.items() if name != "PATH"}
