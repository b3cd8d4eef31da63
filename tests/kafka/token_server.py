"""A token endpoint on this machine: client credentials in, signed JWTs out, and ways in which that can go wrong."""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

KEY_ID = "test-key"
ISSUER, AUDIENCE = "https://issuer.test", "kafka"

Misbehave = Callable[[BaseHTTPRequestHandler], bool]


@dataclass
class TokenServer:
    """`clients` are secrets by client id; what was asked is in `requests`. `misbehave`, when it answers a request
    itself, returns True."""

    clients: dict[str, str]
    lifetime_s: int = 300
    requests: list[dict[str, str]] = field(default_factory=list)
    misbehave: Misbehave = lambda handler: False
    port: int = 0
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    @property
    def jwks(self) -> str:
        """The public key, as a broker reads it from `sasl.oauthbearer.jwks.endpoint.url`."""
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return json.dumps({"keys": [public | {"kid": KEY_ID, "use": "sig", "alg": "RS256"}]})

    def token_for(self, client_id: str, **claims: Any) -> str:
        now = int(time.time())
        told = {"sub": client_id, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + self.lifetime_s}
        return jwt.encode(told | claims, self.key, algorithm="RS256", headers={"kid": KEY_ID})

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        size = int(handler.headers.get("Content-Length", 0))
        form = {name: values[0] for name, values in parse_qs(handler.rfile.read(size).decode()).items()}
        scheme, _, encoded = handler.headers.get("Authorization", "").partition(" ")
        client_id, _, secret = base64.b64decode(encoded).decode().partition(":")
        self.requests.append(form | {"client_id": client_id})
        if self.misbehave(handler):
            return
        if scheme != "Basic" or client_id not in self.clients or self.clients[client_id] != secret:
            reply(handler, 401, {"error": "invalid_client", "error_description": f"wrong secret {secret}"})
        elif form.get("grant_type") != "client_credentials":
            reply(handler, 400, {"error": "unsupported_grant_type"})
        else:
            told = {"token_type": "Bearer", "expires_in": self.lifetime_s}
            reply(handler, 200, {"access_token": self.token_for(client_id), **told})


def reply(handler: BaseHTTPRequestHandler, status: int, body: Any) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


@contextmanager
def serving(**options: Any) -> Iterator[TokenServer]:
    """A token server that runs as long as the block."""
    tokens = TokenServer(**options)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            tokens.answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    tokens.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield tokens
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
