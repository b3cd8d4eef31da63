"""A person's walks by clicks alone, in Chromium: the forms of all DAGs, and what docs/how-to says to do in a browser.

One broker and one Airflow for all of them, in their order. The schedule has two intervals of ten seconds, which are
over when they are needed, and no more for a day. The steps of a walk are those of its page, word for word;
`python -m tests.ui.walks` makes the pictures of the pages anew from these very tests.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer, TopicPartition

from sexton.java import find_java
from sexton.kafka import jars
from sexton.kafka.admin import delete_group
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.session import ClusterSession
from sexton.local.compose_init import APPROVER
from sexton.settings import settings, variable
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.system import MAIN_DAG, System
from sexton_dev.workload import commit_offsets
from tests import airflow_calls
from tests.airflow_database import system_in
from tests.clients import make_topics, offsets_of
from tests.ui.walks import walk
from tests.waiting import until

MINUTE_S, LENGTH_S = 60, 10
"""The intervals begin at a full minute, which a form can name, and last ten seconds."""
OLD = ("old-report-1", "old-report-2")
"""What the policy takes."""
LOST = "web-shop"
"""Somebody deletes it during the last interval."""
GROUPS = (*OLD, LOST, "billing", "orders-live")
PARTITIONS, MESSAGES = 3, 60
POLICY = """\
version: 1
limits: {max_share_of_groups: 0.5, max_share_of_owner: 1}
rules:
  - name: old-reports
    match: {prefix: old-report-}
    retention: 1m
    owner: reporting
    reason: these reports are no longer made
    ticket: REPORT-12
"""
ONE_SOURCE = "give one of --from-plan PLAN_ID, --from-ledger PLAN_ID and --as-of INSTANT"
RUN_TIMEOUT_S = 1_500
"""On a machine that is busy with something else."""
DONE = {"success", "failed"}
PRESSED = ("offset_retention", "maintenance", "audit_replicas", "audit_transactions", "audit_lag")
"""The DAGs that need nothing but a press of Trigger."""
ENDING = PRESSED[1:]
"""Those of them whose runs are waited for here; of the first, the schedule's and the backfill's are."""
DASHBOARD_TIME = "%Y-%m-%d %H:%M:%S"

wait_for = partial(until, within_s=RUN_TIMEOUT_S, every_s=1)
Offsets = dict[str, dict[tuple[str, int], int]]

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(2_400)]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An Airflow, the broker that it may change, and the instants at which the intervals of its schedule meet."""

    system: System
    clients: ClientConfig
    ticks: list[int]
    deletion: Future[None]
    out: Path
    sent: dict[str, str] = field(default_factory=dict)
    """The runs whose forms were sent untouched, by DAG."""

    def walk(self, name: str, **asked: Any) -> Any:
        return walk(self.system, self.out, name, **asked)

    @property
    def instants(self) -> list[str]:
        """The ends of the intervals, newest first, as the dashboard writes them."""
        return [datetime.fromtimestamp(tick, UTC).strftime(DASHBOARD_TIME) for tick in reversed(self.ticks[1:])]

    def offsets(self) -> Offsets:
        return {
            group: {place: offset.committed_offset for place, offset in offsets.items()}
            for group, offsets in offsets_of(self.clients, GROUPS).items()
        }


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, needs_broker: None, needs_airflow: None, needs_browser: None
) -> Iterator[World]:
    home = tmp_path_factory.mktemp("home")
    system = system_in(home)
    policy = home / "policy.yaml"
    policy.write_text(POLICY, "utf-8")
    clients = client_config({}, bootstrap_servers=system.config.bootstrap_servers)
    broker = EmbeddedBroker(
        system.config.var / "kafka",
        port=system.broker_port,
        java=find_java(settings().cache, variable("JAVA_HOME"), variable("PATH")),
        jars=jars.ensure(settings().cache, "kafka"),
    )
    try:
        broker.start()
        commit(clients)
        ticks = ticks_after(int(time.time()))
        with ThreadPoolExecutor(1) as beside:
            deletion = beside.submit(delete_at, ticks[1] + LENGTH_S // 2, clients)
            system.start(
                SEXTON_ENGINE="auto",
                SEXTON_SCHEDULE=schedule_of(ticks),
                SEXTON_SETTLE_MS="500",
                SEXTON_MAINTENANCE_SCHEDULE="",
                SEXTON_REPLICAS_SCHEDULE="",
                SEXTON_TRANSACTIONS_SCHEDULE="",
                SEXTON_LAG_SCHEDULE="",
                SEXTON_POLICY=str(policy),
            )
            yield World(
                system=system, clients=clients, ticks=ticks, deletion=deletion, out=tmp_path_factory.mktemp("pictures")
            )
    finally:
        system.stop()
        broker.stop()


def ticks_after(now_s: int) -> list[int]:
    """Where two intervals begin and end; at the end of the last one the policy takes what was committed by now."""
    begin_s = -(-(now_s + MINUTE_S + 2 - 2 * LENGTH_S) // MINUTE_S) * MINUTE_S
    return [begin_s + number * LENGTH_S for number in range(3)]


def schedule_of(ticks: list[int]) -> str:
    """A cron with seconds whose ticks are these, and no others for the rest of the day."""
    told = [datetime.fromtimestamp(tick, UTC) for tick in ticks]
    minutes, hours, seconds = (sorted({getattr(tick, name) for tick in told}) for name in ("minute", "hour", "second"))
    return "{} {} * * * {}".format(*(",".join(map(str, numbers)) for numbers in (minutes, hours, seconds)))


def commit(clients: ClientConfig) -> None:
    """Some offsets of each group."""
    admin = make_topics(clients, {"orders": PARTITIONS})
    producer = Producer({**clients.for_confluent(), "log_level": 0})
    for number in range(PARTITIONS * MESSAGES):
        producer.produce("orders", b"an order", partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    for number, group in enumerate(GROUPS):
        commit_offsets(
            admin, group, [TopicPartition("orders", part, 10 * number + part + 1) for part in range(PARTITIONS)]
        )


def delete_at(at_s: int, clients: ClientConfig) -> None:
    """Delete the group that somebody deletes."""
    time.sleep(max(0.0, at_s - time.time()))
    with ClusterSession(clients) as session:
        assert delete_group(session, LOST) is None


REFUSED = [
    ("offset_retention", "What to describe", "as_of", "yesterday", "'yesterday' is not a 'ISO 8601 instant"),
    ("offset_retention", "Which rules to use", "retention_minutes", "0", "0 is less than or equal to the minimum of 0"),
    ("maintenance", "What to do", "subset", "third", "'third' does not match"),
    ("restore_offsets", "What to restore", "pattern", "team-(", "'team-(' is not a 'RE2 regular expression'"),
    ("apply_tombstones", "What to apply", "plan_id", "0" * 63, f"'{'0' * 63}' does not match"),
]
"""A field of each kind of rule; those of all fields are in tests/airflow/test_dags.py."""


def test_forms_open_ready_and_refuse_what_cannot_be(world: World) -> None:
    asked = [
        {"name": dag_id, "section": section, "field": name, "value": value}
        for dag_id, section, name, value, _ in REFUSED
    ]
    told = world.walk("forms", refused=asked)
    ready = (*PRESSED, "restore_offsets")
    assert told["untouched"] == {**dict.fromkeys(ready, True), "apply_tombstones": False}
    assert (told["filled"], told["emptied"]) == (True, False)
    for dag_id, _, name, _, answer in REFUSED:
        assert told["refused"][f"{dag_id}.{name}"].startswith(f"Invalid input for param {name}: {answer}")


def test_scheduled_retention(world: World) -> None:
    """The first run describes the last interval; sending the forms later starts no other one."""
    world.deletion.result(RUN_TIMEOUT_S)
    api, last = world.system.api(), datetime.fromtimestamp(world.ticks[-1], UTC)
    time.sleep(max(0.0, world.ticks[-1] - time.time()))
    airflow_calls.read_again(api, MAIN_DAG)  # a DAG that is switched on runs what was next when its file was last read
    wait_for(lambda: _instant(api.call("GET", f"/api/v2/dags/{MAIN_DAG}")["next_dagrun_run_after"]) == last)
    told = world.walk("scheduled-retention")
    assert told["state"] == "success"
    assert told["runs"] == world.instants[:1]
    pages = f"/sexton/runs/{MAIN_DAG}/{quote(told['run'], safe='')}"
    assert {name: link[:2] for name, link in told["links"].items()} == {
        "Data Docs": [200, f"{pages}/data-docs/"],
        "Report": [200, f"{pages}/report.html"],
        "Spark UI": [200, "/jobs/"],
        "Dashboard": [200, "/sexton/"],
    }
    titles = {name: link[2] for name, link in told["links"].items()}
    assert titles["Data Docs"] == "Data Docs · Sexton"
    assert titles["Report"].startswith("Sexton: ")
    assert titles["Spark UI"].endswith("Spark Jobs")
    assert "bootstrap.min.css" in told["styles"]
    assert told["scripts"] == "undefined", "no script of the Data Docs runs"


def test_forms_sent_untouched(world: World) -> None:
    """Those of five DAGs, and of a restore, which needs what only a person knows; their runs end in a later test.

    That of offset_retention begins with what a run by API begins with, and need not end as that does in test_dags.py.
    """
    api = world.system.api()
    world.sent.update(world.walk("untouched")["runs"])
    assert world.sent.keys() == {*PRESSED, "restore_offsets"}
    run_id = world.sent[MAIN_DAG]
    params = api.call("GET", f"/api/v2/dags/{MAIN_DAG}/details")["params"]
    conf = api.call("GET", f"/api/v2/dags/{MAIN_DAG}/dagRuns/{run_id}")["conf"]
    assert conf == {name: param["value"] for name, param in params.items()}
    wait_for(lambda: api.task_states(MAIN_DAG, run_id)["snapshot_log"]["state"] == "success")
    api.fail_unfinished_runs(MAIN_DAG)


def test_backfill(world: World) -> None:
    minutes = (world.ticks[0], world.ticks[0] + MINUTE_S)
    first, last = (datetime.fromtimestamp(minute, UTC).strftime("%Y/%m/%d %H:%M") for minute in minutes)
    told = world.walk("backfill", **{"from": first, "to": last})
    assert told["untouched"]
    assert told["runs"] == world.instants
    runs = airflow_calls.runs_by_interval(world.system.api(), MAIN_DAG)
    intervals = [(1_000 * start, 1_000 * end) for start, end in pairwise(world.ticks)]
    assert [runs[interval]["state"] for interval in intervals] == ["success"] * len(intervals)


def test_incident(world: World) -> None:
    told = world.walk("incident", group=LOST)
    assert told["listed"] == [False, True]
    assert "is gone" in told["story"][0]
    assert "group deleted" in told["story"][1]


def test_clean_up_and_restore(world: World) -> None:
    """What one person asked for, another approved: gone, and then back from the ledger."""
    before = world.offsets()
    assert {*OLD} < before.keys()
    told = world.walk("clean-up")
    assert told["state"] == "success"
    assert told["question"] == f"Delete what plan {told['plan'][:12]} names?"
    assert {(row[3], row[6], row[10]) for row in told["ledger"]} == {(group, "done", APPROVER) for group in OLD}
    assert world.offsets() == {group: offsets for group, offsets in before.items() if group not in OLD}

    told = world.walk("restore", plan=told["plan"])
    assert told["state"] == "success"
    assert told["question"].startswith("Write back what restore ")
    assert {(row[1], row[3], row[6], row[10]) for row in told["ledger"]} == {
        ("restore", group, "done", APPROVER) for group in OLD
    }
    assert world.offsets() == before


def test_last_month(world: World) -> None:
    """Two instants a minute apart: an hour later there is no log yet."""
    first, last = (datetime.fromtimestamp(world.ticks[0] + seconds, UTC) for seconds in (0, MINUTE_S))
    told = world.walk("last-month", **{"from": first.isoformat(), "to": last.isoformat()})
    assert not told["untouched"], "it needs to be told from when on"
    assert told["state"] == "success"
    assert {instant.strftime("%Y-%m-%d %H:%M") for instant in (first, last)} <= {*told["runs"]}
    assert LOST in told["lost"]


def test_runs_of_the_forms_sent_untouched(world: World) -> None:
    api = world.system.api()
    sent = {dag_id: world.sent[dag_id] for dag_id in (*ENDING, "restore_offsets")}
    wait_for(
        lambda: {api.run_state(*run) for run in sent.items()} <= DONE,
        lambda: "\n".join(unfinished(world.system, *run) for run in sent.items()),
    )
    states = {dag_id: api.run_state(dag_id, run_id) for dag_id, run_id in sent.items()}
    assert states == {**dict.fromkeys(ENDING, "success"), "restore_offsets": "failed"}
    for dag_id in ENDING:
        tasks = api.task_states(dag_id, sent[dag_id])
        assert {task["state"] for task in tasks.values()} == {"success"}, tasks
    assert ONE_SOURCE in task_log(world.system, "restore_offsets", sent["restore_offsets"])


def unfinished(system: System, dag_id: str, run_id: str) -> str:
    """What a run waits for: its state, those of its tasks with their tries, and the end of what they have logged."""
    tasks = system.api().task_states(dag_id, run_id).items()
    told = {name: (task["state"], task["try_number"]) for name, task in tasks}
    return f"{dag_id} {system.api().run_state(dag_id, run_id)}: {told}\n{task_log(system, dag_id, run_id)[-3_000:]}"


def task_log(system: System, dag_id: str, run_id: str) -> str:
    """Every line that the tasks of a run have logged."""
    folder = system.home.log_folder / f"dag_id={dag_id}" / f"run_id={run_id}"
    return "\n".join(file.read_text("utf-8", "replace") for file in sorted(folder.rglob("*.log")))


def _instant(told: str | None) -> datetime | None:
    return datetime.fromisoformat(told) if told else None
