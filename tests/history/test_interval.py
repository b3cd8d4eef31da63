"""What an interval changed: the same whenever and however it is told, and nothing where the log cannot tell it."""

from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sexton.errors import UsageError
from sexton.runs.engine import Engine
from tests.archived import Archive
from tests.log_builder import commit, tombstone
from tests.pipeline.archive_runs import instant, minute, publish, run, tables, three_minutes, told

BOTH_OFFSETS = ("old_committed_offset", "new_committed_offset")
Changed = dict[tuple[str, str, int], tuple[str, int | None, int | None]]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return three_minutes(tmp_path / "archive")


def rows(out: Path) -> list[dict[str, Any]]:
    files = sorted((out / "offset_changes").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file, partitioning=None).drop(["run_id"]).to_pylist()]


def changed(out: Path) -> Changed:
    """By key what changed it, and both values."""
    key, change = itemgetter("group_id", "topic", "partition"), itemgetter("kind", *BOTH_OFFSETS)
    return {key(row): change(row) for row in rows(out)}


def test_changes_of_an_interval(small: Engine, tmp_path: Path, archive: Archive) -> None:
    record = run(small, tmp_path / "r", archive, instant(3), since_ms=instant(1))
    found = changed(tmp_path / "r")
    assert found["a", "t", 0] == ("set", 1, 8)
    assert found["c", "t", 0] == ("set", 1, 9)
    kind, old, new = found["b", "u", 0]
    assert kind not in ("set", "restored")
    assert (old, new) == (1, None)
    assert (record.changes_since_ms, record.counts["offset_changes"]) == (instant(1), 3)
    assert len(list((tmp_path / "r" / "offset_changes").iterdir())) == len(record.log_partitions)


def test_nothing_is_told_unless_asked(small: Engine, tmp_path: Path, archive: Archive) -> None:
    record = run(small, tmp_path / "r", archive, instant(3))
    assert (record.changes_since_ms, "offset_changes" in record.counts) == (None, False)
    assert not (tmp_path / "r" / "offset_changes").exists()


def test_it_does_not_matter_what_is_published(small: Engine, tmp_path: Path, archive: Archive) -> None:
    alone = run(small, tmp_path / "alone", archive, instant(3), since_ms=instant(2))
    for number in (1, 2):
        out = tmp_path / f"r{number}"
        publish(out, run(small, out, archive, instant(number)), archive)
        record = run(small, tmp_path / f"after{number}", archive, instant(3), since_ms=instant(2))
        assert rows(tmp_path / f"after{number}") == rows(tmp_path / "alone")
        assert told(record) == told(alone)
        assert tables(tmp_path / f"after{number}") == tables(tmp_path / "alone")
    archive.snapshot(instant(9), {0: minute(9, tombstone("a"), first=5)})
    run(small, tmp_path / "later", archive, instant(3), since_ms=instant(2), is_full=True)
    assert rows(tmp_path / "later") == rows(tmp_path / "alone")


def test_intervals_add_up(small: Engine, tmp_path: Path, archive: Archive) -> None:
    """What one interval ends with is what the next begins with."""
    for number in (2, 3):
        run(small, tmp_path / f"r{number}", archive, instant(number), since_ms=instant(number - 1))
    first, second = changed(tmp_path / "r2"), changed(tmp_path / "r3")
    assert first["a", "t", 0] == ("set", 1, 7)
    assert second["a", "t", 0] == ("set", 7, 8)
    assert ("b", "u", 0) in first
    assert ("b", "u", 0) not in second


@pytest.mark.parametrize("profile", ["group_metadata_manager:2.8", "group_coordinator:4.0.0"])
def test_profiles_that_are_replayed_in_full(small: Engine, tmp_path: Path, archive: Archive, profile: str) -> None:
    run(small, tmp_path / "r", archive, instant(3), since_ms=instant(2), profile=profile)
    assert changed(tmp_path / "r") == {("a", "t", 0): ("set", 7, 8), ("c", "t", 0): ("set", 1, 9)}


def test_a_log_partition_that_was_not_there_begins_with_nothing(small, tmp_path, archive):
    archive.snapshot(instant(4) + 2_000, {2: minute(4, commit("n", 5), first=0)})
    run(small, tmp_path / "r", archive, instant(4), since_ms=instant(3))
    assert changed(tmp_path / "r") == {("n", "t", 0): ("set", None, 5)}


def test_a_log_that_broke_in_between_tells_nothing(small: Engine, tmp_path: Path, archive: Archive) -> None:
    archive.begin(0, 0, "truncated", diverged_at=1, taken_at_ms=instant(4) + 2_000)
    fresh = minute(1, commit("a"), first=0) + minute(4, commit("z"), first=1)
    archive.snapshot(instant(4) + 2_000, {0: fresh, 1: minute(4, commit("c", 11), first=2)})
    record = run(small, tmp_path / "r", archive, instant(4), since_ms=instant(3))
    assert changed(tmp_path / "r") == {("c", "t", 0): ("set", 9, 11)}
    assert "changes of log partition 0 are not recorded: its log broke" in record.warnings
    assert record.changes_since_ms == instant(3)


def test_a_topic_that_was_made_anew_tells_nothing(small: Engine, tmp_path: Path, archive: Archive) -> None:
    archive.remake("another")
    archive.begin(0, 0, "recreated", previous_topic_id="topic", taken_at_ms=instant(5))
    archive.snapshot(instant(5), {0: minute(4, commit("x"), first=0)})
    record = run(small, tmp_path / "r", archive, instant(5) - 2_000, since_ms=instant(3) - 2_000)
    assert record.changes_since_ms is None
    assert any("the topic was deleted and created again in between" in warning for warning in record.warnings)


def test_a_beginning_without_coverage_tells_nothing(small: Engine, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    late = 20 * 60_000
    archive.snapshot(instant(2) + late, {0: minute(1, commit("a"), first=3) + minute(22, commit("a", 2), first=9)})
    record = run(small, tmp_path / "r", archive, instant(2) + late - 2_000, since_ms=instant(2))
    assert record.changes_since_ms is None
    assert any("the start of the interval has no coverage" in warning for warning in record.warnings)
    assert not (tmp_path / "r" / "offset_changes").exists()


def test_an_interval_has_a_length(small: Engine, tmp_path: Path, archive: Archive) -> None:
    with pytest.raises(UsageError, match="the interval would start"):
        run(small, tmp_path / "r", archive, instant(2), since_ms=instant(2))
