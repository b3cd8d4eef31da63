"""Progress of long work, in lines: every few seconds for the log of an unattended job, or as JSON for a program."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S = 5.0
AS_JSON = ContextVar("AS_JSON", default=False)
"""Whether a program reads the progress of this process: JSON lines, which docs/json.md describes."""


class ProgressLines:
    """Prints how many tasks (or `items`) are done, and when all will be; nothing for work shorter than EVERY_S.

    With AS_JSON it prints a line immediately, and another whenever a further hundredth is done.
    """

    def __init__(
        self,
        label: str,
        work_bytes: int | None = None,
        *,
        items: str = "tasks",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label, self._items, self._clock = label, items, clock
        self._of = "" if work_bytes is None else f" of {work_bytes / 1e6:,.0f} MB"
        self._begun = self._printed = clock()
        self._hundredths: int | None = None
        if AS_JSON.get():
            self._print_json(0, None)

    def at(self, ended: int, total: int) -> None:
        if AS_JSON.get():
            hundredths = ended * 100 // total if total else None
            if hundredths != self._hundredths:
                self._hundredths = hundredths
                self._print_json(ended, total)
            return
        now = self._clock()
        if now < self._printed + EVERY_S or ended >= total:
            return
        self._printed = now
        left = f", about {(now - self._begun) * (total - ended) / ended:,.0f} s left" if ended else ""
        sys.stderr.write(f"{self._label}: {ended} of {total} {self._items}, {ended / total:.0%}{self._of}{left}\n")
        sys.stderr.flush()

    def _print_json(self, done: int, total: int | None) -> None:
        sys.stderr.write(json.dumps({"type": "progress", "phase": self._label, "done": done, "total": total}) + "\n")
        sys.stderr.flush()


@contextmanager
def of_spark(session: "SparkSession", progress: ProgressLines, *, is_remote: bool) -> Iterator[None]:
    """Report the tasks of the Spark jobs that run inside. `is_remote`: over Connect."""
    if is_remote:

        def report(stages: Iterable[Any] | None, **_: object) -> None:
            if newest := max(stages or (), key=attrgetter("stage_id"), default=None):  # earlier stages pass on items
                progress.at(newest.num_completed_tasks, newest.num_tasks)

        session.registerProgressHandler(report)
        try:
            yield
        finally:
            session.removeProgressHandler(report)
        return
    tracker = session.sparkContext.statusTracker()  # not over Connect

    def ask() -> None:
        if newest := tracker.getStageInfo(max(tracker.getActiveStageIds(), default=-1)):
            progress.at(newest.numCompletedTasks, newest.numTasks)

    with every_few_seconds(ask):
        yield


@contextmanager
def every_few_seconds(report: Callable[[], None]) -> Iterator[None]:
    """Call `report` every few seconds while the body runs."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(EVERY_S):
            report()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
