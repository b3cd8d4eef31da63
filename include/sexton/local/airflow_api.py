"""The few calls to Airflow's REST API that starting the system and following a run take. Loopback only, no proxy."""

import json
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

from sexton.errors import SextonError

TIMEOUT_S = 30
"""Long, because a busy machine can keep the API server from answering for ten seconds while a first task starts."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class AirflowApi:
    """Airflow's API at `url`; logs in when a call first needs it."""

    def __init__(self, url: str, *, user: str, password: str) -> None:
        self._url = url
        self._login = {"username": user, "password": password}
        self._token: str | None = None

    def unhealthy(self) -> list[str]:
        """The parts that are not up yet: those that Airflow's home page shows, by their heartbeats. Needs no login."""
        try:
            health = self._call("GET", "/api/v2/monitor/health", login=False)
        except SextonError:
            return ["api-server"]
        parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
        return [part for part in parts if (health.get(part) or {}).get("status") != "healthy"]

    def has_dag(self, dag_id: str) -> bool:
        """Whether the DAG is known already, so that it can be triggered."""
        try:
            dag = self._call("GET", f"/api/v2/dags/{dag_id}")
        except NotFoundError:
            return False
        return not dag.get("is_stale", False)

    def import_errors(self) -> list[str]:
        """One line for each DAG file that cannot be imported."""
        errors = self._call("GET", "/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}: {(error['stack_trace'] or '').strip().splitlines()[-1:]}" for error in errors]

    def ensure_pool(self, name: str, *, slots: int, description: str) -> None:
        """Create a pool; one that is there stays as its owner has set it."""
        try:
            self._call("GET", f"/api/v2/pools/{name}")
        except NotFoundError:
            self._call("POST", "/api/v2/pools", {"name": name, "slots": slots, "description": description})

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Queue a manual run; returns its run_id."""
        run = self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        return str(run["dag_run_id"])

    def trigger_interval(self, dag_id: str, start_ms: int, end_ms: int) -> str:
        """Queue a manual run of a data interval, which a DAG has one run of at most; returns its run_id."""
        start = _instant(start_ms)
        interval = {"logical_date": start, "data_interval_start": start, "data_interval_end": _instant(end_ms)}
        return str(self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", interval)["dag_run_id"])

    def backfill(
        self,
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
            "dag_id": dag_id,
            "from_date": _instant(first_ms),
            "to_date": _instant(last_ms),
            "run_backwards": backwards,
            "reprocess_behavior": reprocess,
            "max_active_runs": max_active_runs,
        }
        return int(self._call("POST", "/api/v2/backfills", asked)["id"])

    def is_backfill_over(self, backfill_id: int) -> bool:
        """Whether every run of the backfill has ended, well or not."""
        return self._call("GET", f"/api/v2/backfills/{backfill_id}")["completed_at"] is not None

    def runs_by_interval(self, dag_id: str) -> dict[tuple[int, int], dict[str, Any]]:
        """The newest hundred runs that have a data interval, by its start and end in epoch milliseconds."""
        runs = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns?limit=100&order_by=-run_after")["dag_runs"]
        return {
            (_ms(run["data_interval_start"]), _ms(run["data_interval_end"])): run
            for run in runs
            if run["data_interval_start"] and run["data_interval_end"]
        }

    def set_paused(self, dag_id: str, is_paused: bool) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": is_paused})

    def fail_unfinished_runs(self, dag_id: str) -> None:
        """End the runs that a stopped system left behind, so that they do not stand in a new one's way."""
        runs = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns?state=queued&state=running&limit=100")["dag_runs"]
        for run in runs:
            self._call("PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run['dag_run_id']}", {"state": "failed"})

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def task_states(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """State, duration and try number of every task of a run, by task id."""
        found = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {task["task_id"]: task for task in found}

    def question(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """What a task asks people: subject, body, options, and the answer once there is one."""
        found: dict[str, Any] = self._call("GET", _question(dag_id, run_id, task_id))
        return found

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str) -> None:
        """Answer a task that asks, as the user of this API."""
        self._call("PATCH", _question(dag_id, run_id, task_id), {"chosen_options": [option], "params_input": {}})

    def _call(self, method: str, path: str, body: Any = None, *, login: bool = True) -> Any:
        headers = {"Content-Type": "application/json"}
        if login:
            if self._token is None:
                self._token = self._call("POST", "/auth/token", self._login, login=False)["access_token"]
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + _quoted(path), data=data, headers=headers, method=method)
        try:
            with _direct.open(request, timeout=TIMEOUT_S) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            told = error.read().decode("utf-8", "replace")[:300]
            kind = NotFoundError if error.code == 404 else SextonError
            raise kind(f"Airflow answers {error.code} to {method} {path}: {told}", where=self._url) from None
        except (OSError, ValueError) as error:
            raise SextonError(f"Airflow does not answer: {error}", where=self._url) from None


class NotFoundError(SextonError):
    """Airflow knows no such thing."""


def _question(dag_id: str, run_id: str, task_id: str) -> str:
    return f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails"


def _instant(at_ms: int) -> str:
    return (EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")


def _ms(instant: str) -> int:
    return (datetime.fromisoformat(instant) - EPOCH) // timedelta(milliseconds=1)


def _quoted(path: str) -> str:
    """Run ids hold colons and plus signs."""
    return urllib.parse.quote(path, safe="/?=&~")
