"""Starts a Spark session, and spreads work over it.

A stage's work is a list of items (chunks of log, or log partitions) and a plain function; the results that travel back
are small. The data itself stays in the run folder, which executors write and read themselves.
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sexton.distributions import require_fit
from sexton.errors import SetupError, SextonError
from sexton.java import find_java
from sexton.settings import set_variables, settings, variable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

LOGGING = Path(__file__).with_name("log4j2.properties")
JVM_OPTIONS = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m -Dlog4j2.configurationFile={LOGGING.as_uri()}"
"""The JVM only plans and moves rows; the quick compiler and the small collector start sooner."""

PROGRESS_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit has started the JVM, and this process from there."""
CATALOGS = "spark.sql.catalog."
CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"

SMALL_WORK_BYTES = 64 * 1024 * 1024
"""Below this much input a stage of small steps works in the driver: a Spark start costs more than the work itself."""


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
    """The session of this process: under spark-submit the submitted one, else a local one with modest settings."""
    require_fit()
    set_variables(spark_environment())
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SetupError(f"pyspark cannot be imported: {error}", fix="run `make install`") from None
    config = settings()
    defaults = {
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.driver.memory": config.spark_driver_memory,
        "spark.driver.extraJavaOptions": JVM_OPTIONS,
        "spark.sql.warehouse.dir": str(config.var / "spark-warehouse"),
    }
    if iceberg:
        defaults.update(_lake_conf())
    wanted = {**defaults, **(conf or {})}
    # What a session knows before its JVM runs is an argument of that JVM, for `ps` to show; a catalog has a password.
    late = {name: wanted.pop(name) for name in list(wanted) if name.startswith(CATALOGS)}
    builder = SparkSession.builder.appName(app_name)
    if variable(SUBMITTED) is None:  # else it would replace the master given to spark-submit
        builder = builder.master(config.spark_master)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
        for name, value in late.items():
            session.conf.set(name, value)
    except Exception as error:
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise SetupError(f"Spark did not start: {line}", fix="`sexton doctor` says what is missing") from error
    if iceberg:
        _require_iceberg(session)
    return session


def _lake_conf() -> dict[str, str]:
    """What a session needs for the lake. The jars count only where this process starts the JVM itself."""
    from sexton.kafka import jars
    from sexton.lake.catalog import spark_conf

    return spark_conf([] if settings().spark_jars else jars.ensure(settings().cache, "spark"))


def _require_iceberg(session: "SparkSession") -> None:
    """Under spark-submit the JVM was there before us, and only --jars could bring Iceberg into it."""
    jvm: Any = session.sparkContext._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(CATALOG_CLASS)
    except Exception as error:
        fix = "submit with --jars, see SEXTON_SPARK_JARS, or run the job with python instead of spark-submit"
        raise SetupError("the Iceberg runtime is not on Spark's class path", fix=fix) from error


class Engine:
    """Spreads items over Spark; starts the session only when the first piece of work needs it."""

    def __init__(self, app_name: str, *, iceberg: bool = False, quiet: bool = False) -> None:
        self._app_name = app_name
        self._iceberg = iceberg
        self._session: SparkSession | None = None
        self._console = Console(stderr=True, quiet=quiet or not sys.stderr.isatty())

    @property
    def session(self) -> "SparkSession":
        if self._session is None:
            with self._console.status("Starting Spark"):
                self._session = spark_session(self._app_name, iceberg=self._iceberg)
        return self._session

    def map(self, label: str, items: Sequence[T], work: Callable[[T], R], *, work_bytes: int | None = None) -> list[R]:
        """`work` of every item, in the order of `items`, one Spark task an item.

        With `work_bytes` given and small, the items are worked on here, by threads: most of it is compiled code.
        """
        if not items:
            return []
        if work_bytes is not None and self.works_here(work_bytes):
            with ThreadPoolExecutor(min(len(items), os.cpu_count() or 1)) as pool:
                return list(pool.map(work, items))
        results = self._spread(label, items, _ErrorsAsResults(work))
        for result in results:
            if isinstance(result, SextonError):
                raise result
        return results

    def works_here(self, work_bytes: int) -> bool:
        """Whether `map` works on so much in this process."""
        return work_bytes < SMALL_WORK_BYTES and self._session is None

    def _spread(self, label: str, items: Sequence[T], work: Callable[[T], R]) -> list[R]:
        context = self.session.sparkContext
        with self._progress(label, len(items)):
            try:
                results: list[R] = context.parallelize(items, len(items)).map(work).collect()
            except Exception as error:
                raise SextonError(f"{label}: a Spark task failed: {_cause(error)}") from error
        return results

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextmanager
    def _progress(self, label: str, total: int) -> Iterator[None]:
        """Draw finished tasks of the running Spark job on a terminal; nothing in a pipe."""
        if self._console.quiet:
            yield
            return
        tracker = self.session.sparkContext.statusTracker()
        done = threading.Event()
        with Progress(*PROGRESS_COLUMNS, console=self._console, transient=True) as progress:
            task = progress.add_task(label, total=total)

            def watch() -> None:
                while not done.wait(0.5):
                    stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
                    progress.update(task, completed=sum(info.numCompletedTasks for info in stages if info))

            watcher = threading.Thread(target=watch, daemon=True)
            watcher.start()
            try:
                yield
            finally:
                done.set()
                watcher.join()


class _ErrorsAsResults:
    """Work whose SextonErrors are results: Spark would retry them and hide them in its own errors."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work

    def __call__(self, item: Any) -> Any:
        try:
            return self._work(item)
        except SextonError as error:
            return error


def _cause(error: Exception) -> str:
    """The line of Python that Spark's report of a failed task is about, else its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b", line)]
    return (raised or lines or [type(error).__name__])[-1 if raised else 0]
