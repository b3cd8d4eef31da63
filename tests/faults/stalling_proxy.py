"""A way to a real broker on which chosen requests get stuck, each in a manner of its own."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

HOUR_MS = 3_600_000
FLEXIBLE_SINCE = {1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 15: 5, 16: 3, 32: 4, 42: 2}
"""API -> first version whose answer has tagged fields before its body, where a throttle time stands."""


@dataclass
class StallingProxy:
    """Passes everything on, but for requests of `api` while `how` says what becomes of them.

    silent: the request is swallowed. half_open: nothing is read from then on. slow: the answer comes a byte at a time.
    part: half of the answer comes. throttled: the answer says that an hour has to be waited.
    """

    target_port: int
    port: int
    api: int | None = None
    how: str = ""
    hits: int = 0
    _open: list[socket.socket] = field(default_factory=list)

    def stall(self, api: int | None, how: str = "") -> None:
        self.api, self.how, self.hits = api, how, 0

    def serve(self, client: socket.socket) -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.target_port)) as broker:
            self._open.append(broker)
            asked: dict[int, tuple[int, int]] = {}
            threading.Thread(target=self._answers, args=(broker, client, asked), daemon=True).start()
            while frame := _frame(client):
                api, version, correlation = struct.unpack_from(">hhi", frame)
                asked[correlation] = api, version
                if api == self.api:
                    self.hits += 1
                    if self.how == "silent":
                        continue
                    if self.how == "half_open":
                        time.sleep(60)
                        return
                broker.sendall(struct.pack(">i", len(frame)) + frame)

    def _answers(self, broker: socket.socket, client: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        with suppress(OSError):
            while frame := _frame(broker):
                api, version = asked.pop(struct.unpack_from(">i", frame)[0])
                data = struct.pack(">i", len(frame)) + frame
                if api != self.api:
                    client.sendall(data)
                elif self.how == "throttled":
                    at = 8 + (version >= FLEXIBLE_SINCE[api])
                    client.sendall(data[:at] + struct.pack(">i", HOUR_MS) + data[at + 4 :])
                elif self.how == "part":
                    client.sendall(data[: len(data) // 2])
                elif self.how == "slow":
                    for byte in data:
                        client.sendall(bytes([byte]))
                        time.sleep(0.2)
            client.close()


@contextmanager
def stalling_proxy(target_port: int, port: int) -> Iterator[StallingProxy]:
    proxy = StallingProxy(target_port, port)
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", port)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    held.append(listener.accept()[0])
                    threading.Thread(target=proxy.serve, args=(held[-1],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield proxy
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
    for connection in (*held, *proxy._open):
        connection.close()


def _frame(connection: socket.socket) -> bytes:
    """A request or an answer without its size; nothing at the end."""
    head = _exactly(connection, 4)
    return _exactly(connection, struct.unpack(">i", head)[0]) if head else b""


def _exactly(connection: socket.socket, size_bytes: int) -> bytes:
    data = b""
    while len(data) < size_bytes:
        piece = connection.recv(size_bytes - len(data))
        if not piece:
            return b""
        data += piece
    return data
