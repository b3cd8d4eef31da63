"""Spreads work over a Spark session.

The work of a stage is a list of items (slices of log, or log partitions) and a plain function. Results sent back to the
driver are small. Output of one map that the next map needs goes through Spark's shuffle (`Exchange`). Tables and
checkpoints stay in the run folder, which executors read and write directly.
"""

import gc
import pickle
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import pyarrow as pa
from rich.console import Console

from sexton.archive.folder import Folder
from sexton.errors import SextonError
from sexton.runs.progress import AS_JSON, ProgressLines, of_spark
from sexton.runs.spark_session import PART_BYTES, REMOTE, SESSION_ID, cause_of, spark_session
from sexton.settings import variable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

ITEMS = pa.schema([("number", pa.int32()), ("packed", pa.binary())])
"""An item of work, or its result, as a pickle with the item's number."""

PieceId = tuple[int, int]
"""(task, piece): the item number of the task that made the bytes, and the number of the piece within that task."""
PIECES = pa.schema([("task", pa.int32()), ("piece", pa.int32()), ("part", pa.int32()), ("packed", pa.binary())])
"""Fragment `part` of a piece, in order; the pickled result of the task has piece -1."""
PLACED = pa.schema([("item", pa.int32()), ("place", pa.int32()), ("part", pa.int32()), ("packed", pa.binary())])
"""Fragment `part` of the input `place` of an item, in order; the pickled item has place -1."""
WANTED = pa.schema([("item", pa.int32()), ("place", pa.int32()), ("task", pa.int32()), ("piece", pa.int32())])
"""Which piece each item receives, and as which of its inputs."""


class Engine:
    """Spreads items over Spark; starts the session when it is first needed."""

    newest: "ClassVar[SparkSession | None]" = None
    """The last session that this process started."""
    name: str = "spark"
    """Where the work ran: `spark`, or `local` for this process."""
    cores: int | None = None
    """Number of items processed in parallel; None if only Spark knows."""

    def __init__(self, *, iceberg: bool = False, quiet: bool = False) -> None:
        self._iceberg = iceberg
        self._session: SparkSession | None = None
        self._logs = AS_JSON.get() or (not quiet and not sys.stderr.isatty())
        self._console = Console(stderr=True, quiet=quiet or self._logs)

    @property
    def session(self) -> "SparkSession":
        if self._session is None:
            with self._console.status("Starting Spark"):
                conf = {"spark.ui.showConsoleProgress": str(not self._console.quiet).lower()}
                Engine.newest = self._session = spark_session(conf=conf, iceberg=self._iceberg)
        return self._session

    def map(self, label: str, items: Sequence[T], work: Callable[[T], R], *, work_bytes: int | None = None) -> list[R]:
        """Results of `work` for every item, in the order of `items`. Each item is one Spark task, whatever its size."""
        if not items:
            return []
        return without_errors(self._spread(label, items, _errors_as_results(work), work_bytes))

    def exchange(self, folder: Folder, work_bytes: int) -> "Exchange":  # noqa: ARG002  # a subclass needs it
        """An exchange for two consecutive maps: tasks of the second map read what tasks of the first map made."""
        return Exchange(self, work_bytes)

    def works_here(self, work_bytes: int) -> bool:  # noqa: ARG002  # as above
        """Whether `map` handles this many bytes in this process, and results may stay in memory for the next map."""
        return False

    def has_threads_for(self, work_bytes: int) -> bool:
        """Whether `map` handles this many bytes in this process if its results do not stay in memory."""
        return self.works_here(work_bytes)

    def _spread(self, label: str, items: Sequence[T], work: Callable[[T], R], work_bytes: int | None) -> list[R]:
        """One row per item, each in a Spark partition of its own; the results come back as rows."""

        def worked_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                results = [packed(work(pickle.loads(item.as_py()))) for item in batch["packed"]]
                keep_imports()
                yield pa.record_batch([batch["number"], pa.array(results, pa.binary())], ITEMS)

        with self.running(label, work_bytes):
            found = self.rows_of(items).mapInArrow(worked_on, "number int, packed binary").toArrow()
        return results_of(found, "number")

    def rows_of(self, items: Sequence[object]) -> "DataFrame":
        """ITEMS, one row per Spark partition."""
        rows = pa.table({"number": range(len(items)), "packed": map(packed, items)}, ITEMS)
        return self.session.createDataFrame(rows).repartitionById(len(items), "number")

    @contextmanager
    def running(self, label: str, work_bytes: int | None = None) -> Iterator[None]:
        """Label the Spark jobs started inside and show their progress; SextonError with the cause if they fail."""
        self.session.addTag(label)
        try:
            lines = ProgressLines(label, work_bytes)
            with of_spark(self.session, lines, is_remote=bool(variable(REMOTE))) if self._logs else nullcontext():
                yield
        except Exception as error:
            raise SextonError(f"{label}: a Spark task failed: {cause_of(error)}") from error
        finally:
            self.session.removeTag(label)

    def stop(self) -> None:
        if self._session is not None:
            if SESSION_ID in (variable(REMOTE) or ""):
                self._session.client.close()  # type: ignore[operator]  # other jobs have the same session
            else:
                self._session.stop()
            self._session = None

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Exchange:
    """Two consecutive maps: `make` produces pieces of bytes, and the tasks of `merge` receive them.

    The pieces stay on the executors that made them, and Spark's shuffle delivers them. A lost executor's pieces are
    recomputed.
    """

    def __init__(self, engine: Engine, work_bytes: int) -> None:
        self._engine, self._work_bytes = engine, work_bytes
        self._made: DataFrame | None = None

    def make(self, label: str, items: Sequence[T], work: Callable[[T], Generator[bytes, None, R]]) -> list[R]:
        """`map` for work that yields pieces and returns its result."""
        from pyspark import StorageLevel

        def made(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for task, item in zip(batch["number"].to_pylist(), batch["packed"], strict=True):
                    pieces = Making(work, pickle.loads(item.as_py()))
                    try:
                        for piece, data in enumerate(pieces):
                            for part, start in enumerate(range(0, max(len(data), 1), PART_BYTES)):
                                yield _row(PIECES, task, piece, part, data[start : start + PART_BYTES])
                        result: object = pieces.result
                    except SextonError as error:  # as in _errors_as_results
                        result = error
                    yield _row(PIECES, task, -1, 0, packed(result))
                    keep_imports()

        if not items:
            return []
        schema = "task int, piece int, part int, packed binary"
        self._made = self._engine.rows_of(items).mapInArrow(made, schema).persist(StorageLevel.DISK_ONLY)
        with self._engine.running(label, self._work_bytes):
            found = self._made.where("piece = -1").toArrow()
        return without_errors(results_of(found, "task"))

    def merge(
        self, label: str, items: Sequence[tuple[T, Sequence[PieceId]]], work: Callable[[T, Iterator[bytes]], R]
    ) -> list[R]:
        """`map` for work that receives its item and the requested pieces, in that order."""
        from pyspark.sql.functions import broadcast

        def merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            columns = ("item", "place", "packed")
            rows = (row for batch in batches for row in zip(*(batch[name] for name in columns), strict=True))
            plain = ((item.as_py(), place.as_py(), data.as_py()) for item, place, data in rows)
            for number, own in groupby(plain, itemgetter(0)):
                _, _, item = next(own)
                pieces = (b"".join(data for _, _, data in parts) for _, parts in groupby(own, itemgetter(1)))
                yield _row(ITEMS, number, packed(_errors_as_results(work)(pickle.loads(item), pieces)))
                keep_imports()

        if not items:
            return []
        session = self._engine.session
        heads = [range(len(items)), [-1] * len(items), [0] * len(items), [packed(item) for item, _ in items]]
        rows = session.createDataFrame(pa.table(heads, PLACED))
        wanted = [(number, place, *piece) for number, (_, some) in enumerate(items) for place, piece in enumerate(some)]
        if self._made is not None and wanted:  # Spark Connect rejects a DataFrame without rows
            places = session.createDataFrame(pa.table([*map(list, zip(*wanted, strict=True))], WANTED))
            pieces = self._made.join(broadcast(places), ["task", "piece"])
            rows = rows.unionAll(pieces.select(PLACED.names))
        rows = rows.repartitionById(len(items), "item").sortWithinPartitions("item", "place", "part")
        with self._engine.running(label, self._work_bytes):
            found = rows.mapInArrow(merged, "number int, packed binary").toArrow()
        return without_errors(results_of(found, "number"))

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, *_: object) -> None:
        if self._made is not None:
            self._made.unpersist()


class Making(Generic[T, R]):
    """Iterates over the pieces of one item of `Exchange.make`; `result` is set once they are consumed."""

    result: R

    def __init__(self, work: Callable[[T], Generator[bytes, None, R]], item: T) -> None:
        self._work, self._item = work, item

    def __iter__(self) -> Iterator[bytes]:
        self.result = yield from self._work(self._item)


def keep_imports() -> None:
    """Freeze all objects imported so far, so that no garbage collection scans them: each, also the one at exit, would
    take a tenth of a second more.

    In a reused Spark worker these are the imports of its first task: Spark collects garbage after every task.
    """
    if not gc.get_freeze_count():
        gc.freeze()


def packed(value: object) -> bytes:
    """A pickle, including functions that belong to no module."""
    import cloudpickle  # late: imports before the engine's processes have started delay them

    data: bytes = cloudpickle.dumps(value)
    return data


def _row(schema: pa.Schema, *values: object) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value], field.type) for value, field in zip(values, schema, strict=True)], schema)


def results_of(rows: pa.Table, order: str) -> list[Any]:
    """The unpickled values, sorted by a column."""
    return [pickle.loads(item.as_py()) for item in rows.sort_by(order)["packed"]]


def without_errors(results: list[R]) -> list[R]:
    """`results`, if none is an error."""
    for result in results:
        if isinstance(result, SextonError):
            raise result
    return results


def _errors_as_results(work: Callable[..., Any]) -> Callable[..., Any]:
    """`work` that returns a SextonError as its result: Spark would retry a task that raises, and hide the error in its
    own."""

    def worked(*given: Any) -> Any:
        try:
            return work(*given)
        except SextonError as error:
            return error

    return worked
