"""docker-compose.yaml's system without Docker: its services as processes, the pipeline through them, a person's path.

Airflow's four services on a real Postgres, the tables' catalog there as well, archive, run folders and warehouse in an
object store (moto's), a real broker, and a Spark standalone cluster of a master and two workers. The connection is of
type `spark`: each task is a spark-submit (the Connect server: tests/deploy/test_spark_connect.py). The executors have a
Python of their own, with the project's wheel and nothing of the working tree; driver and workers have no folder in
common. What was published is held against the broker's answers, and against a run on one machine; then a person goes
through the dashboard in a browser, from the group that loses offsets next to a plan, and another one approves it.
"""

import json
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pyspark
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from pyarrow import fs as pafs

from sexton.airflow.runs import run_folder
from sexton.job_params import ReplayRequest
from sexton.kafka import jars
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import committed_offsets
from sexton.kafka.session import ClusterSession
from sexton.lake.catalog import Lake, open_lake
from sexton.lake.read import PublishedRun, published_runs, read_published
from sexton.local import compose_init
from sexton.local.compose_init import KEPT
from sexton.pipeline.standalone import run_audit
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from sexton.settings import settings
from sexton_dev.airflow_api import AirflowApi
from sexton_dev.workload import commit_offsets
from tests.clients import make_topics
from tests.deploy.services import AIRFLOW, SPARK, WORKERS, Services, running_services
from tests.deploy.wheel import python_with_wheel
from tests.ui import chromium
from tests.waiting import until

RETAIN, APPLY = "offset_retention", "apply_tombstones"
STAGES = ["snapshot_log", "replay_groups", "find_expired", "plan_tombstones", "validate_tables", "publish_tables"]
RETENTION_S = 60
DUE = ("billing", "mail-merge", "rockets-🚀")
"""Groups whose offsets have outlived the retention when the run describes them."""
NEXT = "nightly-export"
"""The group that loses offsets next, after them."""
WIDE = tuple(f"wide-{number}" for number in range(8))
"""Groups that make the log long: large commits, again and again."""
DUE_PARTITIONS = 3
PARTITIONS = 20
METADATA = "m" * 4_000
ROUNDS = 30
CHUNK_BYTES = 256 * 1024
LOG_BYTES = 64 * CHUNK_BYTES
"""So much at least, for several tasks on each worker, and partial folds that go from one worker to the other."""
TRIED_MINUTES = 30
"""A retention for what-if."""
PEOPLE = {"asks": "admin", "approves": "approver"}
PATIENCE_S, SUBMIT_S = 1_200, 400
JOB = """
import sys
from pyspark.sql import SparkSession
with SparkSession.builder.appName(sys.argv[1]).getOrCreate() as spark:
    print(f"counted {spark.range(1_000).count()}", flush=True)
"""
BROKER = {
    "offsets.retention.minutes": str(RETENTION_S // 60),
    "offsets.retention.check.interval.ms": "3600000",  # its own sweep comes when all is over
}

SPARK_DEFAULTS = {
    "spark.cores.max": str(len(WORKERS)),  # a core of each; docker-compose.yaml has one worker
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(3_000),
    pytest.mark.usefixtures("needs_broker", "needs_spark", "needs_airflow", "needs_browser", "needs_postgres"),
]

OffsetKey = tuple[str, str, int]

wait_for = partial(until, within_s=PATIENCE_S, every_s=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The services after one run of offset_retention, and what was seen of it."""

    services: Services
    clients: ClientConfig
    states: dict[str, str]
    run_id: str
    pythons: "Pythons"
    committed: dict[OffsetKey, tuple[int, str]]
    lake: Lake
    run: PublishedRun

    def api(self, user: str = "admin") -> AirflowApi:
        return api_of(self.services, user)

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = read_published(self.lake, self.run, table).to_pylist()
        return found


@dataclass(slots=True)
class Pythons:
    """The executors' Python processes that were seen: worker -> (program, working folder)."""

    seen: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)

    def look(self, services: Services) -> None:
        for worker in WORKERS:
            for process in psutil.Process(services.pid(worker)).children(recursive=True):
                try:
                    command, folder, given = process.cmdline(), process.cwd(), process.environ()
                except psutil.Error:
                    continue
                if "pyspark.daemon" in command:
                    self.seen.setdefault(worker, set()).add((command[0], folder))
                    self.paths.update(given.get("PYTHONPATH", "").split(":"))


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("cluster")
    jars.ensure(settings().cache, "s3")
    python = python_with_wheel(settings().cache / "cluster" / "python", folder / "wheel")
    changes = {"SEXTON_SCHEDULE": "", "SEXTON_SETTLE_MS": "500", "SEXTON_FOLD_TASK_BYTES": str(CHUNK_BYTES)}
    changes["AIRFLOW_CONN_SPARK_DEFAULT"] = '{"conn_type": "spark", "host": "spark://spark-master:7077"}'
    changes["SEXTON_MAX_SHARE_OF_GROUPS"] = "1"  # all but a few groups of this cluster are due
    with (
        pytest.MonkeyPatch.context() as patch,
        running_services(folder / "run", python=python, changes=changes, broker_settings=BROKER) as services,
    ):
        events = services.folder / "events"
        events.mkdir()
        told = {**SPARK_DEFAULTS, "spark.eventLog.dir": events.as_uri()}
        lines = "".join(f"{name} {value}\n" for name, value in told.items())
        lines += (services.secrets / "airflow" / compose_init.SPARK_DEFAULTS).read_text("utf-8")
        (services.folder / "spark-conf" / "spark-defaults.conf").write_text(lines, encoding="utf-8")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name, raising=False)
        given = services.environment("airflow-scheduler")
        for name in given.keys() & {"NO_PROXY", "PGPASSFILE"} | {name for name in given if name.startswith("AWS_")}:
            patch.setenv(name, given[name])
        yield services


@pytest.fixture(scope="module")
def ran(services: Services) -> Ran:
    return run_pipeline(services)


def run_pipeline(services: Services) -> Ran:
    """Commit, start Airflow, let what is due fall due, and let the DAG describe it."""
    clients = client_config({}, bootstrap_servers=f"127.0.0.1:{services.ports.kafka}")
    admin = make_topics(clients, {"orders": PARTITIONS})
    with ClusterSession(clients) as session:
        committed_offsets(session, DUE[0])  # whoever asks for a coordinator first waits until its topic is made
    for group in DUE:
        commit_offsets(admin, group, [TopicPartition("orders", part, 100 + part) for part in range(DUE_PARTITIONS)])
    due_at = time.monotonic() + RETENTION_S + 2
    services.init()
    services.start(*AIRFLOW)
    services.wait(*SPARK, *AIRFLOW)
    api = api_of(services)
    for dag_id in (RETAIN, APPLY):
        wait_for(lambda dag_id=dag_id: api.has_dag(dag_id), lambda: services.told("airflow-dag-processor"))
        api.set_paused(dag_id, False)
    time.sleep(max(0.0, due_at - time.monotonic()))
    commit_offsets(admin, NEXT, [TopicPartition("orders", 0, 7), TopicPartition("orders", 1, 8)])
    commit_widely(admin)
    run_id = api.trigger(RETAIN, {})
    pythons = Pythons()

    def is_over() -> bool:
        pythons.look(services)
        return api.run_state(RETAIN, run_id) in ("success", "failed")

    until(is_over, lambda: services.told("airflow-scheduler"), within_s=PATIENCE_S, every_s=2)
    lake = lake_of(services)
    (run,) = published_runs(lake)
    return Ran(
        services=services,
        clients=clients,
        states={name: str(task["state"]) for name, task in api.task_states(RETAIN, run_id).items()},
        run_id=run_id,
        pythons=pythons,
        committed=committed(clients),
        lake=lake,
        run=run,
    )


def commit_widely(admin: AdminClient) -> None:
    """More log than a driver folds by itself: what a commit's metadata may hold, again and again."""
    waiting: list[Future[Any]] = []
    for number in range(ROUNDS):
        for group in WIDE:
            offsets = [TopicPartition("orders", part, number, METADATA) for part in range(PARTITIONS)]
            asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)])
            waiting.extend(asked.values())
    for answer in waiting:
        assert all(place.error is None for place in answer.result(60).topic_partitions)


def committed(clients: ClientConfig) -> dict[OffsetKey, tuple[int, str]]:
    """What the broker says of every group."""
    with ClusterSession(clients) as session:
        return {
            (group, *place): (found.committed_offset, found.metadata)
            for group in (*DUE, NEXT, *WIDE)
            for place, found in committed_offsets(session, group).items()
        }


def api_of(services: Services, user: str = "admin") -> AirflowApi:
    return AirflowApi(services.url, user=user, password=password_of(services, user))


def password_of(services: Services, user: str) -> str:
    return str(json.loads((services.secrets / "airflow" / "passwords.json").read_text("utf-8"))[user])


def run_folder_of(ran: Ran) -> RunFolder:
    given = ran.services.environment("airflow-scheduler")
    return RunFolder(run_folder(RETAIN, ran.run_id, root=given["SEXTON_RUNS"]))


def lake_of(services: Services) -> Lake:
    """The lake as any reader would open it, by the properties that the services have."""
    return open_lake(json.loads(services.environment("airflow-scheduler")["SEXTON_CATALOG_PROPERTIES"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What Spark's event log has of a job: tasks that succeeded, by the worker whose executor ran them."""

    name: str
    tasks: Counter[str]
    failed: int


def applications(services: Services) -> dict[str, Application]:
    found = {}
    pages = {str(port): worker for worker, port in services.ports.worker_pages.items()}
    for file in (services.folder / "events").iterdir():
        events = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        (name,) = (each["App Name"] for each in events if each["Event"] == "SparkListenerApplicationStart")
        homes = {
            each["Executor ID"]: pages[str(urlsplit(each["Executor Info"]["Log Urls"]["stdout"]).port)]
            for each in events
            if each["Event"] == "SparkListenerExecutorAdded"
        }
        ended = [each["Task Info"] for each in events if each["Event"] == "SparkListenerTaskEnd"]
        tasks = Counter(homes[each["Executor ID"]] for each in ended if not each["Failed"])
        found[name] = Application(name=name, tasks=tasks, failed=sum(each["Failed"] for each in ended))
    return found


def test_every_stage_succeeds(ran: Ran) -> None:
    assert ran.states == dict.fromkeys(STAGES, "success")


def test_archive_runs_and_tables_are_in_the_object_store(ran: Ran) -> None:
    given = ran.services.environment("airflow-scheduler")
    store, path = pafs.FileSystem.from_uri(given["SEXTON_ARCHIVE"])
    files = store.get_file_info(pafs.FileSelector(path, recursive=True))
    assert sum(file.size or 0 for file in files if file.base_name.endswith(".log")) > LOG_BYTES
    assert store.get_file_info(pafs.FileSelector("sexton/warehouse", recursive=True))
    written = run_folder_of(ran).files()
    wanted = {"run.json", "summary.json", "report.html", "plan/plan.json", "dq/index.html"}
    assert {*written} >= wanted | {f"outcome/{stage}.json" for stage in STAGES}


def test_no_machine_shares_a_file_with_another(ran: Ran) -> None:
    services = ran.services
    assert {path.name for path in (services.home / "var").iterdir()} <= {"log", "alerts"}
    for worker in WORKERS:
        home = services.home_of(worker)
        assert [path for path in home.rglob("*") if not (path.is_symlink() or home / ".cache" in path.parents)] == []


def test_the_run_equals_that_of_one_machine(ran: Ran, tmp_path: Path) -> None:
    given = ran.services.environment("airflow-scheduler")
    asked = ReplayRequest(
        run_id="here", archive=given["SEXTON_ARCHIVE"], as_of_ms=ran.run.key.as_of_ms, taken_at_ms=0, settle_ms=500
    )
    with SerialEngine(quiet=True) as engine:
        here = run_audit(engine, asked, tmp_path)
    there = run_folder_of(ran)
    assert here.plan_id == there.read_run().plan_id
    for table in ("committed_offsets", "groups", "members", "offset_verdicts", "tombstones", "load_profile"):
        for part in here.log_partitions:
            rows = [folder.read_table(table, part).drop_columns(["run_id"]) for folder in (RunFolder(tmp_path), there)]
            assert rows[0].equals(rows[1]), table


def test_executors_of_both_workers_did_the_work(ran: Ran) -> None:
    """Of every stage but the snapshot, whose few megabytes it fetches, and publishing, which moves references."""
    found = applications(ran.services)
    assert found.keys() == {*STAGES} - {"snapshot_log", "publish_tables"}
    assert set(found["replay_groups"].tasks) == set(WORKERS)
    for name, application in found.items():
        assert sum(application.tasks.values()) > 0, name
        assert application.failed == 0, name


def test_executors_have_the_wheel_and_nothing_of_the_working_tree(ran: Ran) -> None:
    assert ran.pythons.seen.keys() == set(WORKERS)
    for worker, seen in ran.pythons.seen.items():
        for program, folder in seen:
            assert program == str(ran.services.python)
            assert Path(folder).is_relative_to(ran.services.folder / worker)
    spark = Path(pyspark.__file__).parent
    assert [path for path in ran.pythons.paths if not Path(path).is_relative_to(spark)] == []


def test_what_was_published_is_what_the_broker_answers(ran: Ran) -> None:
    rows = ran.rows("committed_offsets")
    assert {
        (row["group_id"], row["topic"], row["partition"]): (row["committed_offset"], row["metadata"]) for row in rows
    } == ran.committed
    assert {group for group, *_ in ran.committed} == {*DUE, NEXT, *WIDE}


def test_what_is_due_is_planned(ran: Ran) -> None:
    assert {row["group_id"] for row in ran.rows("tombstones")} == set(DUE)
    assert ran.run.row["plan_id"]


def test_from_the_next_loss_to_the_approval_and_the_ledger(ran: Ran, tmp_path: Path) -> None:
    """Two people with a browser each: one admin snapshots and asks, the other approves; the broker loses what the plan
    names."""
    users = {who: {"user": name, "password": password_of(ran.services, name)} for who, name in PEOPLE.items()}
    asked = {"url": ran.services.url, "minutes": TRIED_MINUTES, **users}
    scheduler_log = str(ran.services.log("airflow-scheduler"))
    try:
        told = chromium.run_script("path.mjs", tmp_path, schedulerLog=scheduler_log, **asked)
    except AssertionError as error:  # what a page does not show, the tasks of the run explain
        for log in ran.services.home.glob(f"var/log/airflow/dag_id={APPLY}/*/*/*.log"):
            error.add_note(f"{log.parent.name} {log.name}: {log.read_text('utf-8')[-2_000:]}")
        raise
    assert (told["errors"], told["foreign"]) == ([], [])
    assert told["next"] == NEXT
    assert told["offsets"] == len([place for place in ran.committed if place[0] == NEXT])
    assert told["story"], "its commits are told"
    due = len(DUE) * DUE_PARTITIONS
    assert told["whatIf"][:4] == [str(due), "0", "0", str(due)], "with that retention all of them would stay"
    assert told["plan"] == ran.run.row["plan_id"]
    assert told["question"] == f"Delete what plan {told['plan'][:12]} names?"
    wait_for(
        lambda: ran.api().run_state(APPLY, told["run"]) == "success",
        lambda: str(ran.api().task_states(APPLY, told["run"])),
    )
    assert {row[3] for row in told["ledger"]} == set(DUE)
    assert {row[10] for row in told["ledger"]} == {PEOPLE["approves"]}
    assert {row[6] for row in told["ledger"]} == {"done"}
    assert {group for group, *_ in committed(ran.clients)} == {NEXT, *WIDE}


def test_nobody_submits_without_the_secret_of_spark(ran: Ran) -> None:
    """Without one, and with another one: the master knows of no such application."""
    services = ran.services
    ours = (services.secrets / "airflow" / compose_init.SPARK_DEFAULTS).read_text("utf-8")
    secret = dict(line.split(" ", 1) for line in ours.splitlines())["spark.authenticate.secret"]
    attempts = {"stranger": "", "guesser": ours.replace(secret, "x" * len(secret))}
    with ThreadPoolExecutor() as pool:
        done = dict(zip(attempts, pool.map(lambda name: submit(services, name, attempts[name]), attempts), strict=True))
    for name, each in done.items():
        assert each.returncode != 0, name
        assert "counted" not in each.stdout, name
    with urllib.request.urlopen(f"{services.master_page}/json/", timeout=30) as answer:
        told = json.load(answer)
    known = {each["name"] for each in (*told["activeapps"], *told["completedapps"])}
    assert "replay_groups" in known
    assert not known & attempts.keys()


def submit(services: Services, name: str, properties: str) -> subprocess.CompletedProcess[str]:
    """Submit a job as the scheduler's tasks do, with a spark-defaults.conf of one's own."""
    conf = services.folder / name
    conf.mkdir()
    (conf / compose_init.SPARK_DEFAULTS).write_text(properties)
    (conf / "job.py").write_text(JOB)
    given = {
        **services.environment("airflow-scheduler"), "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    master = f"spark://127.0.0.1:{services.ports.spark_master}"
    command = ["spark-submit", "--master", master, str(conf / "job.py"), name]
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=SUBMIT_S, check=False)


def test_no_secret_is_told(ran: Ran) -> None:
    """In no log, no file of a run, no event of Spark's and no command line."""
    services = ran.services
    secrets = json.loads((services.secrets / KEPT / "secrets.json").read_text("utf-8")).values()
    places = [services.folder / "log", services.folder / "events", services.home / "var"]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    kept = run_folder_of(ran)
    assert len(files) + len(kept.files()) > 50
    told = (
        {str(path): path.read_bytes() for path in files}
        | {name: kept.read(name) for name in kept.files()}
        | {str(process.pid): " ".join(process.cmdline()).encode() for process in services.processes()}
    )
    assert [place for place, text in told.items() if any(secret.encode() in text for secret in secrets)] == []
