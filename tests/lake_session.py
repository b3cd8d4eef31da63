"""A Spark session that knows Iceberg, one for every test that needs it, and lakes of their own in folders of theirs.

A JVM takes its jars when it starts, and there is one a test run: every Engine of the tests asks for Iceberg.
"""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from pyspark.sql import SparkSession

from sexton.kafka.jars import ensure
from sexton.lake.catalog import Lake, open_lake
from sexton.runs.engine import Engine, spark_session
from sexton.settings import settings


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
    return spark_session("tests", conf=lake.spark_conf(ensure(settings().cache, "spark")))


def engine_of(session: SparkSession) -> Engine:
    """An engine that works with `session`."""
    engine = Engine("tests", iceberg=True, quiet=True)
    engine._session = session
    return engine
