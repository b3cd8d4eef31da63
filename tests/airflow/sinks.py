"""Stand-ins for whom alerts go to: an SMTP server and an HTTP server that keep what they are sent."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from aiosmtpd.controller import Controller
from airflow.sdk import BaseNotifier

from sexton_dev.ports import free_port

KEPT: list[str] = []


class Pager(BaseNotifier):
    """A notifier of somebody's own."""

    template_fields = ("text",)

    def __init__(self, text: str = "{{ alert.severity }} {{ alert.text }} {{ alert.url }}") -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        KEPT.append(self.text)


PAGER = Pager()


class Mails:
    """aiosmtpd's handler."""

    def __init__(self) -> None:
        self.kept: list[tuple[list[str], EmailMessage]] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        mail = message_from_bytes(envelope.content, policy=policy.default)
        self.kept.append((list(envelope.rcpt_tos), mail))
        return "250 kept"


@contextmanager
def smtp_server() -> Iterator[tuple[int, Mails]]:
    """Its port and its mails."""
    mails = Mails()
    controller = Controller(mails, hostname="127.0.0.1", port=free_port())
    controller.start()
    try:
        yield controller.port, mails
    finally:
        controller.stop()


@contextmanager
def http_server() -> Iterator[tuple[int, list[tuple[str, dict[str, Any]]]]]:
    """Its port, and path and JSON of every request."""
    kept: list[tuple[str, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.append((self.path, json.loads(body)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port, kept
    finally:
        server.shutdown()
        server.server_close()
