"""What was lost is counted by day and cause, once, and days of which nothing is known are not days without losses."""

from pathlib import Path
from typing import Any

import pytest

from sexton.as_text import DAY_MS, HOUR_MS
from sexton.errors import NoCoverage
from sexton.history.lost_by_day import KINDS, lost_offsets
from sexton.lake.branch import RunKey
from sexton.lake.published_tables import PublishedTables
from sexton.settings import PROJECT_ROOT
from tests.ui.lakes import Row, WrittenLake, as_table, lake_at

MIDNIGHT_MS = 20_000 * DAY_MS
"""2024-10-04"""


def key(as_of_ms: int, run_id: str = "run", cluster_id: str = "main") -> RunKey:
    return RunKey(cluster_id=cluster_id, as_of_ms=as_of_ms, run_id=run_id)


def gone(kind: str, at_ms: int, log_offset: int, group_id: str = "g", **more: Any) -> Row:
    where = {"group_id": group_id, "topic": "t", "partition": 0, "log_partition": 1, "log_offset": log_offset}
    return {**where, "kind": kind, "timestamp_ms": at_ms, **more}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> WrittenLake:
    """Runs at six and at twelve of the first day, one of the whole day; nothing of the second; rows of a run that has
    expired of the third; a run of the fourth."""
    lake = lake_at(tmp_path_factory.mktemp("lake"))
    expired = gone("expired", MIDNIGHT_MS + 5 * HOUR_MS, 1)
    deleted = gone("deleted", MIDNIGHT_MS + 6 * HOUR_MS, 2)
    for hour, rows in ((6, [expired]), (12, [deleted, gone("set", MIDNIGHT_MS + 7 * HOUR_MS, 3)])):
        at_ms = MIDNIGHT_MS + hour * HOUR_MS
        lake.publish(key(at_ms), {"offset_changes": rows}, changes_since_ms=at_ms - 6 * HOUR_MS)
    whole = [expired, deleted, gone("expired", MIDNIGHT_MS + DAY_MS - 1, 4)]
    lake.publish(key(MIDNIGHT_MS + DAY_MS), {"offset_changes": whole}, changes_since_ms=MIDNIGHT_MS)
    third = key(MIDNIGHT_MS + 3 * DAY_MS)
    lake.append("offset_changes", as_table("offset_changes", [gone("ambiguous", third.as_of_ms - 1, 5, "h")], third))
    fourth = key(MIDNIGHT_MS + 3 * DAY_MS + HOUR_MS)
    seen = {"timestamp_ms": None, "changed_by_ms": fourth.as_of_ms - 5}
    rows = [gone("topic_deleted", 0, 0, **seen), gone("expired", 2 * HOUR_MS, 9)]
    lake.publish(fourth, {"offset_changes": rows}, changes_since_ms=third.as_of_ms)
    other = key(fourth.as_of_ms + 1, cluster_id="other")
    lake.publish(other, {"offset_changes": [gone("expired", other.as_of_ms - 2, 1)]})
    return lake


def of_main(lake: WrittenLake) -> tuple[PublishedTables, list[Any]]:
    tables = PublishedTables(lambda: lake.lake)
    return tables, [run for run in tables.runs() if run.key.cluster_id == "main"]


def test_by_day_and_cause(lake: WrittenLake) -> None:
    found = lost_offsets(*of_main(lake), days=5)
    assert [(row["day"], *(row[kind] for kind in KINDS)) for row in found.days] == [
        ("2024-10-03", None, None, None, None, None),
        ("2024-10-04", 2, 1, 0, 0, 0),
        ("2024-10-05", None, None, None, None, None),
        ("2024-10-06", 0, 0, 0, 0, 1),
        ("2024-10-07", 0, 0, 0, 1, 0),
    ]
    assert found.totals == {"expired": 2, "deleted": 1, "group_deleted": 0, "topic_deleted": 1, "ambiguous": 1}
    assert [(row["group_id"], row["offsets"], row["kinds"]) for row in found.groups] == [
        ("g", 4, ["deleted", "expired", "topic_deleted"]),
        ("h", 1, ["ambiguous"]),
    ]
    assert found.groups[0]["last_ms"] == MIDNIGHT_MS + 3 * DAY_MS + HOUR_MS - 5


def test_nothing_later_than_the_run_that_is_shown(lake: WrittenLake) -> None:
    tables, runs = of_main(lake)
    found = lost_offsets(tables, runs[:1], days=1)
    assert (found.until_ms, found.totals["expired"], found.totals["deleted"]) == (runs[0].key.as_of_ms, 1, 0)


def test_in_a_notebook(lake: WrittenLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of the page."""
    page = (PROJECT_ROOT / "docs" / "how-to" / "last-month.md").read_text(encoding="utf-8")
    monkeypatch.setattr("sexton.lake.catalog.open_lake", lambda: lake.lake)
    names: dict[str, Any] = {}
    exec(page.partition("```python\n")[2].partition("```")[0], names)
    assert names["found"].totals["expired"] == 1
    assert [row["group_id"] for row in names["found"].groups] == ["g"]


def test_nothing_is_published(tmp_path: Path) -> None:
    with pytest.raises(NoCoverage):
        lost_offsets(PublishedTables(lambda: lake_at(tmp_path).lake), [], days=1)
