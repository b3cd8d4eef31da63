"""Spark's daemon of Python workers (`spark.python.daemon.module`), which imports shared modules once for all workers.

A Spark Connect server starts one daemon for every session and never stops it, at 50 MB each. This daemon ends when it
has had no worker for a while (Spark ends idle workers after a minute), and Spark starts it again when needed. Measured
over Connect with two workers a session: 2.0 s of processor time instead of 3.5 until they work, and the same elapsed
time, since the workers import in parallel.

Only modules are loaded before the fork, which would lose threads of Arrow and numba.
"""

import os
import signal
import sys

import sexton.pipeline.replay_groups  # noqa: F401  # what a task of a run imports

IDLE_S = 60.0


def end_if_idle(*_: object) -> None:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.exit()


def main() -> None:
    from pyspark.daemon import manager

    signal.signal(signal.SIGALRM, end_if_idle)
    signal.setitimer(signal.ITIMER_REAL, IDLE_S, IDLE_S)  # only this process: a fork inherits no timer
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
