"""Starting and stopping as a user meets it: clear refusals, nothing to stop, stopping however it ends."""

import signal
import socket
import subprocess
import sys
import time

import pytest
from rich.console import Console

from sexton.errors import SetupError
from sexton.settings import Settings
from sexton_dev import __main__ as command_line
from sexton_dev import demo
from sexton_dev.system import MAIN_DAG, System

ENDING = """
import sys, time, pathlib
from sexton_dev.__main__ import _stopping
class System:
    def stop(self):
        time.sleep(0.5)
        pathlib.Path(sys.argv[1]).write_text("stopped")
with _stopping(System()):
    print("ready", flush=True)
    time.sleep(30)
"""


def system_of(tmp_path, **settings) -> System:
    return System(Settings(home=tmp_path, **settings), Console(quiet=True))


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_taken_airflow_port_is_named(tmp_path, taken) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    system = system_of(tmp_path, airflow_port=taken, bootstrap_servers=f"127.0.0.1:{port}")
    with pytest.raises(SetupError, match=rf"port {taken} .*SEXTON_AIRFLOW_PORT"):
        system.start()
    assert not system.is_anything_running()


def test_a_taken_broker_port_is_named(tmp_path, taken) -> None:
    system = system_of(tmp_path, bootstrap_servers=f"127.0.0.1:{taken}")
    with pytest.raises(SetupError, match=rf"port {taken} .*SEXTON_BOOTSTRAP_SERVERS"):
        system.start()


def test_somebody_elses_cluster_is_not_embedded(tmp_path) -> None:
    with pytest.raises(SetupError, match=r"kafka\.example:9092"):
        system_of(tmp_path, bootstrap_servers="kafka.example:9092").start()


def test_nothing_to_stop(tmp_path, monkeypatch, capsys) -> None:
    assert not system_of(tmp_path).stop()
    monkeypatch.setattr(command_line, "settings", lambda: Settings(home=tmp_path))
    monkeypatch.setattr(sys, "argv", ["sexton_dev", "down"])
    assert command_line.main() == 0
    assert "Nothing was running" in capsys.readouterr().out


def test_errors_are_one_line_with_their_exit_code(tmp_path, monkeypatch, capsys, taken) -> None:
    config = Settings(home=tmp_path, bootstrap_servers=f"127.0.0.1:{taken}")
    monkeypatch.setattr(command_line, "settings", lambda: config)
    monkeypatch.setattr(sys, "argv", ["sexton_dev", "up"])
    assert command_line.main() == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert told.count("\n") == 1


def test_the_demo_takes_over_nothing(tmp_path, monkeypatch) -> None:
    system = system_of(tmp_path)
    demo.require_nothing_running(system)
    monkeypatch.setattr(System, "is_anything_running", lambda self: True)
    with pytest.raises(SetupError, match="make down"):
        demo.require_nothing_running(system)


@pytest.mark.parametrize(
    "number, is_background",
    [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGHUP, False)],
)
def test_whatever_ends_the_demo_it_stops_what_it_started(tmp_path, number, is_background) -> None:
    note = tmp_path / "note"
    ignore = (lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if is_background else None
    command = [sys.executable, "-c", ENDING, str(note)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=ignore) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)  # impatience must not break it off
        assert process.wait(10) == 128 + number
    assert note.read_text() == "stopped"


class FakeApi:
    """A run whose tasks end one after the other."""

    def __init__(self, *ends: tuple[str, str]) -> None:
        self.ends = ends
        self.asked = 0

    def run_state(self, dag_id: str, run_id: str) -> str:
        assert dag_id == MAIN_DAG
        self.asked += 1
        return "success" if self.asked > len(self.ends) else "running"

    def task_states(self, dag_id: str, run_id: str) -> dict[str, dict[str, object]]:
        def task(number: int, state: str) -> dict[str, object]:
            ended = number < self.asked
            shown = state if ended else "running"
            return {"state": shown, "start_date": str(number), "end_date": "now" if ended else None, "duration": 1.25}

        return {name: task(number, state) for number, (name, state) in enumerate(self.ends)}


def test_following_a_run(monkeypatch, capsys) -> None:
    monkeypatch.setattr(demo, "POLL_S", 0.0)
    api = FakeApi(("snapshot_log", "success"), ("replay_groups", "skipped"))
    states = demo._follow(api, "run", Console(width=100))
    assert states == {"snapshot_log": "success", "replay_groups": "skipped"}
    assert [line.split() for line in capsys.readouterr().out.splitlines()[:2]] == [
        ["snapshot_log", "success", "1.2", "s"],
        ["replay_groups", "skipped", "1.2", "s"],
    ]


def test_a_run_that_fails_says_where(tmp_path, capsys) -> None:
    folder = tmp_path / "run"
    (folder / "outcome").mkdir(parents=True)
    (folder / "outcome" / "find_expired.json").write_text('{"exit_code": 6, "error": "the guard [says] no"}')
    config = Settings(home=tmp_path)
    code = demo._print_failure(config, folder, "manual__1", "find_expired", "failed", Console(width=80))
    assert code == 6
    told = capsys.readouterr().out
    assert "find_expired failed: the guard [says] no" in told
    assert f"{tmp_path}/var/log/airflow/dag_id=offset_retention/run_id=manual__1/task_id=find_expired" in told
    assert demo._print_failure(config, folder, "manual__1", "replay_groups", "failed", Console(quiet=True)) == 1
