"""One lake session a module; every test has a lake of its own in it."""

import pytest
from pyspark.sql import SparkSession

from sexton.lake.catalog import Lake
from tests.lake_session import iceberg_session, lake_at


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake_at(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def spark(lake: Lake) -> SparkSession:
    return iceberg_session(lake)
