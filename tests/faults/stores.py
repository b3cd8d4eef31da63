"""Stores that fail: a filesystem that raises at a given call, and an S3 server that refuses each first write."""

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from moto.server import DomainDispatcherApplication, create_backend_app
from pyarrow import fs as pafs
from werkzeug.serving import make_server


@dataclass
class Fault:
    """Fails the `at`-th call that changes the store, and all after it, with `code`; `calls` counts them all."""

    at: int | None = None
    code: int = errno.ENOSPC
    calls: int = 0

    def pass_by(self, path: str) -> None:
        self.calls += 1
        if self.at is not None and self.calls >= self.at:
            raise OSError(self.code, os.strerror(self.code), path)


class FaultyFile:
    """A file that is written through a Fault."""

    def __init__(self, path: str, fault: Fault) -> None:
        self._path, self._fault = path, fault
        fault.pass_by(path)
        self._file = open(path, "wb")  # noqa: SIM115, PTH123 (closed by close)

    def write(self, data: Any) -> int:
        self._fault.pass_by(self._path)
        return self._file.write(bytes(data))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed


class FaultyHandler(pafs.FileSystemHandler):
    """The local filesystem, with every change through a Fault."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._local = pafs.LocalFileSystem()

    def get_type_name(self) -> str:
        return "faulty"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return self._local.get_file_info(paths)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        return self._local.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._fault.pass_by(path)
        self._local.create_dir(path, recursive=recursive)

    def move(self, src: str, dest: str) -> None:
        self._fault.pass_by(dest)
        self._local.move(src, dest)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        return pa.PythonFile(FaultyFile(path, self._fault), mode="w")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self._local.open_input_stream(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._local.open_input_file(path)

    def _never(self, *_: Any) -> Any:
        raise AssertionError("the archive only ever adds")

    copy_file = delete_dir = delete_dir_contents = delete_file = delete_root_dir_contents = _never
    open_append_stream = _never


@dataclass
class EachPutFailsOnce:
    """Makes an S3 server refuse the first PUT of each object, or of every n-th; every second one it has carried out."""

    every: int = 1
    is_on: bool = False
    seen: list[str] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return len(self.seen) // self.every

    @property
    def is_lost(self) -> bool:
        return self.failed % 2 == 0

    def is_next(self, environ: dict[str, Any]) -> bool:
        path = environ["PATH_INFO"]
        if not self.is_on or environ["REQUEST_METHOD"] != "PUT" or path in self.seen:
            return False
        self.seen.append(path)
        return len(self.seen) % self.every == 0

    def until_none_fails(self, work: Callable[[], object]) -> None:
        """Do the work again and again, each time as far as it comes: a write that fails is an OSError of it."""
        self.is_on = True
        while True:
            before = self.failed
            try:
                work()
                break
            except OSError:
                assert self.failed == before + 1
        assert self.failed == before
        self.is_on = False


DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"  # which no client tries again


@contextmanager
def serving(answer: Callable[..., Any]) -> Iterator[str]:
    """A WSGI application on a port of 127.0.0.1; its `host:port`."""
    server = make_server("127.0.0.1", 0, answer, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def s3_server(trouble: EachPutFailsOnce | None = None) -> Iterator[str]:
    """A server that speaks S3 (moto) on a port of 127.0.0.1; the query that a pyarrow URI needs to reach it."""
    application = DomainDispatcherApplication(create_backend_app)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if trouble is not None and trouble.is_next(environ):
            if trouble.is_lost:
                list(application(environ, lambda *_: None))
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [DENIED]
        return application(environ, start_response)

    with serving(answer) as place:
        yield f"endpoint_override={place}&scheme=http&region=us-east-1&allow_bucket_creation=true"


def objects(store: pafs.FileSystem, root: str) -> dict[str, bytes]:
    """Every object below a path."""
    found = {}
    for info in store.get_file_info(pafs.FileSelector(root, recursive=True)):
        if info.type == pafs.FileType.File:
            with store.open_input_stream(info.path) as file:
                found[info.path.removeprefix(f"{root}/")] = file.read()
    return found
