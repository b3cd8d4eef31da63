"""Which process this is, and whether another one has ended, as far as that can be told from here."""

import os
import socket
from functools import cache
from pathlib import Path
from uuid import uuid4

import psutil

from sexton.stages.apply.entries import Owner

_SAME_MS = 2_000  # a process's start is told in clock ticks since boot: two readings differ a little


@cache
def _host() -> str:
    """This machine, and in it the set of processes that see each other: containers may share the name of a host."""
    told = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            told.append(str(Path(path).readlink()) if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            continue
    return " ".join(told)


def this_process() -> Owner:
    """An owner that no other process, and no other call, is equal to."""
    started_ms = int(psutil.Process().create_time() * 1000)
    return Owner(host=_host(), pid=os.getpid(), started_at_ms=started_ms, token=uuid4().hex)


def is_dead(owner: Owner) -> bool:
    """Whether the process has ended; False where it ran on another host, from where nobody can tell."""
    if owner.host != _host():
        return False
    try:
        process = psutil.Process(owner.pid)
        is_other: bool = abs(process.create_time() * 1000 - owner.started_at_ms) > _SAME_MS
        is_over: bool = process.status() == psutil.STATUS_ZOMBIE
        return is_other or is_over
    except psutil.NoSuchProcess:
        return True
