"""A real Airflow API server with the plugin, over a lake of a test's: started, asked, and stopped again."""

import json
import os
import secrets
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sexton.lake.catalog import Lake
from sexton_dev.ports import free_port
from tests.airflow_database import airflow_environment, migrated_database
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
READY_S = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """A server that runs; `tokens` by user."""

    url: str
    tokens: Mapping[str, str]
    pid: int

    def status(self, path: str, *, token: str | None = None, cookie: str | None = None, method: str = "GET") -> int:
        """How it answers, to a bearer token, a cookie or neither; asked from a page of its own."""
        headers = {"Sec-Fetch-Site": "same-origin"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if cookie is not None:
            headers["Cookie"] = f"_token={cookie}"
        request = urllib.request.Request(self.url + path, headers=headers, method=method)
        try:
            with _direct.open(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


@contextmanager
def api_server(
    folder: Path,
    lake: Lake,
    users: Mapping[str, str],
    *,
    auth_manager: str = "",
    clusters: str = "{}",
    body_limit: int | None = None,
) -> Iterator[ApiServer]:
    """Airflow's API server for the block; `users` are name -> role of the simple auth manager."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    folder.mkdir(parents=True)
    environment = airflow_environment(
        folder,
        AIRFLOW__CORE__DAGS_FOLDER=str(folder / "dags"),
        AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS=",".join(f"{name}:{role}" for name, role in users.items()),
        AIRFLOW__API__HOST="127.0.0.1",
        AIRFLOW__API__PORT=str(port),
        AIRFLOW__API__BASE_URL=url,
        AIRFLOW__API__WORKERS="1",
        AIRFLOW__API__SECRET_KEY=secrets.token_hex(64),
        AIRFLOW__API_AUTH__JWT_SECRET=secrets.token_hex(64),
        SEXTON_HOME=str(folder),
        SEXTON_CATALOG_URI=lake.properties["uri"],
        SEXTON_WAREHOUSE=lake.properties["warehouse"],
        SEXTON_CLUSTERS=clusters,
        PYTHONPATH=str(ROOT),
        NO_PROXY="127.0.0.1",
        **({"AIRFLOW__CORE__AUTH_MANAGER": auth_manager} if auth_manager else {}),
        **({"SEXTON_API_BODY_LIMIT_BYTES": str(body_limit)} if body_limit else {}),
    )
    airflow = str(Path(sys.executable).parent / "airflow")
    migrated_database(folder / "airflow.db")
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [airflow, "api-server"], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait(url, server, folder / "server.log")
        passwords = json.loads((folder / "simple_auth_manager_passwords.json.generated").read_text("utf-8"))
        tokens = {name: _token(url, name, password) for name, password in passwords.items()}
        yield ApiServer(url=url, tokens=tokens, pid=server.pid)
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # a polite end takes seconds, and nothing is asked of what it leaves
        server.wait()


def _token(url: str, name: str, password: str) -> str:
    body = json.dumps({"username": name, "password": password}).encode()
    request = urllib.request.Request(f"{url}/auth/token", data=body, headers={"Content-Type": "application/json"})
    with _direct.open(request, timeout=60) as answer:
        return str(json.load(answer)["access_token"])


def _wait(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    def answers() -> bool:
        assert server.poll() is None, log.read_text("utf-8", "replace")[-2_000:]
        with _direct.open(f"{url}/api/v2/version", timeout=10):
            return True

    until(answers, log.read_text, within_s=READY_S, every_s=0.5, passing=(OSError,))


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
