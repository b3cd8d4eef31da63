"""Ports of this machine's loopback address, for servers that are started here."""

import os
import socket
from contextlib import suppress
from itertools import cycle, islice

HOST = "127.0.0.1"
_PORTS = cycle(range(20_000, 32_000))
"""Below those that Linux (from 32768) and others take for outgoing connections, so that none of them gets one first."""
next(islice(_PORTS, os.getpid() * 101 % 12_000, None))  # other processes begin elsewhere


def free_port() -> int:
    """A port that nothing listens on just now; no two calls of a process return the same one."""
    for port in _PORTS:
        with suppress(OSError):
            probe_port(port)
            return port
    raise AssertionError("a cycle has no end")


def probe_port(port: int) -> None:
    """OSError if a program of this machine listens on a port.

    Bound, and not listened on: a process that another thread starts meanwhile has a copy of this socket until it
    executes its program, and a port with a listening copy would seem to be in use.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
