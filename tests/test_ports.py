"""Ports of this machine that an embedded broker or Airflow may take."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sexton.ports import probe_port
from sexton_dev.ports import free_port

PORTS = 3000
"""Of so many, about thirty seemed to be in use while they were probed by a socket that listens."""


def test_processes_that_start_meanwhile_take_no_port() -> None:
    with _starting_processes():
        for _ in range(PORTS):
            probe_port(free_port())


@contextmanager
def _starting_processes() -> Iterator[None]:
    ended = threading.Event()

    def start_them() -> None:
        while not ended.is_set():
            subprocess.run([sys.executable, "--version"], capture_output=True, check=True)

    starting = threading.Thread(target=start_them)
    starting.start()
    try:
        yield
    finally:
        ended.set()
        starting.join()
