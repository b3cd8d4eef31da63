"""One small published lake for all tests that only read it."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from sexton.lake.published_tables import PublishedTables
from tests.ui.lakes import WrittenLake
from tests.ui.worlds import app_over, client_of, write_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> WrittenLake:
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def tables(world: WrittenLake) -> PublishedTables:
    return PublishedTables(lambda: world.lake)


@pytest.fixture(scope="session")
def client(world: WrittenLake) -> Iterator[TestClient]:
    with client_of(app_over(world)) as found:
        yield found
