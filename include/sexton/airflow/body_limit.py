"""A limit for the bodies of requests to Airflow's API server, before anybody is asked for a login.

FastAPI reads a whole body, and parses it, before it asks who sent it: without a limit 300 MB from a stranger are 300 MB
of memory, and more once they are JSON. A body that says its length is refused unread; one that does not is refused
where it passes the limit. Plain ASGI, with nothing but the standard library: Airflow loads it in all its processes.
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
    """An ASGI application around another one; 413 for a body of more than `api_body_limit_bytes`."""

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
    """A request whose body is counted on its way in. Past the limit the application hears that the client is gone, and
    what it has to say to that is not sent."""

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
    """Content-Length; 0 where there is none, or none that the server in front of this would have let pass."""
    lengths = [value for name, value in scope["headers"] if name.lower() == b"content-length"]
    return max((int(value) for value in lengths if value.isdigit()), default=0)


async def _refuse(send: Send, limit: int) -> None:
    """Answer, and end the connection: the rest of the body is not read to find the next request behind it."""
    body = json.dumps({"detail": f"the body is larger than {limit} bytes"}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": TOO_LARGE, "headers": headers})
    await send({"type": "http.response.body", "body": body})
