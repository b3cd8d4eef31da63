"""An engine of processes gives what Spark gives, and leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

from sexton.archive.folder import Folder
from sexton.errors import SextonError, UsageError
from sexton.job_params import ReplayRequest
from sexton.pipeline.standalone import run_audit
from sexton.runs import processes as local
from sexton.runs.engine import Engine, Exchange
from sexton.runs.processes import AutoEngine, FileExchange, ProcessEngine, engine_here, engine_of_task
from sexton.settings import settings
from tests.coordinator.golden import GOLDEN
from tests.fork import ended

LOG = GOLDEN / "kafka-4.3.1-plain" / "before"
PARENT = """
import os, sys, time
from sexton.runs.processes import ProcessEngine
if __name__ == "__main__":
    engine = ProcessEngine(cores=2)
    print(*engine.map("Asking", range(2), lambda _: time.sleep(0.5) or os.getpid()), flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessEngine]:
    with ProcessEngine(cores=2, quiet=True) as processes:
        yield processes


def test_results_come_in_the_order_of_the_items(processes: ProcessEngine) -> None:
    found = processes.map("Waiting", [0.4, 0.0, 0.2], lambda seconds: time.sleep(seconds) or (seconds, os.getpid()))
    assert [seconds for seconds, _ in found] == [0.4, 0.0, 0.2]
    assert os.getpid() not in [process for _, process in found]


def _refuse(number: int) -> int:
    raise UsageError(f"not {number}", where="here", fix="try another")


def test_an_error_of_ours_comes_back_as_it_is(processes: ProcessEngine) -> None:
    with pytest.raises(UsageError, match=r"here: not 1 \(try another\)"):
        processes.map("Refusing", [1, 2], _refuse)


def test_any_other_error_says_whose_work_it_was(processes: ProcessEngine) -> None:
    with pytest.raises(SextonError, match="Dividing: a task failed: ZeroDivisionError"):
        processes.map("Dividing", [1, 0], lambda number: 1 // number)


def test_a_process_that_is_killed_is_told() -> None:
    with ProcessEngine(cores=1, quiet=True) as engine, pytest.raises(SextonError, match="out of memory"):
        engine.map("Dying", [0], lambda _: os.kill(os.getpid(), signal.SIGKILL))


def test_nothing_outlives_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT, encoding="utf-8")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(word) for word in parent.stdout.readline().split()]
        family = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
    assert len(set(workers)) == 2
    assert {process.pid for process in family} >= set(workers)
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive


@pytest.mark.parametrize(
    ("master", "kind"), [("local[*]", ProcessEngine), ("local[2]", ProcessEngine), ("spark://somewhere:7077", Engine)]
)
def test_a_cluster_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch, master: str, kind: type[Engine]) -> None:
    monkeypatch.setenv("SEXTON_SPARK_MASTER", master)
    settings.cache_clear()
    with engine_here(quiet=True) as engine:
        assert type(engine) is kind
    settings.cache_clear()


@pytest.mark.parametrize(("asked", "kind"), [("spark", Engine), ("local", ProcessEngine), ("auto", AutoEngine)])
def test_a_task_has_the_engine_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked: str, kind: type[Engine]
) -> None:
    monkeypatch.setenv("SEXTON_ENGINE", asked)
    settings.cache_clear()
    with engine_of_task() as engine:
        assert (type(engine), engine.name) == (kind, "spark" if asked == "spark" else "local")
    settings.cache_clear()


def test_little_work_is_done_here_and_all_other_on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "_spread", lambda *_: ["by Spark"])
    with AutoEngine() as engine:
        assert engine.map("Asking", [0], lambda _: os.getpid(), work_bytes=local.KEPT_BYTES - 1) == [os.getpid()]
        assert type(engine.exchange(Folder("nowhere"), local.KEPT_BYTES - 1)) is FileExchange
        assert engine.map("Asking", [0], lambda _: os.getpid(), work_bytes=local.KEPT_BYTES) == ["by Spark"]
        assert engine.map("Asking", [0], lambda _: os.getpid()) == ["by Spark"]
        assert type(engine.exchange(Folder("nowhere"), local.KEPT_BYTES)) is Exchange


@pytest.mark.thorough
def test_an_audit_is_the_same_over_spark(
    processes: ProcessEngine, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("THREADS_BYTES", "KEPT_BYTES"):  # nothing is too small to be spread
        monkeypatch.setattr(local, bound, 0)
    request = ReplayRequest(run_id="one", segments=str(LOG), taken_at_ms=1 << 60)
    here = run_audit(processes, request, tmp_path / "here")
    there = run_audit(engine, request, tmp_path / "there")
    assert (here.engine, there.engine) == ("local", "spark")
    assert here.model_copy(update={"engine": "spark"}) == there
    files = sorted(path.relative_to(tmp_path / "here") for path in (tmp_path / "here").rglob("*.parquet"))
    assert files
    assert files == sorted(path.relative_to(tmp_path / "there") for path in (tmp_path / "there").rglob("*.parquet"))
    for file in files:
        assert pq.read_table(tmp_path / "here" / file).equals(pq.read_table(tmp_path / "there" / file)), file


def test_a_small_log_needs_no_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "ProcessPoolExecutor", lambda *_, **__: pytest.fail("processes were started"))
    request = ReplayRequest(run_id="one", segments=str(LOG), taken_at_ms=1 << 60)
    with engine_here(quiet=True, reads=[LOG]) as engine:
        assert run_audit(engine, request, tmp_path / "out").counts["committed_offsets"]


def test_processes_that_were_not_started_early_start_with_the_first_work() -> None:
    with ProcessEngine(cores=1, quiet=True, starts_early=False) as engine:
        assert engine.map("Asking", [0], lambda _: os.getpid()) != [os.getpid()]


def test_threads_are_no_more_than_the_master_has_cores() -> None:
    def thread(_: int) -> int:
        time.sleep(0.05)
        return threading.get_ident()

    with ProcessEngine(cores=1, quiet=True, starts_early=False) as engine:
        assert len({*engine.map("Asking", [*range(4)], thread, work_bytes=0)}) == 1


def test_a_fork_leaves_the_connections_of_other_threads_open(engine: Engine) -> None:
    used, over = threading.Event(), threading.Event()

    def use_jvm() -> None:
        engine.session.range(1).count()
        used.set()
        over.wait(60)

    thread = threading.Thread(target=use_jvm)
    thread.start()
    assert used.wait(60)
    assert ended(lambda: None) == 0
    for connection in SparkContext._gateway._gateway_client.deque:
        with pytest.raises(BlockingIOError):  # one that is shut down is at its end
            connection.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    over.set()
    thread.join()
