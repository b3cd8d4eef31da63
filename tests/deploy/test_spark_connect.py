"""The Spark Connect server of docker-compose.yaml: its exact command, on a master and a worker with their secrets."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.airflow import spark_tasks
from sexton.kafka import jars
from sexton.local import compose_init
from sexton.runs.spark_session import REMOTE
from sexton.settings import settings
from tests.commands import printed
from tests.deploy.services import WORKERS, Ports, Services

pytestmark = pytest.mark.thorough

WORKER = WORKERS[0]
ASK = """
from sexton.runs.engine import Engine
with Engine(quiet=True) as engine:
    print(engine.map("Squares", range(5), lambda n: n * n), engine.session.conf.get("spark.sql.extensions"))
"""


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, needs_spark: None, needs_airflow: None) -> Iterator[Services]:
    jars.ensure(settings().cache, "s3")
    folder = tmp_path_factory.mktemp("connect")
    services = Services(folder, Ports.free(), python=Path(sys.executable), changes={})
    services.write_secrets()
    try:
        services.start("spark-master", WORKER, "spark-connect")
        services.wait("spark-master", WORKER, "spark-connect")
        yield services
    finally:
        services.stop()


def ask(services: Services, monkeypatch: pytest.MonkeyPatch, **changes: str) -> str:
    """What a client prints, which connects as a task of Airflow does by the connection that `init` makes."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(services.secrets / "airflow"))
    here = {"host": "127.0.0.1", "port": services.ports.spark_connect}
    connection = {**compose_init.spark_connection(), **here, **changes}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    return printed(ASK, **{REMOTE: spark_tasks._connect_url("spark_default")})


def test_a_session_computes(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ask(services, monkeypatch)
    assert told.startswith("[0, 1, 4, 9, 16] org.apache.iceberg."), f"{told}\n{services.told('spark-connect')}"


@pytest.mark.parametrize("token", ["", "guessed"])
def test_nobody_connects_without_the_token(services: Services, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    assert "Spark did not start" in ask(services, monkeypatch, password=token)


def test_no_command_line_has_a_secret(services: Services) -> None:
    secrets = json.loads((services.secrets / compose_init.KEPT / "secrets.json").read_text("utf-8")).values()
    told = "\n".join(" ".join(process.cmdline()) for process in services.processes())
    assert "SparkConnectServer" in told
    assert [secret for secret in secrets if secret in told] == []
