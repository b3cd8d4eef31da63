"""A Spark session that knows Iceberg, one for every test that needs it, and lakes of their own in folders of theirs.

A JVM takes its jars when it starts, and there is one a test run: every Engine of the tests asks for Iceberg.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sexton.kafka.jars import ensure
from sexton.lake.catalog import Lake, open_lake
from sexton.pipeline import publish_tables, validate_tables
from sexton.quality import duckdb_checks
from sexton.quality.expectation import ExpectationResult
from sexton.runs.engine import Engine
from sexton.runs.spark_session import spark_session
from sexton.settings import settings


def lake_at(folder: Path) -> Lake:
    """A lake with nothing in it, under a name of its own: a session keeps the first catalog that it saw of a name."""
    properties = {"type": "jdbc", "uri": f"jdbc:sqlite:{folder / 'catalog.db'}", "warehouse": str(folder / "warehouse")}
    return replace(open_lake(properties), name=f"lake_{sha256(str(folder).encode()).hexdigest()[:8]}")


def iceberg_session(lake: Lake) -> SparkSession:
    """The session, with `lake` as one of its catalogs."""
    return spark_session(conf=lake.spark_conf(ensure(settings().cache, "spark")))


def engine_of(session: SparkSession) -> Engine:
    """An engine that works with `session`."""
    engine = Engine(iceberg=True, quiet=True)
    engine._session = session
    return engine


def use_lake(patch: pytest.MonkeyPatch, lake: Lake) -> None:
    """Have the stages that write to a lake open this one."""
    for stage in (validate_tables, publish_tables):
        patch.setattr(stage, "open_lake", lambda: lake)


def check_by_duckdb(patch: pytest.MonkeyPatch) -> None:
    """Have DuckDB check the rows of a branch, for tests of what follows: Great Expectations would take seconds."""

    def check(
        _: SparkSession, tables: Mapping[str, DataFrame], *checked: Any, docs: Path, **_others: object
    ) -> list[ExpectationResult]:
        assert not list(docs.iterdir())
        return duckdb_checks.check({name: rows.toArrow() for name, rows in tables.items()}, *checked)

    patch.setattr(validate_tables.spark_checks, "check", check)
