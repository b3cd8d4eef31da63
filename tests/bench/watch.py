"""Runs a command and watches the memory of all processes that it starts."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from sexton.coordinator.profiles import NEWEST

INTERVAL_S = 0.2
ROLLUP = Path("/proc/self/smaps_rollup")
"""There is such a file for each process where the system tells how much of its memory a process shares."""
REST = 20
"""Times as long as a look at shared pages took is waited for before the next: the watched share the processors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What a command printed, how long it took, on the wall and of all cores together, and its peaks of memory.

    `process_bytes` is the resident memory of its largest process, shared pages included. `tree_bytes` adds up all
    processes. Forked ones share pages, which count in the resident memory of each, so that these are summed by their
    proportional set size, in which a page that n processes map counts for 1/n in each (Pss of /proc/PID/smaps_rollup;
    resident memory where the system does not tell that). All hold the pages of mapped files that a process has touched.
    """

    output: str
    seconds: float
    core_s: float
    process_bytes: int
    tree_bytes: int


def run_watched(
    command: Sequence[str],
    *,
    keeps_output: bool = True,
    environment: Mapping[str, str] | None = None,
) -> Watched:
    """Run `command` to its end; RuntimeError with what it said when it fails.

    `environment` is by default that of this process. Ctrl-C ends everything it started.
    """
    start, before_s = time.perf_counter(), _core_seconds()
    # Its own session, so that all of it can be ended together.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if keeps_output else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    done = threading.Event()
    peaks = _Peaks()
    watcher = threading.Thread(target=_watch, args=(process.pid, done, peaks), daemon=True)
    watcher.start()
    try:
        output, said = process.communicate()
        seconds = time.perf_counter() - start
    finally:
        done.set()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        watcher.join()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with code {process.returncode}: {said or output}")
    return Watched(
        output=output or "",
        seconds=seconds,
        core_s=_core_seconds() - before_s,
        process_bytes=peaks.process_bytes,
        tree_bytes=peaks.tree_bytes,
    )


def _core_seconds() -> float:
    """Of all processes that this one has waited for, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def watch_audit(log: Path, out: Path) -> Watched:
    """`sexton audit` of the folder `log` by the rules of the broker that loads it beside, its start included."""
    sexton = str(Path(sys.executable).with_name("sexton"))
    return run_watched([sexton, "audit", "--segments", str(log), "--profile", NEWEST.text, "--out", str(out)])


@dataclass(slots=True)
class _Peaks:
    process_bytes: int = 0
    tree_bytes: int = 0


def _watch(pid: int, done: threading.Event, peaks: _Peaks) -> None:
    """Keep the peaks of one process and of the tree in `peaks`."""
    next_look = 0.0
    while not done.wait(INTERVAL_S):
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            tree = [root, *root.children(recursive=True)]
            resident = [_resident_bytes(process) for process in tree]
            peaks.process_bytes = max(peaks.process_bytes, *resident)
            start = time.monotonic()
            if start < next_look or sum(resident) <= peaks.tree_bytes:
                continue
            own = [_proportional_bytes(process.pid) for process in tree] if ROLLUP.exists() else resident
            peaks.tree_bytes = max(peaks.tree_bytes, sum(own))
            end = time.monotonic()
            next_look = end + REST * (end - start)


def _resident_bytes(process: psutil.Process) -> int:
    """0 for one that has ended."""
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return int(process.memory_info().rss)
    return 0


def _proportional_bytes(pid: int) -> int:
    """0 for one that has ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines()
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(b"Pss:"))
    return 0
