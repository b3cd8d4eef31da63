"""Deleting through Airflow, as its users do it: the REST API asks, other people answer, a broker loses.

One Airflow, one broker and one plan for all tests, in their order: those that must not delete come first, then what was
deleted is restored (in test_walks.py once more, in a browser), and all the while nobody answers one of the runs.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyarrow import fs as pafs

from sexton.airflow.runs import run_folder
from sexton.as_text import now_ms
from sexton.errors import SextonError
from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import committed_offsets
from sexton.kafka.session import ClusterSession
from sexton.ledger.ledger import Ledger
from sexton.runs.folder import RunRecord
from sexton.settings import Settings
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.system import System
from sexton_dev.workload import commit_offsets
from tests import airflow_calls
from tests.aged import age
from tests.airflow.parking import has_parked
from tests.airflow_database import system_in
from tests.clients import admin_of, make_topics, offsets_of
from tests.environment import with_settings
from tests.integration.stages import plan, snapshot
from tests.waiting import until

APPLY, RESTORE = "apply_tombstones", "restore_offsets"
USERS = {"admin": "admin", "approver": "user", "ops": "op", "watcher": "viewer"}
HOSTILE = "<img src=x onerror=alert(1)> {{ 7*7 }} `x` [y](http://evil)"
GROUPS = ("billing", "web", HOSTILE)
CANARY = "canary-that-nobody-may-read"
SILENCE_HOURS = 0.04  # 144 s, in which every test that answers has to, from the question on
RETENTION_MS = 60_000
NO_SWEEP = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": str(24 * 3_600_000)}
"""The broker's own retention takes what the plan takes, and it does not look while the tests run."""
EVERY_GROUP = {"SEXTON_MAX_SHARE_OF_GROUPS": "1"}
PATIENCE_S = 600
AHEAD = 3
"""Runs that get to their question side by side: as many as are answered well before that is too late."""
NEW_RUN = "a different question before, and Airflow still shows that one: trigger a new run"

wait_for = partial(until, within_s=PATIENCE_S, every_s=0.5, passing=(SextonError,))  # a busy machine may not answer
Offsets = dict[str, dict[tuple[str, int], tuple[int, str]]]

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(2_400)]


@dataclass
class World:
    """An Airflow, the broker that it may change, and a plan of everything that was committed there."""

    system: System
    clients: ClientConfig
    record: RunRecord
    committed: Offsets
    """What the broker has to have."""
    asking: list["Run"] = field(default_factory=list)

    @property
    def plan_id(self) -> str:
        return str(self.record.plan_id)

    @property
    def archive(self) -> Path:
        return Path(self.system.config.archive_uri)

    @property
    def plan_json(self) -> Path:
        return self.archive / self.record.cluster_id / "plans" / self.plan_id / "plan.json"

    def offsets(self) -> Offsets:
        return {
            group: {place: (offset.committed_offset, offset.metadata) for place, offset in answer.items()}
            for group, answer in offsets_of(self.clients, GROUPS).items()
        }

    def ledger(self, name: str) -> list[Any]:
        return Ledger(pafs.LocalFileSystem(), str(self.archive), self.record.cluster_id, name).entries()

    def nothing_is_done(self) -> None:
        assert self.offsets() == self.committed
        assert self.ledger(self.plan_id) == []

    def trigger(self, sink: str = "coordinator") -> "Run":
        return Run(self.system, APPLY, {"plan_id": self.plan_id, "sink": sink})


class Run:
    """One DAG run as people see it."""

    def __init__(self, system: System, dag_id: str, params: dict[str, Any]) -> None:
        self.api, self._system, self.dag_id = system.api(), system, dag_id
        self.run_id = self.api.trigger(dag_id, params)

    def states(self) -> dict[str, str]:
        return {name: str(task["state"]) for name, task in self.api.task_states(self.dag_id, self.run_id).items()}

    def wait_until_it_asks(self) -> dict[str, Any]:
        wait_for(lambda: self.states()["approve"] == "awaiting_input", self.log)
        wait_for(lambda: has_parked(self._system.config.var / "log" / "airflow-scheduler.log", self.run_id), self.log)
        return airflow_calls.question(self.api, self.dag_id, self.run_id, "approve")

    def answer(self, option: str, *, by: str) -> None:
        airflow_calls.answer(self._system.api(by), self.dag_id, self.run_id, "approve", option)

    def clear(self, *task_ids: str) -> None:
        cleared = {"dry_run": False, "only_failed": False, "dag_run_id": self.run_id, "task_ids": task_ids}
        self.api.call("POST", f"/api/v2/dags/{self.dag_id}/clearTaskInstances", cleared)

    def end(self) -> str:
        wait_for(lambda: self.api.run_state(self.dag_id, self.run_id) in ("success", "failed"), self.log)
        return self.api.run_state(self.dag_id, self.run_id)

    def log(self) -> str:
        """Every line that its tasks have logged."""
        folder = self._system.home.log_folder / f"dag_id={self.dag_id}" / f"run_id={self.run_id}"
        return "\n".join(file.read_text("utf-8", "replace") for file in sorted(folder.rglob("*.log")))

    def call(self, method: str, path: str, body: Any = None, *, by: str = "admin") -> Any:
        place = f"/api/v2/dags/{self.dag_id}/dagRuns/{self.run_id}{path}"
        return self._system.api(by).call(method, place, body)  # what only tests ask of Airflow


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path], needs_airflow: None
) -> Iterator[World]:
    home = tmp_path_factory.mktemp("home")
    system = system_in(home, users=USERS)
    config, clients = system.config, client_config({}, bootstrap_servers=system.config.bootstrap_servers)
    applier = {"bootstrap.servers": config.bootstrap_servers, "client.id": "applier", "sasl.password": CANARY}
    broker = EmbeddedBroker(
        system.broker_directory, port=system.broker_port, java=java, jars=kafka_jars, settings=NO_SWEEP
    )
    records: list[RunRecord] = []
    try:
        with broker:
            commit_everything(clients)
        age(broker.data, RETENTION_MS + 2_000)
        system.start(
            broker_settings=NO_SWEEP,
            meanwhile=lambda: records.append(plan_of_now(config, clients, home / "planned")),
            SEXTON_SCHEDULE="",
            **EVERY_GROUP,
            SEXTON_APPROVAL_TIMEOUT_HOURS=str(SILENCE_HOURS),
            AIRFLOW_CONN_KAFKA_APPLIER=json.dumps({"conn_type": "kafka", "extra": applier}),
        )
        for dag_id in (APPLY, RESTORE):
            wait_for(lambda name=dag_id: system.api().has_dag(name), lambda: "no such DAG")
            system.api().set_paused(dag_id, False)
        world = World(system=system, clients=clients, record=records[0], committed={})
        world.committed = world.offsets()
        assert set(world.committed) == set(GROUPS)
        yield world
    finally:
        system.stop()


@pytest.fixture(scope="module")
def silent(world: World) -> Run:
    """A run that nobody answers; it waits while the other tests run."""
    return world.trigger()


@pytest.fixture
def run(world: World) -> Run:
    """A run that asks. The next ones ask as well by then, and none of them reads the plan while a test changes it."""
    if not world.asking:
        world.asking = [world.trigger() for _ in range(AHEAD)]
        for each in world.asking:
            each.wait_until_it_asks()
    return world.asking.pop(0)


def commit_everything(clients: ClientConfig) -> None:
    """Some offsets of each group."""
    admin = make_topics(clients, {"orders": 3})
    with ClusterSession(clients) as session:
        committed_offsets(session, GROUPS[0])  # whoever asks for a coordinator first waits until its topic is made
    for number, group in enumerate(GROUPS):
        commit_offsets(admin, group, [TopicPartition("orders", part, 10 * number + part) for part in range(3)])


def plan_of_now(config: Settings, clients: ClientConfig, out: Path) -> RunRecord:
    """A plan of what the broker's retention of a minute would take, kept in the archive as publishing keeps it."""
    at = {"as_of_ms": now_ms(), "settle_ms": 500}
    snapshot(clients, config.archive_uri, **at)
    with with_settings(**EVERY_GROUP):
        return plan(config.archive_uri, out, **at)


def test_a_dry_run_ends_by_itself(world: World, silent: Run) -> None:
    run = world.trigger(sink="dry_run")
    assert run.end() == "success", run.log()
    assert run.states() == {"preview": "success", "approve": "skipped", "apply": "skipped", "notify": "skipped"}
    assert "now it would do: " in run.log()
    world.nothing_is_done()


def test_rejecting_deletes_nothing(world: World, run: Run) -> None:
    """People read names that are nothing but names, and who may only admin snapshot cannot answer."""
    question = airflow_calls.question(run.api, APPLY, run.run_id, "approve")
    assert question["subject"] == f"Delete what plan {world.plan_id[:12]} names?"
    assert question["options"] == ["Approve", "Reject"]
    assert not question["defaults"]
    assert "`billing`" in question["body"]
    assert "‹U+003C›img src=x" in question["body"]
    assert not set("<>{}") & set(question["body"])
    with pytest.raises(SextonError, match="403"):
        run.answer("Approve", by="watcher")
    run.answer("Reject", by="approver")
    assert run.end() == "success"
    assert run.states() == {"preview": "success", "approve": "success", "apply": "skipped", "notify": "skipped"}
    world.nothing_is_done()


def test_the_same_person_is_refused(world: World, run: Run) -> None:
    run.answer("Approve", by="admin")
    assert run.end() == "failed"
    assert run.states() == {"preview": "success", "approve": "success", "apply": "failed", "notify": "upstream_failed"}
    assert "another person must" in run.log()
    world.nothing_is_done()


def test_a_forged_approval_is_refused(world: World, run: Run) -> None:
    """The task marked as done, and an XCom put there that says who approved what: all that the API allows."""
    folder = Path(run_folder(APPLY, run.run_id, root=world.system.config.runs_uri))
    request = json.loads((folder / "approval" / "asked.json").read_text())
    forged = {
        **request, "chosen": ["Approve"], "user_id": "approver", "user_name": "approver", "answered_at_ms": now_ms(),
    }  # fmt: skip
    entry = {"key": "return_value", "value": json.dumps(forged)}
    run.call("POST", "/taskInstances/approve/xcomEntries", entry, by="ops")
    run.call("PATCH", "/taskInstances/approve", {"new_state": "success"}, by="ops")
    assert run.end() == "failed"
    assert run.states()["apply"] == "failed"
    assert "nobody has answered" in run.log()
    world.nothing_is_done()


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_run_that_is_cleared_does_not_ask_about_something_else(world: World, run: Run, is_forgotten: bool) -> None:
    """Airflow goes on showing what it showed first, also where nothing else remembers it: the run's folder may be gone,
    as after it has expired."""
    if is_forgotten:
        shutil.rmtree(Path(run_folder(APPLY, run.run_id, root=world.system.config.runs_uri)) / "approval")
    whole = world.plan_json.read_bytes()
    world.plan_json.write_bytes(whole.replace(b'"warnings"', b' "warnings"'))  # the same plan, told in other bytes
    try:
        run.clear("preview", "approve")
        assert run.end() == "failed"
    finally:
        world.plan_json.write_bytes(whole)
    refused_by = "approve" if is_forgotten else "preview"
    assert run.states()[refused_by] == "failed"
    assert NEW_RUN in run.log()
    world.nothing_is_done()


def test_what_another_person_approves_is_deleted(world: World) -> None:
    run = world.trigger()
    run.wait_until_it_asks()
    run.answer("Approve", by="approver")
    assert run.end() == "success", run.log()
    assert set(run.states().values()) == {"success"}
    assert world.offsets() == {}
    claim, *_ = world.ledger(world.plan_id)
    assert claim.body.approved_by == "approver"
    assert claim.body.sink == "coordinator"


def test_a_question_that_is_swapped_while_people_read_it(world: World) -> None:
    """`diff` is cleared alone while `approve` waits, and would ask about fewer offsets now."""
    restore = {"from_ledger": world.plan_id}
    run = Run(world.system, RESTORE, restore)
    shown = run.wait_until_it_asks()
    commit_offsets(admin_of(world.clients), "billing", [TopicPartition("orders", 0, 77)])
    now = world.offsets()
    run.clear("diff")
    wait_for(lambda: run.states()["diff"] == "failed", run.log)
    assert run.states()["approve"] == "awaiting_input"
    again = Run(world.system, RESTORE, restore)
    run.answer("Approve", by="approver")
    assert run.end() == "failed"
    assert run.states()["restore"] in ("None", "upstream_failed")  # as the scheduler ends the run before approve or not
    assert NEW_RUN in run.log()
    assert world.offsets() == now

    assert again.wait_until_it_asks()["body"] != shown["body"]
    again.answer("Approve", by="approver")
    assert again.end() == "success", again.log()
    world.committed["billing"] |= now["billing"]
    assert world.offsets() == world.committed


def test_silence_means_no(world: World, silent: Run) -> None:
    """What was deleted meanwhile was deleted once, by a run that somebody had answered."""
    assert silent.end() == "failed"
    assert silent.states() == {
        "preview": "success", "approve": "failed", "apply": "upstream_failed", "notify": "upstream_failed"
    }  # fmt: skip
    assert "which means no" in silent.log()
    assert world.offsets() == world.committed
    claims = [entry.body for entry in world.ledger(world.plan_id) if entry.kind == "claim"]
    assert [claim.approved_by for claim in claims] == ["approver"]


def test_no_secret_is_anywhere(world: World) -> None:
    """In no log, no XCom, no rendered field and no file of a run; only the environment that it was given in has it."""
    api = world.system.api()
    xcoms = api.call("GET", "/api/v2/dags/~/dagRuns/~/taskInstances/~/xcomEntries?limit=1000")
    for entry in xcoms["xcom_entries"]:
        assert CANARY not in json.dumps(entry)
    found = [
        path
        for path in world.system.config.var.rglob("*")
        if path.is_file() and path.stat().st_size < 1 << 26 and CANARY.encode() in path.read_bytes()
    ]
    assert found == []
