"""`make up` on a fresh machine, in a real Airflow with a real broker: what somebody finds who has never seen it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from sexton.kafka.client import client_config
from sexton.kafka.group_state import list_groups
from sexton.kafka.session import ClusterSession
from sexton.lake.read import published_runs, read_published
from sexton.local.compose_init import USER
from sexton.settings import Settings
from sexton_dev import up
from sexton_dev.example_clients import JOBS, SERVICES
from sexton_dev.ports import free_port
from sexton_dev.system import COMPONENTS, System
from tests.airflow_database import lake_of, project_home
from tests.ui import chromium
from tests.waiting import until

RUNS = 2
EMPTY_PAGES = {"overview": "", "groups": "groups", "runs": "runs", "plans": "plans", "what-if": "what-if"}
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1_500)]

NEXT_STEPS = ["Open offset_retention in Airflow and press Trigger"]


@pytest.fixture(scope="module")
def system(
    tmp_path_factory: pytest.TempPathFactory, needs_broker: None, needs_airflow: None, needs_browser: None
) -> Iterator[System]:
    home = tmp_path_factory.mktemp("home")
    project_home(home)
    config = Settings(home=home, bootstrap_servers=f"127.0.0.1:{free_port()}", airflow_port=free_port())
    system = System(config, Console(quiet=True))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SEXTON_SCHEDULE", "")  # no run of a full hour between those that are looked at
            up.start(system)
        yield system
    finally:
        system.stop()
    assert not system.is_anything_running()


def test_everything_is_healthy_and_an_empty_page_says_what_to_do(system: System, tmp_path: Path) -> None:
    """In Chromium. Before the first run is published, which the test after this one has done."""
    login = {"user": USER, "password": system.home.password()}
    told = chromium.run_script("home.mjs", tmp_path, url=system.home.url, pages=EMPTY_PAGES, **login)
    assert told["errors"] == []
    assert set(told["health"]) == {"MetaDatabase", "Scheduler", "Triggerer", "Dag Processor"}
    # The page comes from the database, so that its badge shows how a healthy one admin snapshots.
    assert {tuple(snapshot) for snapshot in told["health"].values()} == {tuple(told["health"]["MetaDatabase"])}
    assert system.api().unhealthy() == []
    for name in EMPTY_PAGES:
        assert told["pages"][name]["heading"] == "Nothing is published yet", name
        assert told["pages"][name]["links"][:1] == NEXT_STEPS, name
    assert told["leadsTo"] == "/dags/offset_retention"


def test_the_broker_has_groups_of_every_kind(system: System) -> None:
    with ClusterSession(client_config({}, bootstrap_servers=system.config.bootstrap_servers)) as session:
        wanted = {*SERVICES, *JOBS}
        until(lambda: wanted <= {group.group_id for group in list_groups(session).groups}, within_s=120, every_s=1)
        listed = list_groups(session).groups
    assert {"classic", "consumer"} <= {group.group_type.lower() for group in listed}
    assert {"Stable", "Empty"} <= {group.state for group in listed}


@pytest.mark.full
def test_runs_of_several_instants_are_published_once(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_of(system.config)
    monkeypatch.setattr(up, "FIRST_RUNS", RUNS)
    assert up.publish_first_runs(system, Console(quiet=True)) == 0
    runs = published_runs(lake)
    assert len(runs) == RUNS
    assert up.publish_first_runs(system, Console(quiet=True)) == 0
    assert len(published_runs(lake)) == RUNS
    assert system.is_running()
    assert system.are_clients_running()
    assert len(COMPONENTS) == 4
    kinds = set(read_published(lake, runs[-1], "offset_changes")["kind"].to_pylist())
    assert {"set", "expired"} <= kinds
