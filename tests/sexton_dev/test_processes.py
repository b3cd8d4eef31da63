"""Background processes are found again, end in order, and nothing of them is left, whatever they try."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from sexton_dev.processes import MARK, Patience, Processes
from tests.test_process_id import step_clock
from tests.waiting import until

QUICK = Patience(polite_s=1.0, firm_s=3.0)
SLEEPER = "import time; print('ready', flush=True); time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
TIDY = (
    "import pathlib, signal, sys, time\n"
    "def end(*_):\n    pathlib.Path(sys.argv[1]).write_text('tidied'); sys.exit()\n"
    "signal.signal(signal.SIGTERM, end); print('ready', flush=True); time.sleep(60)"
)
# A grandchild in a session of its own whose parent is gone: nothing but the mark ties it to the system.
RUNAWAY = f"import os, subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {SLEEPER!r}], start_new_session=True)"

# A child without the mark (one that wrote a title over its environment) that outlives its parent.
UNMARKED = (
    "import os, pathlib, subprocess, sys, time\n"
    f"bare = {{name: value for name, value in os.environ.items() if name != {MARK!r}}}\n"
    f"child = subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], env=bare)\n"
    "pathlib.Path(sys.argv[1]).write_text(str(child.pid)); time.sleep(60)"
)


@pytest.fixture
def make(tmp_path):
    made = []

    def processes(mark: str = "one") -> Processes:
        made.append(Processes(tmp_path / mark, mark=f"{tmp_path}/{mark}"))
        return made[-1]

    yield processes
    for each in made:
        each.stop(Patience(polite_s=0, firm_s=3))


def start(processes: Processes, name: str, program: str, tmp_path, *arguments: str) -> int:
    log = tmp_path / f"{name}.log"
    command = [sys.executable, "-c", program, *arguments]
    pid = processes.start(name, command, environment=dict(os.environ), log=log)
    deadline = time.monotonic() + 10
    while "ready" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    return pid


def test_start_and_stop(make, tmp_path) -> None:
    processes = make()
    pid = start(processes, "a", SLEEPER, tmp_path)
    assert {name: process.pid for name, process in processes.running().items()} == {"a": pid}
    assert os.getsid(pid) == pid
    assert processes.stop(QUICK)
    assert not psutil.pid_exists(pid)
    assert processes.running() == {}
    assert not processes.stop(QUICK)


def test_another_process_can_stop_it(make, tmp_path) -> None:
    pid = start(make(), "a", SLEEPER, tmp_path)
    other = make()
    assert other.running()["a"].pid == pid
    assert other.stop(QUICK)
    assert other.descendants() == []


def test_a_clock_that_is_set_hides_nothing(make, tmp_path, monkeypatch) -> None:
    pid = start(make(), "a", SLEEPER, tmp_path)
    step_clock(monkeypatch, 3_600)
    assert make().running()["a"].pid == pid


def test_they_may_tidy_up(make, tmp_path) -> None:
    processes = make()
    start(processes, "a", TIDY, tmp_path, str(tmp_path / "note"))
    processes.stop(QUICK)
    assert (tmp_path / "note").read_text() == "tidied"


def test_the_stubborn_are_killed(make, tmp_path) -> None:
    processes = make()
    start(processes, "a", STUBBORN, tmp_path)
    assert processes.stop(Patience(polite_s=0.2, firm_s=0.5))
    assert processes.descendants() == []


def test_runaways_are_found_by_their_mark(make, tmp_path) -> None:
    processes = make()
    start(processes, "a", RUNAWAY, tmp_path)
    until(lambda: len(processes.descendants()) == 1, within_s=10)  # its parent may end after it has begun
    (runaway,) = processes.descendants()
    assert processes.running() == {}
    assert processes.stop(Patience(polite_s=0.2, firm_s=3))
    assert not runaway.is_running() or runaway.status() == psutil.STATUS_ZOMBIE


def test_a_child_that_lost_the_mark_goes_too(make, tmp_path) -> None:
    processes = make()
    start(processes, "a", UNMARKED, tmp_path, str(tmp_path / "child"))
    child = psutil.Process(int((tmp_path / "child").read_text()))
    assert child not in processes.descendants()
    assert processes.stop(QUICK)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_other_systems_are_left_alone(make, tmp_path) -> None:
    mine, theirs = make("mine"), make("theirs")
    pid = start(theirs, "a", SLEEPER, tmp_path)
    assert not mine.stop(QUICK)
    assert psutil.pid_exists(pid)


def test_a_reused_process_id_is_not_ours(make, tmp_path) -> None:
    processes = make()
    stranger = subprocess.Popen([sys.executable, "-c", SLEEPER], env={k: v for k, v in os.environ.items() if k != MARK})
    try:
        (tmp_path / "one").mkdir()
        (tmp_path / "one" / "a.json").write_text(json.dumps({"pid": stranger.pid, "created": 5.0}))
        (tmp_path / "one" / "b.json").write_text("half a no")
        assert processes.running() == {}
        assert not processes.stop(QUICK)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_background_jobs_hear_signals_again(make, tmp_path) -> None:
    """Under `nohup`, or as a background job of a script, signals are ignored, and a child would inherit that."""
    program = (
        "import signal, sys, time, os, pathlib; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from sexton_dev.processes import Processes\n"
        "processes = Processes(pathlib.Path(sys.argv[1]), mark=sys.argv[2])\n"
        "log = pathlib.Path(sys.argv[1]) / 'log'\n"
        "code = 'import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)'\n"
        "processes.start('a', [sys.executable, '-c', code], environment=dict(os.environ), log=log)\n"
        "while not log.read_text().endswith('\\n'): time.sleep(0.02)\n"
        "print(log.read_text())"
    )
    command = [sys.executable, "-c", program, str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "True"
