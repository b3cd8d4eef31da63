"""A folder, on a disk or in an object store, that processes on several machines share.

It is passed between processes as a URI and opened where it is used. Files are written atomically.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from secrets import token_hex

import pyarrow as pa
from pyarrow import fs as pafs

from sexton.archive.create import create_whole
from sexton.archive.files import appears_whole, is_file, list_folder, make_folder, read_file
from sexton.errors import UsageError
from sexton.uris import below, split_login, uri_without_login

_LOGIN = re.compile(r"(?:[\w.~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*", re.ASCII)
"""Characters that RFC 3986 allows in the user info of a URI."""
_ENCODE = "write / as %2F, @ as %40, % as %25; and, in a path, an @ that follows a : as %40"


def filesystem(uri: str) -> tuple[pafs.FileSystem, str]:
    """The pyarrow filesystem of a path or URI, and the path in it.

    UsageError for an invalid URI, and for user info with characters that would move a part of the credentials into the
    host or the path, which appear in requests and messages.
    """
    login, _ = split_login(uri)
    if login is not None and not _LOGIN.fullmatch(login):
        raise UsageError("the login has characters that must be percent-encoded in a URI", where=uri, fix=_ENCODE)
    try:
        if "://" in uri:
            found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(uri)
            return found
        return pafs.LocalFileSystem(), uri
    except Exception as error:  # pyarrow's stores raise exceptions of many types
        reason = str(error).replace(uri, uri_without_login(uri))
        raise UsageError(f"not a usable location: {reason}", where=uri) from None


@lru_cache(maxsize=32)
def _opened(uri: str) -> tuple[pafs.FileSystem, str]:
    """`filesystem`, cached: one client per store in each process."""
    return filesystem(uri)


class Folder:
    """The folder `names` below `root`, a path or URI; with `fs`, a path in that filesystem."""

    def __init__(self, root: Path | str, *names: str, fs: pafs.FileSystem | None = None) -> None:
        self._root, self._names, self._fs = str(root), names, fs

    def __str__(self) -> str:
        """Its path or URI, without credentials."""
        return uri_without_login(self.uri)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Folder) and other.uri == self.uri

    def __hash__(self) -> int:
        return hash(self.uri)

    @property
    def uri(self) -> str:
        """Its path or URI, including any credentials."""
        return below(self._root, *self._names)

    @property
    def local(self) -> Path:
        """Its path on the local disk; UsageError for a folder in an object store."""
        if not isinstance(self.fs, pafs.LocalFileSystem):
            raise UsageError("not on a disk of this machine", where=self)
        return Path(self.path())

    @property
    def fs(self) -> pafs.FileSystem:
        return _opened(self._root)[0] if self._fs is None else self._fs

    def path(self, *names: str) -> str:
        """The path in `fs` of a file or folder in this folder."""
        root = _opened(self._root)[1] if self._fs is None else self._root
        return "/".join((root.rstrip("/"), *self._names, *names))

    def sub(self, *names: str) -> "Folder":
        return Folder(self._root, *self._names, *names, fs=self._fs)

    def hashed(self, hashes: Mapping[str, str]) -> "HashedFolder":
        """This folder restricted to files with known hashes: SHA-256 by name."""
        return HashedFolder(self._root, *self._names, fs=self._fs, hashes=hashes)

    def exists(self, *names: str) -> bool:
        """Whether the file exists."""
        return is_file(self.fs, self.path(*names))

    def sizes(self) -> dict[str, int]:
        """Bytes by name of every file in the folder and its subfolders, in order of names.

        Without files that are still being written.
        """
        skipped = len(self.path()) + 1
        found = [info for info in list_folder(self.fs, self.path(), recursive=True) if info.is_file]
        files = {info.path[skipped:]: info.size for info in found if not info.base_name.startswith(".")}
        return dict(sorted(files.items(), key=lambda item: item[0].split("/")))

    def files(self) -> list[str]:
        """The names of `sizes`."""
        return [*self.sizes()]

    def read(self, *names: str) -> bytes:
        """All bytes of a file; UsageError when it does not exist."""
        return read_file(self.fs, self.path(*names))

    def open(self, *names: str) -> pa.NativeFile:
        """A file with random access; FileNotFoundError when it does not exist.

        A file on a disk is memory-mapped. A file in a store is fetched completely, since Parquet is read in many small
        ranges.
        """
        if isinstance(self.fs, pafs.LocalFileSystem):
            return pa.memory_map(self.path(*names))
        with self.fs.open_input_stream(self.path(*names)) as file:
            return pa.BufferReader(file.read_buffer())

    def write(self, data: bytes | pa.Buffer, *names: str, is_private: bool = False) -> None:
        """Write a file, replacing an earlier one. On a disk a private file is readable by this user only."""
        path = self.path(*names)
        parent, _, name = path.rpartition("/")
        make_folder(self.fs, parent)
        target = path if appears_whole(self.fs) else f"{parent}/.{name}.{token_hex(4)}.part"
        if is_private and isinstance(self.fs, pafs.LocalFileSystem):
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with self.fs.open_output_stream(target) as file:
            file.write(data)
        if target != path:
            self.fs.move(target, path)

    def link(self, existing: Sequence[str], *names: str) -> None:
        """Give a file a second name, replacing an earlier file; copies the file where the filesystem has no hard
        links."""
        source, path = self.path(*existing), self.path(*names)
        make_folder(self.fs, path.rpartition("/")[0])
        if isinstance(self.fs, pafs.LocalFileSystem):
            with suppress(OSError):
                Path(path).unlink(missing_ok=True)
                os.link(source, path)
                return
        self.fs.copy_file(source, path)

    def create(self, data: bytes, *names: str, is_private: bool = False) -> bool:
        """Write a file that does not exist yet; an existing file stays as it is, and the result is False."""
        return create_whole(self.fs, self.path(*names), data, mode=0o600 if is_private else 0o666)

    def remove(self, *names: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""
        info = self.fs.get_file_info(self.path(*names))
        if info.type == pafs.FileType.Directory:
            self.fs.delete_dir(info.path)
        elif info.type == pafs.FileType.File:
            self.fs.delete_file(info.path)


class HashedFolder(Folder):
    """A folder of which only the files in `hashes` (SHA-256 by name) are read, and only if their bytes match."""

    def __init__(self, root: Path | str, *names: str, fs: pafs.FileSystem | None, hashes: Mapping[str, str]) -> None:
        super().__init__(root, *names, fs=fs)
        self._hashes = dict(hashes)

    def files(self) -> list[str]:
        return [*self._hashes]

    def open(self, *names: str) -> pa.NativeFile:
        """Open a file; UsageError, with its name, when it is missing or its bytes do not match their hash."""
        name = "/".join(names)
        try:
            data = self.read(*names)
        except UsageError as error:
            raise UsageError(error.message, where=name) from None
        if hashlib.sha256(data).hexdigest() != self._hashes[name]:
            raise UsageError("its SHA-256 differs from the recorded one", where=name)
        return pa.BufferReader(data)
