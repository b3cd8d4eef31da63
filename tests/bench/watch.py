"""Runs a command and watches the memory of all processes that it starts."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

INTERVAL_S = 0.2
TASK_MARK = "multiprocessing.forkserver"
"""In the command line of the processes that an audit's tasks run in, all forked from one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What a command printed, how long it took, and its peaks of resident memory.

    `tree_bytes` adds up all processes (pages that they share count in each), `task_bytes` is the largest single process
    that ran tasks of an audit, 0 without any. Both hold the pages of mapped files that the process has touched.
    """

    output: str
    seconds: float
    tree_bytes: int
    task_bytes: int


def run_watched(command: Sequence[str], *, keeps_output: bool = True, codes: Sequence[int] = (0,)) -> Watched:
    """Run `command` to its end; RuntimeError with what it said when it ends with another code than one of `codes`.

    Ctrl-C ends everything it started.
    """
    start = time.perf_counter()
    # Its own session, so that all of it can be ended together.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if keeps_output else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    done = threading.Event()
    peaks = [0, 0]
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
    if process.returncode not in codes:
        raise RuntimeError(f"{command[0]} ended with code {process.returncode}: {said or output}")
    return Watched(output=output or "", seconds=seconds, tree_bytes=peaks[0], task_bytes=peaks[1])


def _watch(pid: int, done: threading.Event, peaks: list[int]) -> None:
    """Keep the peaks of the tree and of one task in `peaks`."""
    while not done.wait(INTERVAL_S):
        total = 0
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            for process in (root, *root.children(recursive=True)):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    size = process.memory_info().rss
                    total += size
                    if any(TASK_MARK in word for word in process.cmdline()):
                        peaks[1] = max(peaks[1], size)
        peaks[0] = max(peaks[0], total)
