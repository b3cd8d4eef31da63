"""Waiting for what comes at some time: it is asked for again and again; AssertionError where it does not come."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def until(
    work: Callable[[], T],
    told: str | Callable[[], str] = "it did not come to be",
    *,
    within_s: float = 60.0,
    every_s: float = 0.05,
    passing: tuple[type[Exception], ...] = (),
) -> T:
    """The first result that is true; errors of the types in `passing` may come before it."""
    deadline = time.monotonic() + within_s
    while True:
        with suppress(*passing):
            if found := work():
                return found
        assert time.monotonic() < deadline, told if isinstance(told, str) else told()[-8_000:]
        time.sleep(every_s)
