"""Removes old run folders. Their content was published, or can be recomputed from archived bytes.

Folders of the DAGs that change a cluster stay. They are small and record who approved what.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sexton.archive.files import child_folders, list_folder
from sexton.archive.folder import Folder
from sexton.as_text import DAY_MS

REPEATABLE_DAGS = ("offset_retention", "maintenance")
"""DAGs whose runs change no cluster. The DAGs of further clusters are named `<DAG>__<name>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRunFolders:
    """How many run folders were removed, or would be, their size, and how many could not be read or removed."""

    run_folders: int
    run_folder_bytes: int
    stuck_folders: int = 0
    alerts: list[str] = field(default_factory=list)


def run(root: Path | str, *, now_ms: int, days: int, deletes: bool = False) -> OldRunFolders:
    """Remove run folders below `root` without writes in the `days` before `now_ms`; without `deletes` only count them.

    A run that was cleared and runs again writes to its folder, so its folder stays. Folders that cannot be removed are
    skipped, with one alert for all of them.
    """
    before_ns = (now_ms - days * DAY_MS) * 1_000_000
    sizes, stuck = [], []
    found: Iterator[Path | Folder] = _in_store(Folder(root)) if "://" in str(root) else _run_folders(Path(root))
    for folder in found:
        try:
            size = _size_if_old(folder, before_ns)  # checked just before removal: earlier removals may take long
            if size is None:
                continue
            if deletes:
                if isinstance(folder, Folder):
                    folder.remove()
                else:
                    shutil.rmtree(folder)
            sizes.append(size)
        except OSError as error:
            stuck.append(f"{folder}: {error}")
    alerts = [f"run folders that could not be read or removed: {len(stuck)}, the first {stuck[0]}"] if stuck else []
    return OldRunFolders(run_folders=len(sizes), run_folder_bytes=sum(sizes), stuck_folders=len(stuck), alerts=alerts)


def _run_folders(root: Path) -> Iterator[Path]:
    for dag in sorted(root.iterdir()) if root.is_dir() else ():
        if dag.name.partition("__")[0] in REPEATABLE_DAGS and dag.is_dir():
            yield from (folder for folder in sorted(dag.iterdir()) if folder.is_dir() and not folder.is_symlink())


def _size_if_old(folder: Path | Folder, before_ns: int) -> int | None:
    """Return the bytes in a folder without changes since an instant; None if something changed or is changing."""
    if isinstance(folder, Folder):
        infos = [info for info in list_folder(folder.fs, folder.path(), recursive=True) if info.is_file]
        return None if any(info.mtime_ns >= before_ns for info in infos) else sum(info.size for info in infos)
    size = 0
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent), *(Path(parent, name) for name in [*folders, *files])):
            try:
                status = path.lstat()
            except FileNotFoundError:
                return None  # a run is writing there
            if status.st_mtime_ns >= before_ns:
                return None
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return size


def _in_store(root: Folder) -> Iterator[Folder]:
    """Like `_run_folders`, in an object store."""
    for dag in child_folders(root.fs, root.path()):
        if dag.partition("__")[0] in REPEATABLE_DAGS:
            yield from (root.sub(dag, name) for name in child_folders(root.fs, root.path(dag)))
