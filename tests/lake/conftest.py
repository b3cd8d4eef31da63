"""One session that knows Iceberg, and a lake of every kind of catalog for each module."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sexton.lake.catalog import Lake
from tests.lake_session import iceberg_session, lake_at
from tests.postgres import Postgres, running_postgres
from tests.rest_catalog import RestCatalog, running_rest_catalog


@pytest.fixture(scope="session")
def postgres(needs_postgres: None) -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory, needs_spark: None) -> Iterator[RestCatalog]:
    with running_rest_catalog(tmp_path_factory.mktemp("rest")) as catalog:
        yield catalog


@pytest.fixture(
    scope="module",
    params=[
        "sqlite",
        pytest.param("postgres", marks=[pytest.mark.thorough, pytest.mark.postgres]),
        pytest.param("rest", marks=[pytest.mark.full]),  # test_rest_catalog.py has the most of it, every time
    ],
)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("lake")
    if request.param == "sqlite":
        return lake_at(folder)
    if request.param == "rest":
        catalog: RestCatalog = request.getfixturevalue("rest_catalog")
        return catalog.lake
    server: Postgres = request.getfixturevalue("postgres")
    return server.lake(folder)


@pytest.fixture(scope="module")
def spark(lake: Lake, needs_spark: None) -> SparkSession:
    return iceberg_session(lake)
