"""Identifies a process by its number and start, and finds out whether it still runs.

Process numbers are reused, so the number and the start together identify a process. The start must not be a wall-clock
time: when the clock is set, every process would seem to be a new one (psutil adds the boot time, which moves with the
clock). Sexton uses instead, on:

- Linux: the start in clock ticks since boot (field 22 of /proc/PID/stat), and the boot id;
- macOS: the start that the kernel recorded at the fork, in whole seconds (`ps -o lstart`; setting the clock does not
  change it), and the boot session's UUID.
"""

import os
import socket
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

TASK = "SEXTON_TASK"
"""The environment variable that describes, as JSON, the Airflow task that waits for this job: `where` is the task's
`host()`, `processes` are its process ids."""
PROC = Path("/proc")
_MACHINE = ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process on one machine since one boot. `started` only distinguishes processes; it is not an instant."""

    pid: int
    started: str


class _Found(NamedTuple):
    started: str
    is_zombie: bool


@cache
def host() -> str:
    """Identifies this boot of this machine, and the process namespace, since containers may share a host name."""
    parts = [socket.gethostname()]
    for path in _MACHINE:
        try:
            parts.append(str(Path(path).readlink()) if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            continue
    if len(parts) == 1:
        parts.append(_output("sysctl", "-n", "kern.bootsessionuuid"))
    return " ".join(parts)


def process_id(pid: int) -> ProcessId:
    """The process with that number; OSError if there is none or it cannot be read."""
    found = _find(pid)
    if found is None:
        raise ProcessLookupError(f"process {pid} cannot be read")
    return ProcessId(pid=pid, started=found.started)


def has_ended(process: ProcessId) -> bool:
    """Whether a process on this host has ended; a zombie counts as ended.

    False for a process that this user may not read, for example if /proc is mounted with hidepid.
    """
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # another user's process
    found = _find(process.pid)
    return found is not None and (found.is_zombie or found.started != process.started)


def _find(pid: int) -> _Found | None:
    if not (PROC / "self" / "stat").exists():
        return _find_by_ps(pid)
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the process name, in parentheses, may contain anything
    return _Found(started=fields[19], is_zombie=fields[0] in "ZX")


def _find_by_ps(pid: int) -> _Found | None:
    state, _, started = _output("ps", "-o", "stat=,lstart=", "-p", str(pid)).strip().partition(" ")
    return _Found(started=" ".join(started.split()), is_zombie="Z" in state) if started else None


def _output(*command: str) -> str:
    """Output of a program in the C locale and UTC; empty if it cannot be run."""
    try:
        plain = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
