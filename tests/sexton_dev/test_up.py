"""`make up`: on whose broker clients work, how many runs are published, what a second time does. Nothing is started."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from sexton.errors import SetupError, SextonError
from sexton.settings import Settings
from sexton_dev import __main__ as command_line
from sexton_dev import example_clients, up
from sexton_dev.system import MAIN_DAG, System


class FakeApi:
    """An Airflow whose runs end at once, in the states that are given; a success is published."""

    def __init__(self, *states: str) -> None:
        self.states, self.published = list(states), list[int]()
        self.asked: list[dict[str, str]] = []
        self.is_paused = True

    def fail_unfinished_runs(self, dag_id: str) -> None:
        assert dag_id == MAIN_DAG

    def set_paused(self, dag_id: str, is_paused: bool) -> None:
        self.is_paused = is_paused

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        self.asked.append(conf)
        return "run"

    def run_state(self, dag_id: str, run_id: str) -> str:
        if (state := self.states.pop(0)) == "busy":
            raise SextonError("Airflow does not answer: timed out")
        if state == "success":
            self.published.append(int(self.asked[-1]["as_of"]))
        return state


class FakeSystem(System):
    """Starts nothing and remembers with what."""

    def __init__(self, config: Settings, api: FakeApi) -> None:
        super().__init__(config, Console(quiet=True))
        self.fake, self.started, self.clients = api, list[dict[str, Any]](), 0

    def api(self, user: str = "admin") -> Any:
        return self.fake

    def start(self, **how: Any) -> None:
        self.started.append(how)
        if how.get("meanwhile"):
            how["meanwhile"]()

    def start_clients(self) -> None:
        self.clients += 1

    def are_clients_running(self) -> bool:
        return self.clients > 0

    def step(self, name: str, told_as: str, *, told: bool = True) -> Any:
        return nullcontext()


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A system of a machine, over an Airflow whose runs end so; time passes at once."""
    monkeypatch.setattr(up.time, "sleep", lambda _: None)
    monkeypatch.delenv("SEXTON_SETTLE_MS", raising=False)

    def system(*states: str, **settings: Any) -> FakeSystem:
        made = FakeSystem(Settings(home=tmp_path, **settings), FakeApi(*states))
        monkeypatch.setattr(up, "_published", lambda config: made.fake.published)
        return made

    return system


def test_on_a_fresh_machine_clients_work(make) -> None:
    system = make()
    up.start(system)
    (how,) = system.started
    assert how["broker_settings"] == example_clients.BROKER_SETTINGS
    assert how["SEXTON_SETTLE_MS"] == up.SETTLE_MS
    assert system.clients == 1
    again = make()  # the next day
    up.start(again)
    assert again.clients == 1


def test_a_broker_with_data_of_ones_own_keeps_its_retention(make) -> None:
    system = make()
    system.broker_directory.mkdir(parents=True)
    up.start(system)
    up.ensure_clients(system)
    assert (system.started, system.clients) == ([{}], 0)
    assert up.publish_first_runs(system, Console(quiet=True)) == 0
    assert system.fake.asked == []


def test_a_setting_turns_the_clients_off(make) -> None:
    system = make(example_clients=False)
    up.start(system)
    assert (system.started, system.clients) == ([{}], 0)


def test_clients_that_have_ended_are_started_anew(make) -> None:
    system = make()
    up.start(system)
    up.ensure_clients(system)
    assert system.clients == 1
    system.clients = 0
    up.ensure_clients(system)
    assert system.clients == 1


def test_several_instants_are_published_once(make) -> None:
    system = make("running", "busy", "success", "success", "success")
    up.start(system)
    assert up.publish_first_runs(system, Console(quiet=True)) == 0
    assert len(system.fake.asked) == up.FIRST_RUNS > 1
    assert not system.fake.is_paused
    first, *later = system.fake.asked
    assert "since" not in first
    assert [each["since"] for each in later] == [each["as_of"] for each in system.fake.asked[:-1]]
    assert up.publish_first_runs(system, Console(quiet=True)) == 0  # a second time
    assert len(system.fake.asked) == up.FIRST_RUNS


def test_what_was_broken_off_is_gone_on_with(make) -> None:
    system = make("success", "failed", "success", "success")
    up.start(system)
    assert up.publish_first_runs(system, Console(quiet=True)) == 1
    assert len(system.fake.asked) == 2
    assert up.publish_first_runs(system, Console(quiet=True)) == 0
    assert len(system.fake.published) == up.FIRST_RUNS


def test_one_at_a_time(tmp_path) -> None:
    with up.exclusive(tmp_path), pytest.raises(SetupError, match="another `make up`"), up.exclusive(tmp_path):
        pass
    with up.exclusive(tmp_path):
        pass


def test_where_to_look_is_told(make, monkeypatch, capsys) -> None:
    system = make(*["success"] * up.FIRST_RUNS, airflow_port=18080)
    system.home.write()
    monkeypatch.setattr(command_line, "System", lambda config, console: system)
    monkeypatch.setattr(command_line, "settings", lambda: SimpleNamespace(var=system.config.var))
    monkeypatch.setattr(sys, "argv", ["sexton_dev", "up"])
    assert command_line.main() == 0
    told = capsys.readouterr().out
    for address in ("", "/plugin/sexton", f"/dags/{MAIN_DAG}"):
        assert f" http://127.0.0.1:18080{address} " in told
    assert "3 runs of offset_retention" in told
    monkeypatch.setattr(system, "is_running", lambda: True)
    assert command_line.main() == 0
    assert "It is running already." in (again := capsys.readouterr().out)
    assert "runs of" not in again
