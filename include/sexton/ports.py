"""Ports of this machine's loopback address."""

import socket

HOST = "127.0.0.1"


def probe_port(port: int) -> None:
    """OSError if a program of this machine listens on a port.

    Bound, and not listened on: a process that another thread starts meanwhile has a copy of this socket until it
    executes its program, and a port with a listening copy would seem to be in use.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
