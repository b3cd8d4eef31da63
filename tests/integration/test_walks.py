"""A person's walks by clicks alone, in Chromium: the forms of all DAGs as they open, and what they refuse.

One broker and one Airflow for all of them. The schedule has three intervals of half a minute.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from sexton.java import find_java
from sexton.kafka import jars
from sexton.kafka.broker import EmbeddedBroker, free_port
from sexton.kafka.client import ClientConfig, client_config
from sexton.local.airflow_home import APPROVER, USER
from sexton.local.system import System
from sexton.local.workload import commit_offsets
from sexton.settings import PROJECT_ROOT, Settings, settings, variable
from tests.ui import chromium

INTERVAL_S = 30
INTERVALS = 3
GROUPS = ("billing", "web-shop", "orders-live")
PARTITIONS = 3

pytestmark = pytest.mark.timeout(2_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An Airflow, and the instants at which the intervals of its schedule meet."""

    system: System
    ticks: list[int]
    out: Path

    def walk(self, name: str, **asked: Any) -> Any:
        """What the script tells of a walk that went well to its end."""
        users = {user: self.system.home.password(user) for user in (USER, APPROVER)}
        told = chromium.run_script("walks.mjs", self.out, walk=name, url=self.system.home.url, users=users, **asked)
        assert (told["errors"], told["foreign"]) == ([], [])
        return told


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    chromium.require()
    home = tmp_path_factory.mktemp("home")
    for name in ("dags", "spark_jobs", "plugins", ".cache"):
        (home / name).symlink_to(PROJECT_ROOT / name)
    config = Settings(home=home, bootstrap_servers=f"127.0.0.1:{free_port()}", airflow_port=free_port())
    system = System(config, Console(quiet=True))
    clients = client_config({}, bootstrap_servers=config.bootstrap_servers)
    broker = EmbeddedBroker(
        config.var / "kafka",
        port=system.broker_port,
        java=find_java(settings().cache, variable("JAVA_HOME"), variable("PATH")),
        jars=jars.ensure(settings().cache, "kafka"),
    )
    try:
        broker.start()
        commit(clients)
        begin_s = int(time.time()) // 60 * 60 + 60
        ticks = [begin_s + number * INTERVAL_S for number in range(INTERVALS + 1)]
        system.start(SEXTON_SCHEDULE=schedule_of(ticks), SEXTON_SETTLE_MS="500", SEXTON_MAX_ACTIVE_RUNS="2")
        yield World(system=system, ticks=ticks, out=tmp_path_factory.mktemp("pictures"))
    finally:
        system.stop()
        broker.stop()


def schedule_of(ticks: list[int]) -> str:
    """A cron with seconds whose ticks are these, and no others for the rest of the day."""
    told = [datetime.fromtimestamp(tick, UTC) for tick in ticks]
    minutes, hours, seconds = (sorted({getattr(tick, name) for tick in told}) for name in ("minute", "hour", "second"))
    return "{} {} * * * {}".format(*(",".join(map(str, numbers)) for numbers in (minutes, hours, seconds)))


def commit(clients: ClientConfig) -> None:
    """Some offsets of each group."""
    admin = AdminClient({**clients.for_confluent(), "log_level": 0})
    for made in admin.create_topics([NewTopic("orders", PARTITIONS, 1)]).values():
        made.result(30)
    for number, group in enumerate(GROUPS):
        commit_offsets(
            admin, group, [TopicPartition("orders", part, 100 * number + part) for part in range(PARTITIONS)]
        )


REFUSED = [
    ("offset_retention", "What to describe", "as_of", "yesterday", "'yesterday' is not a 'ISO 8601 instant"),
    ("offset_retention", "What to describe", "since", "2026-02-30", "'2026-02-30' is not a 'ISO 8601 instant"),
    ("offset_retention", "How to judge", "retention_minutes", "0", "0 is less than or equal to the minimum of 0"),
    ("offset_retention", "How to judge", "policy", "../secrets.yaml", "'../secrets.yaml' does not match"),
    ("keep_house", "What to do", "subset", "third", "'third' does not match"),
    ("restore_offsets", "From where", "from_plan", "nope", "'nope' does not match"),
    ("restore_offsets", "What to restore", "pattern", "team-(", "'team-(' is not a 'RE2 regular expression'"),
    ("apply_tombstones", "What to apply", "plan_id", "0" * 63, f"'{'0' * 63}' does not match"),
]


def test_forms_open_ready_and_refuse_what_cannot_be(world: World) -> None:
    asked = [
        {"name": dag_id, "section": section, "field": field, "value": value}
        for dag_id, section, field, value, _ in REFUSED
    ]
    told = world.walk("forms", refused=asked)
    assert told["untouched"] == {
        "offset_retention": True, "keep_house": True, "restore_offsets": True, "apply_tombstones": False
    }  # fmt: skip
    assert (told["filled"], told["emptied"]) == (True, False)
    for dag_id, _, field, _, answer in REFUSED:
        assert told["refused"][f"{dag_id}.{field}"].startswith(f"Invalid input for param {field}: {answer}")
