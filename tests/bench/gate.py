"""A gate between a broker and its controller: closed, no byte passes until it is opened again."""

import socket
import threading
from contextlib import suppress
from typing import Self

HOST = "127.0.0.1"


class Gate:
    """Passes TCP connections to `port` on to `target_port` of this machine while it is open; a context manager."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server = socket.create_server((HOST, 0))
        self._is_open = threading.Event()
        self._is_open.set()
        self._sockets: list[socket.socket] = [self._server]
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._is_open.clear()

    def open(self) -> None:
        self._is_open.set()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                self._sockets.append(near)
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection((HOST, self._target_port))
        except OSError:
            near.close()
            return
        self._sockets.append(far)
        threading.Thread(target=self._pump, args=(far, near), daemon=True).start()
        self._pump(near, far)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._is_open.wait()
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        for end in self._sockets:
            end.close()
