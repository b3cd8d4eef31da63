"""Free ports for servers that are started on this machine."""

import os
from contextlib import suppress
from itertools import cycle, islice

from sexton.ports import probe_port

_PORTS = cycle(range(20_000, 32_000))
"""Below the ports that Linux (from 32768) and other systems give to outgoing connections, so that none takes these."""
next(islice(_PORTS, os.getpid() * 101 % 12_000, None))  # other processes begin elsewhere


def free_port() -> int:
    """A port that nothing listens on now; no two calls in a process return the same port."""
    for port in _PORTS:
        with suppress(OSError):
            probe_port(port)
            return port
    raise AssertionError("a cycle has no end")
