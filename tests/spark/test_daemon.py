"""The daemon of Python workers: it forks them with the kernels imported, and ends without any."""

import subprocess
import sys

import pytest

CODE = """
import os, sys, threading
import numpy, pyarrow
of_libraries = len(os.listdir("/proc/self/task"))
from sexton.spark import daemon
assert "sexton.kernels.fold" in sys.modules
assert threading.active_count() == 1 and len(os.listdir("/proc/self/task")) == of_libraries, "a fork loses threads"
daemon.IDLE_S = 0.1
worker = {has_worker} and os.fork()
if {has_worker} and not worker:
    import time
    time.sleep(600)  # until the daemon's end, which Spark asks for by closing its input
daemon.main()
"""


@pytest.mark.parametrize("has_worker", [False, True])
def test_it_ends_without_workers_only(has_worker: bool) -> None:
    daemon = subprocess.Popen(
        [sys.executable, "-c", CODE.format(has_worker=has_worker)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert daemon.stdin
    assert daemon.stdout
    assert 0 < int.from_bytes(daemon.stdout.read(4), "big") < 65_536, "its port"
    if has_worker:
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.wait(2)
        daemon.stdin.close()
    daemon.wait(60)
