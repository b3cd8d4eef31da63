"""A real API server of Airflow's and bodies of 300 MB from somebody who has not logged in: refused, and not kept."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest

from sexton.settings import Settings
from tests.ui.api_server import ApiServer, api_server
from tests.ui.lakes import lake_at

BODY_BYTES = 300 * 1024 * 1024
MOST_BYTES = 60 * 1024 * 1024
"""What the server may grow by."""
PATHS = ("/auth/token", "/api/v2/dags/offset_retention/dagRuns", "/execution/xcoms/a/b/c/d", "/sexton/api/what-if")
CHUNK_BYTES = 65_536
LOGIN = (b'{"username": "', b'", "password": "x"}')
"""A login, whose name makes it as large as it has to be."""
HEAD = "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, needs_airflow: None) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("limited")
    with api_server(folder / "home", lake_at(folder / "lake").lake, {"admin": "admin"}) as found:
        yield found


def memory(server: ApiServer) -> int:
    """Resident bytes of the server and its workers."""
    process = psutil.Process(server.pid)
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


def body(size: int) -> Iterator[bytes]:
    """A JSON text of so many bytes, in pieces."""
    before, after = LOGIN
    yield before
    left = size - len(before) - len(after)
    while left > 0:
        yield b"x" * min(left, CHUNK_BYTES)
        left -= CHUNK_BYTES
    yield after


def post(server: ApiServer, path: str, *, size: int, is_chunked: bool) -> tuple[int, int]:
    """The status of the answer to a JSON text of `size` bytes, and how many of them could be sent."""
    host = urlsplit(server.url).netloc
    framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size}"
    sent = 0
    with socket.create_connection(host.split(":"), timeout=120) as connection:
        connection.sendall(HEAD.format(path=path, host=host, framing=framing).encode())
        try:
            for part in body(size):
                connection.sendall(b"%x\r\n%s\r\n" % (len(part), part) if is_chunked else part)
                sent += len(part)
            if is_chunked:
                connection.sendall(b"0\r\n\r\n")
        except OSError:  # it has answered, and reads no further
            pass
        try:
            answer = connection.recv(65_536)
        except ConnectionError:  # what it sent was lost to what it did not read
            answer = b""
    return (int(answer.split(b" ", 2)[1]) if answer else 0), sent


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_large_body_costs_nothing(server: ApiServer, is_chunked: bool) -> None:
    for path in PATHS:  # the first request of all has the dashboard imported
        post(server, path, size=100, is_chunked=False)
    before = memory(server)
    for path in PATHS:
        status, sent = post(server, path, size=BODY_BYTES, is_chunked=is_chunked)
        assert status in (413, 0), path
        assert sent < BODY_BYTES / 2, path
        assert memory(server) - before < MOST_BYTES, path


def test_the_answer_is_413(server: ApiServer) -> None:
    """Of a body that is only just too large, before any of it is sent."""
    limit = Settings.model_fields["api_body_limit_bytes"].default
    head = HEAD.format(path=PATHS[0], host=urlsplit(server.url).netloc, framing=f"Content-Length: {limit + 1}")
    with socket.create_connection(urlsplit(server.url).netloc.split(":"), timeout=120) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413")


def test_a_body_within_the_limit_is_answered_as_ever(server: ApiServer) -> None:
    limit = Settings.model_fields["api_body_limit_bytes"].default
    for is_chunked in (False, True):
        assert post(server, PATHS[0], size=limit, is_chunked=is_chunked)[0] == 401
