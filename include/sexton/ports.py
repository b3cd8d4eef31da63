"""Ports of this machine's loopback address."""

import socket

HOST = "127.0.0.1"


def probe_port(port: int) -> None:
    """Raise OSError if a program on this machine listens on the port.

    This binds the port without listening on it: a child process that another thread forks meanwhile has this socket
    until it calls exec, and a listening socket would make the port seem to be in use.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
