"""The weekly proof of increments: when it is due, of every cluster that has a checkpoint."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from sexton.as_text import DAY_MS
from sexton.errors import DataQualityFailure, NoCoverage
from sexton.maintenance import check_checkpoint
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from tests.archived import Archive
from tests.pipeline.archive_runs import instant, publish, run, three_minutes

FIRST_MS = 10 * DAY_MS + 3


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return three_minutes(tmp_path / "archive")


def checked(
    engine: Engine, archive: Archive, tmp_path: Path, *, now_ms: int = FIRST_MS, only: str | None = None
) -> check_checkpoint.CheckedCheckpoints:
    return check_checkpoint.run(
        engine, str(archive.root), RunFolder(tmp_path, "check_checkpoint"), now_ms=now_ms, days=7, only=only
    )


def test_the_newest_checkpoint_is_held_against_a_full_replay(small: Engine, archive: Archive, tmp_path: Path) -> None:
    for number in (1, 2):
        out = tmp_path / f"p{number}"
        folder = publish(out, run(small, out, archive, instant(number)), archive)
    done = checked(small, archive, tmp_path)
    assert [(one.as_of_ms, one.run_id) for one in done.clusters.values()] == [(instant(2), "p2")]
    assert done.next_in_days == 7
    assert RunFolder(tmp_path, "check_checkpoint").files() == []  # nothing is left of the replay

    three_minutes(archive.folder, cluster_id="other")
    week_later = FIRST_MS + 7 * DAY_MS
    one = checked(small, archive, tmp_path, now_ms=week_later, only=archive.cluster_id)
    assert list(one.clusters) == [archive.cluster_id]
    with pytest.raises(NoCoverage, match="no checkpoint is published"):
        checked(small, archive, tmp_path, only="other")

    file = next(folder.rglob("keys.parquet"))
    file.write_bytes(file.read_bytes()[:-1])
    for days in (14, 15):  # what was found wrong is due until it is found right
        with pytest.raises(DataQualityFailure):
            checked(small, archive, tmp_path, now_ms=FIRST_MS + days * DAY_MS)


@dataclass
class Right:
    """A checkpoint that is what the log says."""

    as_of_ms: int = 5


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clusters that were replayed, one after the other; all is right, but for one that has no checkpoint."""
    found: list[str] = []

    def check(*_: object, cluster_id: str, **__: object) -> Right:
        if cluster_id == "empty":
            raise NoCoverage("no checkpoint is published")
        found.append(cluster_id)
        return Right()

    monkeypatch.setattr(check_checkpoint, "compare_checkpoint", check)
    return found


@pytest.mark.parametrize(
    "days, due",
    [
        (range(15), [0, 7, 14]),
        ([0, 7, 14], [0, 7, 14]),
        ([2, 9, 16, 23], [2, 9, 16, 23]),
        ([0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 14], [0, 7, 14]),
        ([0, 10, 20], [0, 10, 20]),
    ],
    ids=["daily", "weekly", "weekly on another day", "Monday to Friday", "seldom"],
)
def test_it_is_due_whatever_the_schedule(
    small: Engine, archive: Archive, tmp_path: Path, replayed: list[str], days: list[int], due: list[int]
) -> None:
    done = {day: checked(small, archive, tmp_path, now_ms=FIRST_MS + day * DAY_MS) for day in days}
    assert [day for day, one in done.items() if one.clusters] == due
    assert len(replayed) == len(due)


def test_some_hours_put_nothing_off(small: Engine, archive: Archive, tmp_path: Path, replayed: list[str]) -> None:
    for now_ms in (FIRST_MS + DAY_MS // 2, FIRST_MS + 7 * DAY_MS):
        assert checked(small, archive, tmp_path, now_ms=now_ms).clusters


def test_a_note_from_after_now_proves_nothing(
    small: Engine, archive: Archive, tmp_path: Path, replayed: list[str]
) -> None:
    checked(small, archive, tmp_path, now_ms=FIRST_MS * 1_000)
    assert checked(small, archive, tmp_path).clusters
    note = archive.folder / archive.cluster_id / "maintenance" / "check_checkpoint.json"
    assert json.loads(note.read_text()) == {"at_ms": FIRST_MS}


def test_each_cluster_has_its_turn(small: Engine, archive: Archive, tmp_path: Path, replayed: list[str]) -> None:
    for cluster_id in ("empty", "other"):
        (archive.folder / cluster_id).mkdir()
    checked(small, archive, tmp_path, only="other")
    done = checked(small, archive, tmp_path, now_ms=FIRST_MS + DAY_MS)
    assert ([*done.clusters], done.next_in_days) == ([archive.cluster_id], 6)
    done = checked(small, archive, tmp_path, now_ms=FIRST_MS + 2 * DAY_MS)
    assert ([*done.clusters], done.next_in_days) == ([], 5), "one that has no checkpoint skips no other one's wait"
    assert list((archive.folder / "empty").iterdir()) == []


def test_without_a_checkpoint_there_is_nothing_to_prove(small: Engine, archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(NoCoverage, match="no checkpoint is published"):
        checked(small, archive, tmp_path)
