"""What was computed of published runs, kept for the few that were looked at last: values, and tables in DuckDB."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from sexton.ui.database import Database

T = TypeVar("T")
Run = tuple[str, str]
"""A run by cluster id and run id."""

RUNS_KEPT = 3
"""Who looks at a run looks at its neighbours."""
GRACE_S = 5.0
"""How long a table outlives its last use: another thread may have been given its name just now."""


class RunCache:
    """For any number of threads. One thing is computed at a time: nothing twice, and memory is that of one."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._computing = threading.RLock()  # what is computed may itself stand on something that is
        self._values: OrderedDict[Run, dict[str, Any]] = OrderedDict()
        self._tables: dict[Run, list[str]] = {}
        self._dropped: list[tuple[float, str]] = []

    def value(self, run: Run, label: str, make: Callable[[], T]) -> T:
        """What `make` computes of a run, computed once."""
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
        """The name of a table in memory with what the query `sql` makes of a run."""

        def make() -> str:
            made = self._database.create_table(sql())
            with self._lock:
                self._tables.setdefault(run, []).append(made)
            return made

        return self.value(run, label, make)

    def drop_old(self) -> None:
        """Drop tables that nobody is given any more, once whoever was has surely read them."""
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
            if (kept := self._values.get(run)) is None or label not in kept:
                return None
            self._values.move_to_end(run)
            return kept[label]
