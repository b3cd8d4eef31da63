"""Brokers that take a connection and then do something else than answer: every call ends at its deadline."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from sexton.errors import BrokerError
from sexton.kafka.client import client_config
from sexton.kafka.session import ClusterSession

DEADLINE_S = 0.8
Behaviour = Callable[[socket.socket], None]


def silent(connection: socket.socket) -> None:
    """Takes everything, says nothing."""
    while connection.recv(4096):
        pass


def deaf(connection: socket.socket) -> None:
    """Does not even read."""
    time.sleep(10)


def half(connection: socket.socket) -> None:
    """Begins an answer and leaves it at that."""
    connection.recv(4096)
    connection.sendall(b"\0\0\1\0\0\0\0\1")
    time.sleep(10)


def slow(connection: socket.socket) -> None:
    """A byte now and then, each in time."""
    connection.recv(4096)
    for byte in b"\0\0\1\0" + bytes(200):
        connection.sendall(bytes([byte]))
        time.sleep(0.1)


def huge(connection: socket.socket) -> None:
    """Claims an answer of 2 GiB."""
    connection.recv(4096)
    connection.sendall(b"\x7f\xff\xff\xff")
    time.sleep(10)


def nonsense(connection: socket.socket) -> None:
    """Speaks another protocol."""
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n" * 20)
    time.sleep(10)


def hung_up(connection: socket.socket) -> None:
    """Ends the connection after the first request."""
    connection.recv(4096)


@contextmanager
def server(behave: Behaviour) -> Iterator[int]:
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            with suppress(OSError):
                behave(connection)
                connection.close()

        def accept() -> None:
            while True:
                try:
                    held.append(listener.accept()[0])
                except OSError:
                    return
                threading.Thread(target=serve, args=(held[-1],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


@pytest.mark.parametrize("behave", [silent, deaf, half, slow, huge, nonsense, hung_up], ids=lambda b: b.__name__)
def test_a_broker_that_stalls(behave: Behaviour, full: bool) -> None:
    said = r"gives no answer in time.*is security\.protocol PLAINTEXT right" if behave is silent else None
    for _ in range(3 if full else 1):
        with server(behave) as port:
            config = client_config({}, bootstrap_servers=f"127.0.0.1:{port}")
            begun = time.monotonic()
            with pytest.raises(BrokerError, match=said):
                ClusterSession(config, connect_timeout_ms=int(DEADLINE_S * 1000), request_timeout_ms=500)
            # The tenth is promised, the rest is a busy machine's.
            assert time.monotonic() - begun < DEADLINE_S * 1.1 + 0.5
