"""Published tables as SQL for DuckDB: the rows of a run, at the snapshot that `runs` names.

pyiceberg finds the files of a run; DuckDB reads the columns and row groups that a page needs. For one group among two
million offsets, pyiceberg and pyarrow take a second because they decode every row group; DuckDB takes some 30 ms.

Published data never changes, so the rows of `runs`, the files of a run and computed values are cached, all bounded.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from sexton.coordinator.loading import HOLDS_NOTHING
from sexton.errors import NoCoverage, SextonError
from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake
from sexton.lake.database import Database, Rows, UnreadableFiles, declared, no_rows, text
from sexton.lake.read import PublishedRun, load, partition_of, runs_of, snapshot_of
from sexton.lake.run_cache import RunCache
from sexton.tables import IN_MEMORY

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table as IcebergTable

T = TypeVar("T")

FRESH_S = 2.0
"""How long the list of runs is reused without asking the catalog."""
_SOURCES_KEPT = 256


class PublishedTables:
    """Published runs of one lake, for any number of threads. The first read calls `open_lake`."""

    def __init__(
        self,
        open_lake: Callable[[], Lake],
        *,
        database: Database | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_lake = open_lake
        self.database = database or Database()
        self._clock = clock
        self._lock = threading.Lock()
        self._lake: Lake | None = None
        self._runs: tuple[str, tuple[PublishedRun, ...]] = ("", ())
        self._checked_ms = float("-inf")
        self._rows_of_runs: dict[str, Rows] = {}
        self._sources: OrderedDict[tuple[str, ...], tuple[str, int]] = OrderedDict()
        self._cache = RunCache(self.database, clock)

    @property
    def lake(self) -> Lake:
        with self._lock:
            if self._lake is None:
                self._lake = self._open_lake()
            return self._lake

    def rows(self, sql: str, *parameters: Any) -> Rows:
        """The rows of a query, as dicts; UnreadableFiles if files are gone or memory is short: a retry may succeed."""
        try:
            return self.database.rows(sql, *parameters)
        except UnreadableFiles:
            with self._lock:
                self._sources.clear()  # files may have been rewritten elsewhere
            raise

    def runs(self) -> tuple[PublishedRun, ...]:
        """Every published run of every cluster, oldest as_of first."""
        location, runs = self._runs
        if self._clock() - self._checked_ms < FRESH_S:
            return runs
        table = self._load("runs")
        if table is None:
            return ()
        if location != table.metadata_location:
            runs = self._read_runs(table)
            self._runs = (table.metadata_location, runs)
        self._checked_ms = self._clock()
        return runs

    def of_run(self, run: PublishedRun, table: str) -> str:
        """SQL for a run's rows of a table, with the declared columns.

        Raises RunGone when another run has replaced `run` and the snapshot of `run` has expired.
        """

        def plan() -> tuple[str, int]:
            found = self._load(table)
            snapshot_id = None if found is None else snapshot_of(found, run, table)
            return self._scan(found, table, partition_of(run.key), f"run_id = {text(run.key.run_id)}", snapshot_id)

        return self._source(("one", table, *_whole(run.key)), plan)[0]

    def held(self, run: PublishedRun, table: str) -> str:
        """SQL for a run's rows of a table; without the log partitions of `failed_loads` if the table is IN_MEMORY."""
        rows, failed = self.of_run(run, table), self.failed_loads(run) if table in IN_MEMORY else ()
        listed = ", ".join(map(str, failed))
        return f"(SELECT * FROM {rows} WHERE log_partition NOT IN ({listed}))" if failed else rows

    def failed_loads(self, run: PublishedRun) -> tuple[int, ...]:
        """A run's log partitions for which a coordinator has nothing in memory (HOLDS_NOTHING), cached."""

        def find() -> tuple[int, ...]:
            outcomes = ", ".join(map(text, sorted(HOLDS_NOTHING)))
            loads = self.of_run(run, "load_profile")
            rows = self.rows(f"SELECT log_partition FROM {loads} WHERE load_outcome IN ({outcomes}) ORDER BY 1")
            return tuple(row["log_partition"] for row in rows)

        return self.computed(run, "failed loads", find)

    def of_runs(self, runs: Sequence[PublishedRun], table: str) -> str:
        """SQL for the rows of several runs of one cluster in the current table; runs whose rows are gone have none."""
        from pyiceberg.expressions import And, EqualTo, In

        which = And(EqualTo("cluster_id", runs[0].key.cluster_id), In("as_of_ms", {run.key.as_of_ms for run in runs}))
        where = f"run_id IN ({', '.join(text(run.key.run_id) for run in runs)})"
        key = ("several", table, *chain(*sorted(_whole(run.key) for run in runs)))
        return self._source(key, lambda: self._scan(self._load(table), table, which, where))[0]

    def current(self, table: str) -> str:
        """SQL for all rows of an append-only table as it is now, of every cluster."""
        from pyiceberg.expressions import AlwaysTrue

        return self._now(table, AlwaysTrue(), "true")[0]

    def between(self, table: str, cluster_id: str, since_ms: int, until_ms: int) -> tuple[str, int]:
        """SQL for a cluster's rows of an append-only table between two instants (inclusive), and the number of files.

        Rows of runs that have expired are included.
        """
        from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThanOrEqual

        span = And(GreaterThanOrEqual("as_of_ms", since_ms), LessThanOrEqual("as_of_ms", until_ms))
        where = f"cluster_id = {text(cluster_id)} AND as_of_ms BETWEEN {since_ms:d} AND {until_ms:d}"
        return self._now(table, And(EqualTo("cluster_id", cluster_id), span), where)

    def at_instants(self, table: str, cluster_id: str, instants: Sequence[int]) -> str:
        """SQL for a cluster's rows of an append-only table at the given instants."""
        from pyiceberg.expressions import And, EqualTo, In

        listed = ", ".join(str(int(at)) for at in sorted(instants))
        where = f"cluster_id = {text(cluster_id)} AND as_of_ms IN ({listed})"
        return self._now(table, And(EqualTo("cluster_id", cluster_id), In("as_of_ms", set(instants))), where)[0]

    def written_at_ms(self, run: PublishedRun) -> int | None:
        """When the last table of a run (dq_results) was written; None once that snapshot has expired."""
        found, snapshot_id = self._load("dq_results"), run.snapshots.get("dq_results")
        if found is None or snapshot_id is None:
            return None
        snapshot = found.snapshot_by_id(snapshot_id)
        return None if snapshot is None else int(snapshot.timestamp_ms)

    def computed(self, run: PublishedRun, label: str, make: Callable[[], T]) -> T:
        """The result of `make` for a run, cached for the most recently read runs."""
        return self._cache.value((run.key.cluster_id, run.key.run_id), label, make)

    def computed_table(self, run: PublishedRun, label: str, sql: Callable[[], str]) -> str:
        """The name of a table in memory with the result of the query `sql` for a run, cached like `computed`."""
        return self._cache.table((run.key.cluster_id, run.key.run_id), label, sql)

    def _read_runs(self, table: "IcebergTable") -> tuple[PublishedRun, ...]:
        """The rows of `runs`; each file is read only once."""
        from pyiceberg.expressions import AlwaysTrue

        paths = data_files(table, AlwaysTrue(), None)
        known = {path: self._rows_of_runs[path] for path in paths if path in self._rows_of_runs}
        if new := [path for path in paths if path not in known]:
            known.update(self._read_files(table, new))
        self._rows_of_runs = known
        return tuple(runs_of(chain.from_iterable(known.values())))

    def _read_files(self, table: "IcebergTable", paths: Sequence[str]) -> dict[str, Rows]:
        properties = table.io.properties
        path_of = {self.database.readable(path, properties): path for path in paths}
        found: dict[str, Rows] = {path: [] for path in paths}
        for row in self.rows(f"SELECT * FROM {self._reading(table, 'runs', paths, with_name=True)}"):
            found[path_of[row.pop("filename")]].append(row)
        return found

    def _load(self, table: str) -> "IcebergTable | None":
        """A table as it is now; None if nothing was published to it yet."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return load(self.lake, table)
        except (NoCoverage, NoSuchTableError):
            return None

    def _now(self, table: str, which: "BooleanExpression", where: str) -> tuple[str, int]:
        """SQL for rows of an append-only table as it is now, and the number of their files."""
        found = self._load(table)
        key = ("now", table, where, "" if found is None else found.metadata_location)
        return self._source(key, lambda: self._scan(found, table, which, where))

    def _source(self, key: tuple[str, ...], plan: Callable[[], tuple[str, int]]) -> tuple[str, int]:
        with self._lock:
            if key in self._sources:
                self._sources.move_to_end(key)
                return self._sources[key]
        made = plan()
        with self._lock:
            self._sources[key] = made
            while len(self._sources) > _SOURCES_KEPT:
                self._sources.popitem(last=False)
        return made

    def _scan(
        self,
        found: "IcebergTable | None",
        table: str,
        which: "BooleanExpression",
        where: str,
        snapshot_id: int | None = None,
    ) -> tuple[str, int]:
        """(SQL for the rows that satisfy `where` in the files that `which` selects, number of files); at a snapshot, or
        now."""
        paths = [] if found is None else data_files(found, which, snapshot_id)
        return no_rows(table) if found is None else self._reading(found, table, paths, where=where), len(paths)

    def _reading(
        self, found: "IcebergTable", table: str, paths: Sequence[str], *, where: str = "true", with_name: bool = False
    ) -> str:
        """A subquery over data files with the declared columns; columns that the files lack are NULL."""
        if not paths:
            return no_rows(table)
        read = self.database.reading(paths, found.io.properties, with_name=with_name)
        there = {row["column_name"] for row in self.rows(f"DESCRIBE SELECT * FROM {read}")}
        columns = [*declared(table, there), *(["filename"] if with_name else [])]
        return f"(SELECT {', '.join(columns)} FROM {read} WHERE {where})"


def at(runs: Sequence[PublishedRun], *, cluster_id: str | None, as_of_ms: int | None) -> PublishedRun:
    """The newest run of a cluster at or before `as_of_ms` (None: the newest of all); NoCoverage if there is none.

    Without `cluster_id` it is the cluster of the newest run.
    """
    if cluster_id is None and runs:
        cluster_id = runs[-1].key.cluster_id
    found = [run for run in of_cluster(runs, cluster_id) if as_of_ms is None or run.key.as_of_ms <= as_of_ms]
    if not found:
        raise NoCoverage("no run is published at or before that instant")
    return found[-1]


def of_cluster(runs: Sequence[PublishedRun], cluster_id: str | None) -> list[PublishedRun]:
    """The runs of one cluster, in the given order."""
    return [run for run in runs if run.key.cluster_id == cluster_id]


def data_files(table: "IcebergTable", where: "BooleanExpression", snapshot_id: int | None) -> list[str]:
    """The data files that may have rows that satisfy `where`, at a snapshot or now."""
    if table.current_snapshot() is None:
        return []
    tasks = list(table.scan(row_filter=where, snapshot_id=snapshot_id).plan_files())
    if any(task.delete_files for task in tasks):
        raise SextonError("rows were deleted one by one; partitions are only ever replaced whole", where=table.name())
    return sorted(task.file.file_path for task in tasks)


def _whole(key: RunKey) -> tuple[str, str, str]:
    """The full key of a run: schedulers give runs of several clusters the same run id."""
    return key.cluster_id, str(key.as_of_ms), key.run_id
