"""A replay, or the keeping of its checkpoint, that is killed at any of its points and run again leaves what one leaves
that was never killed, in the run folder and in the archive."""

import signal
from pathlib import Path

import pytest

from sexton.failpoints import FAILPOINTS
from sexton.pipeline.replay_groups import STATE_TABLES
from sexton.runs.processes import SerialEngine
from tests.archived import Archive
from tests.faults.snapshots import files
from tests.fork import ended
from tests.pipeline.archive_runs import instant, publish, run, three_minutes

POINTS = sorted(name for name in FAILPOINTS if name.startswith(("replay.", "cuts.", "checkpoint.")))


def story(archive: Path, out: Path) -> None:
    """Two runs, one after the other."""
    told = Archive(archive)
    with SerialEngine(quiet=True) as engine:
        for number in (2, 3):
            here = out / str(number)
            publish(here, run(engine, here, told, instant(number), since_ms=instant(number - 1)), told)


def results(out: Path) -> dict[str, bytes]:
    names = ("fold", *STATE_TABLES, "topic_partitions", "offset_changes")
    return {name: data for name, data in files(out).items() if name.split("/")[1] in names}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is left by the story that nobody killed."""
    folder = tmp_path_factory.mktemp("whole")
    three_minutes(folder / "archive")
    story(folder / "archive", folder / "out")
    assert len(list((folder / "archive" / "cluster" / "checkpoints" / "topic").iterdir())) == 2
    assert (folder / "archive" / "cluster" / "cuts" / "topic" / f"{instant(3)}.json").exists()
    return folder


@pytest.mark.parametrize("name", POINTS)
def test_killed_anywhere(name: str, whole: Path, tmp_path: Path) -> None:
    three_minutes(tmp_path / "archive")

    def again() -> None:
        story(tmp_path / "archive", tmp_path / "out")

    for times in (1, 2):
        assert ended(again, failpoint=f"{name}:{times}") in (-signal.SIGKILL, 0)
    assert ended(again) == 0
    left = {name: data for name, data in files(tmp_path / "archive").items() if not name.endswith(".part")}
    assert left == files(whole / "archive")
    assert results(tmp_path / "out") == results(whole / "out")
