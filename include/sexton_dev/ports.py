"""Free ports for servers that are started on this machine."""

import os
from contextlib import suppress
from itertools import cycle, islice

from sexton.ports import probe_port

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
