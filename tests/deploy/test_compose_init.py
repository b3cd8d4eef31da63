"""What runs before the services, run here: on a real Postgres, a server that speaks S3, and the installed Airflow."""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
import pytest
from pyarrow import fs as pafs

from sexton.airflow.pools import POOLS
from sexton.local import compose_health, compose_init
from sexton.local.compose_init import USERS
from sexton.settings import environment
from tests.deploy.compose import ROOT, SERVICES
from tests.deploy.compose import environment as environment_of
from tests.deploy.databases import make_databases
from tests.object_store import running_object_store
from tests.postgres import Postgres, running_postgres

AIRFLOW_FILES = {
    "fernet_key", "secret_key", "jwt_secret", "sql_alchemy_conn", "pgpass", "aws_credentials", "passwords.json",
    "spark-defaults.conf", "connect_token",
}  # fmt: skip
ASK = """
import json
from airflow.cli.cli_parser import airflow_commands
from airflow.configuration import conf
from airflow.settings import async_engine, engine
secrets = [("core", "fernet_key"), ("api", "secret_key"), ("api_auth", "jwt_secret"), ("database", "sql_alchemy_conn")]
sections = conf.configuration_description.items()
print(json.dumps({
    "values": {f"{section}.{name}": conf.get(section, name) for section, name in secrets},
    "known": [f"{section}.{name}" for section, each in sections for name in each["options"]],
    "commands": [command.name for command in airflow_commands],
    "drivers": [engine.driver, async_engine.driver],
}))
"""
AGAIN = """
from sexton.local.compose_init import make_connections
from sexton.settings import settings
make_connections(settings())
"""


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secrets")
    compose_init.write_secrets(folder)
    return folder


@pytest.fixture(scope="module")
def postgres(needs_postgres: None) -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def databases(postgres: Postgres, secrets: Path) -> Postgres:
    """Postgres as scripts/databases.sh leaves it."""
    make_databases(postgres, secrets / "postgres")
    return postgres


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, secrets: Path) -> Iterator[str]:
    """The archive's URI of docker-compose.yaml, at a server of ours."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(secrets / "airflow" / "aws_credentials"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with running_object_store() as address:
        yield environment_of("init")["SEXTON_ARCHIVE"].replace("object-store:8333", address)


def read(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_every_secret_is_private_and_its_readers(tmp_path: Path) -> None:
    is_root = os.geteuid() == 0
    owners = compose_init.OWNERS if is_root else None
    compose_init.write_secrets(tmp_path, owners=owners)
    found = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.name for path in found if path.parent.name == "airflow"} == AIRFLOW_FILES
    for path in found:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        if is_root:
            assert path.stat().st_uid == {**compose_init.OWNERS, compose_init.KEPT: 0}[path.parent.name]


def test_readers_know_no_more_than_they_need(secrets: Path) -> None:
    kept = json.loads((secrets / compose_init.KEPT / "secrets.json").read_text())
    assert len(set(kept.values())) == len(kept)
    assert min(len(value) for value in kept.values()) >= 16
    assert (secrets / "postgres" / "superuser").read_text() not in "".join(read(secrets / "airflow").values())
    assert set(read(secrets / "postgres")) == {"superuser", *compose_init.DATABASES}
    assert json.loads((secrets / "airflow" / "passwords.json").read_text()).keys() == USERS.keys()


def test_what_is_there_stays(tmp_path: Path) -> None:
    compose_init.write_secrets(tmp_path)
    (tmp_path / "airflow" / "passwords.json").write_text("edited")
    before = read(tmp_path)
    assert compose_init.write_secrets(tmp_path) == []
    assert read(tmp_path) == before


def test_what_is_lost_comes_back_as_it_was(tmp_path: Path) -> None:
    compose_init.write_secrets(tmp_path)
    before = read(tmp_path)
    (tmp_path / "airflow" / "pgpass").unlink()
    assert compose_init.write_secrets(tmp_path) == [tmp_path / "airflow" / "pgpass"]
    assert read(tmp_path) == before


def test_two_deployments_share_nothing(tmp_path: Path) -> None:
    for name in ("one", "two"):
        compose_init.write_secrets(tmp_path / name)
    one, two = (
        json.loads((tmp_path / name / compose_init.KEPT / "secrets.json").read_text()) for name in ("one", "two")
    )
    assert not set(one.values()) & set(two.values())


def test_the_command_tells_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (compose_init.KEPT, *compose_init.OWNERS):
        (tmp_path / folder).mkdir()
    assert compose_init.main(["secrets", str(tmp_path)]) == 0
    said = "".join(capsys.readouterr())
    assert "new files" in said
    assert not [
        value for value in json.loads((tmp_path / "kept" / "secrets.json").read_text()).values() if value in said
    ]


def test_the_bucket_is_made_once(store: str, secrets: Path) -> None:
    assert compose_init.ensure_bucket(store)
    assert not compose_init.ensure_bucket(store)
    files, path = pafs.FileSystem.from_uri(store)
    assert files.get_file_info("sexton").type is pafs.FileType.Directory
    assert path == "sexton/archive"
    assert not compose_init.ensure_bucket("/somewhere/archive")
    login = json.loads((secrets / "object-store" / "config.json").read_text())["identities"][0]["credentials"][0]
    credentials = (secrets / "airflow" / "aws_credentials").read_text()
    assert login["accessKey"] in credentials
    assert login["secretKey"] in credentials


def test_roles_reach_their_own_database_only(databases: Postgres, secrets: Path) -> None:
    for role in compose_init.DATABASES:
        password = (secrets / "postgres" / role).read_text()
        for database in compose_init.DATABASES:
            login = {"host": "127.0.0.1", "port": databases.port, "user": role, "password": password}
            if role == database:
                psycopg2.connect(**login, dbname=database).close()
            else:
                with pytest.raises(psycopg2.OperationalError, match="permission denied"):
                    psycopg2.connect(**login, dbname=database)


def airflow_environment(secrets: Path, home: Path, port: int, archive: str) -> dict[str, str]:
    """What docker-compose.yaml gives to `init`, with folders and addresses of this machine."""
    address = secrets / "airflow" / "sql_alchemy_conn"
    address.write_text(address.read_text().replace("@postgres/", f"@127.0.0.1:{port}/"))
    given = {
        name: value.replace("/run/sexton", str(secrets / "airflow")).replace("/opt/sexton/var", str(home / "var"))
        for name, value in environment_of("init").items()
    }
    inherited = {name: None for name in environment() if name.startswith(("AIRFLOW", "SEXTON", "AWS_"))}
    places = {"AIRFLOW_HOME": str(home), "SEXTON_HOME": str(ROOT), "SEXTON_ARCHIVE": archive, "NO_PROXY": "127.0.0.1"}
    return environment(**{**inherited, **given, **places})


@pytest.mark.thorough
def test_init(databases: Postgres, secrets: Path, store: str, tmp_path: Path) -> None:
    given = airflow_environment(secrets, tmp_path, databases.port, store)
    command = [sys.executable, "-m", "sexton.local.compose_init", "init"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    url = urlsplit((secrets / "airflow" / "sql_alchemy_conn").read_text())
    assert url.password is not None
    assert url.password not in done.stdout + done.stderr
    database = psycopg2.connect(
        host=url.hostname, port=url.port, user=url.username, password=url.password, dbname=url.path.strip("/")
    )
    with database, database.cursor() as cursor:
        cursor.execute("SELECT pool, slots, description FROM slot_pool WHERE pool <> 'default_pool'")
        assert set(cursor.fetchall()) == {(name, 1, text) for name, text in POOLS.items()}
        cursor.execute("SELECT conn_id, conn_type, host FROM connection")
        assert set(cursor.fetchall()) == {
            ("kafka_default", "kafka", None),
            ("kafka_applier", "kafka", None),
            ("spark_default", "spark_connect", "spark-connect"),
        }
        cursor.execute("SELECT extra FROM connection WHERE conn_id = 'kafka_default'")
        ((extra,),) = cursor.fetchall()
        assert "kafka:9092" not in extra  # encrypted: Airflow read the fernet key
        cursor.execute("UPDATE connection SET host = 'mine' WHERE conn_id = 'spark_default'")
    database.commit()
    subprocess.run([sys.executable, "-c", AGAIN], env=given, capture_output=True, check=True)
    with database, database.cursor() as cursor:
        cursor.execute("SELECT host FROM connection WHERE conn_id = 'spark_default'")
        assert cursor.fetchall() == [("mine",)]
    database.close()
    asked = subprocess.run([sys.executable, "-c", ASK], env=given, capture_output=True, text=True, check=True)
    told = json.loads(asked.stdout.splitlines()[-1])
    for name, value in told["values"].items():
        assert value == (secrets / "airflow" / name.split(".")[1]).read_text(), name
    assert told["drivers"] == ["psycopg2", "asyncpg"]
    options = {".".join(name.split("__", 2)[1:]).lower() for name in given if name.startswith("AIRFLOW__")}
    assert {option.removesuffix("_cmd") for option in options} <= set(told["known"])
    commands = {service["command"][1] for service in SERVICES.values() if service.get("command", [""])[0] == "airflow"}
    assert commands <= set(told["commands"])


def test_health_of_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert compose_health.main([url]) == 0
    assert compose_health.main([url]) == 1


@pytest.mark.parametrize(
    "status, body, component, healthy",
    [
        (200, "anything", None, True),
        (503, "anything", None, False),
        (200, '{"scheduler": {"status": "healthy"}}', "scheduler", True),
        (200, '{"scheduler": {"status": "unhealthy"}}', "scheduler", False),
        (200, '{"triggerer": {"status": null}}', "triggerer", False),
        (200, "{}", "scheduler", False),
        (200, "no json", "scheduler", False),
    ],
)
def test_health(status: int, body: str, component: str | None, healthy: bool) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/"
    assert compose_health.main([url, component] if component else [url]) == (0 if healthy else 1)
    thread.join()
    server.server_close()
    assert compose_health.main([url]) == 1  # nobody there
