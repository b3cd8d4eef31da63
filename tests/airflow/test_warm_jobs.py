"""Jobs as forks: what the scheduler imports, and that a fork is the process that its program would be."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sexton.airflow import warm_jobs
from sexton.airflow.warm_jobs import ForkedJob
from sexton.settings import Settings

PROGRAM = """
import json, logging, os, pathlib, signal, sys, warnings
print("said", flush=True)
logging.getLogger("a.library").info("unheard")
logging.getLogger("a.library").warning("heard")
pathlib.Path(sys.argv[1]).write_text(json.dumps({
    "argv": sys.argv, "given": os.environ.get("GIVEN"), "name": __name__, "parent": os.getppid(),
    "session": os.getsid(0) == os.getpid(), "term": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
    "input": os.read(0, 1).decode(), "first": pathlib.Path(sys.argv[1] + ".first").exists(),
}))
sys.exit(5)
"""


@pytest.fixture
def listening(monkeypatch) -> list[str]:
    """What is imported as the scheduler starts; nothing is, really."""
    imported: list[str] = []
    monkeypatch.setattr(warm_jobs, "import_module", imported.append)
    monkeypatch.setattr(warm_jobs, "set_variables", lambda _: None)
    monkeypatch.setattr(warm_jobs, "_imported", [])
    monkeypatch.setattr(warm_jobs, "settings", Settings)
    return imported


@pytest.mark.parametrize(
    ("argv", "preload", "is_warm"),
    [("airflow scheduler", "true", True), ("airflow triggerer", "true", False), ("airflow scheduler", "false", False)],
)
def test_a_scheduler_imports_once_what_jobs_do(monkeypatch, listening, argv, preload, is_warm) -> None:
    monkeypatch.setattr(sys, "argv", argv.split())
    monkeypatch.setenv("SEXTON_PRELOAD", preload)
    for _ in range(2):
        warm_jobs.on_starting(component=None)
    assert listening == (list(warm_jobs.MODULES) if is_warm else [])
    assert warm_jobs.is_warm() == is_warm


def test_without_a_package_jobs_are_programs(monkeypatch, listening, caplog) -> None:
    def missing(name: str) -> None:
        if name == "great_expectations":
            raise ImportError(name)

    monkeypatch.setattr(warm_jobs, "import_module", missing)
    monkeypatch.setattr(sys, "argv", ["airflow", "scheduler"])
    warm_jobs.on_starting(component=None)
    assert not warm_jobs.is_warm()
    assert "import for themselves" in caplog.text


def test_what_is_imported_starts_no_thread() -> None:
    """A fork has none of them. Those of OpenBLAS and of Arrow's allocator are made anew by these libraries."""
    code = "\n".join(
        [
            "import os, sys, threading",
            "import numpy, pyarrow, scipy.linalg",
            "before = len(os.listdir('/proc/self/task'))",
            "from sexton.airflow import warm_jobs",
            "sys.argv = ['airflow', 'scheduler']",
            "warm_jobs.on_starting(component=None)",
            "assert warm_jobs.is_warm()",
            "print(threading.active_count(), len(os.listdir('/proc/self/task')) - before)",
        ]
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["1", "0"], done.stdout


def test_a_fork_is_what_its_program_would_be(tmp_path: Path, monkeypatch) -> None:
    program, told, lines = tmp_path / "job.py", tmp_path / "told.json", list[str]()
    program.write_text(PROGRAM)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        job = ForkedJob(lambda: Path(f"{told}.first").touch())
        monkeypatch.setattr(job.log, "info", lambda _, text: lines.append(text))
        done = job.run_command([sys.executable, str(program), str(told)], env={**os.environ, "GIVEN": "x"})
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done.exit_code == 5
    assert json.loads(told.read_text()) == {
        "argv": [str(program), str(told)], "given": "x", "name": "__main__", "parent": os.getpid(), "session": True,
        "term": True, "input": "", "first": True,
    }  # fmt: skip
    assert lines[1:] == ["said", "WARNING:a.library:heard"]
    assert "GIVEN" not in os.environ


@pytest.mark.parametrize(
    ("source", "code"),
    [("", 0), ("raise SystemExit(1.5)", 1), ("raise SystemExit", 0), ("1 / 0", 1), ("import os; os._exit(9)", 9)],
)
def test_exit_codes_of_forks(tmp_path: Path, source: str, code: int) -> None:
    program = tmp_path / "job.py"
    program.write_text(source)
    done = ForkedJob(lambda: None).run_command([sys.executable, str(program)])
    assert done.exit_code == code
    assert ("ZeroDivisionError" in done.output) == (source == "1 / 0")


def test_a_fork_can_be_ended(tmp_path: Path, monkeypatch) -> None:
    program = tmp_path / "job.py"
    program.write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    job, begun = ForkedJob(lambda: None), threading.Event()
    monkeypatch.setattr(job.log, "info", lambda _, text: begun.set() if text == "begun" else None)
    killer = threading.Thread(target=lambda: begun.wait(60) and job.send_sigterm())
    killer.start()
    assert job.run_command([sys.executable, str(program)]).exit_code == -signal.SIGTERM
    killer.join()
