"""Limits the size of request bodies of the dashboard, which FastAPI reads and parses before it authenticates."""

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """ASGI middleware that answers 413 to a body of more than `limit` bytes, without reading the rest."""

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                # To keep the connection, a server would read the rest. FastAPI passes this error to its handler.
                raise HTTPException(413, f"the body is larger than {self._limit} bytes", {"Connection": "close"})
            return message

        await self._app(scope, counted, send)
