"""What a run of offset_retention takes, from its trigger to its end, on the log of `make demo`.

    python -m tests.bench.dag_run [--runs N] [--log FOLDER]

starts a broker, a Spark Connect server and Airflow as `make up` does, drives the demo's clients and prints a table: the
first run after the start, the fastest of N later ones, and the same by SEXTON_ENGINE=auto; seconds of each task, those
of validate_tables and publish_tables, the run's commits to Iceberg tables, and the Spark jobs of validate_tables. With
--log the broker has the `__consumer_offsets-*` of FOLDER instead, as `tests.bench.generate` writes, and no clients.

Each commit is a new metadata file. Airflow says when a task began and ended, and Spark's UI when a job was submitted.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from rich.console import Console

from sexton.airflow.spark_tasks import STAGES
from sexton.java import find_java
from sexton.kafka import jars
from sexton.kafka.client import client_config
from sexton.settings import settings, variable
from sexton_dev.system import MAIN_DAG, System
from sexton_dev.workload import drive
from tests.airflow_database import system_in
from tests.bench.broker import SETTINGS, Cluster

ASKED = {"first": 32.0, "warm": 20.0, "auto, first": None, "auto, warm": 14.0}
ASKED_CHECKS_S, ASKED_COMMITS, ASKED_JOBS = 9.0, 35, 15
CHECKED = ("validate_tables", "publish_tables")
POLL_S, TIMEOUT_S = 0.1, 600
VARIABLES = {"SEXTON_SCHEDULE": "", "SEXTON_SETTLE_MS": "0", "SEXTON_MAX_SHARE_OF_GROUPS": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DagRun:
    """Seconds from the trigger to the end, and those of each task; `spark_jobs` are those of validate_tables."""

    seconds: float
    tasks: dict[str, float]
    commits: int
    spark_jobs: int

    @property
    def checks_s(self) -> float:
        """From the start of the checks to the end of the publication, without Airflow's time between them."""
        return sum(self.tasks[name] for name in CHECKED)


def measure(system: System) -> DagRun:
    """Trigger a run as of now, and wait until it has ended; RuntimeError unless it succeeds."""
    api, before = system.api(), commits(system)
    began = time.monotonic()
    run_id = api.trigger(MAIN_DAG, {"as_of": str(time.time_ns() // 1_000_000)})
    while (state := api.run_state(MAIN_DAG, run_id)) not in ("success", "failed"):
        if time.monotonic() > began + TIMEOUT_S:
            raise RuntimeError(f"{run_id} is {state} after {TIMEOUT_S} s")
        time.sleep(POLL_S)
    ended = api.call("GET", f"/api/v2/dags/{MAIN_DAG}/dagRuns/{run_id}")
    if state != "success":
        raise RuntimeError(f"{run_id} {state}: {system.home.log_folder}")
    tasks = api.task_states(MAIN_DAG, run_id)
    validate = tasks["validate_tables"]
    return DagRun(
        seconds=_instant(ended["end_date"]) - _instant(ended["queued_at"]),
        tasks={name: tasks[name]["duration"] for name in STAGES},
        commits=commits(system) - before,
        spark_jobs=spark_jobs(system, _instant(validate["start_date"]), _instant(validate["end_date"])),
    )


def commits(system: System) -> int:
    """Metadata files of all tables."""
    return sum(1 for _ in Path(system.config.warehouse_uri).rglob("*.metadata.json"))


def spark_jobs(system: System, since: float, until: float) -> int:
    """Jobs that the Connect server submitted in the time."""
    root, opener = f"{system.spark_ui()}/api/v1/applications", build_opener(ProxyHandler({}))
    (application,) = json.load(opener.open(root))
    jobs = json.load(opener.open(f"{root}/{application['id']}/jobs"))
    return sum(since <= _instant(job["submissionTime"]) <= until for job in jobs)


def _instant(text: str) -> float:
    return datetime.fromisoformat(text.replace("GMT", "+00:00")).timestamp()


def table(runs: dict[str, DagRun]) -> Iterator[str]:
    """Lines of Markdown: a row for each run, and what was asked."""
    yield f"| run | DAG run, s | asked | {' | '.join(STAGES)} | validate + publish, s | commits | jobs of validate |"
    yield "|---" * (len(STAGES) + 6) + "|"
    for name, run in runs.items():
        tasks = " | ".join(f"{run.tasks[stage]:.1f}" for stage in STAGES)
        counts = f"{run.checks_s:.1f} | {run.commits} | {run.spark_jobs}"
        yield f"| {name} | {run.seconds:.1f} | {ASKED[name] or ''} | {tasks} | {counts} |"
    yield f"| asked | | |{' |' * len(STAGES)} {ASKED_CHECKS_S} | {ASKED_COMMITS} | {ASKED_JOBS} |"


@contextmanager
def started(home: Path, log: Path | None, **variables: str) -> Iterator[System]:
    """A system in `home` whose DAG can be triggered: over `log`, or driven by the demo's clients."""
    system = system_in(home)
    try:
        if log is None:
            system.start(**VARIABLES, **variables)
            clients = drive(client_config({}, bootstrap_servers=system.config.bootstrap_servers))
        else:
            system.start(broker_directory=_adopted(log, home), broker_settings=SETTINGS, **VARIABLES, **variables)
            clients = nullcontext()
        system.api().set_paused(MAIN_DAG, False)
        with clients:
            yield system
    finally:
        system.stop()


def _adopted(log: Path, home: Path) -> Path:
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    kafka = jars.ensure(settings().cache, "kafka")
    cluster = Cluster(home / "pristine", java=java, jars=kafka, log_partitions=len([*log.glob("__consumer_offsets-*")]))
    cluster.adopt(log, home / "adopted")
    return home / "adopted"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=3, metavar="N", help="warm runs, of which the fastest counts")
    options.add_argument("--log", type=Path, metavar="FOLDER", help="the offsets log of a broker's disk")
    asked = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that all is stopped, too
    runs: dict[str, DagRun] = {}
    for prefix, engine in (("", "spark"), ("auto, ", "auto")):
        folder = Path(tempfile.mkdtemp(prefix="sexton-dag-run-"))
        try:
            with started(folder, asked.log, SEXTON_ENGINE=engine) as system:
                runs[f"{prefix}first"] = measure(system)
                later = [measure(system) for _ in range(asked.runs)]
                runs[f"{prefix}warm"] = min(later, key=lambda run: run.seconds)
        finally:
            shutil.rmtree(folder)
    Console(width=200).print("\n".join(table(runs)), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
