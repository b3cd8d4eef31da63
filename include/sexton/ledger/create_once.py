"""Creates files of the ledger that only one process may write and nobody changes: any other process gets Refused.

On a local filesystem a hard link decides, which the kernel makes or refuses. pyarrow has no such call for object
stores: there the last writer wins silently. So a process that wants a name there first writes a ticket and then lists
the tickets. Of two processes at least one sees the other's, and steps back. This needs listings that show what was
written before, as S3, GCS and ABFS promise.

sexton.archive.create does the same job for the archive: it returns False instead, uses S3's conditional PUT, and on
other object stores has no tickets, so that two snapshots at once can collide there.
"""

import json
import os
from uuid import uuid4

from pyarrow import fs as pafs

from sexton.archive.files import fsync, make_folder, write_whole
from sexton.errors import Refused
from sexton.failpoints import failpoint

_TICKETS = "tickets"


def create(fs: pafs.FileSystem, path: str, data: bytes) -> None:
    """Write a whole file that does not exist yet. Refused when another process has written it."""
    if isinstance(fs, pafs.LocalFileSystem):
        _link(fs, path, data)
        return
    if fs.get_file_info(path).type != pafs.FileType.NotFound:
        raise _taken(path)
    write_whole(fs, path, data)
    if read(fs, path) != data:
        raise _taken(path)


def create_contended(fs: pafs.FileSystem, path: str, data: bytes, *, at_ms: int, ticket_ms: int) -> None:
    """As `create`, for a name that several processes may want at once.

    A ticket that is older than `ticket_ms` is of a process that died. Refused when another process wants the name as
    well. It may be that neither gets it; then trying again helps.
    """
    if isinstance(fs, pafs.LocalFileSystem):
        create(fs, path, data)
        return
    folder, _, name = path.rpartition("/")
    mine = f"{folder}/{_TICKETS}/{name.removesuffix('.json')}-{uuid4().hex}.json"
    write_whole(fs, mine, json.dumps({"at_ms": at_ms}).encode())
    failpoint("ledger.ticket")
    try:
        if _others(fs, mine, name.removesuffix(".json"), newer_than_ms=at_ms - ticket_ms):
            raise _taken(path)
        create(fs, path, data)
    finally:
        fs.delete_file(mine)


def read(fs: pafs.FileSystem, path: str) -> bytes:
    """A small file, whole."""
    with fs.open_input_stream(path) as file:
        data: bytes = file.read()
    return data


def _link(fs: pafs.FileSystem, path: str, data: bytes) -> None:
    folder, _, name = path.rpartition("/")
    make_folder(fs, folder)
    draft = f"{folder}/.{name}.{uuid4().hex}.part"
    with open(draft, "xb") as file:  # noqa: PTH123 (paths of pyarrow are text)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    failpoint("ledger.half")
    try:
        os.link(draft, path)
    except FileExistsError:
        raise _taken(path) from None
    finally:
        os.unlink(draft)  # noqa: PTH108
    fsync(fs, folder)
    failpoint("ledger.after")


def _others(fs: pafs.FileSystem, mine: str, stem: str, *, newer_than_ms: int) -> bool:
    folder = mine.rpartition("/")[0]
    for info in fs.get_file_info(pafs.FileSelector(folder)):
        if info.base_name.startswith(f"{stem}-") and info.path != mine:
            try:
                at_ms = json.loads(read(fs, info.path))["at_ms"]
            except FileNotFoundError:
                continue  # its owner has stepped back meanwhile, or has the name already, which is looked at next
            except OSError:
                return True  # it goes while it is read
            if at_ms > newer_than_ms:
                return True
    return False


def _taken(path: str) -> Refused:
    return Refused("somebody else has written this entry of the ledger", where=path, fix="another attempt is running")
