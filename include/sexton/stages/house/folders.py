"""tidy: old run folders. What is in them was published, or can be had again from archived bytes.

Runs of the DAGs that change a cluster keep theirs, which are small: they say who approved what.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sexton.stages.house.keeping import DAY_MS

REPEATABLE_DAGS = ("offset_retention", "keep_house")
"""DAGs whose runs read archived bytes and write nothing to a cluster; those of further clusters are `<DAG>__<name>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldFolders:
    """How many run folders went, or would go, and the size of their files."""

    run_folders: int
    run_folder_bytes: int


def run(root: Path, *, now_ms: int, days: int, deletes: bool = False) -> OldFolders:
    """Remove the run folders below `root` in which nothing was written for `days` before `now_ms`, or only tell them.

    A run that is cleared writes to its folder, so it keeps it. OSError where a folder cannot be removed.
    """
    before_ns = (now_ms - days * DAY_MS) * 1_000_000
    old = {folder: size for folder in _run_folders(root) if (size := _size_if_old(folder, before_ns)) is not None}
    if deletes:
        for folder in old:
            shutil.rmtree(folder)
    return OldFolders(run_folders=len(old), run_folder_bytes=sum(old.values()))


def _run_folders(root: Path) -> Iterator[Path]:
    for dag in sorted(root.iterdir()) if root.is_dir() else ():
        if dag.name.partition("__")[0] in REPEATABLE_DAGS and dag.is_dir():
            yield from (folder for folder in sorted(dag.iterdir()) if folder.is_dir() and not folder.is_symlink())


def _size_if_old(folder: Path, before_ns: int) -> int | None:
    """Bytes in a folder in which nothing has changed since before an instant; None where something has, or does now."""
    size = 0
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent), *(Path(parent, name) for name in [*folders, *files])):
            try:
                status = path.lstat()
            except FileNotFoundError:
                return None  # a run is at work there
            if status.st_mtime_ns >= before_ns:
                return None
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return size
