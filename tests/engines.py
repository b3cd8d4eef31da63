"""One Spark session for every test that needs one, and a lake for every module that needs one."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import SparkContext

from sexton.runs import spark_session
from sexton.runs.engine import Engine
from sexton.runs.processes import SerialEngine

_connections: list[Any] = []
"""Connections to the JVM that are not to be closed now."""


def _keep_connections() -> None:
    """Before a fork: the child has one thread. To it the connections of the others are garbage, which py4j shuts down,
    for this process, too. Then py4j's thread fails at the next object that it frees, and logs that in the middle of any
    test; CPython before 3.11.8 cannot even format a traceback in one thread while another parses Python.
    """
    if SparkContext._gateway is not None:
        _connections[:] = SparkContext._gateway._gateway_client.deque


os.register_at_fork(before=_keep_connections, after_in_parent=_connections.clear)


@pytest.fixture(scope="session", autouse=True)
def _one_jvm() -> Iterator[None]:
    """A process has one JVM, which takes its jars when it starts.

    Whichever test starts it, it knows Iceberg, and no job that a test runs stops it.
    """
    own = spark_session._jvm_conf
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_session, "_jvm_conf", lambda: {**_without_catalogs(spark_session._lake_conf()), **own()})
        patch.setattr(Engine, "stop", lambda engine: setattr(engine, "_session", None))
        yield


def _without_catalogs(conf: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in conf.items() if not name.startswith(spark_session.CATALOGS)}


@pytest.fixture(scope="session")
def engine(needs_spark: None) -> Iterator[Engine]:
    with Engine(iceberg=True, quiet=True) as engine:
        _ = engine.session  # small inputs, too, take the way over Spark
        yield engine


@pytest.fixture(scope="module")
def small() -> Iterator[Engine]:
    """An engine that never needs Spark for what is small."""
    with SerialEngine(quiet=True) as engine:
        yield engine
        assert engine._session is None


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.lake_session import lake_at  # late: most tests need nothing of what it imports

    return lake_at(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def iceberg(lake: Any, needs_spark: None) -> Engine:
    """An engine whose session knows the lake of the module."""
    from tests.lake_session import engine_of, iceberg_session

    return engine_of(iceberg_session(lake))
