"""Limits the size of request bodies to Airflow's API server, before authentication.

FastAPI reads and parses a whole body before it authenticates: without a limit 300 MB from a stranger take more than
300 MB of memory. A body with a Content-Length above the limit is refused unread, any other where it passes the limit.
Plain ASGI with the standard library only, because Airflow loads it in all its processes.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from sexton.settings import settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

TOO_LARGE = 413


class BodyLimit:
    """ASGI middleware that answers 413 to a body of more than `api_body_limit_bytes`."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._limit = settings().api_body_limit_bytes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif _said_length(scope) > self._limit:
            await _refuse(send, self._limit)
        else:
            await _Request(receive, send, limit=self._limit).passed_to(self._app, scope)


class _Request:
    """Counts a request's body. Past the limit the application gets a disconnect, and its answer is dropped."""

    def __init__(self, receive: Receive, send: Send, *, limit: int) -> None:
        self._receive, self._send = receive, send
        self._limit, self._seen = limit, 0
        self._has_begun = False

    async def passed_to(self, app: Application, scope: Message) -> None:
        try:
            await app(scope, self._counted, self._answered)
        except Exception:
            if not self._is_over:
                raise
        if self._is_over and not self._has_begun:
            await _refuse(self._send, self._limit)

    @property
    def _is_over(self) -> bool:
        return self._seen > self._limit

    async def _counted(self) -> Message:
        if self._is_over:
            return {"type": "http.disconnect"}
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self._is_over else message

    async def _answered(self, message: Message) -> None:
        if self._is_over and not self._has_begun:
            return
        self._has_begun = True
        await self._send(message)


def _said_length(scope: Message) -> int:
    """Return Content-Length, 0 if there is none or no number."""
    lengths = [value for name, value in scope["headers"] if name.lower() == b"content-length"]
    return max((int(value) for value in lengths if value.isdigit()), default=0)


async def _refuse(send: Send, limit: int) -> None:
    """Answer and close the connection, so that the rest of the body is not read."""
    body = json.dumps({"detail": f"the body is larger than {limit} bytes"}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": TOO_LARGE, "headers": headers})
    await send({"type": "http.response.body", "body": body})
