"""One real Airflow with two clusters: a scheduled run, a backfill, a run from admin snapshots and an approved deletion.

The first cluster hides its offsets log from both of its connections: `offset_retention` from admin snapshots, then its
plan by `apply_tombstones`. The log of the other is read for each interval of its schedule."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pyarrow import fs as pafs

from sexton.as_text import now_ms
from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig, client_config
from sexton.lake.read import published_runs, read_published
from sexton.ledger.ledger import Ledger
from sexton.plans.read_plan import read_plan
from sexton.settings import Settings
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from sexton_dev.system import MAIN_DAG, System
from sexton_dev.workload import commit_offsets
from tests import airflow_calls
from tests.airflow_database import lake_of, system_in
from tests.clients import joined, make_topics, offsets_of
from tests.integration.secure_broker import SEEING, grant
from tests.integration.stages import snapshot
from tests.integration.test_apply_dag import APPLY, EVERY_GROUP, NO_SWEEP, USERS, Run, wait_for

READER, APPLIER = "reader", "applier"
PASSWORDS = {READER: "reader-secret", APPLIER: "applier-secret"}
GROUPS = ("billing", "web")
OPEN, OPEN_DAG, HISTORY_DAG = "open", f"{MAIN_DAG}__open", "offset_history__open"
"""The cluster whose log may be read."""
BEHIND_MS = 63_000
"""So much the clock of the first admin snapshot is behind: a retention, and something for the admin snapshot itself."""
ENDS = {"success", "failed"}
RUN_TIMEOUT_S = 1_200
"""Of one run, on a machine that is busy with something else."""
OFFSETS = [TopicPartition("orders", part, 10 + part, f"m{part}") for part in range(3)]

pytestmark = pytest.mark.timeout(2_400)


@dataclass
class World:
    """An Airflow whose connections may not read the log, and the broker."""

    system: System
    clients: ClientConfig
    """Of who may do everything."""
    cluster_id: str
    open_id: str
    ticks: list[int]
    """Where the two intervals of the open cluster's schedule begin and end, in seconds."""

    def end_of(self, run_id: str) -> dict[str, str]:
        """The states of the tasks of a run of the main DAG that went well."""
        api = self.system.api()
        wait_for(lambda: api.run_state(MAIN_DAG, run_id) in ENDS, lambda: self.log(run_id), within_s=RUN_TIMEOUT_S)
        state = api.run_state(MAIN_DAG, run_id)
        states = {name: str(task["state"]) for name, task in api.task_states(MAIN_DAG, run_id).items()}
        assert state == "success", self.log(run_id)[-8_000:]
        return states

    def log(self, run_id: str) -> str:
        folder = self.system.home.log_folder / f"dag_id={MAIN_DAG}" / f"run_id={run_id}"
        return "\n".join(file.read_text("utf-8", "replace") for file in sorted(folder.rglob("*.log")))

    def offsets(self) -> dict[str, Any]:
        return dict(offsets_of(self.clients, GROUPS))


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path], needs_airflow: None
) -> Iterator[World]:
    home = tmp_path_factory.mktemp("home")
    sasl, system = free_port(), system_in(home, users=USERS)
    config, clients = system.config, client_config({}, bootstrap_servers=system.config.bootstrap_servers)
    properties = {**NO_SWEEP, **secured(sasl), "group.initial.rebalance.delay.ms": "0"}
    hidden = EmbeddedBroker(
        system.broker_directory, port=system.broker_port, java=java, jars=kafka_jars, settings=properties
    )
    other = EmbeddedBroker(home / "open", port=free_port(), java=java, jars=kafka_jars, settings=NO_SWEEP)
    with ExitStack() as stack:
        stack.callback(hidden.stop)
        hidden.start()
        stack.enter_context(other)
        prepare(clients, config, sasl)
        ticks = committed_by_tick(client_config({}, bootstrap_servers=other.bootstrap_servers))
        clusters = {
            "hidden": {"cluster_id": hidden.cluster_id},
            OPEN: {"cluster_id": other.cluster_id, "schedule": schedule_of(ticks)},
        }
        stack.callback(system.stop)
        system.start(
            SEXTON_SCHEDULE="",
            SEXTON_SETTLE_MS="500",
            SEXTON_CLUSTERS=json.dumps(clusters),
            **EVERY_GROUP,
            AIRFLOW_CONN_KAFKA_DEFAULT=connection(properties_of(READER, sasl)),
            AIRFLOW_CONN_KAFKA_APPLIER=connection(properties_of(APPLIER, sasl)),
            AIRFLOW_CONN_KAFKA_OPEN=connection({"bootstrap.servers": other.bootstrap_servers}),
        )
        for pool in ("sexton_kafka", "sexton_apply"):
            system.api().ensure_pool(f"{pool}__{OPEN}", slots=1, description="")
        for dag_id in (MAIN_DAG, APPLY, OPEN_DAG, HISTORY_DAG):
            wait_for(lambda dag_id=dag_id: system.api().has_dag(dag_id), lambda: "no such DAG")
            system.api().set_paused(dag_id, False)
        yield World(system=system, clients=clients, cluster_id=hidden.cluster_id, open_id=other.cluster_id, ticks=ticks)


@pytest.fixture(scope="module")
def retained(world: World) -> str:
    """A run of the main DAG as somebody triggers it, which goes on beside those of the other cluster."""
    return world.system.api().trigger(MAIN_DAG, {})


def committed_by_tick(clients: ClientConfig) -> list[int]:
    """One group commits before the end of the first interval, one more before that of the second; when they meet."""
    admin = make_topics(clients, {"orders": 3})
    commit_offsets(admin, "warm-up", [TopicPartition("orders", 0, 1)])
    while time.time() % 60 > 40:  # a cron has no two ticks of two minutes alone
        time.sleep(0.2)
    ticks = [int(time.time())]
    for group in GROUPS:
        commit_offsets(admin, group, OFFSETS)
        ticks.append(int(time.time()) + 1)
        while time.time() < ticks[-1] + 0.1:
            time.sleep(0.05)
    return ticks


def schedule_of(ticks: list[int]) -> str:
    """A cron with seconds whose ticks of this day are these."""
    told = [datetime.fromtimestamp(tick, UTC) for tick in ticks]
    assert len({(tick.hour, tick.minute) for tick in told}) == 1
    return f"{told[0].minute} {told[0].hour} * * * {','.join(str(tick.second) for tick in told)}"


def secured(sasl_port: int) -> dict[str, str]:
    """A second listener for SASL/PLAIN; whoever comes by the first one may do everything."""
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    return {
        "listeners": f"SASL://127.0.0.1:{sasl_port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


def properties_of(name: str, sasl_port: int) -> dict[str, str]:
    return {
        "bootstrap.servers": f"127.0.0.1:{sasl_port}", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": name, "sasl.password": PASSWORDS[name],
    }  # fmt: skip


def connection(properties: dict[str, str]) -> str:
    return json.dumps({"conn_type": "kafka", "extra": properties})


def prepare(clients: ClientConfig, config: Settings, sasl_port: int) -> None:
    """Rights, a topic, groups whose member has committed and left, and a first admin snapshot, which is dated back: by
    Admin API nothing tells when what it sees was committed."""
    make_topics(clients, {"orders": 3})
    grant(clients, READER, *SEEING)
    grant(clients, APPLIER, *SEEING, ("GROUP", "*", "DELETE"), ("TOPIC", "orders", "READ"))
    for group in GROUPS:
        with closing(joined(clients, group, "orders")) as consumer:
            consumer.commit(offsets=OFFSETS, asynchronous=False)
    reader = client_config(properties_of(READER, sasl_port))
    assert snapshot(reader, config.archive_uri, now_ms=lambda: now_ms() - BEHIND_MS).coverage == "admin"


@pytest.mark.usefixtures("retained")
def test_each_interval_is_run_once_by_the_schedule_or_a_backfill(world: World) -> None:
    """What is published for the end of an interval is what had been committed by then."""
    api, ends_ms = world.system.api(), [1_000 * tick for tick in world.ticks]
    first, last = pairwise(ends_ms)

    def states() -> dict[tuple[int, int], str]:
        return {interval: run["state"] for interval, run in airflow_calls.runs_by_interval(api, OPEN_DAG).items()}

    def logs() -> str:
        return (world.system.config.var / "log" / "airflow-scheduler.log").read_text("utf-8", "replace")

    wait_for(lambda: last in states(), logs)  # a DAG that is switched on runs its last interval
    backfill = airflow_calls.backfill(api, OPEN_DAG, first[0], last[0])
    wait_for(lambda: {*states().values()} <= ENDS and len(states()) == 2, logs)
    assert states() == {first: "success", last: "success"}
    wait_for(lambda: airflow_calls.is_backfill_over(api, backfill), logs)
    lake = lake_of(world.system.config)
    runs = {run.key.as_of_ms: run for run in published_runs(lake, world.open_id)}
    assert runs.keys() == {first[1], last[1]}
    for end_ms, groups in ((first[1], GROUPS[:1]), (last[1], GROUPS)):
        rows = read_published(lake, runs[end_ms], "committed_offsets").to_pylist()
        assert {(row["group_id"], row["partition"], row["committed_offset"]) for row in rows} == {
            ("warm-up", 0, 1),
            *((group, place.partition, place.offset) for group in groups for place in OFFSETS),
        }
    for log in (world.system.home.log_folder / f"dag_id={OPEN_DAG}").rglob("*.log"):
        lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        assert [line for line in lines if line["level"] not in ("debug", "info")] == [], log
        assert [line for line, count in Counter(line["event"] for line in lines).items() if count > 3] == [], log

    between = last[1] - 1
    history = api.trigger(HISTORY_DAG, {"from": str(between), "to": str(last[1]), "step_minutes": 1})
    wait_for(lambda: api.run_state(HISTORY_DAG, history) in ENDS, logs)
    told = airflow_calls.of_task(api, HISTORY_DAG, history, "build_history", "xcomEntries/return_value")["value"]
    assert (told["published"], told["not_covered"], told["failed"], told["alerts"]) == (1, 0, 0, [])
    assert [run.key.as_of_ms for run in published_runs(lake, world.open_id)] == [first[1], between, last[1]]


def test_a_run_by_admin_plans_and_what_is_approved_is_deleted(world: World, retained: str) -> None:
    """A retention after the first admin snapshot a run takes the second one, and plans what is due by both."""
    states = world.end_of(retained)
    assert {states[name] for name in ("snapshot_log", "replay_groups", "find_expired", "plan_tombstones")} == {
        "success"
    }
    assert {states[name] for name in ("validate_tables", "publish_tables")} == {"success"}
    assert "admin" in world.log(retained)
    config = world.system.config
    lake = lake_of(config)
    (newest,) = published_runs(lake, world.cluster_id)
    assert (newest.row["coverage"], newest.row["engine"]) == ("admin", "spark")
    checks = read_published(lake, newest, "dq_results").to_pylist()
    assert [row for row in checks if row["severity"] == "critical" and not row["success"]] == []
    verdicts = read_published(lake, newest, "offset_verdicts").to_pylist()
    assert {row["broker_verdict"] for row in verdicts if row["group_id"] in GROUPS} == {"expire"}

    plan_id, cluster_id = newest.row["plan_id"], newest.row["cluster_id"]
    told, links = (airflow_calls.of_task(world.system.api(), MAIN_DAG, retained, "publish_tables", what)
                   for what in ("xcomEntries/return_value", "links"))  # fmt: skip
    assert (told["value"]["plan_id"], told["value"]["failed_expectations"]) == (plan_id, 0)
    link = f"/sexton/?cluster={cluster_id}&as_of={newest.key.as_of_ms}"
    assert links["extra_links"] == {
        "Dashboard": world.system.home.url + link,
        "Spark UI": world.system.spark_ui(),
    }
    local = pafs.LocalFileSystem()
    plan = read_plan(local, config.archive_uri, cluster_id, plan_id)
    assert (plan.record.coverage, plan.sha256) == ("admin", newest.row["plan_sha256"])
    assert plan.undo.num_rows == len(GROUPS) * len(OFFSETS)
    assert len(world.offsets()) == len(GROUPS)

    run = Run(world.system, APPLY, {"plan_id": plan_id, "sink": "coordinator"})
    question = run.wait_until_it_asks()
    assert "compared with admin snapshots" in question["body"]
    run.answer("Approve", by="approver")
    assert run.end() == "success", run.log()
    assert set(run.states().values()) == {"success"}
    assert world.offsets() == {}
    claim, *_ = Ledger(local, config.archive_uri, cluster_id, plan_id).entries()
    assert (claim.body.approved_by, claim.body.about["coverage"]) == ("approver", "admin")  # type: ignore[union-attr]
