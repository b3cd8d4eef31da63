"""One Spark session for every test of the stages."""

from collections.abc import Iterator

import pytest

from sexton.stages.spark import Engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with Engine("tests", quiet=True) as engine:
        _ = engine.session  # small inputs, too, take the way over Spark
        yield engine
