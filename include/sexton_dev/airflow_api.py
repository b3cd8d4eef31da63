"""The calls to Airflow's REST API that start the system and follow a run. Loopback only, no proxy."""

import urllib.parse
from typing import Any

import httpx

from sexton.errors import SextonError

TIMEOUT_S = 30
"""Long: on a busy machine the API server may need ten seconds while a first task starts."""
TRIES = 4
"""If the API server gives up waiting for SQLite, it has done nothing; the call is repeated (airflow_local_settings)."""


class AirflowApi:
    """Airflow's API at `url`; logs in at the first call that needs a login."""

    def __init__(self, url: str, *, user: str, password: str) -> None:
        self._url = url
        self._login = {"username": user, "password": password}
        self._token: str | None = None

    def unhealthy(self) -> list[str]:
        """The components without a recent heartbeat, as Airflow's home page shows them. Needs no login."""
        try:
            health = self.call("GET", "/api/v2/monitor/health", login=False)
        except SextonError:
            return ["api-server"]
        parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
        return [part for part in parts if (health.get(part) or {}).get("status") != "healthy"]

    def has_dag(self, dag_id: str) -> bool:
        """Whether the DAG can be triggered."""
        try:
            dag = self.call("GET", f"/api/v2/dags/{dag_id}")
        except NotFoundError:
            return False
        return not dag.get("is_stale", False)

    def import_errors(self) -> list[str]:
        """One line for each DAG file that cannot be imported."""
        errors = self.call("GET", "/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}: {(error['stack_trace'] or '').strip().splitlines()[-1:]}" for error in errors]

    def ensure_pool(self, name: str, *, slots: int, description: str) -> None:
        """Create a pool; an existing one is not changed."""
        try:
            self.call("GET", f"/api/v2/pools/{name}")
        except NotFoundError:
            self.call("POST", "/api/v2/pools", {"name": name, "slots": slots, "description": description})

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Queue a manual run; returns its run_id."""
        run = self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        return str(run["dag_run_id"])

    def set_paused(self, dag_id: str, is_paused: bool) -> None:
        self.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": is_paused})

    def fail_unfinished_runs(self, dag_id: str) -> None:
        """Fail the runs that a stopped system left unfinished, so that they do not block new ones."""
        runs = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?state=queued&state=running&limit=100")["dag_runs"]
        for run in runs:
            self.call("PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run['dag_run_id']}", {"state": "failed"})

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def task_states(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """State, duration and try number of every task of a run, by task id."""
        found = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {task["task_id"]: task for task in found}

    def call(self, method: str, path: str, body: Any = None, *, login: bool = True) -> Any:
        """The JSON of one response; NotFoundError for 404, SextonError for any other error."""
        headers = {}
        if login:
            if self._token is None:
                self._token = self.call("POST", "/auth/token", self._login, login=False)["access_token"]
            headers["Authorization"] = f"Bearer {self._token}"
        url = self._url + urllib.parse.quote(path, safe="/?=&~")  # run ids contain colons and plus signs
        options = {"json": body, "headers": headers, "timeout": TIMEOUT_S, "trust_env": False, "follow_redirects": True}
        try:
            for tries_left in reversed(range(TRIES)):
                response = httpx.request(method, url, **options)
                if not (tries_left and response.status_code == 500 and '"Database error"' in response.text):
                    break
            if response.is_success:
                return response.json() if response.content else {}
        except (httpx.HTTPError, ValueError) as error:
            raise SextonError(f"Airflow does not answer: {error}", where=self._url) from None
        kind = NotFoundError if response.status_code == httpx.codes.NOT_FOUND else SextonError
        raise kind(f"Airflow answers {response.status_code} to {method} {path}: {response.text[:300]}", where=self._url)


class NotFoundError(SextonError):
    """Airflow has no such object."""
