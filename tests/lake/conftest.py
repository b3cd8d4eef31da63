"""One session that knows Iceberg, and a lake of every kind of catalog for each module."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sexton.lake.catalog import Lake
from tests.lake_session import iceberg_session, lake_at
from tests.postgres import Postgres, running_postgres


@pytest.fixture(scope="session")
def postgres(needs_postgres: None) -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=[pytest.mark.thorough, pytest.mark.postgres])]
)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("lake")
    if request.param == "sqlite":
        return lake_at(folder)
    server: Postgres = request.getfixturevalue("postgres")
    return server.lake(folder)


@pytest.fixture(scope="module")
def spark(lake: Lake, needs_spark: None) -> SparkSession:
    return iceberg_session(lake)
