"""What a test needs besides this process: a fixture for each, and the marker of the tests that use it.

A fixture that starts something asks for `needs_...`. Every test that comes to use it is marked, so that `-m` selects by
what a machine has; no other test may start such a program. A fixture that starts something for one of its parameters
gives that parameter the marker.
"""

import subprocess
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sexton.java import JavaHome, find_java
from sexton.kafka import jars
from sexton.settings import settings, variable
from tests.ui import chromium

PROGRAMS = {
    "broker": "kafka.Kafka", "spark": "pyspark-shell", "airflow": "airflow", "browser": "node", "postgres": "initdb",
}  # fmt: skip
"""Marker -> the last name in an argument of a command that starts it."""
PREFIX = "needs_"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(StartsNothingElse())
    for name in PROGRAMS:
        config.addinivalue_line("markers", f"{name}: given to tests that use the fixture {PREFIX}{name}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in needs_of(item):
            item.add_marker(name)


def needs_of(item: pytest.Item) -> list[str]:
    """What a test needs, by the fixtures that it uses and those that they use."""
    names: Sequence[str] = getattr(item, "fixturenames", ())
    return [name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)]


@pytest.fixture(scope="session")
def needs_broker() -> None:
    """For what starts a broker."""


@pytest.fixture(scope="session")
def needs_spark() -> None:
    """For what starts a JVM with Spark."""


@pytest.fixture(scope="session")
def needs_airflow() -> None:
    """For what starts a service of Airflow's, or one of its commands."""


@pytest.fixture(scope="session")
def needs_browser() -> None:
    """For what drives Chromium; fails where there is none: what only a browser sees is not left out without a word."""
    chromium.require()


@pytest.fixture(scope="session")
def needs_postgres() -> None:
    """For what starts a Postgres."""


@pytest.fixture(scope="session")
def java() -> JavaHome:
    return find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))


@pytest.fixture(scope="session")
def kafka_jars(needs_broker: None) -> list[Path]:
    return jars.ensure(settings().cache, "kafka")


class StartsNothingElse:
    """Fails a test that starts what none of its fixtures needs."""

    def __init__(self) -> None:
        self._item: pytest.Item | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._item = item
        return (yield)

    @pytest.fixture(scope="session", autouse=True)
    def _starts_nothing_else(self) -> Iterator[None]:
        start, spark = subprocess.Popen.__init__, SparkSession.Builder.getOrCreate

        def check(command: Any) -> None:
            if self._item and (wrong := unsaid(command, [marker.name for marker in self._item.iter_markers()])):
                pytest.fail(f"{self._item.nodeid} {wrong}")

        def started(process: Any, args: Any, *more: Any, **options: Any) -> None:
            check(args)
            start(process, args, *more, **options)

        def session(builder: SparkSession.Builder) -> SparkSession:
            check(PROGRAMS["spark"])  # also where an earlier test has started the JVM
            return spark(builder)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess.Popen, "__init__", started)
            patch.setattr(SparkSession.Builder, "getOrCreate", session)
            yield


def unsaid(command: Any, needs: Collection[str]) -> str | None:
    """What is wrong with a test that runs a command; None if it said that it needs the program."""
    name = needed_by(command)
    return f"starts {command} and uses no fixture {PREFIX}{name}" if name and name not in needs else None


def needed_by(command: Any) -> str | None:
    """What a command starts that has a marker."""
    words = [command] if isinstance(command, str | Path) else command
    names = {Path(str(word)).name for word in words}
    return next((name for name, program in PROGRAMS.items() if program in names), None)
