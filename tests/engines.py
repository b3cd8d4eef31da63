"""One Spark session for every test that needs one."""

from collections.abc import Iterator

import pytest

from sexton.runs.engine import Engine
from sexton.runs.processes import SerialEngine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with Engine("tests", iceberg=True, quiet=True) as engine:  # one JVM a session: it must know the lake too
        _ = engine.session  # small inputs, too, take the way over Spark
        yield engine


@pytest.fixture(scope="module")
def small() -> Iterator[Engine]:
    """An engine that never needs Spark for what is small."""
    with SerialEngine("tests", quiet=True) as engine:
        yield engine
        assert engine._session is None
