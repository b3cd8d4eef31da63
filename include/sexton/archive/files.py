"""Small files in the archive: written whole or not at all, read without trust, over any pyarrow filesystem."""

import json
import os
from typing import Any

from pyarrow import fs as pafs

from sexton.errors import UsageError
from sexton.failpoints import failpoint

# Stores where a file appears when it is closed; elsewhere a crash would leave half of it under its name.
_APPEARS_WHOLE = ("s3", "gcs", "abfs")


def safe_name(name: str, *, what: str) -> str:
    """`name` when it can be one step of a path, else UsageError: ids come from brokers and from files."""
    if name in ("", ".", "..") or any(character in "/\\\0" for character in name):
        raise UsageError(f"{what} {name!r} cannot name a folder")
    return name


def child_folders(fs: pafs.FileSystem, root: str) -> list[str]:
    """Names of the folders in `root`, in order; none when there is no `root`."""
    entries = fs.get_file_info(pafs.FileSelector(root, allow_not_found=True))
    return sorted(entry.base_name for entry in entries if entry.type == pafs.FileType.Directory)


def make_folder(fs: pafs.FileSystem, path: str) -> None:
    """Make a folder and those above it, where a filesystem has folders at all."""
    if fs.type_name not in _APPEARS_WHOLE:
        fs.create_dir(path, recursive=True)


def write_whole(fs: pafs.FileSystem, path: str, data: bytes, *, what: str | None = None) -> None:
    """Write a file so that no reader ever sees half of it. `what` names the failpoints on the way."""
    make_folder(fs, path.rpartition("/")[0])
    target = path if fs.type_name in _APPEARS_WHOLE else f"{path}.part"
    with fs.open_output_stream(target) as file:
        file.write(data)
    fsync(fs, target)
    if what:
        failpoint(f"{what}.half")
    if target != path:
        fs.move(target, path)
        fsync(fs, path.rpartition("/")[0])
    if what:
        failpoint(f"{what}.after")


def fsync(fs: pafs.FileSystem, path: str) -> None:
    """Have a file, or the names in a folder, on the disk itself, so that a power cut takes neither. Elsewhere a file is
    safe once it is closed."""
    if isinstance(fs, pafs.LocalFileSystem):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_json(fs: pafs.FileSystem, path: str) -> dict[str, Any]:
    """The JSON object in a file; UsageError when it is none."""
    try:
        with fs.open_input_stream(path) as file:
            found = json.loads(file.read())
    except FileNotFoundError:
        raise UsageError("no such file", where=path) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}", where=path) from None
    if not isinstance(found, dict):
        raise UsageError("expected a JSON object", where=path)
    return found
