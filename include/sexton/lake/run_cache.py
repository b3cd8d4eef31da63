"""A cache of what was computed from published runs, for the last few runs: values, and tables in DuckDB."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from sexton.lake.database import Database

T = TypeVar("T")
Run = tuple[str, str]
"""A run by cluster id and run id."""

RUNS_KEPT = 3
"""Number of runs in the cache: a reader of one run also opens the runs before and after it."""
GRACE_S = 5.0
"""How long a table is kept after its run has left the cache: another thread may still read it."""


class RunCache:
    """Safe for any number of threads. One value is computed at a time, to bound memory and to compute nothing twice."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._computing = threading.RLock()  # reentrant: a computation may need another one
        self._values: OrderedDict[Run, dict[str, Any]] = OrderedDict()
        self._tables: dict[Run, list[str]] = {}
        self._dropped: list[tuple[float, str]] = []

    def value(self, run: Run, label: str, make: Callable[[], T]) -> T:
        """The result of `make` for a run, computed once."""
        found: T
        if (found := self._found(run, label)) is not None:
            return found
        with self._computing:
            if (found := self._found(run, label)) is not None:
                return found
            self.drop_old()
            made = make()
            with self._lock:
                self._values.setdefault(run, {})[label] = made
                self._values.move_to_end(run)
                old = [self._values.popitem(last=False)[0] for _ in range(len(self._values) - RUNS_KEPT)]
                now = self._clock()
                self._dropped += [(now, table) for each in old for table in self._tables.pop(each, [])]
            return made

    def table(self, run: Run, label: str, sql: Callable[[], str]) -> str:
        """The name of a table in memory with the result of the query `sql` for a run."""

        def make() -> str:
            made = self._database.create_table(sql())
            with self._lock:
                self._tables.setdefault(run, []).append(made)
            return made

        return self.value(run, label, make)

    def drop_old(self) -> None:
        """Drop the tables that left the cache more than GRACE_S ago."""
        with self._lock:
            before = self._clock() - GRACE_S
            due = [table for at_s, table in self._dropped if at_s <= before]
            self._dropped = [each for each in self._dropped if each[0] > before]
        for table in due:
            self._database.drop_table(table)

    def __len__(self) -> int:
        return len(self._values)

    def _found(self, run: Run, label: str) -> Any:
        with self._lock:
            if (values := self._values.get(run)) is None or label not in values:
                return None
            self._values.move_to_end(run)
            return values[label]
