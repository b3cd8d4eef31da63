"""What-if: its own process, one question at a time, and answers for questions that are wrong."""

import subprocess
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sexton.errors import SextonError
from sexton.settings import settings
from sexton.ui import what_if_process
from sexton.ui.what_if_process import BadQuestion, Busy, ask
from tests.html import Html
from tests.ui.lakes import WrittenLake
from tests.ui.worlds import DYING, FIRST_MS, HOUR_MS, MAIN, PREFIX

OURS = {"Origin": "http://dashboard"}
BY_HTMX = {**OURS, "HX-Request": "true", "HX-Target": "answer"}
ANSWER = {
    "counts": {
        "offsets_lost_in_force": 1, "offsets_lost_proposed": 3, "offsets_newly_lost": 2, "offsets_spared": 0,
        "groups_that_differ": 1, "whole_groups_in_force": 0, "whole_groups_proposed": 1,
    },
    "retention_ms": {"in_force": 1, "proposed": 2},
    "groups": [
        {
            "group_id": "<script>alert(1)</script>", "group_type": "Classic", "state": "Empty", "offset_count": 3,
            "lost_in_force": 1, "lost_proposed": 3, "newly_lost": 2, "spared": 0, "whole_in_force": False,
            "whole_proposed": True, "by": ["broker"],
        }
    ],
    "group_count": 1,
    "rules": [
        {
            "by": "rule:<b>", "owner": "<i>owner</i>", "reason": "<u>why</u>", "lost_in_force": 0, "lost_proposed": 1,
            "newly_lost": 1, "spared": 0, "groups": 1, "whole_groups": 1,
        }
    ],
}  # fmt: skip


def question(**changes: Any) -> dict[str, Any]:
    return {"cluster_id": MAIN, "as_of_ms": FIRST_MS + HOUR_MS, "retention_minutes": None, "policy": "", **changes}


@pytest.fixture
def home(world: WrittenLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child finds the test's lake where a deployment's would be."""
    monkeypatch.setenv("SEXTON_CATALOG_URI", world.lake.properties["uri"])
    monkeypatch.setenv("SEXTON_WAREHOUSE", world.lake.properties["warehouse"])
    monkeypatch.delenv("SEXTON_POLICY", raising=False)
    settings.cache_clear()
    yield
    settings.cache_clear()


@pytest.mark.usefixtures("home")
def test_a_shorter_retention_takes_more() -> None:
    found = ask(**question(retention_minutes=30))
    assert found["counts"]["offsets_newly_lost"] > 0
    assert DYING in [group["group_id"] for group in found["groups"]]
    assert found["retention_ms"]["proposed"] == 30 * 60_000


@pytest.mark.usefixtures("home")
def test_every_mistake_of_a_policy_is_told() -> None:
    with pytest.raises(BadQuestion) as caught:
        ask(**question(policy="version: 9\nrules: 7\n"))
    assert len(caught.value.mistakes) == 2
    assert caught.value.mistakes[0].startswith("policy:1: ")


def test_nothing_to_try() -> None:
    with pytest.raises(BadQuestion, match="nothing to try"):
        ask(**question())


def test_one_question_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run(*_: Any, **__: Any) -> Any:
        with pytest.raises(Busy):
            ask(**question(retention_minutes=1))
        asked.append("once")
        return subprocess.CompletedProcess([], 0, stdout=b'{"counts": {}}\n', stderr=b"")

    monkeypatch.setattr(what_if_process.subprocess, "run", run)
    for _ in range(2):
        ask(**question(retention_minutes=1))
    assert asked == ["once", "once"]


@pytest.mark.parametrize("stdout", [b"", b"Killed\n", b'{"error": "no such run", "mistakes": [], "is_usage": false}\n'])
def test_a_child_that_fails_is_no_answer(client: TestClient, monkeypatch: pytest.MonkeyPatch, stdout: bytes) -> None:
    done = subprocess.CompletedProcess([], 137, stdout=stdout, stderr=b"")
    monkeypatch.setattr(what_if_process.subprocess, "run", lambda *_, **__: done)
    answer = client.post(f"{PREFIX}/what-if", data={"retention_minutes": "5"}, headers=OURS)
    assert answer.status_code == 503


def test_a_child_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.run
    monkeypatch.setattr(what_if_process.subprocess, "run", lambda _, **options: real(["/bin/sleep", "60"], **options))
    with pytest.raises(Exception, match="no answer within"):
        ask(**question(retention_minutes=1), timeout_s=0.2)


@pytest.mark.parametrize("minutes", ["0", "-5", "1e3", "x", "٣", "99999999999", "9" * 5_000])
def test_a_retention_that_is_none(client: TestClient, minutes: str) -> None:
    answer = client.post(f"{PREFIX}/what-if", data={"retention_minutes": minutes}, headers=OURS)
    assert answer.status_code == 422
    assert "whole number of minutes" in answer.text


def test_a_policy_alone_is_a_question(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """htmx leaves empty fields out, a browser by itself sends them empty."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr("sexton.ui.what_if_routes.ask", lambda **question: asked.append(question) or ANSWER)
    for fields in ({"policy": "version: 1"}, {"policy": "version: 1", "retention_minutes": ""}):
        answer = client.post(f"{PREFIX}/what-if", data=fields, headers=BY_HTMX)
        assert answer.status_code == 200, answer.text
    assert [(each["retention_minutes"], each["policy"]) for each in asked] == [(None, "version: 1")] * 2


def fail(error: Exception) -> Any:
    def ask(**_: Any) -> None:
        raise error

    return ask


@pytest.mark.parametrize(
    ("fields", "error", "status", "told"),
    [
        ({}, None, 422, "nothing to try: give a retention, a policy, or both"),
        ({"retention_minutes": "", "policy": " "}, None, 422, "nothing to try"),
        ({"retention_minutes": "9" * 30}, None, 422, "whole number of minutes"),
        ({"policy": "x" * (what_if_process.LONGEST_POLICY + 1)}, None, 422, "more than 262144 characters"),
        (
            {"policy": "x"},
            BadQuestion(["policy:1: <script>alert(1)</script>"]),
            422,
            "policy:1: <script>alert(1)</script>",
        ),
        ({"policy": "x"}, Busy("another what-if is being answered"), 503, "No answer at the moment"),
        ({"policy": "x"}, SextonError("no answer within 120 s <b>"), 503, "no answer within 120 s <b>"),
    ],
)
def test_what_cannot_be_answered_is_a_part_of_a_page(
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, str],
    error: Exception | None,
    status: int,
    told: str,
) -> None:
    if error is not None:
        monkeypatch.setattr("sexton.ui.what_if_routes.ask", fail(error))
    answer = client.post(f"{PREFIX}/what-if", data=fields, headers=BY_HTMX)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    page = Html(answer.text)
    assert page.tags <= {"div", "b", "ul", "li"}
    assert "data-failure" in page.attributes
    assert told in page.text


def test_an_answer_is_text(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.ui.what_if_routes.ask", lambda **_: ANSWER)
    policy = "</textarea><script>alert(2)</script>"
    page = client.post(f"{PREFIX}/what-if", data={"retention_minutes": "5", "policy": policy}, headers=OURS)
    assert page.status_code == 200
    assert "alert(1)" in page.text
    assert "<script>alert" not in page.text
    assert client.post(f"{PREFIX}/api/what-if", json={"retention_minutes": 5}, headers=OURS).json() == ANSWER
