"""A real broker takes generated logs for its own, loads all of them, twice, and agrees with their indexes."""

import shutil
from pathlib import Path

import pytest

from sexton.java import find_java
from sexton.kafka import jars
from sexton.settings import settings, variable
from tests.bench.broker import Cluster, LoadingBroker
from tests.bench.generate import Shape, write

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, needs_broker: None) -> Cluster:
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    directory = tmp_path_factory.mktemp("bench") / "cluster"
    return Cluster(directory, java=java, jars=jars.ensure(settings().cache, "kafka"), log_partitions=2)


def test_the_broker_loads_every_record_twice(cluster: Cluster, tmp_path: Path) -> None:
    shape = Shape(records=60_000, keys=2000, log_partitions=2, transactional_share=0.3, codec="lz4")
    written = write(shape, tmp_path / "log")
    with LoadingBroker(cluster, tmp_path / "log", tmp_path / "broker") as broker:
        first, again = broker.first_load(), broker.load_again()
    assert first.records == again.records == written.records
    assert first.seconds > 0
    assert again.seconds > 0
    assert "recovering segment" not in (tmp_path / "broker" / "load.log").read_text()


def test_indexes_are_those_that_the_broker_builds(cluster: Cluster, tmp_path: Path) -> None:
    shape = Shape(records=60_000, keys=2000, log_partitions=2, transactional_share=0.3, segment_bytes=1_000_000)
    write(shape, tmp_path / "log")
    shutil.copytree(tmp_path / "log", tmp_path / "bare", ignore=shutil.ignore_patterns("*index"))
    with LoadingBroker(cluster, tmp_path / "bare", tmp_path / "broker") as broker:
        broker.first_load()
    ours = sorted((tmp_path / "log").rglob("*index"))
    assert len(ours) > 8
    for index in ours:
        built = tmp_path / "broker" / "data" / index.relative_to(tmp_path / "log")
        assert index.read_bytes() == built.read_bytes(), index.name
