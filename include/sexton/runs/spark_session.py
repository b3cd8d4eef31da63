"""Starts the Spark session of this process: its name, its settings, and the server or JVM on which it runs."""

import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sexton.distributions import PIPELINE, require_fit
from sexton.errors import SetupError, SextonError
from sexton.java import find_java
from sexton.settings import set_variables, settings, variable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGING = Path(__file__).with_name("log4j2.properties")
JVM_OPTIONS = f"-Xss4m -Dlog4j2.configurationFile={LOGGING.as_uri()}"
QUICK_JVM_OPTIONS = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {JVM_OPTIONS}"
"""JVM options for a local Spark, whose JVM only plans and moves rows: quick compiler, small collector."""

REMOTE = "SPARK_REMOTE"
"""URL of a Spark Connect server, sc://HOST:PORT, whose JVM and Python workers are already running."""
CONNECT_PORT, CONNECT_TIMEOUT_S = 15_002, 10
SESSION_ID = "session_id="
"""Parameter of that URL: a session that several jobs use one after another, with the same Python workers."""
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


def session_name() -> str:
    """The name of this process's session: its job, such as `replay_groups`, or its command, such as `sexton audit`."""
    command = [word for word in sys.argv[1:2] if not word.startswith("-")]
    return " ".join([Path(sys.argv[0]).stem, *command])


def spark_session(*, conf: Mapping[str, str] | None = None, iceberg: bool = False) -> "SparkSession":
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
        # Settings from before the JVM starts become its arguments, which `ps` shows; a catalog's include a password.
        late = {name: wanted.pop(name) for name in list(wanted) if name.startswith(CATALOGS)}
        wanted |= _jvm_conf()
    builder = SparkSession.builder.appName(session_name())
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
    """Set two shuffle partitions per core, unless the user set a number; Spark coalesces small partitions.

    The core count is read from a query plan, which also works over Connect. With dynamic allocation Spark's default of
    200 stays.
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
            raise SextonError(f"the lake's catalog does not answer: {cause_of(error)}") from error
        fix = "submit with --jars, see SEXTON_SPARK_JARS, or run the job with python instead of spark-submit"
        raise SetupError("the Iceberg runtime is not on Spark's class path", fix=fix) from None


def cause_of(error: Exception) -> str:
    """The Python error line in Spark's report of a failed task, else the report's first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b", line)]
    return (raised or lines or [type(error).__name__])[-1 if raised else 0]
