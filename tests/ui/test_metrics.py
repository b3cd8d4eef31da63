"""The route for Prometheus: right numbers of the newest run of each cluster that the caller may read, and no names."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from sexton.lake.published_tables import PublishedTables
from sexton.settings import Settings
from sexton.ui.metrics import GAUGES
from tests.report.run_folder import HOSTILE_NAMES
from tests.ui.lakes import RETENTION_MS, WrittenLake, lake_at
from tests.ui.worlds import (
    DYING,
    FIRST_MS,
    GONE,
    HOUR_MS,
    LIVING,
    MAIN,
    OTHER,
    PREFIX,
    RUNS,
    UNHELD,
    app_over,
    client_of,
    key,
    only,
)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
CLUSTERS = Settings(clusters={"main": {"cluster_id": MAIN}, "eu": {"cluster_id": OTHER}}).every_cluster  # type: ignore[dict-item]
AS_OF_MS = FIRST_MS + (RUNS - 1) * HOUR_MS
NAMES = len(HOSTILE_NAMES)

Series = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(client: TestClient) -> Series:
    answer = client.get(f"{PREFIX}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return series_of(answer.text)


def series_of(text: str) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(series: Series, name: str, cluster_id: str = MAIN, **labels: str) -> float | None:
    return series.get((f"sexton_{name}", frozenset({"cluster_id": cluster_id, **labels}.items())))


@pytest.fixture(scope="module")
def series(world: WrittenLake) -> Series:
    with client_of(app_over(world)) as client:
        return scraped(client)


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("published_runs", {}, RUNS),
        ("run_as_of_timestamp_seconds", {}, AS_OF_MS / 1000),
        ("run_is_complete", {}, 1),
        ("run_warnings", {}, 1),
        ("retention_seconds", {}, RETENTION_MS / 1000),
        ("groups", {"type": "Classic", "state": "Stable"}, 1),
        ("groups", {"type": "Classic", "state": "Empty"}, 1 + NAMES),
        ("group_members", {"type": "Classic"}, 1),
        ("offsets", {"verdict": "expire", "reason": "expired"}, 2),
        ("offsets", {"verdict": "keep", "reason": "not_due"}, 1 + NAMES),
        ("offsets", {"verdict": "keep", "reason": "pending_transaction"}, 1),
        ("offsets_due_within", {"hours": "1"}, 1),
        ("offsets_due_within", {"hours": "720"}, 1),
        ("offsets_by_policy", {"verdict": "hold"}, 1),
        ("offsets_by_policy", {"verdict": "keep"}, NAMES),
        ("kept_offsets", {"hold": "legal", "status": "not_kept"}, 1),
        ("kept_offsets", {"hold": "legal", "status": "kept"}, 0),
        ("kept_offsets_by", {"hold": "legal", "by": "commit"}, 1),
        ("kept_offsets_by", {"hold": "legal", "by": "join"}, 0),
        ("kept_until_timestamp_seconds", {"hold": "legal"}, (AS_OF_MS + HOUR_MS) / 1000),
        ("keep_last_attempt_timestamp_seconds", {"hold": "legal"}, (AS_OF_MS - HOUR_MS) / 1000),
        ("offsets_orphaned", {"why": "topic_gone"}, 1),
        ("offsets_orphaned", {"why": "topic_recreated"}, 0),
        ("offsets_pending", {}, 1),
        ("planned_tombstones", {}, 2 + NAMES),
        ("open_transactions", {}, 1),
        ("transactions_audit_timestamp_seconds", {}, AS_OF_MS / 1000),
        ("transactions", {"verdict": "hanging"}, 1),
        ("transactions", {"verdict": "running"}, 1),
        ("transactions", {"verdict": "unknown"}, 0),
        ("transactions_overdue", {}, 0),
        ("offsets_held_by_hanging_transactions", {}, 2),
        ("lag_as_of_timestamp_seconds", {}, AS_OF_MS / 1000),
        ("lag_max_seconds", {}, 3 * 3_600),
        ("offsets_lagging", {"seconds": "60"}, 2 + NAMES),
        ("offsets_lagging", {"seconds": "86400"}, 0),
        ("offsets_losing_within", {"hours": "1"}, 1),
        ("offsets_losing_within", {"hours": "168"}, 2),
        ("offsets_would_reset", {"why": "truncated"}, 1),
        ("offsets_would_reset", {"why": "topic_gone"}, 0),
        ("offsets_lag_unknown", {}, 2 + NAMES),
        ("offsets_held_by_topic_transactions", {}, 1),
        ("offsets_without_leader_epoch", {}, 5),
        ("undecodable_records", {}, 1),
        ("log_size_bytes", {}, 1_000),
        ("log_records", {}, 14),
        ("log_partitions", {"load": "fine"}, 1),
        ("log_partitions", {"load": "would_fail"}, 1),
        ("log_partitions", {"load": "never_ends"}, 0),
        ("failed_expectations", {"severity": "critical"}, 0),
        ("failed_expectations", {"severity": "warning"}, min(NAMES, 4)),
    ],
)
def test_the_newest_run_in_numbers(series: Series, name: str, labels: dict[str, str], expected: float) -> None:
    assert value(series, name, **labels) == expected


def test_every_cluster_is_there(series: Series) -> None:
    assert value(series, "groups", OTHER, type="Classic", state="Empty") == 1
    assert value(series, "published_runs", OTHER) == 1
    assert value(series, "cluster_info", OTHER, cluster="") == 1
    assert value(series, "run_duration_seconds") is not None


def test_no_series_is_named_by_a_client(world: WrittenLake) -> None:
    """A hundred hostile groups add no series: the labels are all of a few known words."""
    with client_of(app_over(world)) as client:
        text = client.get(f"{PREFIX}/metrics").text
    labels = {label for _, of in series_of(text) for label in of}
    assert {name for name, _ in labels} <= {label for _, labels in GAUGES.values() for label in labels}
    assert all(re.fullmatch(r"[A-Za-z0-9_.+-]*", told) for _, told in labels)
    assert not [name for name in (*HOSTILE_NAMES, LIVING, DYING, GONE) if name and f'"{name}"' in text]
    assert len(text.splitlines()) < 250


@pytest.mark.parametrize("most", [1, 2, 100])
def test_so_many_groups_of_each_owner_have_series(world: WrittenLake, most: int) -> None:
    """Hostile names are owners and groups here. LIVING and the group without a name, which lags more, have no owner;
    UNHELD, whose load fails, is nowhere."""
    with client_of(app_over(world, metrics_groups=most)) as client:
        found = scraped(client)
    members = {
        (labels["owner"], labels["group_id"]): members
        for (name, told), members in found.items()
        for labels in [{"owner": "", **dict(told)}]
        if name == "sexton_group_member_count" and labels["cluster_id"] == MAIN
    }
    owners = Counter(owner for owner, _ in members)
    assert max(owners.values()) <= most
    assert members.get(("", LIVING)) == (None if most == 1 else 1)
    assert members["law", DYING] == 0
    assert {name for name in HOSTILE_NAMES if name} <= {group for _, group in members}
    assert UNHELD not in {group for _, group in members}
    assert value(found, "group_last_commit_timestamp_seconds", owner="law", group_id=DYING) == AS_OF_MS / 1000 - 3_600
    assert value(found, "group_lag_seconds", owner="law", group_id=DYING) == 9
    assert value(found, "groups_without_series", owner="") == max(2 - most, 0)


@pytest.mark.parametrize(
    ("dag_id", "mine", "theirs"), [("offset_retention", MAIN, OTHER), ("offset_retention__eu", OTHER, MAIN)]
)
def test_who_may_read_one_cluster_is_told_of_that_one(world: WrittenLake, dag_id: str, mine: str, theirs: str) -> None:
    with client_of(app_over(world, only(dag_id), clusters=CLUSTERS)) as client:
        found = scraped(client)
        text = client.get(f"{PREFIX}/metrics").text
    assert value(found, "published_runs", mine) == (RUNS if mine == MAIN else 1)
    assert theirs not in text
    assert value(found, "cluster_info", mine, cluster="main" if mine == MAIN else "eu") == 1


def test_who_may_read_none_is_told_nothing(world: WrittenLake) -> None:
    with client_of(app_over(world, only("apply_tombstones"), clusters=CLUSTERS)) as client:
        assert client.get(f"{PREFIX}/metrics").status_code == 403


def test_before_the_first_run(tmp_path: Path) -> None:
    with client_of(app_over(lake_at(tmp_path), clusters=CLUSTERS)) as client:
        found = scraped(client)
    assert {name for name, _ in found} == {"sexton_build_info", "sexton_cluster_info", "sexton_published_runs"}
    assert value(found, "published_runs", OTHER) == 0


def test_a_run_is_measured_once_and_the_next_one_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    rows = PublishedTables.rows

    def counted(tables: PublishedTables, sql: str, *parameters: object) -> list[dict[str, object]]:
        asked.append(sql)
        return rows(tables, sql, *parameters)

    lake = lake_at(tmp_path)
    group = {"group_id": "a", "group_type": "Classic", "state": "Empty", "offset_count": 0}
    lake.publish(key(0), {"groups": [group]})
    monkeypatch.setattr(PublishedTables, "rows", counted)
    monkeypatch.setattr("sexton.lake.published_tables.FRESH_S", 0.0)
    with client_of(app_over(lake)) as client:
        assert value(scraped(client), "groups", type="Classic", state="Empty") == 1
        asked.clear()
        scraped(client)
        assert asked == []
        lake.publish(key(1), {"groups": [group, {**group, "group_id": "b"}]})
        assert value(scraped(client), "groups", type="Classic", state="Empty") == 2


def test_the_page_about_them_has_each_with_its_labels() -> None:
    told = dict(re.findall(r"^\| `(sexton_\w+)` \| ([^|]*) \|", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert told == {
        name: ", ".join(f"`{label}`" for label in labels if label != "cluster_id") or "-"
        for name, (_, labels) in GAUGES.items()
    }
