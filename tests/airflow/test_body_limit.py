"""The limit for bodies as an ASGI application: what is refused, how much is read of it, and what passes untouched."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sexton.airflow import body_limit
from sexton.airflow.body_limit import BodyLimit
from sexton.settings import Settings

LIMIT = 65_536
Message = dict[str, Any]
App = Callable[..., Awaitable[None]]


async def echo(scope: Message, receive: Any, send: Any) -> None:
    """Reads the whole body, as FastAPI does, and answers with its size; a client that leaves is an error of its own."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client is gone")
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    await answer(send, 200, str(size).encode())


async def forgiving(scope: Message, receive: Any, send: Any) -> None:
    """Answers whatever happens, as FastAPI does when it cannot read a body."""
    try:
        await echo(scope, receive, send)
    except ConnectionError:
        await answer(send, 400, b"There was an error parsing the body")


async def hasty(scope: Message, receive: Any, send: Any) -> None:
    """Answers before it reads."""
    await answer(send, 200, b"early")
    with_more = True
    while with_more:
        with_more = (await receive()).get("more_body", False)


async def answer(send: Any, status: int, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "settings", lambda: Settings(api_body_limit_bytes=LIMIT))


def ask(app: App, chunks: list[bytes], *, length: str | None = None, kind: str = "http") -> tuple[list[Message], int]:
    """What is sent back, and how many chunks were read."""
    headers = [] if length is None else [(b"Content-Length", length.encode())]
    sent, left = list[Message](), list(chunks)

    async def receive() -> Message:
        body = left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(left)}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(BodyLimit(app)({"type": kind, "headers": headers}, receive, send))
    return sent, len(chunks) - len(left)


def status(sent: list[Message]) -> int:
    (start,) = (message for message in sent if message["type"] == "http.response.start")
    return int(start["status"])


@pytest.mark.parametrize("chunks", [[b""], [b"x" * LIMIT], [b"x" * (LIMIT // 2)] * 2])
@pytest.mark.parametrize("app", [echo, forgiving])
def test_what_is_small_enough_passes(app: App, chunks: list[bytes]) -> None:
    sent, _ = ask(app, chunks, length=str(sum(map(len, chunks))))
    assert (status(sent), sent[-1]["body"]) == (200, str(sum(map(len, chunks))).encode())


@pytest.mark.parametrize("length", [str(LIMIT + 1), "9" * 30])
def test_what_says_that_it_is_larger_is_not_read(length: str) -> None:
    sent, read = ask(echo, [b"x"], length=length)
    assert (status(sent), read) == (413, 0)
    assert (b"connection", b"close") in sent[0]["headers"]
    assert str(LIMIT).encode() in sent[1]["body"]


@pytest.mark.parametrize("length", [None, "5", "-1", "many"])
@pytest.mark.parametrize("app", [echo, forgiving])
def test_what_says_nothing_or_something_else_is_counted(app: App, length: str | None) -> None:
    sent, read = ask(app, [b"x" * LIMIT, b"x", *[b"x" * LIMIT] * 8], length=length)
    assert (status(sent), read) == (413, 2)


def test_an_answer_that_has_begun_is_left_alone() -> None:
    sent, _ = ask(hasty, [b"x" * LIMIT, b"x" * LIMIT])
    assert (status(sent), sent[-1]["body"]) == (200, b"early")


def test_errors_of_the_application_stay_its_own() -> None:
    async def broken(scope: Message, receive: Any, send: Any) -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        ask(broken, [b""])


def test_other_scopes_pass() -> None:
    seen = list[str]()

    async def noting(scope: Message, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    ask(noting, [], length=str(LIMIT + 1), kind="lifespan")
    assert seen == ["lifespan"]
