"""Of run folders only old ones go, of DAGs whose runs can be repeated, and only when told."""

import os
import shutil
from pathlib import Path

import pytest

from sexton.as_text import DAY_MS
from sexton.maintenance import run_folders as folders
from sexton.maintenance.run_folders import OldRunFolders

NOW_MS, DAYS = 1_800_000_000_000, 30
YOUNG_MS, OLD_MS = NOW_MS - DAYS * DAY_MS, NOW_MS - DAYS * DAY_MS - 1
NOTHING = OldRunFolders(run_folders=0, run_folder_bytes=0)
REMOVE = shutil.rmtree
"""As it is before a test puts another in its place."""


def removed(root: Path, *, deletes: bool = False) -> OldRunFolders:
    return folders.run(root, now_ms=NOW_MS, days=DAYS, deletes=deletes)


def run_folder(root: Path, dag: str, name: str, *, written_ms: int = OLD_MS) -> Path:
    """A run folder with two files of 5 bytes, all of it last written at an instant."""
    folder = root / dag / name
    (folder / "groups").mkdir(parents=True)
    for file in (folder / "run.json", folder / "groups" / "0.parquet"):
        file.write_bytes(b"12345")
    for path in (*folder.rglob("*"), folder):
        written(path, written_ms)
    return folder


def written(path: Path, at_ms: int) -> None:
    os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000), follow_symlinks=False)


@pytest.mark.parametrize("dag", ["offset_retention", "maintenance", "offset_retention__eu"])
def test_an_old_folder_goes_when_told(tmp_path: Path, dag: str) -> None:
    old, young = run_folder(tmp_path, dag, "old"), run_folder(tmp_path, dag, "young", written_ms=YOUNG_MS)
    told = OldRunFolders(run_folders=1, run_folder_bytes=10)
    assert removed(tmp_path) == told
    assert old.is_dir()
    assert removed(tmp_path, deletes=True) == told
    assert not old.exists()
    assert len([path for path in young.rglob("*") if path.is_file()]) == 2
    assert removed(tmp_path, deletes=True) == NOTHING


@pytest.mark.parametrize("what", ["groups/0.parquet", "groups", "."])
def test_one_young_thing_in_it_keeps_a_folder(tmp_path: Path, what: str) -> None:
    written(run_folder(tmp_path, "offset_retention", "cleared again") / what, YOUNG_MS)
    assert removed(tmp_path, deletes=True) == NOTHING


@pytest.mark.parametrize(
    "dag", ["apply_tombstones", "restore_offsets", "apply_tombstones__eu", "offset_retention_2", ""]
)
def test_what_else_lies_there_stays(tmp_path: Path, dag: str) -> None:
    run_folder(tmp_path, dag, "old")
    assert removed(tmp_path, deletes=True) == NOTHING


def test_nothing_that_a_link_leads_to_goes(tmp_path: Path) -> None:
    kept = run_folder(tmp_path / "elsewhere", "offset_retention", "old")
    inside = run_folder(tmp_path, "offset_retention", "links")
    for link in (inside / "groups" / "link", tmp_path / "offset_retention" / "linked"):
        link.symlink_to(kept)
        written(link, OLD_MS)
    written(inside / "groups", OLD_MS)
    assert removed(tmp_path, deletes=True) == OldRunFolders(run_folders=1, run_folder_bytes=10)
    assert not inside.exists()
    assert (kept / "run.json").is_file()


def test_files_that_go_while_one_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_folder(tmp_path, "offset_retention", "at work")
    walk = os.walk

    def walked(folder: Path) -> list:
        found = list(walk(folder))
        (folder / "run.json").unlink()
        return found

    monkeypatch.setattr(folders.os, "walk", walked)
    assert removed(tmp_path, deletes=True) == NOTHING


def test_a_folder_that_cannot_be_removed_keeps_no_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, stuck, again, last = (run_folder(tmp_path, "offset_retention", name) for name in ("a", "b", "c", "d"))

    def rmtree(folder: Path) -> None:
        if folder in (stuck, again):
            raise PermissionError(13, "Permission denied", "run.json")
        REMOVE(folder)

    monkeypatch.setattr(folders.shutil, "rmtree", rmtree)
    found = removed(tmp_path, deletes=True)
    assert (found.run_folders, found.run_folder_bytes, found.stuck_folders) == (2, 20, 2)
    assert [folder.is_dir() for folder in (first, stuck, again, last)] == [False, True, True, False]
    (alert,) = found.alerts
    assert ": 2," in alert
    assert str(stuck) in alert
    assert "Permission denied" in alert


def test_a_folder_that_cannot_be_looked_at_keeps_no_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, old = (run_folder(tmp_path, "offset_retention", name) for name in ("hidden", "old"))
    judge = folders._size_if_old

    def size(folder: Path, before_ns: int) -> int | None:
        if folder == hidden:
            raise PermissionError(13, "Permission denied", str(hidden))
        return judge(folder, before_ns)

    monkeypatch.setattr(folders, "_size_if_old", size)
    found = removed(tmp_path, deletes=True)
    assert (found.run_folders, found.stuck_folders, len(found.alerts)) == (1, 1, 1)
    assert not old.exists()


def test_a_run_that_is_cleared_while_others_go_keeps_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, cleared = (run_folder(tmp_path, "offset_retention", name) for name in ("a", "b"))

    def rmtree(folder: Path) -> None:
        written(cleared / "run.json", YOUNG_MS)
        REMOVE(folder)

    monkeypatch.setattr(folders.shutil, "rmtree", rmtree)
    assert removed(tmp_path, deletes=True) == OldRunFolders(run_folders=1, run_folder_bytes=10)
    assert not first.exists()
    assert (cleared / "run.json").is_file()


def test_no_runs_yet(tmp_path: Path) -> None:
    assert removed(tmp_path / "none", deletes=True) == NOTHING
