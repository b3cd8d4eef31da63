"""`make up`: starts the system with example clients on its broker, and publishes runs of several instants.

Example clients run only on a broker that `make up` itself created: this broker keeps offsets for a minute, and existing
data is never put under such a retention. The file `MARK` in the broker's folder records who created it. The runs are
ordinary runs of offset_retention, each as of the instant at which it was triggered, until FIRST_RUNS are published.
"""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

from sexton.as_text import instant, now_ms
from sexton.errors import NoCoverage, SetupError, SextonError
from sexton.lake.catalog import open_lake
from sexton.lake.read import published_runs
from sexton.settings import Settings, variable
from sexton_dev import example_clients
from sexton_dev.airflow_api import AirflowApi
from sexton_dev.system import MAIN_DAG, System

FIRST_RUNS = 3
APART_S = 70
"""Time between the instants of two runs: longer than the broker's retention, so that each run finds expired offsets."""
BEGUN_S = 30
"""How long the clients run before the first instant: some rounds."""
RUN_TIMEOUT_S = 1_800
POLL_S = 0.5
MARK = "clients-at-work"
SETTLE_MS = "2000"
"""A snapshot's wait for late appends: short, because clients, broker and Airflow share one clock."""


def start(system: System) -> None:
    """Start everything, with example clients if they may use the broker."""
    system.stop_airflow()  # what a failed start left
    if not _may_have_clients(system):
        system.start()
        return
    system.broker_directory.mkdir(parents=True, exist_ok=True)
    (system.broker_directory / MARK).touch()
    system.start(
        broker_settings=example_clients.BROKER_SETTINGS,
        meanwhile=system.start_clients,
        SEXTON_SETTLE_MS=variable("SEXTON_SETTLE_MS") or SETTLE_MS,
    )


def ensure_clients(system: System) -> None:
    """Start the clients again if they have ended."""
    if _may_have_clients(system) and not system.are_clients_running():
        system.start_clients()


def publish_first_runs(system: System, console: Console) -> int:
    """Run the main DAG until FIRST_RUNS runs are published, if clients run; returns 1 if a run fails.

    Afterwards the DAG follows its schedule.
    """
    if not _may_have_clients(system) or (missing := FIRST_RUNS - len(_published(system.config))) <= 0:
        return 0
    console.print(f"\nThe clients run; {missing} runs of {MAIN_DAG} follow, a minute or more apart:")
    api, next_s = system.api(), time.monotonic() + BEGUN_S
    api.fail_unfinished_runs(MAIN_DAG)
    for _ in range(missing):
        time.sleep(max(0.0, next_s - time.monotonic()))
        next_s = time.monotonic() + APART_S
        as_of_ms, before = now_ms(), _published(system.config)
        since = {"since": str(before[-1])} if before else {}  # a run lists what changed since the one before it
        run_id = api.trigger(MAIN_DAG, {"as_of": str(as_of_ms), **since})
        api.set_paused(MAIN_DAG, False)
        began = time.monotonic()
        with console.status(f"{MAIN_DAG} ..."):
            state = _end_of(api, run_id)
        took = f"DAG run: {time.monotonic() - began:.1f} s"
        console.print(f"  {took}, as of {instant(as_of_ms - as_of_ms % 1000)}", highlight=False)
        if state != "success":
            place = f"{system.home.url}/dags/{MAIN_DAG}/runs/{run_id}"
            console.print(f"  it {state}: {place}", style="red", highlight=False, soft_wrap=True)
            return 1
    return 0


@contextmanager
def exclusive(var: Path) -> Iterator[None]:
    """Hold the lock of `make up` for this folder during the block; SetupError if another process has the lock."""
    var.mkdir(parents=True, exist_ok=True)
    with (var / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SetupError("another `make up` is running", where=var, fix="wait for it, or stop it") from None
        yield


def _may_have_clients(system: System) -> bool:
    """Whether example clients may use the broker: it was created for them, or does not exist yet."""
    directory = system.broker_directory
    return system.config.example_clients and (not directory.exists() or (directory / MARK).exists())


def _published(config: Settings) -> list[int]:
    """The instants of the published runs, oldest first."""
    default = {"type": "jdbc", "uri": config.iceberg_catalog_uri, "warehouse": config.warehouse_uri}
    try:
        return [run.key.as_of_ms for run in published_runs(open_lake(config.catalog_properties or default))]
    except NoCoverage:
        return []


def _end_of(api: AirflowApi, run_id: str) -> str:
    """The final state of a run. Failed calls are repeated: on a busy machine the API server may not answer."""
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(SextonError):
            if (state := api.run_state(MAIN_DAG, run_id)) in ("success", "failed"):
                return state
        time.sleep(POLL_S)
    raise SextonError(f"the run did not end in {RUN_TIMEOUT_S} s", where=run_id)
