"""Listing a folder of the archive."""

from pathlib import Path
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.files import list_folder


class MadeMeanwhile:
    """Arrow's answer where another process makes the folder between its two admin snapshots, once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_file_info(self, selector: pafs.FileSelector) -> Any:
        if not self._folder.exists():
            self._folder.mkdir()
            (self._folder / "a.json").touch()
            raise FileNotFoundError(f"Cannot list directory '{self._folder}'")
        return pafs.LocalFileSystem().get_file_info(selector)


def test_a_folder_that_comes_while_it_is_listed(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    (found,) = list_folder(MadeMeanwhile(folder), str(folder))
    assert found.base_name == "a.json"


def test_no_folder(tmp_path: Path) -> None:
    assert list_folder(pafs.LocalFileSystem(), str(tmp_path / "none")) == []
