"""Pages tell what was published, in two languages, and their JSON tells the same.

Most names in it mean harm; links and JSON with such names: tests/faults/test_hostile_names.py.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pyiceberg.expressions import And, EqualTo

from sexton.lake.branch import RunKey
from sexton.lake.database import UnreadableFiles
from sexton.tables import TABLES
from sexton.ui.app import HEADERS
from sexton.ui.rendering import second
from tests.html import PASSIVE, TAGS, Html, harmless
from tests.report.run_folder import HOSTILE_NAMES
from tests.ui.lakes import Row, WrittenLake, as_table, lake_at
from tests.ui.worlds import (
    DYING,
    FIRST_MS,
    GONE,
    HOUR_MS,
    LIVING,
    MAIN,
    OTHER,
    PLAN_IDS,
    PREFIX,
    RUNS,
    UNHELD,
    app_over,
    client_of,
    key,
)

PAGES = (
    "/", "/groups", "/offsets", "/lost", "/log", "/replicas", "/transactions", "/runs", "/checks", "/plans",
    f"/plans/{PLAN_IDS[1]}", f"/ledger/{PLAN_IDS[1]}", "/what-if", f"/group?id={LIVING}", f"/group?id={DYING}",
)  # fmt: skip
PUBLISHED = FIRST_MS + HOUR_MS
"""A run before that with the hostile names."""


def page(client: TestClient, path: str, **query: Any) -> str:
    answer = client.get(PREFIX + path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.text


def text(client: TestClient, path: str, **query: Any) -> str:
    return Html(page(client, path, **{"as_of": PUBLISHED, **query})).text


def data(client: TestClient, path: str, **query: Any) -> Any:
    answer = client.get(f"{PREFIX}/api{path}", params={"as_of": PUBLISHED, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_was_lost_by_day_and_cause(client: TestClient) -> None:
    assert "No offset was lost in these days" in text(client, "/lost")
    third = FIRST_MS + 2 * HOUR_MS
    found = data(client, "/lost", as_of=third, days=3)
    assert [row["group_deleted"] for row in found["days"]] == [None, None, 1]
    assert found["totals"] == {"expired": 0, "deleted": 0, "group_deleted": 1, "topic_deleted": 0, "ambiguous": 0}
    assert found["groups"] == [{"group_id": GONE, "offsets": 1, "last_ms": third - 1_000, "kinds": ["group_deleted"]}]
    html = page(client, "/lost", as_of=third, days=3)
    assert html.count('<rect class="track"') == 2, "of two days nothing is published"
    assert f"<title>{found['days'][-1]['day']}, group deleted: 1</title>" in html
    shown = text(client, "/lost", as_of=third, days=3)
    assert "group deleted: 1" in shown
    assert GONE in shown
    for days in (0, 367):
        assert client.get(f"{PREFIX}/lost", params={"days": days}).status_code == 422


@pytest.mark.parametrize("language", ["en", "zh-CN"])
@pytest.mark.parametrize("path", PAGES)
def test_every_page_in_every_language(client: TestClient, path: str, language: str) -> None:
    html = page(client, path, **({"id": path.partition("=")[2]} if "=" in path else {}), lang=language)
    assert f'<html lang="{language}">' in html
    assert html.count("<h1>") == 1
    harmless(html)


def test_what_is_typed_comes_back_as_text(client: TestClient) -> None:
    for name in HOSTILE_NAMES[:-1]:  # the last one is longer than a name may be
        shown = Html(page(client, "/offsets", group=name, topic=name))
        assert shown.tags <= TAGS
        assert all(map(PASSIVE.fullmatch, shown.attributes))


def test_the_newest_audit_of_transactions_is_shown(client: TestClient) -> None:
    newest = data(client, "/transaction-audit", as_of=FIRST_MS + RUNS * HOUR_MS)
    assert newest["verdicts"] == {"hanging": 1, "running": 1}
    assert [row["verdict"] for row in newest["transactions"]["rows"]] == ["hanging", "running"]
    assert newest["states"] == {"CompleteCommit": 2, "Ongoing": 2}
    assert newest["families"] == [{"family": "app-*", "found": 3}, {"family": HOSTILE_NAMES[0], "found": 1}]
    assert "--start-offset 3" in text(client, "/transactions", as_of=FIRST_MS + RUNS * HOUR_MS)
    assert data(client, "/transaction-audit", as_of=FIRST_MS) is None
    assert data(client, "/transaction-audit", cluster=OTHER) is None


@pytest.mark.parametrize(
    ("asked", "due", "within"), [(2 * HOUR_MS, 1, [2, 2, 2]), (96 * HOUR_MS, 0, [1, 2, 2]), ("", None, None)]
)
def test_another_expiration_of_transactional_ids(
    client: TestClient, asked: int | str, due: int | None, within: list[int] | None
) -> None:
    """Of two that ended an hour and three days ago; an empty field asks nothing."""
    at = {"as_of": FIRST_MS + RUNS * HOUR_MS, "expiration_ms": asked}
    in_force, *others = data(client, "/transaction-audit", **at)["forecasts"]
    assert in_force == {
        "expiration_ms": 168 * HOUR_MS, "ids": 4, "open": 2, "due": 0, "within_days": {"1": 0, "7": 2, "30": 2},
    }  # fmt: skip
    assert [(each["due"], list(each["within_days"].values())) for each in others] == ([(due, within)] if asked else [])
    for language in ("en", "zh-CN"):
        html = page(client, "/transactions", lang=language, **at)
        assert html.count("<td>7 d</td>") == 1
        assert f'name="expiration_ms" min="1" max="2147483647" step="1" value="{asked}"' in html


@pytest.mark.parametrize("asked", ["0", "-1", "2147483648", "1.5", "<b>"])
def test_an_expiration_that_no_broker_takes(client: TestClient, asked: str) -> None:
    assert client.get(f"{PREFIX}/transactions", params={"expiration_ms": asked}).status_code == 422


def test_the_newest_audit_of_replicas_is_shown(client: TestClient) -> None:
    """An earlier run shows the newest audit before it, and a run before all audits none."""
    newest = data(client, "/replicas", as_of=FIRST_MS + RUNS * HOUR_MS)
    assert newest["as_of_ms"] == key(RUNS - 1).as_of_ms
    assert newest["kinds"] == {"resurrected": newest["differences"]["total"]}
    assert {row["status"] for row in newest["replicas"]} == {"same", "differs"}
    assert "resurrected" in text(client, "/replicas", as_of=FIRST_MS + RUNS * HOUR_MS)
    assert data(client, "/replicas")["kinds"] == {}
    assert "all replicas would serve the same" in text(client, "/replicas")
    assert data(client, "/replicas", as_of=FIRST_MS) is None
    assert data(client, "/replicas", cluster=OTHER) is None


def test_what_every_answer_forbids(client: TestClient) -> None:
    for path in ("/", "/api/runs", "/static/ui.js", "/groups?sort=evil", "/group?id=none"):
        headers = client.get(PREFIX + path).headers
        for name in ("Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"):
            assert headers[name] == HEADERS[name], path
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize("path", PAGES)
def test_nothing_inline_and_nothing_from_elsewhere(client: TestClient, path: str) -> None:
    html = page(client, path, **({"id": path.partition("=")[2]} if "=" in path else {}), as_of=PUBLISHED)
    assert not re.search(r"<script(?![^>]* src=)|<style", html)
    assert not re.search(r"<[a-z]+(?:\s+[a-z-]+(?:=\"[^\"]*\")?)*\s+(?:style|on[a-z]+)=", html)
    assert not re.search(r"(?:src|href)=\"(?!/sexton/|#|/dags/apply_tombstones)", html)


def test_the_overview_counts(client: TestClient) -> None:
    found = data(client, "/overview")
    assert (found["group_count"], found["offset_count"], found["due"], found["pending"]) == (3, 5, 2, 1)
    assert (found["orphan_count"], found["pinned"], found["left_topic"], found["behind_log_start"]) == (1, 1, 1, 1)
    assert found["horizons"] == [0, 1, 1, 1]
    assert sum(found["bins"]) + found["later"] + found["due"] + found["never"] == found["offset_count"]
    assert [row["policy_verdict"] for row in found["by_policy"]] == ["expire", "hold"]
    (kept,) = found["kept"]
    assert (kept["policy_rule"], kept["keep_status"], kept["why"], kept["commits"]) == (
        "legal",
        "not_kept",
        "topic_gone",
        1,
    )
    told = text(client, "/")
    assert "2 due now" in told
    kept_alive = told.partition("Kept alive by holds")[2].partition(" Groups By type")[0]
    assert kept_alive.endswith(second(PUBLISHED - HOUR_MS)), "the last attempt is an instant"
    assert "1 warning about this run" in told


def test_one_cluster_knows_nothing_of_another(client: TestClient) -> None:
    assert data(client, "/overview", cluster=OTHER)["group_count"] == 1
    assert [run["cluster_id"] for run in data(client, "/runs", cluster=OTHER)] == [OTHER]
    assert client.get(f"{PREFIX}/api/group", params={"cluster": OTHER, "id": LIVING}).status_code == 404


def test_an_instant_knows_nothing_later(client: TestClient) -> None:
    assert [run["as_of_ms"] for run in data(client, "/runs")] == [PUBLISHED, FIRST_MS]
    assert data(client, "/group/series", id=LIVING)["at_ms"] == [FIRST_MS, PUBLISHED]
    assert "is gone" not in text(client, "/group", id=GONE)


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ({}, [DYING, GONE, LIVING]),
        ({"q": "LIV"}, [LIVING]),
        ({"q": "%"}, []),
        ({"state": "Stable"}, [LIVING]),
        ({"type": "Share"}, []),
        ({"only": "due"}, [DYING]),
        ({"only": "held"}, [DYING]),
        ({"only": "orphans"}, [DYING]),
        ({"only": "pinned"}, [LIVING]),
        ({"only": "pending"}, [LIVING]),
        ({"only": "empty"}, [GONE]),
        ({"only": "resets"}, [DYING]),
        ({"only": "losing"}, [DYING]),
        ({"sort": "lag_min_ms"}, [LIVING, DYING, GONE]),
        ({"sort": "loses_at_ms"}, [DYING, LIVING, GONE]),
        ({"sort": "resets"}, [DYING, LIVING, GONE]),
        ({"sort": "offset_count"}, [DYING, LIVING, GONE]),
        ({"sort": "next_expires_at_ms"}, [DYING, GONE, LIVING]),
        ({"size": 2, "page": 2}, [LIVING]),
        ({"size": 2, "page": 99}, [LIVING]),
    ],
)
def test_groups_are_found(client: TestClient, query: dict[str, Any], groups: list[str]) -> None:
    assert [row["group_id"] for row in data(client, "/groups", **query)["rows"]] == groups


@pytest.mark.parametrize(
    ("query", "offsets"),
    [
        ({"group": "dying"}, [("old", 0), ("old", 1), ("old", 2)]),
        ({"topic": "ORD"}, [("orders", 0), ("orders", 1)]),
        ({"finding": "due"}, [("old", 0), ("old", 1)]),
        ({"finding": "orphan"}, [("old", 0)]),
        ({"finding": "held"}, [("old", 0)]),
        ({"finding": "policy_due"}, [("old", 1)]),
        ({"finding": "behind_log_start"}, [("old", 1)]),
        ({"finding": "left_topic"}, [("old", 2)]),
        ({"finding": "pinned"}, [("orders", 1)]),
        ({"reason": "subscribed"}, [("orders", 0)]),
        ({"group": "dying", "size": 2, "page": 2}, [("old", 2)]),
        ({"sort": "topic", "size": 1}, [("old", 0)]),
    ],
)
def test_offsets_are_found(client: TestClient, query: dict[str, Any], offsets: list[tuple[str, int]]) -> None:
    rows = data(client, "/offsets", **query)["rows"]
    assert [(row["topic"], row["partition"]) for row in rows] == offsets
    assert all(row["committed_offset"] is not None for row in rows)


def test_a_group_in_full(client: TestClient) -> None:
    found = data(client, "/group", id=LIVING)
    first, second = found["offsets"]["rows"]
    assert (first["committed_offset"], first["log_end_offset"], first["lag"]) == (110, 300, 190)
    assert (second["log_end_offset"], second["lag"], second["pinned_by_producer_id"]) == (None, None, 77)
    assert found["total_lag"] == 190
    assert [row["producer_id"] for row in found["pending"]] == [77]
    told = text(client, "/group", id=LIVING)
    assert "kept while that lasts" in told
    assert "pinned by producer 77" in told
    newest = {"as_of": FIRST_MS + RUNS * HOUR_MS}
    for path, query in (("/group", {"id": LIVING}), ("/offsets", {"finding": "pinned"})):
        assert re.search(r"pinned by .* \(hanging\)", text(client, path, **query, **newest)), path


def test_a_group_of_a_log_partition_whose_load_fails_is_only_shown_as_decoded(client: TestClient) -> None:
    """No list and no count has it (the numbers of all other tests are of a run with it)."""
    found = data(client, "/group", id=UNHELD)
    assert [row["broker_reason"] for row in found["offsets"]["rows"]] == ["load_would_fail"]
    assert (found["is_held"], data(client, "/group", id=LIVING)["is_held"]) == (False, True)
    told = text(client, "/group", id=UNHELD)
    assert told.count("no coordinator holds it") == 2  # a note, and the verdict's reason
    assert "They are on the disk; no coordinator has the group now." in told
    assert "They are on the disk" not in text(client, "/group", id=LIVING)
    for path in ("/groups", "/offsets", "/transactions", "/"):
        assert UNHELD not in text(client, path), path


def test_a_group_without_log_ends_has_no_lag(client: TestClient) -> None:
    assert data(client, "/group", id=DYING)["total_lag"] is None


def test_lag_over_time(client: TestClient) -> None:
    found = data(client, "/group/series", id=LIVING, topic="orders", partition=0, as_of=FIRST_MS + 2 * HOUR_MS)
    assert found["committed_offset"] == [100, 110, 120]
    assert found["lag"] == [100, 190, 280]
    assert data(client, "/group/series", id=GONE)["committed_offset"] == [None, None]


def test_lag_in_time(client: TestClient) -> None:
    """Of an audited run; one that is not says so."""
    found = data(client, "/group", id=LIVING)
    assert found["longest"] == {
        "lag_min_ms": 2 * HOUR_MS, "lag_max_ms": 2 * HOUR_MS + 300_000, "resets": 0,
        "loses_at_ms": PUBLISHED + 100 * HOUR_MS,
    }  # fmt: skip
    first, second = found["offsets"]["rows"]
    assert (first["lag_min_ms"], first["lag_growth"], second["lag_growth"]) == (2 * HOUR_MS, 0.01, -0.5)
    told = text(client, "/group", id=LIVING)
    assert "2 h to 2 h 5 min" in told
    assert "falls behind" in told
    assert "catches up" in told
    assert "2 h to 2 h 5 min" in text(client, "/groups", q=LIVING)
    dying = text(client, "/group", id=DYING)
    for words in (
        "would reset: what it read was truncated @ 4",
        "waits for an open transaction",
        "stands still",
        "in 1 h",
    ):
        assert words in dying
    assert data(client, "/group", id=LIVING, as_of=FIRST_MS)["longest"] is None
    assert "not measured for this run" in text(client, "/group", id=LIVING, as_of=FIRST_MS)


def test_lag_in_time_from_run_to_run(client: TestClient) -> None:
    """Runs 1 and 3 are audited."""
    at = {"id": LIVING, "as_of": FIRST_MS + 3 * HOUR_MS}
    found = data(client, "/group/series", **at)
    assert found["lag_min_ms"] == [None, 2 * HOUR_MS, None, 2 * HOUR_MS]
    assert found["lag_max_ms"] == [None, 2 * HOUR_MS + 300_000, None, 2 * HOUR_MS + 300_000]
    assert data(client, "/group/series", topic="orders", partition=0, **at)["lag_max_ms"][1] == 2 * HOUR_MS


def test_an_audit_that_comes_after_the_run_was_looked_at(tmp_path: Any) -> None:
    """The list of groups is kept in memory, but not without the audit."""
    lake, run = lake_at(tmp_path), key(0)
    group = {"group_id": "g", "group_type": "Classic", "state": "Empty"}
    lake.publish(run, {"groups": [group]})
    with client_of(app_over(lake)) as own:
        assert data(own, "/groups")["rows"][0]["lag_min_ms"] is None
        lag = {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 1, "lag_min_ms": 7}
        lake.append("time_lag", as_table("time_lag", [lag], run))
        assert data(own, "/groups")["rows"][0]["lag_min_ms"] == 7


def test_the_story_of_a_group_that_is_gone(client: TestClient) -> None:
    told = text(client, "/group", id=GONE, as_of=FIRST_MS + 2 * HOUR_MS)
    assert "This run has no such group." in told
    events = data(client, "/group/story", id=GONE, as_of=FIRST_MS + 2 * HOUR_MS)["events"]
    assert [event["kind"] for event in events] == ["vanished", "group_deleted", "appeared"]


def test_an_older_page_of_a_story_ends_where_it_says(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.ui.story_queries.RUNS_A_PAGE", 1)
    found = data(client, "/group/story", id=LIVING)
    assert (found["since_ms"], found["before_ms"]) == (PUBLISHED, PUBLISHED - 1)
    older = data(client, "/group/story", id=LIVING, before=found["before_ms"])
    assert (older["since_ms"], older["before_ms"]) == (FIRST_MS, None)
    assert "Show older runs" in text(client, "/group", id=LIVING)


def thin(lake: WrittenLake, run: RunKey) -> None:
    """Take a run out of every table but the ledgers, as `maintenance.expire_runs` does."""
    where = And(EqualTo("cluster_id", run.cluster_id), EqualTo("as_of_ms", run.as_of_ms))
    for name in TABLES:
        table = lake.catalog.load_table(f"sexton.{name}")
        if name != "offset_changes" and TABLES[name].kind != "append" and table.current_snapshot() is not None:
            table.delete(where)


def seen(number: int, cluster_id: str = MAIN) -> dict[str, list[Row]]:
    """A run that has the group, and told of one thing that happened to it.

    The offset that was lost is the run's number, and a hundred more of the other cluster.
    """
    happened = {"topic": "t", "partition": 0, "kind": "expired", "timestamp_ms": key(number).as_of_ms}
    return {
        "groups": [{"group_id": "g", "group_type": "Classic", "state": "Empty"}],
        "offset_changes": [
            {"group_id": "g", **happened, "old_committed_offset": number + 100 * (cluster_id != MAIN)},
            {"group_id": "another", **happened},
        ],
    }


@pytest.fixture(scope="module")
def thinned(tmp_path_factory: pytest.TempPathFactory) -> WrittenLake:
    """Hourly runs 0 to 7 of which 3, 6 and 7 are left, of another cluster none but the newest; each has its ledger.

    Of run 6 there is an attempt in the ledger that was never published.
    """
    lake = lake_at(tmp_path_factory.mktemp("thinned"))
    for number in range(8):
        for cluster_id in (MAIN, OTHER):
            lake.publish(key(number, cluster_id), seen(number, cluster_id))
    lake.append("offset_changes", as_table("offset_changes", seen(60)["offset_changes"], again(6)))
    for number in range(7):
        thin(lake, key(number, OTHER))
    for number in (0, 1, 2, 4, 5):
        thin(lake, key(number))
    return lake


def again(number: int) -> RunKey:
    return replace(key(number), run_id="again")


def told_of_g(client: TestClient, **query: Any) -> Any:
    """The story of the group, at the newest run unless asked otherwise."""
    answer = client.get(f"{PREFIX}/api/group/story", params={"id": "g", "cluster": MAIN, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


def expired(events: list[dict[str, Any]]) -> list[int]:
    return [row["old_committed_offset"] for event in events for row in event["offsets"]]


def test_a_story_outlives_its_runs(thinned: WrittenLake) -> None:
    with client_of(app_over(thinned)) as client:
        found = told_of_g(client)
        assert expired(found["events"]) == [7, 6, 5, 4, 3, 2, 1, 0]
        assert (found["runs"], found["before_ms"]) == (3, None)
        assert expired(told_of_g(client, as_of=key(6).as_of_ms)["events"])[0] == 6
        other = told_of_g(client, cluster=OTHER)
        assert expired(other["events"]) == [107, 106, 105, 104, 103, 102, 101, 100]


@pytest.mark.parametrize("bound", ["RUNS_A_PAGE", "FILES_READ"])
def test_pages_of_a_story_leave_nothing_out(thinned: WrittenLake, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """Each thinned instant is on one page: on that of the run before it, and the oldest on the last."""
    monkeypatch.setattr(f"sexton.ui.story_queries.{bound}", 1)
    pages, asked = [], {}
    with client_of(app_over(thinned)) as client:
        while asked is not None:
            found = told_of_g(client, **asked)
            pages.append(expired(found["events"]))
            asked = None if found["before_ms"] is None else {"before": found["before_ms"]}
        assert pages == [[7], [6], [5, 4, 3, 2, 1, 0]]
        assert expired(told_of_g(client, before=2**62)["events"]) == [7]
        assert expired(told_of_g(client, before=2**62, as_of=key(3).as_of_ms)["events"]) == [3, 2, 1, 0]
        part = client.get(f"{PREFIX}/group/story", params={"id": "g", "cluster": MAIN, "before": key(5).as_of_ms})
        assert [f"t [0] {number}" in Html(part.text).text for number in (6, 5, 0)] == [False, True, True]


def test_a_story_older_than_every_run_that_is_left(thinned: WrittenLake) -> None:
    with client_of(app_over(thinned)) as client:
        found = told_of_g(client, before=key(1).as_of_ms)
        assert (expired(found["events"]), found["runs"], found["before_ms"]) == ([1, 0], 0, None)
        assert [event["kind"] for event in found["events"]] == ["expired", "expired"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/group?id=none", 404), ("/api/group?id=none", 404), ("/static/vendor.json", 404),
        ("/static/..%2fapp.py", 404), ("/?as_of=1", 404), ("/?cluster=none", 404), ("/groups?sort=1;DROP", 422),
        ("/groups?page=0", 422), ("/groups?size=100000", 422), ("/offsets?finding=x", 422),
        ("/?as_of=99999999999999999999", 422), ("/docs", 404), ("/redoc", 404), ("/openapi.json", 404),
    ],
)  # fmt: skip
def test_what_is_not_there_or_not_to_be_asked(client: TestClient, path: str, status: int) -> None:
    assert client.get(PREFIX + path).status_code == status


def test_a_part_of_a_page_is_only_that_part(client: TestClient) -> None:
    part = client.get(f"{PREFIX}/groups", headers={"HX-Request": "true", "HX-Target": "results"}).text
    assert part.lstrip().startswith('<div id="results">')
    assert "<html" not in part


def test_what_fails_is_shown_in_place_of_the_last_answer(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """htmx takes the first of these rules that fits the status, and by its own rules shows nothing of 4xx and 5xx."""
    (config,) = re.findall(r"""<meta name="htmx-config" content='([^']*)'>""", page(client, "/what-if"))
    rules = json.loads(config)["responseHandling"]

    def rule(status: int) -> dict[str, Any]:
        return next(each for each in rules if re.search(each["code"], str(status)))

    shown = [status for status in (200, 204, 400, 401, 403, 404, 422, 500, 503) if rule(status)["swap"]]
    assert shown == [200, 400, 404, 422, 503]
    assert (rule(200).get("select"), rule(422), rule(503)["select"]) == (None, rule(503), "[data-failure]")

    def fail(*_: Any) -> None:
        raise UnreadableFiles("the tables cannot be read: <b>")

    monkeypatch.setattr("sexton.ui.pages.find_groups", fail)
    answer = client.get(f"{PREFIX}/groups", headers={"HX-Request": "true", "HX-Target": "results"})
    assert (answer.status_code, answer.headers["content-type"]) == (503, "text/html; charset=utf-8")
    (shown,) = re.findall("<section[^>]* data-failure>.*?</section>", answer.text)
    assert "the tables cannot be read: <b>" in Html(shown).text


@pytest.fixture(scope="module")
def nothing_published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client_of(app_over(lake_at(tmp_path_factory.mktemp("nothing")))) as found:
        yield found


def test_nothing_published(nothing_published: TestClient) -> None:
    assert nothing_published.get(f"{PREFIX}/api/runs").json() == []
    assert nothing_published.get(f"{PREFIX}/api/groups").status_code == 404


@pytest.mark.parametrize(("language", "told"), [("en", "Nothing is published yet"), ("zh-CN", "尚未发布任何内容")])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_without_data_leads_to_what_publishes_some(
    nothing_published: TestClient, path: str, language: str, told: str
) -> None:
    html = page(nothing_published, path, lang=language, **({"id": path.partition("=")[2]} if "=" in path else {}))
    assert told in html
    assert re.findall('<a data-airflow href="([^"]+)"', html) == [
        "/dags/offset_retention",
        "/dags/offset_retention/runs",
    ]
    assert "make up" in html


def test_a_ledger_without_rows_leads_to_what_fills_it(tmp_path: Any) -> None:
    lake: WrittenLake = lake_at(tmp_path)
    lake.publish(key(0), {})
    with client_of(app_over(lake)) as client:
        html = page(client, "/plans")
    for dag in ("offset_retention", "apply_tombstones", "restore_offsets"):
        assert f'<a data-airflow href="/dags/{dag}">' in html


def test_the_api_describes_itself(client: TestClient) -> None:
    found = client.get(f"{PREFIX}/api/openapi.json").json()
    assert {"/api/runs", "/api/overview", "/api/groups", "/api/group", "/api/offsets"} <= set(found["paths"])
    assert all("description" in method for path in found["paths"].values() for method in path.values())


def test_links_keep_cluster_and_instant(client: TestClient) -> None:
    html = page(client, "/", cluster=MAIN, as_of=PUBLISHED)
    links = re.findall(r'href="(/sexton/(?:groups|offsets|group)\?[^"]*)"', html)
    assert links
    assert all(f"cluster={MAIN}" in link and f"as_of={PUBLISHED}" in link for link in links)


def test_the_newest_run_is_the_default(client: TestClient) -> None:
    assert f'value="{RUNS - 1}"' in page(client, "/")


@pytest.fixture(scope="module")
def by_admin(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A run of a cluster that hides its log: an offset whose verdict looks leave open, and one due at both ends."""
    lake = lake_at(tmp_path_factory.mktemp("by-looks"))
    offset = {"group_id": "g", "topic": "t", "committed_offset": 5}
    hidden = {"commit_timestamp_ms": None, "log_offset": None, "producer_id": None}
    looked = {"commit_after_ms": FIRST_MS - 3 * HOUR_MS, "commit_by_ms": FIRST_MS - HOUR_MS, "is_unstable": False}
    open_one = {"broker_verdict": "unknown", "broker_reason": "between_snapshots", "due_after_ms": FIRST_MS - HOUR_MS}
    due = {"broker_verdict": "expire", "broker_reason": "expired", "due_after_ms": FIRST_MS - 2 * HOUR_MS}
    verdict = {"group_id": "g", "topic": "t"}
    tables = {
        "groups": [{"group_id": "g", "group_type": "Classic", "state": "Empty", "offset_count": 2}],
        "committed_offsets": [{**offset, **hidden, **looked, "partition": number} for number in range(2)],
        "offset_verdicts": [
            {**verdict, **open_one, "partition": 0, "broker_expires_at_ms": FIRST_MS + HOUR_MS},
            {**verdict, **due, "partition": 1, "broker_expires_at_ms": FIRST_MS - HOUR_MS},
        ],
    }
    lake.publish(key(0), tables, coverage="admin", cuts=[{"log_partition": 0, "cut": 0}])
    return client_of(app_over(lake))


@pytest.mark.parametrize("language", ["en", "zh-CN"])
@pytest.mark.parametrize(
    "path", ["/", "/groups", "/offsets", "/log", "/runs", "/checks", "/plans", "/what-if", "/group"]
)
def test_every_page_of_a_run_by_admin(by_admin: TestClient, path: str, language: str) -> None:
    html = page(by_admin, path, lang=language, **({"id": "g"} if path == "/group" else {}))
    assert html.count("<h1>") == 1


def test_a_run_by_admin_says_so_and_shows_intervals(by_admin: TestClient) -> None:
    assert "without the log" in Html(page(by_admin, "/")).text
    for path, query in (("/offsets", {}), ("/group", {"id": "g"})):
        shown = Html(page(by_admin, path, **query)).text
        assert "unknown" in shown
        assert "since 1 h – in 1 h" in shown
        assert "since 2 h – since 1 h" in shown
        assert "2026-11-21 09:00:00 – 2026-11-21 11:00:00" in shown
