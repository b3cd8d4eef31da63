"""Several clusters on one dashboard: who may not read one of them finds nothing of it, anywhere."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sexton.settings import Settings
from sexton.ui import what_if_process
from tests.ui.lakes import WrittenLake
from tests.ui.test_access import PLANNING, paths
from tests.ui.worlds import LIVING, MAIN, OTHER, PLAN_IDS, PREFIX, app_over, client_of, only

CLUSTERS = Settings(
    clusters={"main": {"cluster_id": MAIN}, "eu": {"cluster_id": OTHER, "policy": "/etc/eu.yaml"}}  # type: ignore[dict-item]
).every_cluster
READS = {"main": "offset_retention", "eu": "offset_retention__eu"}
PLANS = {"main": "apply_tombstones", "eu": "apply_tombstones__eu"}
ALL = (*READS.values(), *PLANS.values())


def client(world: WrittenLake, *dag_ids: str) -> TestClient:
    return client_of(app_over(world, only(*dag_ids), clusters=CLUSTERS))


def asked(found: TestClient, path: str, **query: Any) -> Any:
    return found.get(f"{PREFIX}{path}", params=query)


@pytest.fixture
def both(world: WrittenLake) -> Iterator[TestClient]:
    with client(world, *ALL) as found:
        yield found


def test_the_dashboard_switches_between_them(both: TestClient) -> None:
    page = asked(both, "/").text
    assert re.search(r"<h1>.*main.*</h1>", page)
    assert f"cluster={OTHER}" in page
    assert ">eu</option>" in page
    other = asked(both, "/", cluster=OTHER).text
    assert OTHER in other
    assert "selected>eu</option>" in other


def test_without_a_choice_it_is_the_first_whichever_has_run_last(world: WrittenLake) -> None:
    swapped = CLUSTERS[::-1]
    for clusters, first in ((CLUSTERS, MAIN), (swapped, OTHER)):
        with client_of(app_over(world, only(*ALL), clusters=clusters)) as found:
            assert {run["cluster_id"] for run in asked(found, "/api/runs").json()} == {first}


@pytest.mark.parametrize(("mine", "theirs"), [("main", OTHER), ("eu", MAIN)])
def test_who_may_read_one_finds_nothing_of_the_other(world: WrittenLake, mine: str, theirs: str) -> None:
    own = MAIN if theirs == OTHER else OTHER
    with client(world, READS[mine], PLANS[mine]) as found:
        nowhere = {path: asked(found, path, cluster="none such", id=LIVING, before=2**62) for _, path in paths(world)}
        for method, path in paths(world):
            # The path of a run's files has their DAG, whatever cluster is asked for (test_run_files.py).
            if method != "GET" or path.startswith(("/static", "/runs/")) or path in ("/api/openapi.json", "/metrics"):
                continue
            answer = asked(found, path, cluster=theirs, id=LIVING, before=2**62)
            assert (answer.status_code, answer.text) == (404, nowhere[path].text), path
        for path in ("/", "/runs", "/groups", "/api/overview", "/api/runs", "/api/groups"):
            answer = asked(found, path)
            assert answer.status_code == 200
            assert theirs not in answer.text, path
            assert own in answer.text or path not in ("/", "/api/runs")
        assert "<select" not in asked(found, "/").text.partition("</form>")[0]
        posted = found.post(
            f"{PREFIX}/api/what-if", params={"cluster": theirs}, json={"retention_minutes": 1},
            headers={"Sec-Fetch-Site": "same-origin"},
        )  # fmt: skip
        assert posted.status_code == 404


def test_plans_take_the_right_of_their_own_cluster(world: WrittenLake) -> None:
    with client(world, *READS.values(), PLANS["eu"]) as found:
        for method, path in paths(world):
            if method == "GET" and path.startswith(PLANNING):
                assert asked(found, path, cluster=MAIN).status_code == 403, path
                assert asked(found, path).status_code == 403, path
        assert asked(found, "/api/plans", cluster=OTHER).status_code == 200
        assert asked(found, "/api/ledger", cluster=OTHER).json() == []
        assert asked(found, f"/plans/{PLAN_IDS[1]}", cluster=OTHER).status_code == 404


def test_a_cluster_that_no_setting_names_is_nobodys(world: WrittenLake) -> None:
    with client_of(app_over(world, only(*ALL), clusters=CLUSTERS[:1])) as found:
        assert {run["cluster_id"] for run in asked(found, "/api/runs").json()} == {MAIN}
        assert asked(found, "/api/runs", cluster=OTHER).status_code == 404


def test_who_may_read_none_is_refused(world: WrittenLake) -> None:
    with client(world, *PLANS.values()) as found:
        assert asked(found, "/").status_code == 403
        assert asked(found, "/static/ui.js").status_code == 403


def test_links_lead_to_the_dags_of_the_cluster(world: WrittenLake) -> None:
    clusters = Settings(clusters={"eu": {"cluster_id": OTHER}, "main": {"cluster_id": MAIN}}).every_cluster  # type: ignore[dict-item]
    rights = ("offset_retention", "offset_retention__main", "apply_tombstones__main")
    with client_of(app_over(world, only(*rights), clusters=clusters)) as found:
        page = asked(found, f"/plans/{PLAN_IDS[1]}", cluster=MAIN).text
        assert "/dags/apply_tombstones__main" in page
        assert "/dags/apply_tombstones/" not in page
        assert "/dags/apply_tombstones__main/required_actions" in asked(found, "/plans", cluster=MAIN).text


def test_what_if_starts_from_the_policy_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    class Read(Exception):
        pass

    def read(path: Any) -> None:
        raise Read(str(path))

    monkeypatch.setattr(what_if_process, "read_policy", read)
    config = Settings(clusters={"main": {"cluster_id": MAIN}, "eu": {"cluster_id": OTHER, "policy": "/etc/eu.yaml"}})  # type: ignore[dict-item]
    monkeypatch.setattr(what_if_process, "settings", lambda: config)
    question = {"cluster_id": OTHER, "as_of_ms": 1, "retention_minutes": 1, "policy": ""}
    with pytest.raises(Read, match=r"^/etc/eu\.yaml$"):
        what_if_process.answer(question)
