"""How a long command that changes something ends early: when its step is done, and not in the middle of it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def asked_to_end() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM came; the process goes on all the same."""
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: came.append(number))
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGTERM, before)
