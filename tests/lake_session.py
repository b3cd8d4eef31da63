"""A Spark session that knows Iceberg, one for every test that needs it, and lakes of their own in folders of theirs.

A JVM takes its jars when it starts. Where a test before has started one without Iceberg's, it is replaced.
"""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from sexton.kafka.jars import ensure
from sexton.lake.catalog import Lake, open_lake
from sexton.settings import settings
from sexton.stages.spark import Engine, spark_session


def lake_at(folder: Path) -> Lake:
    """A lake with nothing in it, under a name of its own: a session keeps the first catalog that it saw of a name."""
    properties = {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "warehouse": str(folder / "warehouse"),
    }
    return replace(open_lake(properties), name=f"lake_{sha256(str(folder).encode()).hexdigest()[:8]}")


def iceberg_session(lake: Lake) -> SparkSession:
    """The session, with `lake` as one of its catalogs."""
    active = SparkSession.getActiveSession()
    if active is not None and "iceberg" not in (active.conf.get("spark.sql.extensions", "") or ""):
        stop_jvm(active)
    session = spark_session("tests", conf=lake.spark_conf(ensure(settings().cache, "spark")))
    for name, value in lake.spark_conf().items():
        if name.startswith("spark.sql.catalog."):
            session.conf.set(name, value)
    return session


def engine_of(session: SparkSession) -> Engine:
    """An engine that works with `session`."""
    engine = Engine("tests", quiet=True)
    engine._session = session
    return engine


def stop_jvm(session: SparkSession) -> None:
    """Stop a session with its JVM, so that the next one can bring other jars."""
    gateway = SparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=30)
    SparkContext._gateway = SparkContext._jvm = None
