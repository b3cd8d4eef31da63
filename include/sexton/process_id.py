"""Which process one is, by what no clock moves, and whether another one still runs.

A number of a process is given again, so a process is its number and when it started. As an instant that is no good: a
clock that is set makes every process of the machine look like another one (psutil adds the boot time, which the kernel
moves along with its clock). What stays:

- Linux: the start in clock ticks since boot (field 22 of /proc/PID/stat), and the boot's own id;
- macOS: the start as the kernel noted it at the fork, in whole seconds (`ps -o lstart`; setting the clock does not
  rewrite it), and the boot session's UUID.
"""

import os
import socket
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROC = Path("/proc")
_MACHINE = ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process of one boot of one machine. `started` has no meaning but that another process has another one."""

    pid: int
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    started: str
    is_zombie: bool


@cache
def host() -> str:
    """This machine since it was booted, and in it the processes that see each other: containers may share a name."""
    told = [socket.gethostname()]
    for path in _MACHINE:
        try:
            told.append(str(Path(path).readlink()) if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            continue
    if len(told) == 1:
        told.append(_output("sysctl", "-n", "kern.bootsessionuuid"))
    return " ".join(told)


def process_id(pid: int) -> ProcessId:
    """The process that has a number now; OSError when there is none, or it cannot be looked at."""
    found = _look(pid)
    if found is None:
        raise ProcessLookupError(f"process {pid} cannot be looked at")
    return ProcessId(pid=pid, started=found.started)


def has_ended(process: ProcessId) -> bool:
    """Whether a process of this host has ended, also where nobody has waited for it yet.

    False for one that may not be looked at, as under hidepid: then nobody can tell.
    """
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it is another user's
    found = _look(process.pid)
    return found is not None and (found.is_zombie or found.started != process.started)


def _look(pid: int) -> _Found | None:
    if not (PROC / "self" / "stat").exists():
        return _look_by_ps(pid)
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before may hold anything
    return _Found(started=fields[19], is_zombie=fields[0] in "ZX")


def _look_by_ps(pid: int) -> _Found | None:
    state, _, started = _output("ps", "-o", "stat=,lstart=", "-p", str(pid)).strip().partition(" ")
    return _Found(started=" ".join(started.split()), is_zombie="Z" in state) if started else None


def _output(*command: str) -> str:
    """What a program says, in no language and no zone; nothing where there is none."""
    try:
        plain = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
