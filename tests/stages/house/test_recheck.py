"""The weekly proof of increments: on its day, of every cluster that has a checkpoint."""

from pathlib import Path

import pytest

from sexton.errors import DataQualityFailure, NoCoverage
from sexton.stages.house import recheck
from sexton.stages.house.keeping import DAY_MS
from sexton.stages.spark import Engine
from tests.archived import Archive
from tests.stages.archive_runs import instant, publish, run, three_minutes

ITS_DAY_MS = 7 * DAY_MS


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return three_minutes(tmp_path / "archive")


def checked(
    engine: Engine, archive: Archive, tmp_path: Path, *, now_ms: int = ITS_DAY_MS, only: str | None = None
) -> recheck.Rechecked:
    return recheck.run(engine, str(archive.root), tmp_path / "recheck", now_ms=now_ms, days=7, only=only)


def test_the_newest_checkpoint_is_held_against_a_full_replay(small: Engine, archive: Archive, tmp_path: Path) -> None:
    for number in (1, 2):
        out = tmp_path / f"p{number}"
        folder = publish(out, run(small, out, archive, instant(number)), archive)
    done = checked(small, archive, tmp_path)
    assert [(one["as_of_ms"], one["run_id"]) for one in done.clusters.values()] == [(instant(2), "p2")]
    assert done.next_in_days == 7
    assert list((tmp_path / "recheck").iterdir()) == []  # nothing is left of the replay

    three_minutes(archive.folder, cluster_id="other")
    assert list(checked(small, archive, tmp_path, only=archive.cluster_id).clusters) == [archive.cluster_id]
    with pytest.raises(NoCoverage, match="no checkpoint is published"):
        checked(small, archive, tmp_path, only="other")

    file = next(folder.rglob("keys.parquet"))
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataQualityFailure):
        checked(small, archive, tmp_path)


def test_on_other_days_nothing_is_read(small: Engine, archive: Archive, tmp_path: Path) -> None:
    done = checked(small, archive, tmp_path, now_ms=ITS_DAY_MS + 2 * DAY_MS)
    assert (done.clusters, done.next_in_days) == ({}, 5)


def test_without_a_checkpoint_there_is_nothing_to_prove(small: Engine, archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(NoCoverage, match="no checkpoint is published"):
        checked(small, archive, tmp_path)
