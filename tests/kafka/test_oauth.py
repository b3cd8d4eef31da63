"""Tokens: fetched once and kept, in time or not at all, and never in a word that anybody reads."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from sexton.errors import SextonError, UsageError
from sexton.kafka import oauth
from sexton.kafka.failures import TransientError
from sexton.kafka.oauth import ClientCredentials, TokenProvider, fetch_token, librdkafka_callback
from tests.kafka.token_server import TokenServer, reply, serving

SECRET = "canary-secret: é/+"


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    with serving(clients={"sexton": SECRET}) as server:
        yield server


def credentials(tokens: TokenServer, **changes: Any) -> ClientCredentials:
    fields = {"token_endpoint": tokens.url, "client_id": "sexton", "client_secret": SECRET} | changes
    return ClientCredentials(**fields)


def test_a_token_is_kept_until_shortly_before_it_expires(tokens: TokenServer) -> None:
    now = [1000.0]
    provider = TokenProvider(credentials(tokens, scope="kafka read"), clock=lambda: now[0])
    first = provider.token()
    now[0] += tokens.lifetime_s * 0.79
    assert provider.token() == first
    assert tokens.requests == [{"grant_type": "client_credentials", "scope": "kafka read", "client_id": "sexton"}]
    now[0] += tokens.lifetime_s * 0.02
    provider.token()
    assert len(tokens.requests) == 2


def test_in_a_notebook(tokens: TokenServer) -> None:
    """Whose thread runs an event loop."""

    async def cell() -> str:
        return TokenProvider(credentials(tokens)).token()

    assert asyncio.run(cell())


def test_a_token_without_a_lifetime_is_not_kept(tokens: TokenServer) -> None:
    tokens.misbehave = answering(200, {"access_token": "abc"})
    provider = TokenProvider(credentials(tokens, extensions={"logicalCluster": "lkc-1"}))
    assert [provider.token(), provider.token()] == ["abc", "abc"]
    assert len(tokens.requests) == 2
    assert provider.extensions() == {"logicalCluster": "lkc-1"}


def answering(status: int, body: Any) -> Callable[[BaseHTTPRequestHandler], bool]:
    def answer(handler: BaseHTTPRequestHandler) -> bool:
        reply(handler, status, body)
        return True

    return answer


DENIED = {"error": "invalid_client", "error_description": SECRET}


@pytest.mark.parametrize(
    "status, body, said",
    [
        (401, DENIED, r"refuses with 401 \(invalid_client\).*secret and"),
        (400, {"error": SECRET}, r"127\.0\.0\.1: the token endpoint refuses with 400 \(check"),
        (403, SECRET.encode(), "refuses with 403"),
        (401, {"error": "canary-secret"}, r"refuses with 401 \(check"),
        (200, b"<html>", "invalid JSON or no access_token"),
        (200, ["access_token"], "invalid JSON or no access_token"),
        (200, {"access_token": None}, "a token that cannot be sent"),
        (200, {"access_token": "a\x01auth=Bearer b"}, "a token that cannot be sent"),
        (200, b" " * 2_000_000, "with more than a token"),
        (200, b"[" * 100_000, "invalid JSON or no access_token"),
        (200, {"access_token": "a\r\nX: y"}, "a token that cannot be sent"),
        (200, b'{"access_token": "a", "expires_in": 1%s}' % (b"0" * 400), "invalid JSON or no access_token"),
    ],
)
def test_what_the_endpoint_refuses_is_told_at_once(tokens: TokenServer, status: int, body: Any, said: str) -> None:
    tokens.misbehave = answering(status, body)
    with pytest.raises(UsageError, match=said) as caught:
        fetch_token(credentials(tokens))
    assert len(tokens.requests) == 1
    assert "canary" not in str(caught.value) + repr(caught.value.__context__)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nobody_is_asked_whom_the_endpoint_names(tokens: TokenServer, status: int) -> None:
    def elsewhere(handler: BaseHTTPRequestHandler) -> bool:
        handler.send_response(status)
        handler.send_header("Location", other.url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    tokens.misbehave = elsewhere
    with serving(clients={"sexton": SECRET}) as other, pytest.raises(UsageError, match=f"refuses with {status}"):
        fetch_token(credentials(tokens))
    assert (len(tokens.requests), other.requests) == (1, [])


TOKEN = {"access_token": "abc", "expires_in": 300}


@pytest.mark.parametrize("codings", [1, 2], ids=["gzip", "gzip, gzip"])
def test_nothing_is_decompressed(tokens: TokenServer, codings: int) -> None:
    """A few bytes may stand for gigabytes, and no endpoint compresses so little where nobody asks for it."""
    data = json.dumps(TOKEN).encode()
    for _ in range(codings):
        data = gzip.compress(data)

    def compressed(handler: BaseHTTPRequestHandler) -> bool:
        assert handler.headers["Accept-Encoding"] == "identity"
        handler.send_response(200)
        handler.send_header("Content-Encoding", ", ".join(["gzip"] * codings))
        handler.end_headers()
        handler.wfile.write(data)
        return True

    tokens.misbehave = compressed
    with pytest.raises(UsageError, match="invalid JSON or no access_token"):
        fetch_token(credentials(tokens))


@pytest.mark.parametrize(
    "stated, good_for_s",
    [("NaN", 0), ('"nan"', 0), ("-5", 0), ("-Infinity", 0), ("Infinity", oauth.MAX_LIFETIME_S), ("1e308", 86_400)],
)
def test_a_lifetime_that_is_none(tokens: TokenServer, stated: str, good_for_s: float) -> None:
    """A token that never expired would be sent for good, also after the endpoint has taken it back."""
    tokens.misbehave = answering(200, b'{"access_token": "abc", "expires_in": %s}' % stated.encode())
    assert fetch_token(credentials(tokens)) == ("abc", good_for_s)


def test_librdkafka_gets_the_same_tokens(tokens: TokenServer) -> None:
    given = librdkafka_callback(credentials(tokens, extensions={"logicalCluster": "lkc-1"}))
    token, expires_at_s, principal, extensions = given("")
    assert token.count(".") == 2
    assert 290 < expires_at_s - time.time() <= tokens.lifetime_s
    assert (principal, extensions) == ("", {"logicalCluster": "lkc-1"})
    tokens.misbehave = answering(200, {"access_token": "abc"})
    assert given("")[1] > time.time()


def test_what_may_pass_is_tried_again(tokens: TokenServer) -> None:
    tokens.misbehave = lambda handler: len(tokens.requests) < 3 and answering(503, b"")(handler)
    assert fetch_token(credentials(tokens))[1] == tokens.lifetime_s
    assert len(tokens.requests) == 3


released = threading.Event()
"""Set when nobody waits for the endpoint any more: until then it does not end."""


def now_and_then(handler: BaseHTTPRequestHandler, data: bytes) -> bool:
    """The same bytes again and again: no single read ever takes long."""
    with suppress(OSError):
        while not released.wait(0.05):
            handler.wfile.write(data)
    return True


def drip(handler: BaseHTTPRequestHandler) -> bool:
    handler.send_response(200)
    handler.end_headers()
    return now_and_then(handler, b" ")


def slow_header(handler: BaseHTTPRequestHandler) -> bool:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    return now_and_then(handler, b"a")


def endless_hints(handler: BaseHTTPRequestHandler) -> bool:
    """Answers before the answer (103), each in time."""
    return now_and_then(handler, b"HTTP/1.1 103 Early Hints\r\n\r\n")


def stall(handler: BaseHTTPRequestHandler) -> bool:
    released.wait()
    return True


@pytest.mark.parametrize("misbehave", [drip, slow_header, endless_hints, stall])
def test_no_endpoint_keeps_us_waiting(
    tokens: TokenServer, monkeypatch: pytest.MonkeyPatch, misbehave: Callable[[BaseHTTPRequestHandler], bool]
) -> None:
    monkeypatch.setattr(oauth, "ATTEMPT_S", 0.4)
    tokens.misbehave = misbehave
    released.clear()
    # A fetch that waited for the endpoint would get an answer, and no TimeoutError, only once this lets it go.
    rescue = threading.Timer(30, released.set)
    rescue.start()
    try:
        with pytest.raises(TransientError, match=r"cannot be reached \(TimeoutError\)"):
            fetch_token(credentials(tokens), deadline_s=1.0)
        assert not released.is_set()
    finally:
        rescue.cancel()
        released.set()


def test_nobody_listens(tokens: TokenServer) -> None:
    absent = credentials(tokens, token_endpoint="http://localhost:1/token")
    with pytest.raises(TransientError, match=r"localhost: the token endpoint cannot be reached \(ConnectError\)"):
        fetch_token(absent, deadline_s=oauth.ATTEMPT_S)  # no time for a second attempt


def test_authorities_that_are_none(tokens: TokenServer) -> None:
    with pytest.raises(UsageError, match=r"/absent: not a file of authorities: No such file"):
        fetch_token(credentials(tokens, ca_file="/absent"))


@pytest.mark.parametrize(
    "endpoint, said",
    [
        ("http://idp.example/token", r"idp\.example: .* is http: the client's secret would be sent in the clear"),
        ("ftp://idp.example/token", "is not the address of an endpoint"),
        ("https:///token", "is not the address of an endpoint"),
        ("https://me:canary@idp.example/", "is not the address of an endpoint"),
    ],
)
def test_endpoints_that_are_refused(tokens: TokenServer, endpoint: str, said: str) -> None:
    with pytest.raises(SextonError, match=said) as caught:
        credentials(tokens, token_endpoint=endpoint)
    assert "canary" not in str(caught.value)


def test_secrets_are_not_shown(tokens: TokenServer) -> None:
    assert "canary" not in repr(credentials(tokens, extensions={"a": "canary-2"}))
