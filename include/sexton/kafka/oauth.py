"""Tokens for SASL/OAUTHBEARER: the client credentials grant (KIP-768), as Java's clients and librdkafka do it.

Both clients get their tokens from here. The request has HTTP basic authentication and a form with `grant_type` and
`scope`. librdkafka could fetch tokens itself, but it reads answers of any size into memory and logs their content.

The endpoint is not trusted: requests have a deadline, redirects are never followed, long or compressed answers are not
read, and no error shows the client's secret, a token or any text from the endpoint.
"""

import asyncio
import json
import math
import re
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx
from kafka.net.sasl.oauth import AbstractTokenProvider
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from sexton.errors import SextonError, UsageError
from sexton.kafka.failures import TransientError

DEADLINE_S = 10.0
"""Deadline for all attempts together: the longest time that a connection waits for a token."""
ATTEMPT_S = 5.0
ANSWER_BYTES = 1024 * 1024
LIFETIME_USED = 0.8
"""The fraction of a token's lifetime after which the next token is fetched, as in Java's clients."""
MAX_LIFETIME_S = 86_400.0
UNSTATED_LIFETIME_S = 60.0
"""Assumed lifetime without `expires_in`, because librdkafka needs an expiry."""
TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
HERE = frozenset({"127.0.0.1", "::1", "localhost"})
_TOKEN = re.compile(r"[-._~+/A-Za-z0-9]+=*")  # RFC 6750
_ERROR_CODES = (
    *("invalid_request", "invalid_client", "invalid_grant"),
    *("unauthorized_client", "unsupported_grant_type", "invalid_scope"),
)
"""Error codes of RFC 6749. Any other code may be free text, or the secret itself."""

LibrdkafkaToken: TypeAlias = tuple[str, float, str, dict[str, str]]
"""Token, expiry in epoch seconds, (empty) principal, extensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """The token endpoint and the client's credentials. `ca_file` has the endpoint's CAs (None: the usual CAs);
    `extensions` are sent along with the token (KIP-342)."""

    token_endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: str | None = None

    def __post_init__(self) -> None:
        url = urlsplit(self.token_endpoint)
        if url.scheme not in ("https", "http") or not url.hostname or "@" in url.netloc:
            raise UsageError(
                "sasl.oauthbearer.token.endpoint.url is not the address of an endpoint", fix="give https://host/path"
            )
        if url.scheme == "http" and url.hostname not in HERE:
            raise UsageError(
                "sasl.oauthbearer.token.endpoint.url is http: the client's secret would be sent in the clear",
                where=url.hostname,
                fix="give an https address",
            )


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens of one client for kafka-python; not thread-safe."""

    def __init__(self, credentials: ClientCredentials, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._credentials = credentials
        self._clock = clock
        self._token = ""
        self._fresh_until = clock()

    def token(self) -> str:
        """A token that has not expired. Raises UsageError when the endpoint refuses these credentials or returns no
        valid token, TransientError when it cannot be reached in time."""
        if not self._token or self._clock() >= self._fresh_until:
            asked_at = self._clock()
            self._token, lifetime_s = fetch_token(self._credentials, clock=self._clock)
            self._fresh_until = asked_at + lifetime_s * LIFETIME_USED
        return self._token

    def extensions(self) -> dict[str, str]:
        return dict(self._credentials.extensions)


def librdkafka_callback(credentials: ClientCredentials) -> Callable[[str | None], LibrdkafkaToken]:
    """The `oauth_cb` of confluent-kafka's clients, which call it in their own thread whenever a token is due."""

    def fetch(_config: str | None) -> LibrdkafkaToken:
        token, lifetime_s = fetch_token(credentials)
        return token, time.time() + (lifetime_s or UNSTATED_LIFETIME_S), "", dict(credentials.extensions)

    return fetch


def fetch_token(
    credentials: ClientCredentials, *, clock: Callable[[], float] = time.monotonic, deadline_s: float = DEADLINE_S
) -> tuple[str, float]:
    """A new token and its lifetime in seconds, 0 when unknown. Raises like `TokenProvider.token`."""
    deadline = clock() + deadline_s
    attempts = Retrying(
        retry=retry_if_exception_type(TransientError),
        wait=wait_random_exponential(multiplier=0.1, max=2),
        stop=stop_after_delay(max(0.0, deadline_s - ATTEMPT_S)),
        reraise=True,
    )
    answer: tuple[str, float] = attempts(partial(_fetch, credentials, clock=clock, deadline=deadline))
    return answer


def _fetch(credentials: ClientCredentials, *, clock: Callable[[], float], deadline: float) -> tuple[str, float]:
    place = urlsplit(credentials.token_endpoint).hostname
    try:
        with ThreadPoolExecutor(1) as own:  # this thread may have a running event loop already, as in a notebook
            asked = own.submit(asyncio.run, _post(credentials, within_s=min(deadline - clock(), ATTEMPT_S)))
            status, body = asked.result()
    except (httpx.HTTPError, OSError) as error:
        # The error's text may quote what was sent; its class is enough.
        what = f"the token endpoint cannot be reached ({type(error).__name__})"
        raise TransientError(what, where=place, fix="see sasl.oauthbearer.token.endpoint.url") from None
    if status != httpx.codes.OK:
        raise _refusal(status, body, where=place)
    try:
        said = json.loads(body)
        token, lifetime_s = said["access_token"], float(said.get("expires_in") or 0)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise UsageError("the token endpoint returned invalid JSON or no access_token", where=place) from None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise UsageError("the token endpoint gives a token that cannot be sent", where=place)
    return token, 0.0 if math.isnan(lifetime_s) else min(max(lifetime_s, 0.0), MAX_LIFETIME_S)


async def _post(credentials: ClientCredentials, *, within_s: float) -> tuple[int, bytes]:
    """Status and body of the answer to one request. httpx only has timeouts between bytes, also for headers; `within_s`
    limits the whole request."""
    form = {"grant_type": "client_credentials"} | ({"scope": credentials.scope} if credentials.scope else {})
    auth = httpx.BasicAuth(credentials.client_id, credentials.client_secret)
    async with (
        asyncio.timeout(max(0.1, within_s)),
        httpx.AsyncClient(verify=_authorities(credentials), timeout=None, auth=auth, follow_redirects=False) as client,
        client.stream(
            "POST", credentials.token_endpoint, data=form, headers={"Accept-Encoding": "identity"}
        ) as response,
    ):
        body = b""
        async for chunk in response.aiter_raw():  # never decompressed: a few bytes may inflate to gigabytes
            body += chunk
            if len(body) > ANSWER_BYTES:
                raise UsageError("the token endpoint answers with more than a token", where=response.url.host)
        return response.status_code, body


def _authorities(credentials: ClientCredentials) -> ssl.SSLContext | bool:
    if credentials.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=credentials.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"not a file of authorities: {error.strerror or 'no PEM'}", where=credentials.ca_file
        ) from None


def _refusal(status: int, body: bytes, *, where: object) -> SextonError:
    """The error for a refusal; it has the code of RFC 6749 (invalid_client, invalid_scope, ...) if any, never the
    answer's text."""
    try:
        said: Any = json.loads(body)
        code = said["error"]
    except (ValueError, TypeError, KeyError, RecursionError):
        code = None
    named = f" ({code})" if code in _ERROR_CODES else ""
    if status in TRY_AGAIN:
        return TransientError(f"the token endpoint answers {status}{named}", where=where)
    return UsageError(
        f"the token endpoint refuses with {status}{named}", where=where, fix="check client id, secret and scope"
    )
