"""Starts a Spark session, and spreads work over it.

A stage's work is a list of items (chunks of log, or log partitions) and a plain function; the results that travel back
are small. What the tasks of one map make for those of the next goes through Spark's shuffle (`Exchange`); tables and
checkpoints stay in the run folder, which executors write and read themselves.
"""

import gc
import pickle
import re
import socket
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from rich.console import Console

from sexton.archive.folder import Folder
from sexton.distributions import PIPELINE, require_fit
from sexton.errors import SetupError, SextonError
from sexton.java import find_java
from sexton.runs.progress import ProgressLines, of_spark
from sexton.settings import set_variables, settings, variable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

LOGGING = Path(__file__).with_name("log4j2.properties")
JVM_OPTIONS = f"-Xss4m -Dlog4j2.configurationFile={LOGGING.as_uri()}"
QUICK_JVM_OPTIONS = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {JVM_OPTIONS}"
"""For a Spark of this machine alone: its JVM only plans and moves rows; quick compiler, small collector."""

REMOTE = "SPARK_REMOTE"
"""The URL of a Spark Connect server, sc://HOST:PORT, whose JVM and Python workers are warm."""
CONNECT_PORT, CONNECT_TIMEOUT_S = 15_002, 10
SESSION_ID = "session_id="
"""In that URL: a session that several jobs use one after the other, and with it the workers that they have warmed."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit has started the JVM, and this process from there."""
CATALOGS = "spark.sql.catalog."
PART_BYTES = 64 * 1024 * 1024
"""The largest value of a row, and of an Arrow batch that a Python worker gets."""
SQL_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(PART_BYTES),
}
SHUFFLE_PARTITIONS, CORES_MAX = "spark.sql.shuffle.partitions", "spark.cores.max"

ITEMS = pa.schema([("number", pa.int32()), ("packed", pa.binary())])
"""An item of work, or its result: its number and its pickle."""

PieceId = tuple[int, int]
"""The task that made a piece of bytes, by the number of its item, and the piece's number among those of the task."""
PIECES = pa.schema([("task", pa.int32()), ("piece", pa.int32()), ("part", pa.int32()), ("packed", pa.binary())])
"""A part of a piece, in order; or as piece -1 the pickled result of a task."""
PLACED = pa.schema([("item", pa.int32()), ("place", pa.int32()), ("part", pa.int32()), ("packed", pa.binary())])
"""A part of the piece that an item of work gets at a place, in order; at place -1 the packed item itself."""
WANTED = pa.schema([("item", pa.int32()), ("place", pa.int32()), ("task", pa.int32()), ("piece", pa.int32())])
"""Which item of work receives which piece, and at which place."""


def spark_environment() -> dict[str, str]:
    """The variables under which Spark finds its Java, this Python and the loopback address."""
    config = settings()
    java = find_java(config.cache, variable("JAVA_HOME"), variable("PATH"))
    return {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": variable("PYSPARK_PYTHON") or sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": variable("SPARK_LOCAL_IP") or "127.0.0.1",
        **compiler_environment(),
    }


def compiler_environment() -> dict[str, str]:
    """Where the processes that fold keep what is compiled."""
    return {"NUMBA_CACHE_DIR": variable("NUMBA_CACHE_DIR") or str(settings().cache / "numba")}


def spark_session(app_name: str, *, conf: Mapping[str, str] | None = None, iceberg: bool = False) -> "SparkSession":
    """The session of this process: of the Connect server of SPARK_REMOTE, else of a JVM of its own.

    Under spark-submit that JVM is the submitted one, else a local one with modest settings.
    """
    require_fit()
    set_variables(spark_environment())
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SetupError(f"pyspark cannot be imported: {error}", fix=PIPELINE) from None
    wanted = {**SQL_CONF, **(_lake_conf() if iceberg else {}), **(conf or {})}
    if url := variable(REMOTE):
        _require_server(url)
        late = {name: value for name, value in wanted.items() if name in SQL_CONF or name.startswith(CATALOGS)}
        wanted = {}
    else:
        # What is known before the JVM runs is an argument of it, for `ps` to show; a catalog has a password.
        late = {name: wanted.pop(name) for name in list(wanted) if name.startswith(CATALOGS)}
        wanted |= _jvm_conf()
    builder = SparkSession.builder.appName(app_name)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
        for name, value in late.items():
            session.conf.set(name, value)
        _size_shuffles(session)
    except Exception as error:
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise SetupError(f"Spark did not start: {line}", fix="`sexton doctor` says what is missing") from error
    if iceberg:
        _require_iceberg(session)
    return session


def _require_server(url: str) -> None:
    """SextonError, which is retried, if no server listens: PySpark would try for ten minutes without a word."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or CONNECT_PORT), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        fix = "start it, or let the Airflow connection name another Spark"
        raise SextonError(f"no Spark Connect server answers: {error}", where=parts.netloc, fix=fix) from None


def _jvm_conf() -> dict[str, str]:
    """What the JVM of a session is started with."""
    config = settings()
    found = {"spark.sql.warehouse.dir": str(config.var / "spark-warehouse")}
    if variable(SUBMITTED) is not None:  # what was given to spark-submit stays
        return found
    return found | {
        "spark.master": config.spark_master,
        "spark.ui.enabled": "false",
        "spark.driver.memory": config.spark_driver_memory,
        # Those of the user, spark.driver.extraJavaOptions, come after them.
        "spark.driver.defaultJavaOptions": QUICK_JVM_OPTIONS if config.spark_master[:5] == "local" else JVM_OPTIONS,
    }


def _size_shuffles(session: "SparkSession") -> None:
    """Without a user's number begin shuffles with two partitions a core, of which Spark coalesces the small ones.

    A plan of Spark says how many tasks it works on, also over Connect. While executors come and go Spark's 200 stay.
    """
    given = session.conf.getAll
    if SHUFFLE_PARTITIONS in given or given.get("spark.dynamicAllocation.enabled") == "true":
        return
    (plan,) = session.sql("EXPLAIN SELECT * FROM range(1)").collect()
    if found := re.search(r"splits=(\d+)", plan[0]):
        # The executors of a standalone cluster may not be there yet.
        session.conf.set(SHUFFLE_PARTITIONS, str(2 * max(int(found[1]), int(given.get(CORES_MAX, 0)))))


@contextmanager
def session_conf(session: "SparkSession", conf: Mapping[str, str]) -> Iterator[None]:
    """Settings for a piece of work, after which the session, which other jobs share, is as before."""
    before = session.conf.getAll
    for name, value in conf.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in conf:
            if name in before:
                session.conf.set(name, before[name])
            else:
                session.conf.unset(name)


def _lake_conf() -> dict[str, str]:
    """What a session needs for the lake. The jars count only where this process starts the JVM itself."""
    from sexton.kafka import jars
    from sexton.lake.catalog import open_lake

    if given := settings().spark_jars:  # of spark-submit they are --jars
        return open_lake().spark_conf([] if variable(SUBMITTED) else map(Path, given.split(",")))
    return open_lake().spark_conf(jars.ensure(settings().cache, "spark"))


def _require_iceberg(session: "SparkSession") -> None:
    """Under spark-submit the JVM was there before us, and only --jars could bring Iceberg into it."""
    from sexton.lake.catalog import open_lake

    try:
        session.sql(f"SHOW NAMESPACES IN `{open_lake().name}`").collect()
    except Exception as error:
        if "catalog plugin class" not in str(error):
            raise SextonError(f"the lake's catalog does not answer: {_cause(error)}") from error
        fix = "submit with --jars, see SEXTON_SPARK_JARS, or run the job with python instead of spark-submit"
        raise SetupError("the Iceberg runtime is not on Spark's class path", fix=fix) from None


class Engine:
    """Spreads items over Spark; starts the session only when the first piece of work needs it."""

    newest: "ClassVar[SparkSession | None]" = None
    """The session that this process has started last."""
    name: str = "spark"
    """Who works: Spark, or `local` where the process did that itself."""
    cores: int | None = None
    """How many items are worked on at a time; None where only Spark knows."""

    def __init__(self, app_name: str, *, iceberg: bool = False, quiet: bool = False) -> None:
        self._app_name = app_name
        self._iceberg = iceberg
        self._session: SparkSession | None = None
        self._logs = not quiet and not sys.stderr.isatty()
        self._console = Console(stderr=True, quiet=quiet or not sys.stderr.isatty())

    @property
    def session(self) -> "SparkSession":
        if self._session is None:
            with self._console.status("Starting Spark"):
                conf = {"spark.ui.showConsoleProgress": str(not self._console.quiet).lower()}
                Engine.newest = self._session = spark_session(self._app_name, conf=conf, iceberg=self._iceberg)
        return self._session

    def map(
        self,
        label: str,
        items: Sequence[T],
        work: Callable[[T], R],
        *,
        work_bytes: int | None = None,
    ) -> list[R]:
        """`work` of every item, in the order of `items`, one Spark task an item, however many bytes it reads."""
        if not items:
            return []
        return without_errors(self._spread(label, items, _ErrorsAsResults(work), work_bytes))

    def exchange(self, folder: Folder, work_bytes: int) -> "Exchange":  # noqa: ARG002  # as above
        """For two maps in a row, where the tasks of the first make what those of the second read."""
        return Exchange(self)

    def works_here(self, work_bytes: int) -> bool:  # noqa: ARG002  # as above
        """Whether `map` works on so much in this process, and what it returns may stay in memory for the next map."""
        return False

    def has_threads_for(self, work_bytes: int) -> bool:  # noqa: ARG002  # as above
        """Whether `map` works on so much in this process, if what it returns stays out of its memory."""
        return False

    def _spread(self, label: str, items: Sequence[T], work: Callable[[T], R], work_bytes: int | None) -> list[R]:
        """One row an item, in a partition of its own; the results come back as rows."""

        def worked_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                results = [packed(work(pickle.loads(item.as_py()))) for item in batch["packed"]]
                keep_imports()
                yield pa.record_batch([batch["number"], pa.array(results, pa.binary())], ITEMS)

        with self.running(label, work_bytes):
            found = self.rows_of(items).mapInArrow(worked_on, "number int, packed binary").toArrow()
        return results_of(found, "number")

    def rows_of(self, items: Sequence[object]) -> "DataFrame":
        """ITEMS, each in a partition of its own."""
        rows = pa.table({"number": range(len(items)), "packed": map(packed, items)}, ITEMS)
        return self.session.createDataFrame(rows).repartitionById(len(items), "number")

    @contextmanager
    def running(self, label: str, work_bytes: int | None = None) -> Iterator[None]:
        """What Spark computes inside has a name in its UI and shows how far it is; SextonError with the cause where it
        fails."""
        self.session.addTag(label)
        try:
            lines = ProgressLines(label, work_bytes)
            with of_spark(self.session, lines, is_remote=bool(variable(REMOTE))) if self._logs else nullcontext():
                yield
        except Exception as error:
            raise SextonError(f"{label}: a Spark task failed: {_cause(error)}") from error
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
    """Two maps in a row: `make`, then `merge`, whose tasks get pieces of bytes that those of `make` have made.

    The pieces stay with the executors that made them, and Spark's shuffle takes each to the tasks that want it. Those
    of an executor that is lost are made again.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._made: DataFrame | None = None

    def make(
        self,
        label: str,
        items: Sequence[T],
        work: Callable[[T], Generator[bytes, None, R]],
        *,
        work_bytes: int | None = None,
    ) -> list[R]:
        """`map` of work that yields pieces and returns its result."""
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
                    except SextonError as error:  # as of _ErrorsAsResults
                        result = error
                    yield _row(PIECES, task, -1, 0, packed(result))
                    keep_imports()

        if not items:
            return []
        schema = "task int, piece int, part int, packed binary"
        self._made = self._engine.rows_of(items).mapInArrow(made, schema).persist(StorageLevel.DISK_ONLY)
        with self._engine.running(label, work_bytes):
            found = self._made.where("piece = -1").toArrow()
        return without_errors(results_of(found, "task"))

    def merge(
        self,
        label: str,
        items: Sequence[tuple[T, Sequence[PieceId]]],
        work: Callable[[T, Iterator[bytes]], R],
        *,
        work_bytes: int | None = None,
    ) -> list[R]:
        """`map` of work that receives its item and the pieces asked for, in that order."""
        from pyspark.sql.functions import broadcast

        def merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            columns = ("item", "place", "packed")
            rows = (row for batch in batches for row in zip(*(batch[name] for name in columns), strict=True))
            plain = ((item.as_py(), place.as_py(), data.as_py()) for item, place, data in rows)
            for number, own in groupby(plain, itemgetter(0)):
                _, _, item = next(own)
                pieces = (b"".join(data for _, _, data in parts) for _, parts in groupby(own, itemgetter(1)))
                yield _row(ITEMS, number, packed(_ErrorsAsResults(work)(pickle.loads(item), pieces)))
                keep_imports()

        if not items:
            return []
        session = self._engine.session
        heads = [range(len(items)), [-1] * len(items), [0] * len(items), [packed(item) for item, _ in items]]
        rows = session.createDataFrame(pa.table(heads, PLACED))
        wanted = [(number, place, *piece) for number, (_, some) in enumerate(items) for place, piece in enumerate(some)]
        if self._made is not None and wanted:  # a Connect server takes no DataFrame without rows
            places = session.createDataFrame(pa.table([*map(list, zip(*wanted, strict=True))], WANTED))
            pieces = self._made.join(broadcast(places), ["task", "piece"])
            rows = rows.unionAll(pieces.select(PLACED.names))
        rows = rows.repartitionById(len(items), "item").sortWithinPartitions("item", "place", "part")
        with self._engine.running(label, work_bytes):
            found = rows.mapInArrow(merged, "number int, packed binary").toArrow()
        return without_errors(results_of(found, "number"))

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, *_: object) -> None:
        if self._made is not None:
            self._made.unpersist()


class Making(Generic[T, R]):
    """The pieces of one item of `Exchange.make`, and once they are taken, `result`."""

    result: R

    def __init__(self, work: Callable[[T], Generator[bytes, None, R]], item: T) -> None:
        self._work, self._item = work, item

    def __iter__(self) -> Iterator[bytes]:
        self.result = yield from self._work(self._item)


def keep_imports() -> None:
    """Freeze what is imported by now, so that no collection scans it: a tenth of a second each, one at the end, too.

    In a worker that Spark uses again this is what its first task has imported: Spark collects after every task.
    """
    if not gc.get_freeze_count():
        gc.freeze()


def packed(value: object) -> bytes:
    """A pickle, with the functions that are no module's."""
    import cloudpickle  # late: what is imported before the processes of an engine have begun holds them up

    data: bytes = cloudpickle.dumps(value)
    return data


def _row(schema: pa.Schema, *values: object) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value], field.type) for value, field in zip(values, schema, strict=True)], schema)


def results_of(rows: pa.Table, order: str) -> list[Any]:
    """What was packed, in the order of a column."""
    return [pickle.loads(item.as_py()) for item in rows.sort_by(order)["packed"]]


def without_errors(results: list[R]) -> list[R]:
    """`results`, if none is an error."""
    for result in results:
        if isinstance(result, SextonError):
            raise result
    return results


class _ErrorsAsResults:
    """Work whose SextonErrors are results: Spark would retry them and hide them in its own errors."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work

    def __call__(self, *given: Any) -> Any:
        try:
            return self._work(*given)
        except SextonError as error:
            return error


def _cause(error: Exception) -> str:
    """The line of Python that Spark's report of a failed task is about, else its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b", line)]
    return (raised or lines or [type(error).__name__])[-1 if raised else 0]
