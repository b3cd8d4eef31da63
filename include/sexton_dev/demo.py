"""`make demo`: real clients against a real broker, then one run of offset_retention in a real Airflow.

The demo's broker keeps offsets for one minute but sweeps only every ten minutes, so that the run finds offsets that are
due and not yet deleted. The run describes the instant at which it is triggered; all timestamps are real.

Everything that the demo writes is in var/demo, which the next demo empties; your archive and tables are not touched.
The demo uses the Airflow home of `make up`, whose UI later shows the demo's runs.
"""

import shutil
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sexton.airflow.runs import read_outcome, run_folder
from sexton.as_text import now_ms
from sexton.errors import SetupError, SextonError
from sexton.kafka.client import ClientConfig, client_config
from sexton.report.terminal import print_summary
from sexton.settings import Settings
from sexton.summary.summary import Summary
from sexton_dev.airflow_api import AirflowApi
from sexton_dev.system import MAIN_DAG, System
from sexton_dev.workload import SIMPLE_GROUPS, commit_offsets, drive

BROKER_SETTINGS = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "600000"}
RETENTION_S = 60
LATE_GROUPS = 4
DUE_MARGIN_S = 3
RUN_TIMEOUT_S = 900
POLL_S = 0.5
DONE = ("success", "failed")


def require_nothing_running(system: System) -> None:
    """SetupError if the system runs: at its end the demo stops everything."""
    if system.is_anything_running():
        raise SetupError("the system is running already", where=system.config.var, fix="`make down` stops it")


def run_demo(system: System, console: Console) -> int:
    """Start everything, run the clients and the DAG, print what was found; returns the exit code of the run.

    The caller stops the system, however this ends. The files stay until the next demo.
    """
    config = _demo_settings(system)
    clients = client_config({}, bootstrap_servers=config.bootstrap_servers)
    shutil.rmtree(system.demo, ignore_errors=True)
    with ExitStack() as stack:
        workload_ended = 0.0

        def drive_clients() -> None:
            nonlocal workload_ended
            with system.step("Clients", "commits of every kind of group, transactions, deletions"):
                stack.enter_context(drive(clients))
            workload_ended = time.monotonic()

        system.start(
            broker_directory=system.demo_broker_directory,
            broker_settings=BROKER_SETTINGS,
            meanwhile=drive_clients,
            **_variables(config),
        )
        api = system.api()
        # An interrupted demo leaves its run unfinished and the DAG unpaused.
        api.set_paused(MAIN_DAG, True)
        api.fail_unfinished_runs(MAIN_DAG)
        with system.step("Waited", f"until what was committed outlived the broker's retention of {RETENTION_S} s"):
            time.sleep(max(0.0, workload_ended + RETENTION_S + DUE_MARGIN_S - time.monotonic()))
        _commit_again(clients)
        run_id, states = _run_dag(api, console)
    folder = Path(run_folder(MAIN_DAG, run_id, root=config.runs_uri))
    unfinished = [stage for stage, state in states.items() if state != "success"]
    if unfinished:
        return _print_failure(config, folder, run_id, unfinished[0], states[unfinished[0]], console)
    summary = Summary.model_validate_json((folder / "summary.json").read_bytes())
    console.print()
    print_summary(summary, console)
    console.print(_locations(config, folder, system.demo_broker_directory))
    return summary.exit_code


def _demo_settings(system: System) -> Settings:
    """The settings, changed so that a run writes to var/demo only."""
    places = {name: str(system.demo / name) for name in ("archive", "warehouse", "runs")}
    return system.config.model_copy(update={**places, "catalog_uri": f"jdbc:sqlite:{system.demo / 'catalog.db'}"})


def _variables(config: Settings) -> dict[str, str]:
    """Environment variables of Airflow and its jobs."""
    return {
        "SEXTON_ARCHIVE": config.archive,
        "SEXTON_WAREHOUSE": config.warehouse,
        "SEXTON_RUNS": config.runs,
        "SEXTON_CATALOG_URI": config.catalog_uri,
        "SEXTON_SCHEDULE": "",  # only the run triggered here: none for an hour before the broker existed
        "SEXTON_SETTLE_MS": "2000",  # the clients have ended
        "SEXTON_MAX_SHARE_OF_GROUPS": "1",  # a minute's retention makes nearly every group of the demo due
    }


def _commit_again(clients: ClientConfig) -> None:
    """Some groups commit once more, so that not everything is due."""
    admin = AdminClient({**clients.for_confluent(), "log_level": 0})
    for group_id in SIMPLE_GROUPS[:LATE_GROUPS]:
        commit_offsets(admin, group_id, [TopicPartition("orders", 0, 1)])


def _run_dag(api: AirflowApi, console: Console) -> tuple[str, dict[str, str]]:
    """Run the main DAG once, as of now; returns its run_id and the states of its tasks in the order of the pipeline."""
    run_id = api.trigger(MAIN_DAG, {"as_of": str(now_ms())})
    api.set_paused(MAIN_DAG, False)
    try:
        return run_id, _follow(api, run_id, console)
    finally:
        with suppress(SextonError):  # Airflow itself may have failed
            api.set_paused(MAIN_DAG, True)  # as before: nothing is scheduled automatically


def _follow(api: AirflowApi, run_id: str, console: Console) -> dict[str, str]:
    """Print each task as it ends; returns the states of all tasks."""
    start, shown, tasks = time.monotonic(), set[tuple[object, ...]](), dict[str, dict[str, object]]()
    with console.status("offset_retention ...") as status:
        while time.monotonic() - start < RUN_TIMEOUT_S:
            state = api.run_state(MAIN_DAG, run_id)  # read before the tasks: once the run is done, so are they
            tasks = api.task_states(MAIN_DAG, run_id)
            for task_id, task in tasks.items():
                if task["state"] == "running":
                    status.update(f"offset_retention: {task_id} ...")
                attempt = (task_id, task.get("try_number"), task["state"])
                if task["end_date"] and task["state"] and attempt not in shown:
                    shown.add(attempt)
                    _print_task(task_id, task, console)
            if state in DONE:
                break
            time.sleep(POLL_S)
        else:
            raise SextonError(f"the run did not end in {RUN_TIMEOUT_S} s", where=run_id)
    console.print(f"  DAG run: {time.monotonic() - start:.1f} s", highlight=False)
    by_start = sorted(tasks, key=lambda task_id: str(tasks[task_id]["start_date"] or "~"))
    return {task_id: str(tasks[task_id]["state"]) for task_id in by_start}


def _print_task(task_id: str, task: dict[str, object], console: Console) -> None:
    duration = task.get("duration")
    took = f"{duration:.1f} s" if isinstance(duration, float) else ""
    style = "red" if task["state"] in ("failed", "upstream_failed") else "default"
    console.print(f"  [{style}]{task_id:<16} {task['state']}[/]  [dim]{took}[/dim]", highlight=False)


def _print_failure(config: Settings, folder: Path, run_id: str, stage: str, state: str, console: Console) -> int:
    """Print which task did not succeed, why, and where its log is; returns the exit code of its job."""
    outcome = read_outcome(str(folder), stage)
    log = config.var / "log" / "airflow" / f"dag_id={MAIN_DAG}" / f"run_id={run_id}" / f"task_id={stage}"
    text = f"{stage} {state}: {outcome.get('error') or 'see its log'}\nits log: {log}"
    console.print(text, style="red", highlight=False, markup=False, soft_wrap=True)
    return int(str(outcome.get("exit_code") or 1))


def _locations(config: Settings, folder: Path, broker_directory: Path) -> Table:
    """Where the files of the run are; they stay when the system is stopped."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, place in (
        ("report", folder / "report.html"),
        ("Data Docs", folder / "dq" / "index.html"),
        ("tables (Parquet)", folder),
        ("tables (Iceberg)", config.warehouse_uri),
        ("tombstones as a log", folder / "batches"),
        ("archive", config.archive_uri),
        ("the broker's own disk", broker_directory / "data"),
    ):
        table.add_row(name, escape(str(place).removeprefix(f"{config.home}/")))
    return table
