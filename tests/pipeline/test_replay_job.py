"""The job around a replay: its options, its exit codes, what it says in its outcome."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sexton.job_params import REQUESTS
from sexton.pipeline import job
from tests.archived import Archive
from tests.jobs import load_job
from tests.log_builder import commit
from tests.pipeline.archive_runs import SETTLE_MS, instant, minute, publish, run, three_minutes


@pytest.fixture(scope="module")
def replay_job() -> ModuleType:
    return load_job("replay_groups")


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return three_minutes(tmp_path / "archive")


def submit(replay_job: ModuleType, archive: Archive, out: Path, *options: object) -> tuple[int, dict[str, Any]]:
    """Exit code and outcome."""
    words = ["--archive", archive.root, "--settle-ms", SETTLE_MS, "--run-dir", out, *options]
    code = job.main("replay_groups", "", REQUESTS["replay_groups"], replay_job.run, [str(word) for word in words])
    return code, json.loads((out / "outcome" / "replay_groups.json").read_text())


@pytest.mark.usefixtures("needs_spark")
def test_a_run_and_the_next(replay_job: ModuleType, tmp_path: Path, archive: Archive) -> None:
    code, told = submit(replay_job, archive, tmp_path / "r", "--as-of", instant(2), "--since", instant(1))
    assert (code, told["coverage"], told["base_as_of_ms"]) == (0, "complete", None)
    assert told["offset_changes"] == 2


def test_no_coverage_is_exit_4(replay_job: ModuleType, tmp_path: Path, archive: Archive) -> None:
    code, told = submit(replay_job, archive, tmp_path / "r", "--as-of", instant(9))
    assert (code, told["exit_code"]) == (4, 4)
    assert "needs one taken at least 1000 ms after it" in told["error"]
    assert not (tmp_path / "r" / "run.json").exists()
    assert not (tmp_path / "r" / "groups").exists()


@pytest.mark.usefixtures("needs_spark")
def test_the_weekly_check(replay_job: ModuleType, small: Any, tmp_path: Path, archive: Archive) -> None:
    code, told = submit(replay_job, archive, tmp_path / "none", "--check")
    assert (code, "no checkpoint is published" in told["error"]) == (4, True)
    folders = [
        publish(out, run(small, out, archive, instant(n)), archive) for n in (1, 2) for out in [tmp_path / f"r{n}"]
    ]
    code, told = submit(replay_job, archive, tmp_path / "good", "--check")
    assert (code, told["as_of_ms"], told["records"], told["is_same_file"]) == (0, instant(2), 5, True)
    (folders[1] / "0" / "groups.parquet").write_bytes(b"rot")
    code, told = submit(replay_job, archive, tmp_path / "bad", "--check")
    assert (code, "SHA-256" in told["error"]) == (3, True)
    assert submit(replay_job, archive, tmp_path / "first", "--check", "--as-of", instant(1))[0] == 0
    code, told = submit(replay_job, archive, tmp_path / "full", "--full", "--as-of", instant(3))
    assert (code, told["base_as_of_ms"]) == (0, None)


@pytest.mark.usefixtures("needs_spark")
def test_the_cluster_is_that_of_the_runs_own_snapshot(replay_job: ModuleType, tmp_path: Path, archive: Archive) -> None:
    other = Archive(Path(archive.root), cluster_id="other")
    other.snapshot(instant(1) + 2_000, {0: minute(1, commit("x"), first=0)})
    assert submit(replay_job, archive, tmp_path / "r", "--as-of", instant(1))[0] == 2
    outcome = tmp_path / "r" / "outcome" / "snapshot_log.json"
    outcome.write_text(json.dumps({"exit_code": 0, "cluster_id": "other"}))
    assert submit(replay_job, archive, tmp_path / "r", "--as-of", instant(1))[0] == 0
    assert json.loads((tmp_path / "r" / "run.json").read_text())["cluster_id"] == "other"
    asked = submit(replay_job, archive, tmp_path / "r", "--as-of", instant(1), "--cluster-id", "cluster")
    assert asked[1]["coverage"] == "complete"
    assert json.loads((tmp_path / "r" / "run.json").read_text())["cluster_id"] == "cluster"


@pytest.mark.parametrize("options", [["--full", "--check"], ["--segments", "x"]], ids=["full and check", "two inputs"])
def test_options_that_exclude_each_other(replay_job, tmp_path, archive, options):
    with pytest.raises(SystemExit) as ended:
        submit(replay_job, archive, tmp_path / "r", *options)
    assert ended.value.code == 2


def test_only_an_archive_is_checked(replay_job: ModuleType, tmp_path: Path) -> None:
    words = ["--segments", str(tmp_path), "--check", "--run-dir", str(tmp_path / "r")]
    assert job.main("replay_groups", "", REQUESTS["replay_groups"], replay_job.run, words) == 2
