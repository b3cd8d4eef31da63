"""What a run wrote into its folder, as the dashboard serves it."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from sexton.airflow.runs import run_folder
from sexton.archive.folder import Folder
from sexton.settings import Settings, settings
from sexton.ui.app import HEADERS
from tests.ui.lakes import WrittenLake
from tests.ui.worlds import PREFIX, app_over, client_of, only

DAG, RUN = "offset_retention", "scheduled__2026-11-21T06:00:00+00:00"
PAGE = "<script>document.title = 'stolen'</script><h1>checked</h1>"
SECRET = "secret"


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SEXTON_RUNS", str(tmp_path / "runs"))
    settings.cache_clear()
    folder = Path(run_folder(DAG, RUN))
    for name in ("report.html", "run.json", "dq/index.html", "dq/validations/groups/a b/1.html"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE)
    (folder / "dq" / "static").mkdir()
    (folder / "dq" / "static" / "a.css").write_text("h1 {}")
    (tmp_path / "runs" / SECRET).write_text(SECRET)
    yield
    settings.cache_clear()


def url(name: str, *, dag: str = DAG, run: str = RUN) -> str:
    return f"{PREFIX}/runs/{dag}/{quote(run, safe='')}/{name}"


def test_pages_are_served_without_their_scripts(client: TestClient) -> None:
    for name in ("report.html", "data-docs/validations/groups/a%20b/1.html"):
        answer = client.get(url(name))
        assert (answer.status_code, answer.text) == (200, PAGE), name
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        policy = [part.strip() for part in answer.headers["content-security-policy"].split(";")]
        assert {"sandbox allow-same-origin", "default-src 'none'", "form-action 'none'"} <= {*policy}
        assert not [part for part in policy if "script" in part]
        assert answer.headers["x-content-type-options"] == HEADERS["X-Content-Type-Options"]
    assert client.get(url("data-docs/static/a.css")).headers["content-type"].startswith("text/css")


def test_the_list_leads_to_each_suite(client: TestClient) -> None:
    answer = client.get(url("data-docs/"))
    assert '<a href="validations/groups/a%20b/1.html">groups</a>' in answer.text
    assert client.get(url("data-docs/index.html")).text == answer.text, "where the site's own links lead home"
    assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    "name",
    [
        "data-docs/../run.json", "data-docs/%2e%2e/run.json", "data-docs/..%2frun.json", "data-docs//index.html",
        f"data-docs/..%2f..%2f..%2f{SECRET}", "data-docs/%2fetc%2fpasswd", "data-docs/static", "data-docs/none.html",
        "run.json", "data-docs/static/..%2findex.html",
    ],
)  # fmt: skip
def test_a_file_that_the_folder_does_not_list_is_not_there(client: TestClient, name: str) -> None:
    assert client.get(url(name)).status_code == 404


@pytest.mark.parametrize("run", ["another", "..", "%2e%2e", ".", "x%2f..", "a" * 300, "\x00"])
def test_a_run_that_wrote_nothing_has_no_pages(client: TestClient, run: str) -> None:
    for name in ("report.html", "data-docs/", "data-docs/index.html"):
        assert client.get(url(name, run=run)).status_code == 404


def test_who_may_read_one_cluster_finds_no_run_of_another(world: WrittenLake) -> None:
    clusters = Settings(clusters={"main": {"cluster_id": "a"}, "eu": {"cluster_id": "b"}}).every_cluster  # type: ignore[dict-item]
    for dag in (DAG, f"{DAG}__eu", "apply_tombstones"):
        Folder(run_folder(dag, RUN)).write(PAGE.encode(), "report.html")
    with client_of(app_over(world, only(f"{DAG}__eu", "apply_tombstones"), clusters=clusters)) as client:
        told = {
            dag: client.get(url("report.html", dag=dag)).status_code for dag in (DAG, f"{DAG}__eu", "apply_tombstones")
        }
    assert told == {DAG: 404, f"{DAG}__eu": 200, "apply_tombstones": 404}
