"""Processes that begin as a copy of the test's own."""

import gc
import os


def fork() -> int:
    """As os.fork, for a process of which other tests may have left anything.

    The child keeps what it inherits: to collect a Kafka client would be to wait for threads that only the parent has.
    """
    child = os.fork()
    if child == 0:
        gc.freeze()
    return child
