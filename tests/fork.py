"""Processes that begin as a copy of the test's own."""

import gc
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

from sexton import failpoints
from sexton.settings import Settings


def fork() -> int:
    """As os.fork, for a process of which other tests may have left anything.

    The child keeps what it inherits: to collect a Kafka client would be to wait for threads that only the parent has.
    """
    child = os.fork()
    if child == 0:
        gc.freeze()
    return child


def ended(work: Callable[[], Any], *, failpoint: str = "") -> int:
    """Do `work` in a copy of this process, with the setting `failpoint`: its exit code, or minus the signal it died of.

    The copy has all modules and compiled kernels: what a new process would take seconds to load.
    """
    child = fork()
    if child == 0:
        try:
            failpoints.settings = lambda: Settings(failpoint=failpoint)  # type: ignore[assignment]
            failpoints._passed.clear()
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def killed(work: Callable[[], Any], failpoint: str) -> bool:
    """Run `work` in a process of its own that is killed at a point; whether it came by."""
    code = ended(work, failpoint=failpoint)
    assert code in (0, -signal.SIGKILL)
    return code != 0
