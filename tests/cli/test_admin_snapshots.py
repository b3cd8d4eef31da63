"""Commands over an archive that has admin snapshots and no log."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.archive.admin_snapshots import write_snapshot
from tests.archived import Archive

NOW_MS, MINUTE_MS = 1_790_000_000_000, 60_000
Asked = Callable[..., Any]
STABLE = {"state": "Stable", "subscribed_topics": ["t"]}


@pytest.fixture
def archive(tmp_path: Path) -> str:
    """A group that ends, loses an offset that was not due and then one that was; the retention is ten minutes."""
    archive = Archive(tmp_path / "archive")
    seen: list[tuple[int, dict[str, Any], list[int]]] = [
        (20, STABLE, [0, 1, 2]), (15, {}, [0, 1, 2]), (14, {}, [0, 1]), (1, {}, [0]),
    ]  # fmt: skip
    for ago, group, partitions in seen:
        offsets = {("g", "t", number): 5 + number for number in partitions}
        write_snapshot(archive, NOW_MS - ago * MINUTE_MS, {"g": group}, offsets)
    return archive.root


def test_explain(archive: str, asked: Asked) -> None:
    found = asked("explain", "g", "--archive", archive)
    assert (found["coverage"], found["state"]) == ("admin", "Classic group (consumer), Empty")
    events = [(event["what"], event["causes"]) for event in found["events"]]
    assert events == [
        ("appeared", []),
        ("committed", []),
        ("became", []),
        ("deleted", ["deleted"]),
        ("expired or deleted", ["expired", "deleted"]),  # it was due, and somebody may have been first
    ]
    (left,) = found["next"]
    assert (left["partition"], left["due_after_ms"]) == (0, NOW_MS - 10 * MINUTE_MS + 1 - 1_000)
    assert left["due_after_ms"] < left["expires_at_ms"] < NOW_MS


def test_groups_and_fetch(archive: str, asked: Asked, run: Callable[..., tuple[int, str, str]]) -> None:
    (group,) = asked("groups", "list", "--archive", archive)["groups"]
    assert (group["group_id"], group["state"]) == ("g", "Empty")
    found = asked("fetch", "g", "--archive", archive)
    assert "coverage admin" in found["warnings"][0]
    code, out, _ = run("archive", "ls", "--archive", archive)
    assert (code, "4 admin snapshots" in out) == (0, True)


def test_a_sweep_of_log_partitions_that_have_no_load_profile(archive: str, asked: Asked, tmp_path: Path) -> None:
    """A run by Admin API has none: who leads them is not known, nor whether anything keeps them from being swept."""
    place = tmp_path / "run"
    asked("plan", "--archive", archive, "--out", place)
    for source in (("--archive", archive), ("--run", place)):
        found = asked("groups", "check-sweep", *source)
        (sweep,) = found["sweeps"]
        assert (sweep["coordinator"], sweep["offsets"], found["blocked"]) == (None, 1, [])
