"""Starts a Spark session, and spreads work over it.

The work of a stage is a list of items (slices of log, or log partitions) and a plain function. Results sent back to the
driver are small. Output of one map that the next one needs goes through Spark's shuffle (`Exchange`). Tables and
checkpoints stay in the run folder, which executors read and write directly.
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
from sexton.runs.progress import AS_JSON, ProgressLines, of_spark
from sexton.settings import set_variables, settings, variable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

LOGGING = Path(__file__).with_name("log4j2.properties")
JVM_OPTIONS = f"-Xss4m -Dlog4j2.configurationFile={LOGGING.as_uri()}"
QUICK_JVM_OPTIONS = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {JVM_OPTIONS}"
"""JVM options for a local Spark, whose JVM only plans and moves rows: quick compiler, small collector."""

REMOTE = "SPARK_REMOTE"
"""URL of a Spark Connect server, sc://HOST:PORT, whose JVM and Python workers are warm."""
CONNECT_PORT, CONNECT_TIMEOUT_S = 15_002, 10
SESSION_ID = "session_id="
"""Parameter of that URL: a session that several jobs use in turn, with the workers that they have warmed."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set if spark-submit started the JVM and then this process."""
CATALOGS = "spark.sql.catalog."
PART_BYTES = 64 * 1024 * 1024
"""Maximum bytes of a value in a row, and of an Arrow batch for a Python worker."""
SQL_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(PART_BYTES),
    # Without this Spark hides passwords and tokens, but not the `credential` of a REST catalog.
    "spark.sql.redaction.options.regex": "(?i)url|credential",
}
SHUFFLE_PARTITIONS, CORES_MAX = "spark.sql.shuffle.partitions", "spark.cores.max"

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


def spark_environment() -> dict[str, str]:
    """Environment variables that give Spark its Java, this Python and the loopback address."""
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
    """Environment variables with the folder where folding processes cache compiled code."""
    return {"NUMBA_CACHE_DIR": variable("NUMBA_CACHE_DIR") or str(settings().cache / "numba")}


def spark_session(app_name: str, *, conf: Mapping[str, str] | None = None, iceberg: bool = False) -> "SparkSession":
    """The session of this process: on the Connect server of SPARK_REMOTE, else on its own JVM.

    Under spark-submit that is the submitted JVM, otherwise a local one with modest settings.
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
        # Settings from before the JVM starts are its arguments, which `ps` shows; a catalog has a password.
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
    """SextonError, which is retried, if no server listens: PySpark would retry silently for ten minutes."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or CONNECT_PORT), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        fix = "start it, or let the Airflow connection name another Spark"
        raise SextonError(f"no Spark Connect server answers: {error}", where=parts.netloc, fix=fix) from None


def _jvm_conf() -> dict[str, str]:
    """Settings to start the JVM of a session with."""
    config = settings()
    found = {"spark.sql.warehouse.dir": str(config.var / "spark-warehouse")}
    if variable(SUBMITTED) is not None:  # options of spark-submit take precedence
        return found
    return found | {
        "spark.master": config.spark_master,
        "spark.ui.enabled": "false",
        "spark.driver.memory": config.spark_driver_memory,
        # The user's spark.driver.extraJavaOptions come after these.
        "spark.driver.defaultJavaOptions": QUICK_JVM_OPTIONS if config.spark_master[:5] == "local" else JVM_OPTIONS,
    }


def _size_shuffles(session: "SparkSession") -> None:
    """Set two shuffle partitions per core, unless the user set a number; Spark coalesces small ones.

    The core count is read from a query plan, which also works over Connect. With dynamic allocation Spark's 200 stay.
    """
    given = session.conf.getAll
    if SHUFFLE_PARTITIONS in given or given.get("spark.dynamicAllocation.enabled") == "true":
        return
    (plan,) = session.sql("EXPLAIN SELECT * FROM range(1)").collect()
    if found := re.search(r"splits=(\d+)", plan[0]):
        # Executors of a standalone cluster may not have registered yet.
        session.conf.set(SHUFFLE_PARTITIONS, str(2 * max(int(found[1]), int(given.get(CORES_MAX, 0)))))


@contextmanager
def session_conf(session: "SparkSession", conf: Mapping[str, str]) -> Iterator[None]:
    """Apply settings to the shared session, and restore the previous values at the end."""
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
    """Session settings for the lake. The jars only matter if this process starts the JVM."""
    from sexton.kafka import jars
    from sexton.lake.catalog import open_lake

    if given := settings().spark_jars:  # under spark-submit use --jars
        return open_lake().spark_conf([] if variable(SUBMITTED) else map(Path, given.split(",")))
    return open_lake().spark_conf(jars.ensure(settings().cache, "spark"))


def _require_iceberg(session: "SparkSession") -> None:
    """SetupError without Iceberg. Under spark-submit the JVM started before this process, so only --jars can add it."""
    from sexton.lake.catalog import open_lake

    try:
        session.sql(f"SHOW NAMESPACES IN `{open_lake().name}`").collect()
    except Exception as error:
        if "catalog plugin class" not in str(error):
            raise SextonError(f"the lake's catalog does not answer: {_cause(error)}") from error
        fix = "submit with --jars, see SEXTON_SPARK_JARS, or run the job with python instead of spark-submit"
        raise SetupError("the Iceberg runtime is not on Spark's class path", fix=fix) from None


class Engine:
    """Spreads items over Spark; starts the session when it is first needed."""

    newest: "ClassVar[SparkSession | None]" = None
    """The last session that this process started."""
    name: str = "spark"
    """Where the work ran: `spark`, or `local` for this process."""
    cores: int | None = None
    """Number of items processed in parallel; None if only Spark knows."""

    def __init__(self, app_name: str, *, iceberg: bool = False, quiet: bool = False) -> None:
        self._app_name = app_name
        self._iceberg = iceberg
        self._session: SparkSession | None = None
        self._logs = AS_JSON.get() or (not quiet and not sys.stderr.isatty())
        self._console = Console(stderr=True, quiet=quiet or self._logs)

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
        """Results of `work` for every item, in the order of `items`: one Spark task per item, of any size."""
        if not items:
            return []
        return without_errors(self._spread(label, items, _ErrorsAsResults(work), work_bytes))

    def exchange(self, folder: Folder, work_bytes: int) -> "Exchange":  # noqa: ARG002  # as above
        """An exchange for two consecutive maps: the tasks of the second read what tasks of the first made."""
        return Exchange(self)

    def works_here(self, work_bytes: int) -> bool:  # noqa: ARG002  # as above
        """Whether `map` runs so many bytes in this process and the results may stay in memory for the next map."""
        return False

    def has_threads_for(self, work_bytes: int) -> bool:  # noqa: ARG002  # as above
        """Whether `map` runs so many bytes in this process, provided that its results do not stay in memory."""
        return False

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
    """Two consecutive maps: `make` produces pieces of bytes, and the tasks of `merge` receive them.

    The pieces stay on the executors that made them, and Spark's shuffle delivers them. A lost executor's pieces are
    recomputed.
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
                    except SextonError as error:  # as in _ErrorsAsResults
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
        """`map` for work that receives its item and the requested pieces, in that order."""
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
        if self._made is not None and wanted:  # Spark Connect rejects a DataFrame without rows
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
    """Iterates over the pieces of one item of `Exchange.make`; `result` is set once they are consumed."""

    result: R

    def __init__(self, work: Callable[[T], Generator[bytes, None, R]], item: T) -> None:
        self._work, self._item = work, item

    def __iter__(self) -> Iterator[bytes]:
        self.result = yield from self._work(self._item)


def keep_imports() -> None:
    """Freeze all objects imported so far, so that no collection scans them: a tenth of a second each, also at exit.

    In a reused Spark worker these are the imports of its first task: Spark collects after every task.
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


class _ErrorsAsResults:
    """Wraps work so that its SextonErrors are results: Spark would retry them and hide them in its own errors."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work

    def __call__(self, *given: Any) -> Any:
        try:
            return self._work(*given)
        except SextonError as error:
            return error


def _cause(error: Exception) -> str:
    """The Python error line in Spark's report of a failed task, else the report's first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b", line)]
    return (raised or lines or [type(error).__name__])[-1 if raised else 0]
