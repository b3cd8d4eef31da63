"""Runs Great Expectations in a process of its own, because its import takes seconds: meanwhile the run goes on."""

import atexit
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sexton.runs.processes import stay_with_parent

if TYPE_CHECKING:
    from sexton.quality import Measures, Result


class Checker:
    """Begins to load the library when it is made, so make it early. A context manager."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, context, initializer=stay_with_parent)
        self._pool.submit(_load)

    def validate(self, measures: "Measures", *, docs: Path | None) -> "list[Result]":
        """As `quality.validate`."""
        return self._pool.submit(_validate, measures, docs).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


def _load() -> None:
    from sexton.quality import load_library

    load_library()
    atexit.register(os._exit, 0)  # taking the library down takes a second, and there is nothing to save


def _validate(measures: "Measures", docs: Path | None) -> "list[Result]":
    from sexton.quality import validate

    return validate(measures, docs=docs)
