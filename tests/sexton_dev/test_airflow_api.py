"""The REST calls against a small stand-in of Airflow's API."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sexton.errors import SextonError
from sexton_dev.airflow_api import TRIES, AirflowApi, NotFoundError

HEALTHY = {part: {"status": "healthy"} for part in ("metadatabase", "scheduler", "dag_processor", "triggerer")}


@pytest.fixture
def server():
    """Answers what `answers` says for "METHOD path", 404 otherwise; notes each request in `seen`."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            what = f"{self.command} {self.path}"
            self.server.seen.append((what, body, self.headers.get("Authorization")))
            known = what in self.server.answers
            answer = self.server.answers.get(what, {"detail": "no such thing"})
            status = 200 if known else 404
            if self.server.errors:
                status, answer = 500, {"detail": {"reason": self.server.errors.pop()}}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = answer  # noqa: N815, names that http.server looks for

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.answers = {"POST /auth/token": {"access_token": "t"}}
        made.seen, made.errors = [], []
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture
def api(server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # must not be used
    return AirflowApi(f"http://127.0.0.1:{server.server_port}", user="admin", password="p")


def test_health(api, server) -> None:
    server.answers["GET /api/v2/monitor/health"] = HEALTHY
    assert api.unhealthy() == []
    half = {"scheduler": {"status": "unhealthy"}, "dag_processor": None, "triggerer": {"status": None}}
    server.answers["GET /api/v2/monitor/health"] = {**HEALTHY, **half}
    assert api.unhealthy() == ["scheduler", "dag_processor", "triggerer"]
    assert all(authorization is None for _, _, authorization in server.seen)


def test_a_database_that_others_write_to_is_asked_again(api, server) -> None:
    server.answers["GET /api/v2/monitor/health"] = HEALTHY
    server.errors = ["Database error"] * (TRIES - 1)
    assert api.unhealthy() == []
    server.errors = ["Database error"] * TRIES
    assert api.unhealthy() == ["api-server"]
    server.seen, server.errors = [], ["anything else"]
    assert api.unhealthy() == ["api-server"]
    assert len(server.seen) == 1


def test_nobody_answers() -> None:
    api = AirflowApi("http://127.0.0.1:9", user="admin", password="p")
    assert api.unhealthy() == ["api-server"]
    with pytest.raises(SextonError, match="does not answer"):
        api.run_state("d", "r")


def test_logs_in_once(api, server) -> None:
    server.answers["GET /api/v2/dags/d"] = {"is_stale": False}
    assert api.has_dag("d")
    assert api.has_dag("d")
    assert [what for what, _, _ in server.seen] == ["POST /auth/token"] + 2 * ["GET /api/v2/dags/d"]
    assert server.seen[0][1] == {"username": "admin", "password": "p"}
    assert server.seen[1][2] == "Bearer t"


def test_a_dag_that_is_not_there(api, server) -> None:
    assert not api.has_dag("d")
    server.answers["GET /api/v2/dags/d"] = {"is_stale": True}
    assert not api.has_dag("d")


def test_a_pool_is_made_only_when_missing(api, server) -> None:
    server.answers["POST /api/v2/pools"] = {}
    api.ensure_pool("p", slots=1, description="why")
    assert server.seen[-1][:2] == ("POST /api/v2/pools", {"name": "p", "slots": 1, "description": "why"})
    server.answers["GET /api/v2/pools/p"] = {"slots": 5}
    api.ensure_pool("p", slots=1, description="why")
    assert server.seen[-1][0] == "GET /api/v2/pools/p"


def test_a_run_from_trigger_to_end(api, server) -> None:
    run = "manual__2026-11-21T06:00:00+00:00"
    path = "/api/v2/dags/d/dagRuns/manual__2026-11-21T06%3A00%3A00%2B00%3A00"
    server.answers["POST /api/v2/dags/d/dagRuns"] = {"dag_run_id": run}
    server.answers[f"GET {path}"] = {"state": "running"}
    server.answers[f"GET {path}/taskInstances"] = {"task_instances": [{"task_id": "a", "state": "success"}]}
    assert api.trigger("d", {"as_of": "5"}) == run
    assert server.seen[-1][1] == {"logical_date": None, "conf": {"as_of": "5"}}
    assert api.run_state("d", run) == "running"
    assert api.task_states("d", run)["a"]["state"] == "success"


def test_what_a_stopped_system_left_is_ended(api, server) -> None:
    found = "GET /api/v2/dags/d/dagRuns?state=queued&state=running&limit=100"
    server.answers[found] = {"dag_runs": [{"dag_run_id": "old"}]}
    server.answers["PATCH /api/v2/dags/d/dagRuns/old"] = {}
    api.fail_unfinished_runs("d")
    assert server.seen[-1][:2] == ("PATCH /api/v2/dags/d/dagRuns/old", {"state": "failed"})


def test_errors_say_what_airflow_said(api) -> None:
    with pytest.raises(NotFoundError, match=r"404 to GET /api/v2/dags/d/dagRuns/r: .*no such thing"):
        api.run_state("d", "r")
