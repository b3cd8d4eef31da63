"""Creates files of the ledger that only one process may write and nobody changes: any other process gets Refused.

On a local filesystem a hard link decides (archive.create). pyarrow has no such call for object stores: there the last
writer wins silently. So a process that wants a name there first writes a ticket and then lists the tickets. Of two
processes at least one sees the other's, and steps back. This needs listings that show what was written before, as S3,
GCS and ABFS promise.
"""

import json
from uuid import uuid4

from pyarrow import fs as pafs

from sexton.archive.create import create_whole
from sexton.archive.files import read_file, write_whole
from sexton.errors import Refused, UsageError
from sexton.failpoints import failpoint

_TICKETS = "tickets"


def create(fs: pafs.FileSystem, path: str, data: bytes) -> None:
    """Write a whole file that does not exist yet. Refused when another process has written it."""
    if isinstance(fs, pafs.LocalFileSystem):
        is_mine = create_whole(fs, path, data, what="ledger", needs_links=True)
    else:
        is_mine = fs.get_file_info(path).type == pafs.FileType.NotFound
        if is_mine:
            write_whole(fs, path, data)
            is_mine = read_file(fs, path) == data
    if not is_mine:
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


def _others(fs: pafs.FileSystem, mine: str, stem: str, *, newer_than_ms: int) -> bool:
    folder = mine.rpartition("/")[0]
    for info in fs.get_file_info(pafs.FileSelector(folder)):
        if info.base_name.startswith(f"{stem}-") and info.path != mine:
            try:
                at_ms = json.loads(read_file(fs, info.path))["at_ms"]
            except UsageError:
                continue  # its owner has stepped back meanwhile, or has the name already, which is looked at next
            except OSError:
                return True  # it goes while it is read
            if at_ms > newer_than_ms:
                return True
    return False


def _taken(path: str) -> Refused:
    return Refused("somebody else has written this entry of the ledger", where=path, fix="another attempt is running")
