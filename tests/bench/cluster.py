"""The jobs on a Spark standalone cluster of two workers with a core each, held against the audit of the same log.

    python -m tests.bench.cluster LOG OUT

runs the stages of an audit in one Spark session on the cluster of SEXTON_SPARK_MASTER, whose Python workers have loaded
the kernels before, and prints seconds as JSON.

Master, workers and whoever submits share the processors of this machine. Of the six jobs `snapshot_log` is left out,
which copies a log from brokers; the other five run as the DAG runs them, each with its start, the checks by Great
Expectations on Spark, and a lake of their own.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from sexton.as_text import now_ms
from sexton.job_params import ReplayRequest
from sexton.kernels.warm_up import warm_up
from sexton.pipeline.standalone import run_audit
from sexton.runs.engine import Engine
from sexton.runs.spark_session import spark_environment
from sexton.settings import PROJECT_ROOT, program
from sexton_dev.ports import free_port
from sexton_dev.processes import Processes
from tests.bench.figures import Clustered
from tests.bench.watch import run_watched, watch_audit

HOST = "127.0.0.1"
WORKERS = 2
CORES_EACH = "1"
JOBS = ("replay_groups", "find_expired", "plan_tombstones", "validate_tables", "publish_tables")
READY_S = 60


def measure_on_cluster(log: Path, scratch: Path, *, records: int) -> Clustered:
    """Audit, stages and jobs over `log`, one after the other."""
    audit_s = watch_audit(log, scratch / "audit").seconds
    shutil.rmtree(scratch / "audit")
    with spark_cluster(scratch / "spark") as master:
        own = {
            **os.environ,
            **spark_environment(),
            "SEXTON_SPARK_MASTER": master,
            "SEXTON_WAREHOUSE": str(scratch / "warehouse"),
            "SEXTON_CATALOG_URI": f"jdbc:sqlite:{scratch / 'catalog.db'}",
        }
        stages = [sys.executable, "-m", "tests.bench.cluster", str(log), str(scratch / "stages")]
        told = json.loads(run_watched(stages, environment=own).output.splitlines()[-1])
        jobs_s = sum(_job(name, log, scratch / "jobs", own) for name in JOBS)
    return Clustered(records=records, audit_s=audit_s, jobs_s=jobs_s, stages_s=told["seconds"])


def _job(name: str, log: Path, run_dir: Path, environment: Mapping[str, str]) -> float:
    command = [sys.executable, str(PROJECT_ROOT / "spark_jobs" / f"{name}.py"), "--run-dir", str(run_dir)]
    if name == JOBS[0]:
        command += ["--segments", str(log)]
    return run_watched(command, environment=environment).seconds


@contextmanager
def spark_cluster(folder: Path) -> Iterator[str]:
    """The URL of the master; all is stopped in the end."""
    port, page = free_port(), free_port()
    master = f"spark://{HOST}:{port}"
    processes = Processes(folder / "pids", mark=str(folder))
    environment = {**os.environ, **spark_environment(), "SPARK_WORKER_CORES": CORES_EACH, "SPARK_WORKER_MEMORY": "2g"}

    def start(name: str, *arguments: str) -> None:
        command = [program("spark-class"), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
        processes.start(name, command, environment=environment, log=folder / f"{name}.log")

    try:
        start("master", "master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(page))
        for number in range(WORKERS):
            work = str(folder / f"worker-{number}")
            start(
                f"worker-{number}", "worker.Worker", "--host", HOST, "--webui-port", str(free_port()),
                "--work-dir", work, master,
            )  # fmt: skip
        _wait(f"http://{HOST}:{page}/json/", folder)
        yield master
    finally:
        processes.stop()


def _wait(page: str, folder: Path) -> None:
    """Until all workers have registered; RuntimeError with what the master said if they do not."""
    deadline = time.monotonic() + READY_S
    while _workers(page) < WORKERS:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the cluster did not start: {(folder / 'master.log').read_text('utf-8')[-2000:]}")
        time.sleep(0.2)


def _workers(page: str) -> int:
    try:
        with build_opener(ProxyHandler({})).open(page, timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return 0


def main() -> None:
    log, out = sys.argv[1], Path(sys.argv[2])
    replay = ReplayRequest(run_id=out.name, segments=log, taken_at_ms=now_ms())
    with Engine(quiet=True) as engine:
        engine.map("Loading kernels", range(2 * WORKERS), lambda _: warm_up())
        start = time.perf_counter()
        run_audit(engine, replay, out)
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
