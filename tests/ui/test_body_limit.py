"""The limit for bodies: how much is read of one. In a real Airflow: test_airflow.py."""

import asyncio
from typing import Any

import pytest

from sexton.lake.published_tables import PublishedTables
from sexton.ui.access import Access
from sexton.ui.app import make_app
from tests.ui.worlds import PLAIN, allow

LIMIT = 65_536
CHUNK = b"x" * LIMIT


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
