"""Plans: what they would take, how they differ, what became of them; and what plan.json may not do to a page."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sexton.plans.plan import Losses, PlanRecord
from sexton.plans.read_plan import plan_sha256
from sexton.ui.plan_queries import status_of
from tests.html import harmless
from tests.report.test_plan_page import content
from tests.ui.worlds import DYING, FIRST_MS, MAIN, PLAN_IDS, PREFIX, RUNS

EVIL = "<script>alert(1)</script>"


def asked(client: TestClient, path: str, **query: Any) -> Any:
    answer = client.get(f"{PREFIX}/api{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def record(plan_id: str) -> PlanRecord:
    losses = [Losses(cause=f"rule:{EVIL}", owner=EVIL, reason=EVIL, offsets=2, groups=1, deleted_groups=0)]
    told = {"losses": losses, "over_limits": [EVIL], "warnings": [EVIL], "max_message_bytes": 5}
    return content({"g": 2}, plan_id=plan_id, cluster_id=MAIN, as_of_ms=FIRST_MS, **told).record


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sexton.ui.plan_routes.settings", lambda: SimpleNamespace(archive_uri=str(tmp_path)))
    return tmp_path


def keep(archive: Path, plan_id: str, data: bytes) -> None:
    folder = archive / MAIN / "plans" / plan_id
    folder.mkdir(parents=True)
    (folder / "plan.json").write_bytes(data)


def test_plans_and_what_became_of_them(client: TestClient) -> None:
    found = {plan["plan_id"]: plan for plan in asked(client, "/plans")}
    assert list(found) == [PLAN_IDS[number] for number in reversed(range(RUNS))]
    assert (found[PLAN_IDS[1]]["status"], found[PLAN_IDS[1]]["outcomes"]) == ("applied", {"done": 2})
    assert (found[PLAN_IDS[2]]["status"], found[PLAN_IDS[2]]["outcomes"]) == ("made", {})
    assert found[PLAN_IDS[3]]["status"] == "tried"
    assert (found[PLAN_IDS[0]]["status"], found[PLAN_IDS[0]]["outcomes"]) == ("tried", {"refused": 1})


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ({}, "made"),
        ({"done": 2, "raced": 1}, "applied"),
        ({"changed_since": 1, "gone": 2}, "applied"),
        ({"refused": 3}, "tried"),
        ({"not_done": 1, "open": 1, "refused": 1}, "tried"),
        ({"done": 2, "refused": 1}, "partly"),
        ({"done": 2, "open": 1}, "partly"),
        ({"done": 2}, "partly"),
        ({"done": 3, "refused": 1}, "partly"),
    ],
)
def test_a_plan_is_applied_once_nothing_is_left_to_do(outcomes: dict[str, int], status: str) -> None:
    assert status_of(3, outcomes) == status


def test_a_plan_against_the_one_before(client: TestClient) -> None:
    found = asked(client, f"/plans/{PLAN_IDS[2]}")
    assert [row["partition"] for row in found["rows"]["rows"]] == [0, 2]
    assert (found["before"], found["added"]["total"], found["removed"]["total"]) == (PLAN_IDS[1], 1, 1)
    assert found["added"]["rows"][0]["partition"] == 2
    assert found["removed"]["rows"][0]["partition"] == 1
    first = asked(client, f"/plans/{PLAN_IDS[0]}")
    assert (first["before"], first["added"], first["removed"]) == (None, None, None)


def test_the_ledger_counts_each_item_once(client: TestClient) -> None:
    line = next(row for row in asked(client, "/ledger") if row["plan_id"] == PLAN_IDS[1])
    assert (line["items"], line["done"], line["not_done"], line["attempts"]) == (2, 2, 0, 2)
    rows = asked(client, f"/ledger/{PLAN_IDS[1]}")["rows"]
    assert [(row["position"], row["attempt"], row["outcome"]) for row in rows] == [
        (0, 1, "done"),
        (1, 1, "refused"),
        (1, 2, "done"),
    ]
    assert rows[0]["before"]["committed_offset"] == 5
    assert rows[0]["group_id"] == DYING


def test_what_plan_json_says(client: TestClient, archive: Path) -> None:
    data = record(PLAN_IDS[1]).to_json()
    keep(archive, PLAN_IDS[1], data)
    found = asked(client, f"/plans/{PLAN_IDS[1]}")
    assert (found["kept_sha256"], found["problem"]) == (plan_sha256(data), None)
    page = client.get(f"{PREFIX}/plans/{PLAN_IDS[1]}").text
    harmless(page)
    assert EVIL not in page


@pytest.mark.parametrize("data", [b"", b"[]", b'{"plan_id": 1}', b"\xff\xfe", b"{" * 100_000])
def test_a_plan_json_that_is_none(client: TestClient, archive: Path, data: bytes) -> None:
    keep(archive, PLAN_IDS[1], data)
    assert asked(client, f"/plans/{PLAN_IDS[1]}")["problem"] == "plan.json is not a plan"
    assert client.get(f"{PREFIX}/plans/{PLAN_IDS[1]}").status_code == 200


def test_a_plan_that_the_archive_does_not_keep(client: TestClient, archive: Path) -> None:
    assert "keeps no such plan" in asked(client, f"/plans/{PLAN_IDS[1]}")["problem"]


@pytest.mark.parametrize("plan_id", ["0" * 64, "x", "..%2f..%2fetc", "A" * 64])
def test_no_such_plan(client: TestClient, plan_id: str) -> None:
    for path in ("/plans/", "/ledger/"):
        assert client.get(f"{PREFIX}{path}{plan_id}").status_code in (404, 422)
