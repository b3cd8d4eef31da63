"""Calls to Airflow's REST API that only tests make."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sexton_dev.airflow_api import AirflowApi

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def trigger_interval(api: AirflowApi, dag_id: str, start_ms: int, end_ms: int) -> str:
    """Queue a manual run of a data interval, which a DAG has one run of at most; returns its run_id."""
    start = _instant(start_ms)
    interval = {"logical_date": start, "data_interval_start": start, "data_interval_end": _instant(end_ms)}
    return str(api.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", interval)["dag_run_id"])


def backfill(
    api: AirflowApi,
    dag_id: str,
    first_ms: int,
    last_ms: int,
    *,
    backwards: bool = False,
    reprocess: str = "none",
    max_active_runs: int = 1,
) -> int:
    """Queue runs of all data intervals of the schedule that start within [first_ms, last_ms]; the backfill's id.

    `reprocess` says which intervals that have a run are run again: none, failed or completed. A DAG has one
    unfinished backfill at most; Airflow refuses another.
    """
    asked = {
        "dag_id": dag_id, "from_date": _instant(first_ms), "to_date": _instant(last_ms), "run_backwards": backwards,
        "reprocess_behavior": reprocess, "max_active_runs": max_active_runs,
    }  # fmt: skip
    return int(api.call("POST", "/api/v2/backfills", asked)["id"])


def read_again(api: AirflowApi, dag_id: str) -> None:
    """Have the file of a DAG read now: of one that has not changed, nothing new is known for minutes."""
    api.call("PUT", f"/api/v2/parseDagFile/{api.call('GET', f'/api/v2/dags/{dag_id}')['file_token']}")


def is_backfill_over(api: AirflowApi, backfill_id: int) -> bool:
    """Whether every run of the backfill has ended, well or not."""
    return api.call("GET", f"/api/v2/backfills/{backfill_id}")["completed_at"] is not None


def runs_by_interval(api: AirflowApi, dag_id: str) -> dict[tuple[int, int], dict[str, Any]]:
    """The newest hundred runs that have a data interval, by its start and end in epoch milliseconds."""
    runs = api.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?limit=100&order_by=-run_after")["dag_runs"]
    return {
        (_ms(run["data_interval_start"]), _ms(run["data_interval_end"])): run
        for run in runs
        if run["data_interval_start"] and run["data_interval_end"]
    }


def of_task(api: AirflowApi, dag_id: str, run_id: str, task_id: str, what: str) -> dict[str, Any]:
    """What Airflow keeps of a task of a run: `xcomEntries/KEY`, `links`."""
    place = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
    found: dict[str, Any] = api.call("GET", f"{place}/{what}")
    return found


def question(api: AirflowApi, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
    """What a task asks people: subject, body, options, and the answer once there is one."""
    found: dict[str, Any] = api.call("GET", _question(dag_id, run_id, task_id))
    return found


def answer(api: AirflowApi, dag_id: str, run_id: str, task_id: str, option: str) -> None:
    """Answer a task that asks, as the user of this API."""
    api.call("PATCH", _question(dag_id, run_id, task_id), {"chosen_options": [option], "params_input": {}})


def _question(dag_id: str, run_id: str, task_id: str) -> str:
    return f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails"


def _instant(at_ms: int) -> str:
    return (EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")


def _ms(instant: str) -> int:
    return (datetime.fromisoformat(instant) - EPOCH) // timedelta(milliseconds=1)
