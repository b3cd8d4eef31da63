"""Small files in the archive: written atomically, validated when they are read, on any pyarrow filesystem."""

import hashlib
import json
import os
import re
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pyarrow import fs as pafs
from pydantic import TypeAdapter, ValidationError

from sexton.errors import UsageError
from sexton.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Hashable

T = TypeVar("T")
SHA256 = re.compile(r"[0-9a-f]{64}")

# Filesystems in which a file appears only when it is closed. In others a crash would leave half of a file.
_APPEARS_WHOLE = ("s3", "gcs", "abfs")


def safe_name(name: str, *, what: str) -> str:
    """`name` if it is valid as one path component, else UsageError: ids come from brokers and from files."""
    if name in ("", ".", "..") or any(character in "/\\\0" for character in name):
        raise UsageError(f"{what} {name!r} cannot name a folder")
    return name


def cluster_folder(root: str, cluster_id: str, *names: str) -> str:
    """The folder of a cluster in the archive, or a folder below it; UsageError when the id cannot name a folder."""
    return "/".join((root.rstrip("/"), safe_name(cluster_id, what="cluster id"), *names))


def sha256_folder(root: str, cluster_id: str, folder: str, name: str, *, what: str) -> str:
    """The folder of an object that is named by a SHA-256; UsageError for an invalid id."""
    if not SHA256.fullmatch(name):
        raise UsageError(f"no {what}: {name!r}", fix="it has 64 digits of 0-9 and a-f")
    return cluster_folder(root, cluster_id, folder, name)


def list_folder(fs: pafs.FileSystem, folder: str, *, recursive: bool = False) -> list[pafs.FileInfo]:
    """The entries of a folder; empty where the folder does not exist.

    Arrow checks whether the folder exists only after listing has failed. If another process creates it in between,
    Arrow raises an error, but the folder can be listed then.
    """
    selector = pafs.FileSelector(folder, recursive=recursive, allow_not_found=True)
    try:
        found: list[pafs.FileInfo] = fs.get_file_info(selector)
    except FileNotFoundError:
        found = fs.get_file_info(selector)
    return found


def child_folders(fs: pafs.FileSystem, root: str) -> list[str]:
    """Names of the folders in `root`, in order; empty when `root` does not exist."""
    return sorted(entry.base_name for entry in list_folder(fs, root) if entry.type == pafs.FileType.Directory)


def numbered_files(fs: pafs.FileSystem, folder: str) -> list[int]:
    """The numbers N of the files N.json in a folder, in order; empty when the folder does not exist."""
    files = list_folder(fs, folder)
    names = (file.base_name.removesuffix(".json") for file in files if file.base_name.endswith(".json"))
    return sorted(int(name) for name in names if name.isdecimal() and len(name) <= 19)


def appears_whole(fs: pafs.FileSystem) -> bool:
    """Whether a file appears under its name when it is closed, and not before."""
    return fs.type_name in _APPEARS_WHOLE


def make_folder(fs: pafs.FileSystem, path: str) -> None:
    """Create a folder and its parents, where the filesystem has folders at all."""
    if not appears_whole(fs):
        fs.create_dir(path, recursive=True)


def write_whole(fs: pafs.FileSystem, path: str, data: bytes, *, what: str | None = None) -> None:
    """Write a file so that no reader ever sees half of it. `what` names the failpoints on the way."""
    target = path if appears_whole(fs) else f"{path}.part"
    write_synced(fs, target, data)
    if what:
        failpoint(f"{what}.half")
    if target != path:
        fs.move(target, path)
        fsync(fs, path.rpartition("/")[0])
    if what:
        failpoint(f"{what}.after")


def write_synced(fs: pafs.FileSystem, path: str, data: bytes) -> None:
    """Write a file, and create its folder, so that the bytes survive a power cut."""
    make_folder(fs, path.rpartition("/")[0])
    with fs.open_output_stream(path) as file:
        file.write(data)
    fsync(fs, path)


def fsync(fs: pafs.FileSystem, path: str) -> None:
    """Flush a file, or the names in a folder, to the disk, so that they survive a power cut. Filesystems other than the
    local one flush when a file is closed."""
    if isinstance(fs, pafs.LocalFileSystem):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_file(fs: pafs.FileSystem, path: str) -> bool:
    return bool(fs.get_file_info(path).type == pafs.FileType.File)


def read_file(fs: pafs.FileSystem, path: str) -> bytes:
    """All bytes of a file; UsageError when it does not exist."""
    try:
        with fs.open_input_stream(path) as file:
            data: bytes = file.read()
    except FileNotFoundError:
        raise UsageError("no such file", where=path) from None
    return data


def read_hashed(fs: pafs.FileSystem, path: str, sha256: str | None) -> bytes:
    """All bytes of a file that a manifest describes; UsageError when the file is missing or its bytes differ."""
    if not is_file(fs, path):
        raise UsageError("the manifest exists, but this file is missing", where=path)
    data = read_file(fs, path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise UsageError("its SHA-256 is not the one in its manifest", where=path)
    return data


def read_json(fs: pafs.FileSystem, path: str) -> dict[str, Any]:
    """The JSON object in a file; UsageError when the file holds something else."""
    try:
        found = json.loads(read_file(fs, path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}", where=path) from None
    if not isinstance(found, dict):
        raise UsageError("expected a JSON object", where=path)
    return found


def record_json(record: Any) -> bytes:
    """A dataclass as the JSON that `read_record` reads."""
    return json.dumps(asdict(record), ensure_ascii=False, indent=1).encode()


def read_record(fs: pafs.FileSystem, path: str, kind: type[T], *, what: str) -> T:
    """The record in a JSON file, each field of its declared type; UsageError otherwise. Unknown fields, which later
    releases may add, are ignored."""
    try:
        record: T = _adapter(cast("Hashable", kind)).validate_json(read_file(fs, path), strict=True)
    except ValidationError as error:
        raise UsageError(_reason(error, what), where=path) from None
    return record


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _reason(error: ValidationError, what: str) -> str:
    wrong = error.errors(include_url=False)
    first = wrong[0]
    if first["type"] == "json_invalid":
        return f"not JSON: {first['msg']}"
    if not first["loc"]:
        return "expected a JSON object"
    if missing := sorted(str(one["loc"][0]) for one in wrong if one["type"] == "missing" and len(one["loc"]) == 1):
        return f"not {what}: without {', '.join(missing)}"
    return f"not {what}: {'.'.join(map(str, first['loc']))} is {first['input']!r}"
