"""A snapshot, or an import, that is killed at any of the named points and run again leaves what one leaves that was
never killed: the same files, byte for byte, with nothing lost, nothing twice, and every alert told."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import cycle
from pathlib import Path
from random import Random

import pytest

from sexton import failpoints
from sexton.failpoints import FAILPOINTS
from sexton.pipeline import fetch_log, import_log
from sexton.pipeline.import_log import ImportRequest
from tests.faults.snapshots import START_MS, StateStory, Story, disk_of, files, topics_of
from tests.fork import killed
from tests.kafka.fake_cluster import FakeCluster
from tests.tiers import later

pytestmark = pytest.mark.thorough

OF_IMPORTS = {name for name in FAILPOINTS if name.startswith("import.")}
OF_WRITES = {name for name in FAILPOINTS if name.startswith(("origin.", "segment.", "manifest.", "cluster_metadata."))}
OF_SNAPSHOTS = OF_WRITES | {name for name in FAILPOINTS if name.startswith("snapshot.")}
PACKAGE = Path(failpoints.__file__).parent


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (fetch_log, import_log):
        monkeypatch.setattr(module, "SEGMENT_BYTES", 400)
    monkeypatch.setattr(fetch_log, "LOG_OFFSETS_A_TASK", 11)


def told(
    seed: int, folder: Path, *, of: type[Story] = Story, failpoint: str = "", chapter: int = -1
) -> tuple[Story, int]:
    """The story, its snapshot of one chapter killed as often as it comes by the point; and how often that was."""
    story, kills = of(seed, folder), 0
    for number in range(3):
        story.chapter(number)
        story.archivist.now_ms = START_MS + number * 3_600_000
        if number == chapter:
            kills += killed(story.snapshot, failpoint)
            kills += killed(story.snapshot, failpoint)
        story.snapshot()
    return story, kills


Whole = Callable[[type[Story], int], Story]


@pytest.fixture(scope="module")
def whole_story(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The story of a seed that nothing kills, once for all points."""

    @cache
    def whole(of: type[Story], seed: int) -> Story:
        return told(seed, tmp_path_factory.mktemp("whole") / "story", of=of)[0]

    return whole


STORIES = {"offsets": Story, "transactions": StateStory}


@pytest.mark.parametrize(
    "name, topic",
    later(
        pytest.mark.full,
        [(name, topic) for name in sorted(OF_SNAPSHOTS) for topic in STORIES],
        but=[*zip(sorted(OF_SNAPSHOTS), cycle(STORIES), strict=False)],  # every point, of one topic or the other
    ),
)
def test_a_snapshot_killed_anywhere(name, topic, full, seed, whole_story, tmp_path, tell):
    kills, of = 0, STORIES[topic]
    for number in range(20 if full else 1):
        rng = Random(f"{seed} {number}")
        whole = whole_story(of, seed + number)
        at = f"{name}:{rng.choice((1, 1, 2, 3)) if number else 1}"  # some are come by once only
        story, killed_here = told(
            seed + number, tmp_path / f"{number}-killed", of=of, failpoint=at, chapter=rng.randrange(3)
        )
        kills += killed_here
        assert files(story.archivist.archive) == files(whole.archivist.archive), at
        assert set(story.alerts) == set(whole.alerts), at
        assert len(set(whole.alerts)) >= 2
        story.archivist.assert_is_the_log()
    tell(f"{kills} kills")
    assert kills


def imported(seed: int, folder: Path, *, failpoint: str = "") -> tuple[Path, int]:
    """An import of two disks of one cluster, the second killed at a point; the archive, and how often that was."""
    cluster, archive, kills = FakeCluster(seed), folder / "archive", 0
    for number in range(2):
        for log in cluster.logs:
            log.append(cluster.rng.randint(10, 25))
            log.elect()
        disk_of(cluster, folder / "disk")
        request = ImportRequest(
            source=str(folder / "disk"),
            archive=str(archive),
            taken_at_ms=START_MS + number * 3_600_000,
            topics_file=topics_of(cluster, folder),
        )
        if failpoint:
            kills += killed(lambda request=request: import_log.run(request), failpoint)
        import_log.run(request)
    return archive, kills


@pytest.fixture(scope="module")
def whole_import(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """The archive of an import that nothing kills, once for all points."""
    return cache(lambda seed: imported(seed, tmp_path_factory.mktemp("whole"))[0])


@pytest.mark.parametrize("name", sorted(OF_IMPORTS | OF_WRITES))
def test_an_import_killed_anywhere(name: str, full: bool, seed: int, whole_import, tmp_path: Path) -> None:
    kills = 0
    for number in range(20 if full else 1):
        archive, killed_here = imported(seed + number, tmp_path / f"{number}-killed", failpoint=name)
        kills += killed_here
        assert files(archive) == files(whole_import(seed + number))
    assert kills


def test_every_point_is_in_the_code_and_no_other() -> None:
    text = "\n".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py") if path.name != "failpoints.py")
    reached = set(re.findall(r'\bfailpoint\("([^"]+)"\)', text))
    for what in re.findall(r'_whole\(.*what="(\w+)"[,)]', text):
        reached |= {f"{what}.half", f"{what}.after"}
    assert reached == set(FAILPOINTS)
    assert all(re.fullmatch(r"[a-z_]+\.[a-z]+", name) for name in FAILPOINTS)


def test_a_point_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="no such failpoint"):
        failpoints.failpoint("nowhere")


def test_the_setting_kills_a_command(tmp_path: Path) -> None:
    cluster = FakeCluster(1)
    for log in cluster.logs:
        log.append(4)
    disk_of(cluster, tmp_path / "disk")
    command = [str(Path(sys.executable).with_name("sexton")), "archive", "import", str(tmp_path / "disk")]
    command += ["--archive", str(tmp_path / "archive")]
    environment = {**os.environ, "SEXTON_FAILPOINT": "segment.after:2"}
    died = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, b"")
    assert len(list((tmp_path / "archive").rglob("*.log"))) == 2
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_the_points_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    from sexton import cli

    assert cli.main(["doctor", "--failpoints"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in FAILPOINTS)
