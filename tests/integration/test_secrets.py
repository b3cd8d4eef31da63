"""The scheduled pipeline with secrets wherever it takes some: whatever it leaves behind is searched for them.

Searched are the tasks' logs and Airflow's database (XCom, rendered fields), run folder, archive and lake, Spark's event
logs, alerts and the arguments of every process that ran meanwhile: once with a login that is right, beside it once with
a wrong one, and with --full once with keys of AWS in URIs, which hold a `/` and an `@`, as they are and encoded.
"""

import json
import os
import secrets
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sexton.java import JavaHome
from sexton.kafka import jars
from sexton.kafka.session import ClusterSession
from sexton.settings import PROJECT_ROOT, settings
from tests.airflow_database import migrated_database, project_home
from tests.clients import make_topics
from tests.integration.secure_broker import PASSWORDS, READER, SEEING, SecureCluster, grant, secure_cluster
from tests.integration.test_admin import wait_for_coordinators
from tests.integration.test_documented_acls import OTHER_TOPIC, OWN_TOPIC, commit_both, until

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]
LOGINS = ("right", "wrong")
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m"
"""As `sexton.runs.spark_session.JVM_OPTIONS`, with Spark's own logging, which tells more."""
KINDS = (
    *("wrong password", "sasl.password", "ssl.key.password", "oauth secret", "oauth secret of librdkafka", "extension"),
    *("connection password", "slack", "smtp", "apprise", "s3 secret", "s3 token", "catalog password", "catalog token"),
    *("environment", "proxy", "fernet", "jwt", "spark", "git", "archive key", "warehouse key"),
)


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[SecureCluster]:
    with secure_cluster(tmp_path_factory.mktemp("secure"), java=java, jars=kafka_jars) as found:
        make_topics(found.all_powerful, {OWN_TOPIC: 1, OTHER_TOPIC: 1})
        grant(found.all_powerful, READER, *SEEING, ("TOPIC", "*", "READ"))
        with ClusterSession(found.all_powerful) as session:
            wait_for_coordinators(session)
            until(lambda: set(commit_both(session, "a-group").values()) == {None})
        yield found


@dataclass
class Seen:
    """What was found where, by the kind of the secret."""

    canaries: Mapping[str, str]
    found: list[str] = field(default_factory=list)
    searched_bytes: int = 0

    def search(self, data: bytes, where: object) -> None:
        self.searched_bytes += len(data)
        self.found += [f"{kind} in {where}" for kind, canary in self.canaries.items() if canary.encode() in data]


@contextmanager
def watching_arguments(*all_seen: Seen) -> Iterator[None]:
    """Look at what `ps` would show, as often as can be."""
    done, known = threading.Event(), {b""}

    def watch() -> None:
        while not done.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    arguments = path.read_bytes()
                except OSError:
                    continue
                if arguments not in known:
                    known.add(arguments)
                    for seen in all_seen:
                        seen.search(arguments, f"arguments of {path.parent.name}")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    yield
    done.set()
    watcher.join()


@dataclass(frozen=True, slots=True)
class Ran:
    """A run in a home of its own, and what it told on the terminal."""

    home: Path
    seen: Seen
    output: bytes


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
    cluster: SecureCluster,
    java: JavaHome,
    needs_airflow: None,
    needs_spark: None,
) -> dict[str, Ran]:
    """A run by each login, both at the same time."""
    all_seen = {name: Seen(new_canaries()) for name in LOGINS}
    with watching_arguments(*all_seen.values()), ThreadPoolExecutor(len(LOGINS)) as pool:
        running = {
            name: pool.submit(run, cluster, java, tmp_path_factory.mktemp(name), seen, login=name)
            for name, seen in all_seen.items()
        }
        return {name: ran.result() for name, ran in running.items()}


def new_canaries() -> dict[str, str]:
    canaries = {kind: f"canary{number:02d}-{secrets.token_hex(8)}" for number, kind in enumerate(KINDS)}
    return {**canaries, "password": PASSWORDS[READER]}


def run(cluster: SecureCluster, java: JavaHome, home: Path, seen: Seen, *, login: str) -> Ran:
    environment = environment_of(cluster, java, seen.canaries, home, login=login)
    airflow = str(Path(sys.executable).parent / "airflow")
    migrated_database(home / "airflow" / "airflow.db")
    asked = json.dumps({"as_of": str(time.time_ns() // 1_000_000)})
    done = subprocess.run(
        [airflow, "dags", "test", "offset_retention", "--conf", asked],
        env=environment, capture_output=True, cwd=PROJECT_ROOT, timeout=800, check=False,
    )  # fmt: skip
    return Ran(home, seen, done.stdout + done.stderr)


@pytest.mark.parametrize("login", LOGINS)
def test_what_a_run_leaves_behind(both: dict[str, Ran], login: str) -> None:
    assert_no_secret_in(both[login], is_login_right=login == "right")


@pytest.mark.full
@pytest.mark.usefixtures("needs_airflow", "needs_spark")
def test_what_a_run_with_keys_in_uris_leaves_behind(cluster: SecureCluster, java: JavaHome, tmp_path: Path) -> None:
    seen = Seen(new_canaries())
    with watching_arguments(seen):
        ran = run(cluster, java, tmp_path, seen, login="in a URI")
    assert_no_secret_in(ran, is_login_right=False)


def assert_no_secret_in(ran: Ran, *, is_login_right: bool) -> None:
    seen, said = ran.seen, ran.output[-3_000:].decode()
    seen.search(ran.output, "output")
    states = task_states(ran.home / "airflow" / "airflow.db")
    assert states["publish_tables"] == ("success" if is_login_right else "upstream_failed"), said
    assert states["snapshot_log"] == ("success" if is_login_right else "failed"), said
    for path in ran.home.rglob("*"):
        is_given = path.is_symlink() or path.name in ("airflow.cfg", "simple_auth_manager_passwords.json.generated")
        if path.is_file() and not is_given:
            seen.search(path.read_bytes(), path.relative_to(ran.home))
    for name in subprocess.check_output(["git", "ls-files", "-om", "--exclude-standard"], cwd=PROJECT_ROOT).split():
        if (file := PROJECT_ROOT / name.decode()).is_file():
            seen.search(file.read_bytes(), file)
    assert seen.found == []
    assert (ran.home / "events").exists()
    assert len(list((ran.home / "var" / "alerts").glob("*.json"))) >= (0 if is_login_right else 1)


def task_states(database: Path) -> dict[str, str]:
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM rendered_task_instance_fields").fetchone()[0]
        return dict(connection.execute("SELECT task_id, state FROM task_instance"))


def environment_of(
    cluster: SecureCluster, java: JavaHome, c: Mapping[str, str], home: Path, *, login: str
) -> dict[str, str]:
    """A deployment of everything that takes a secret."""
    project_home(home)
    (home / "events").mkdir()
    conf = home / "spark-conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir {(home / 'events').as_uri()}\n"
    )
    extra = cluster.properties(READER) | {
        "sasl.password": c["sasl.password"],
        "ssl.key.password": c["ssl.key.password"],
        "sasl.oauthbearer.client.credentials.client.secret": c["oauth secret"],
        "sasl.oauthbearer.client.secret": c["oauth secret of librdkafka"],
        "sasl.oauthbearer.extensions": f"key={c['extension']}",
    }
    if login == "wrong":
        extra["sasl.jaas.config"] = extra["sasl.jaas.config"].replace(PASSWORDS[READER], c["wrong password"])
    kafka = {"conn_type": "kafka", "login": "somebody", "password": c["connection password"], "extra": extra}
    slack = {"conn_type": "slackwebhook", "password": f"http://127.0.0.1:9/services/{c['slack']}"}
    smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": 9, "login": "u", "password": c["smtp"]}
    smtp["extra"] = {"retry_limit": 0, "timeout": 1, "from_email": "a@x.org"}
    apprise = {"conn_type": "apprise", "extra": {"config": {"path": f"json://u:{c['apprise']}@127.0.0.1:9/x"}}}
    lake = {
        "type": "jdbc", "uri": f"jdbc:sqlite:{home / 'catalog.db'}", "warehouse": str(home / "warehouse"),
        "jdbc.password": c["catalog password"], "token": c["catalog token"], "s3.secret-access-key": c["s3 secret"],
    }  # fmt: skip
    places = {}
    if login == "in a URI":
        places["SEXTON_ARCHIVE"] = f"s3://KEY:a/{c['archive key']}@b@bucket/archive"
        lake["warehouse"] = f"s3://KEY:a%2F{c['warehouse key']}%40b@bucket/warehouse"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "SEXTON", "AWS"))}
    return {
        **kept,
        **places,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(PROJECT_ROOT),
        "JAVA_HOME": str(java.home),
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__FERNET_KEY": "",
        "AIRFLOW__API__SECRET_KEY": c["fernet"],
        "AIRFLOW__API_AUTH__JWT_SECRET": c["jwt"],
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "AIRFLOW_CONN_TEAM": json.dumps(slack),
        "AIRFLOW_CONN_MAIL": json.dumps(smtp),
        "AIRFLOW_CONN_PAGER": json.dumps(apprise),
        "SEXTON_NOTIFY": json.dumps(["slack:team", "smtp:mail:a@x.org", "apprise:pager"]),
        "SEXTON_NOTIFY_DETAILS": "true",
        "SEXTON_HOME": str(home),
        "SEXTON_SETTLE_MS": "500",
        "SEXTON_SPARK_JARS": ",".join(map(str, jars.ensure(settings().cache, "spark"))),
        "SEXTON_CATALOG_PROPERTIES": json.dumps(lake),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_SUBMIT_OPTS": QUICK_JVM,
        "AWS_SECRET_ACCESS_KEY": c["s3 secret"],
        "AWS_SESSION_TOKEN": c["s3 token"],
        "SOMETHING_PASSWORD": c["environment"],
        "HTTPS_PROXY": f"http://u:{c['proxy']}@127.0.0.1:9",
        "NO_PROXY": "127.0.0.1,localhost",
        "SPARK_SOMETHING_SECRET": c["spark"],
        "GIT_ASKPASS": c["git"],
    }
