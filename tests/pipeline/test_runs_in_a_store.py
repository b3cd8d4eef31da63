"""A run whose folder is in an object store leaves what one on a disk leaves, and its stages find it there."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sexton.airflow.runs import read_outcome, remove_outcome
from sexton.archive.folder import Folder, filesystem
from sexton.job_params import JobRequest, ReplayRequest
from sexton.maintenance import run_folders
from sexton.maintenance.run_folders import OldRunFolders
from sexton.pipeline import find_expired, job, plan_tombstones, replay_groups, validate_tables
from sexton.report import write_report
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from sexton.uris import uri_without_login
from tests.archived import Archive
from tests.environment import with_settings
from tests.faults.stores import EachPutFailsOnce, s3_server
from tests.pipeline.archive_runs import LATER_MS, SETTLE_MS, instant
from tests.plans.plan_runs import archive_of_commits

DAY_MS = 24 * 3_600_000


@pytest.fixture(scope="module")
def runs() -> Iterator[str]:
    """The URI of the run folders; the login is in it, as a user may write it."""
    with s3_server() as query:
        uri = f"s3://key:canary-secret@bucket/runs?{query}"
        filesystem(uri)[0].create_dir("bucket")
        yield uri


def planned(folder: RunFolder, archive: Archive) -> None:
    asked = ReplayRequest(
        run_id="r", archive=archive.root, as_of_ms=instant(3), since_ms=instant(1), taken_at_ms=LATER_MS,
        settle_ms=SETTLE_MS, retention_minutes=1,
    )  # fmt: skip
    with SerialEngine(quiet=True) as engine:
        replay_groups.run(engine, folder, asked)
        find_expired.run(engine, folder)
        plan_tombstones.run(engine, folder)


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["disk", "store"])
def test_a_write_that_fails_once(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file on a disk, where a run is quick, every fifteenth in a store: refused, or written and the answer lost.

    The run fails, and the one after all of them is as one that was never disturbed.
    """
    archive = archive_of_commits(tmp_path / "archive")
    here = RunFolder(tmp_path / "run")
    planned(here, archive)
    failures = EachPutFailsOnce(every=1 if where == "disk" else 15)
    with s3_server(failures) as query:
        there = RunFolder(tmp_path / "again") if where == "disk" else RunFolder(f"s3://k:s@bucket/r?{query}")
        with monkeypatch.context() as patched:
            if where == "disk":
                patched.setattr(Folder, "write", failing_write(failures))
            else:
                there.fs.create_dir("bucket")
            failures.until_none_fails(lambda: planned(there, archive))
        assert {name: there.read(name) for name in there.files()} == {name: here.read(name) for name in here.files()}
    written = [name for name in here.files() if not name.startswith("batches/")]  # second names of plan/batches/*
    assert failures.failed >= len(written) // failures.every


def failing_write(failures: EachPutFailsOnce) -> Callable[..., None]:
    write = Folder.write

    def failing(folder: Folder, data: bytes, *names: str, **options: bool) -> None:
        fails = failures.is_next({"REQUEST_METHOD": "PUT", "PATH_INFO": folder.path(*names)})
        if not fails or failures.is_lost:
            write(folder, data, *names, **options)
        if fails:
            raise OSError("refused, or the answer was lost")

    return failing


def test_checks_and_report(runs: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    planned(folder, archive_of_commits(tmp_path / "archive"))
    validate_tables.check_folder(folder)
    there = RunFolder(runs, "checked")
    for name in folder.files():
        there.write(folder.read(name), name)
    assert write_report(there) == write_report(folder)
    assert there.read("summary.json") == folder.read("summary.json")


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_an_outcome_is_found_without_a_login_in_an_argument(runs: str, ends: str) -> None:
    folder = Folder(runs, "offset_retention", ends)
    with with_settings(SEXTON_RUNS=runs):
        arguments = [f"--run-dir={uri_without_login(folder.uri)}"]
        assert "canary" not in arguments[0]
        told = {"exit_code": 5 if ends == "badly" else 0, "rows": 3}
        code = job.main("stage", "", JobRequest, lambda *_: told, arguments)
    assert code == (5 if ends == "badly" else 0)
    assert read_outcome(folder.uri, "stage")["rows"] == 3
    assert json.loads(folder.read("outcome", "stage.json"))["stage"] == "stage"
    remove_outcome(folder.uri, "stage")
    assert read_outcome(folder.uri, "stage") == {}


def test_old_run_folders_go(runs: str) -> None:
    root = Folder(runs, "old")
    for dag in ("offset_retention__eu", "apply_tombstones"):
        root.write(b"12345", dag, "run", "run.json")
    info = root.fs.get_file_info(root.path("offset_retention__eu", "run", "run.json"))
    now_ms = info.mtime_ns // 1_000_000
    young = run_folders.run(root.uri, now_ms=now_ms + DAY_MS, days=2, deletes=True)
    assert young == OldRunFolders(run_folders=0, run_folder_bytes=0)
    told = OldRunFolders(run_folders=1, run_folder_bytes=5)
    assert run_folders.run(root.uri, now_ms=now_ms + 3 * DAY_MS, days=2) == told
    assert root.files() == ["apply_tombstones/run/run.json", "offset_retention__eu/run/run.json"]
    assert run_folders.run(root.uri, now_ms=now_ms + 3 * DAY_MS, days=2, deletes=True) == told
    assert root.files() == ["apply_tombstones/run/run.json"]
