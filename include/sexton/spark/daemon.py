"""Spark's daemon of Python workers (`spark.python.daemon.module`), which imports once what each of them would import.

A Spark Connect server starts one for every session and leaves it running for ever, 50 MB each: this one ends when it
has had no worker for a while (Spark ends those after a minute without work) and is started again if it is needed.
Measured over Connect with two workers a session: 2.0 s of processor time instead of 3.5 until they work, and as long
by the clock, since the workers import at the same time.

Nothing but modules is loaded before the fork, which would lose threads of Arrow and numba.
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
    signal.setitimer(signal.ITIMER_REAL, IDLE_S, IDLE_S)  # of this process alone: a fork has no timer
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
