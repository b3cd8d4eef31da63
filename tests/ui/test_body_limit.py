"""The limit for bodies: what is read of one, and that a real API server of Airflow's keeps its own routes to itself."""

import asyncio
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from sexton.ui.access import Access
from sexton.ui.app import make_app
from sexton.ui.published_tables import PublishedTables
from tests.ui.api_server import ApiServer, api_server
from tests.ui.lakes import lake_at
from tests.ui.worlds import PLAIN, allow

LIMIT = 65_536
BODY_BYTES = 300 * 1024 * 1024
MOST_BYTES = 60 * 1024 * 1024
"""What the server may grow by."""
HEAD = "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK, QUOTE = b"x" * LIMIT, b'1\r\n"\r\n'


@pytest.mark.parametrize("length", [None, b"9" * 5_000], ids=["chunked", "a length that is no number for Python"])
@pytest.mark.parametrize(("path", "kind"), [("/api/what-if", b"json"), ("/what-if", b"x-www-form-urlencoded")])
@pytest.mark.parametrize(("chunks", "read", "is_refused"), [(1, 1, False), (9, 2, True)])
def test_no_more_than_the_limit_is_read(
    world, path: str, kind: bytes, length: bytes | None, chunks: int, read: int, is_refused: bool
) -> None:
    left, sent = [CHUNK] * chunks, list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(), "more_body": bool(left)}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/" + kind), *([(b"content-length", length)] if length else [])]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    app = make_app(PublishedTables(lambda: world.lake), Access(may_read=allow, clusters=PLAIN), body_limit_bytes=LIMIT)
    asyncio.run(app(scope, receive, send))
    assert (sent[0]["status"] == 413, chunks - len(left)) == (is_refused, read)
    assert ((b"connection", b"close") in sent[0]["headers"]) == is_refused


def post(server: ApiServer, path: str, *, size: int) -> tuple[int, int]:
    """The status of the answer to a JSON text of `size` bytes, and how many of them could be sent."""
    host = urlsplit(server.url).netloc
    sent = 0
    with socket.create_connection(host.split(":"), timeout=120) as connection:
        connection.sendall(HEAD.format(path=path, host=host).encode() + QUOTE)
        try:
            while sent < size:
                connection.sendall(b"%x\r\n%s\r\n" % (len(CHUNK), CHUNK))
                sent += len(CHUNK)
            connection.sendall(QUOTE + b"0\r\n\r\n")
        except OSError:  # it has answered, and reads no further
            pass
        try:
            answer = connection.recv(65_536)
        except ConnectionError:  # what it sent was lost to what it did not read
            answer = b""
    return (int(answer.split(b" ", 2)[1]) if answer else 0), sent


@pytest.mark.usefixtures("needs_airflow")
def test_a_real_server(tmp_path: Path) -> None:
    """300 MB from somebody who has not logged in cost nothing, and Airflow's own routes take what they have taken."""
    with api_server(tmp_path / "home", lake_at(tmp_path / "lake").lake, {"admin": "admin"}, body_limit=LIMIT) as server:
        assert post(server, "/sexton/api/what-if", size=0)[0] == 401  # the first request imports the dashboard
        process = psutil.Process(server.pid)
        before = sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
        status, sent = post(server, "/sexton/api/what-if", size=BODY_BYTES)
        assert status in (413, 0)
        assert sent < BODY_BYTES / 2
        after = sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
        assert after - before < MOST_BYTES
        assert post(server, "/auth/token", size=9 * 1024 * 1024)[0] == 401
