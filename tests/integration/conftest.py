"""One real broker a session, filled once by the workload; tests that stop or damage a broker use one of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.session import ClusterSession
from sexton.pipeline.snapshot_log import SnapshotRequest, TakenSnapshot
from sexton.pipeline.snapshot_log import run as run_snapshot
from sexton.runs.engine import Engine
from sexton_dev.broker import EmbeddedBroker, running_broker
from sexton_dev.ports import free_port
from sexton_dev.workload import Workload, drive
from tests.integration.replica_kinds import SEEDS, new_cluster
from tests.replicas_cluster import ThreeBrokers


@pytest.fixture(scope="session")
def broker(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[EmbeddedBroker]:
    """A broker with ACLs, of which everybody may do everything; others with logins are in secure_broker.py."""
    everybody = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        # A machine that stands still for a while fences no broker: that would move the groups, and end their members.
        "broker.session.timeout.ms": "120000",
    }
    directory = tmp_path_factory.mktemp("broker")
    with EmbeddedBroker(directory, port=free_port(), java=java, jars=kafka_jars, settings=everybody) as broker:
        yield broker


@pytest.fixture(scope="session")
def config(broker: EmbeddedBroker) -> ClientConfig:
    return client_config({}, bootstrap_servers=broker.bootstrap_servers)


@pytest.fixture(scope="session")
def workload(config: ClientConfig) -> Iterator[Workload]:
    """Everything driven once; the open members and the open transaction last as long as the session."""
    with drive(config, seed=7) as made:
        yield made


@pytest.fixture
def session(config: ClientConfig) -> Iterator[ClusterSession]:
    with ClusterSession(config) as session:
        yield session


@pytest.fixture(scope="session")
def spare_broker(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[EmbeddedBroker]:
    # After a crash the controller waits for the session of the dead broker to end before it takes the new one.
    impatient = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500", "quota.window.num": "2"}
    directory = tmp_path_factory.mktemp("spare")
    broker = EmbeddedBroker(directory, port=free_port(), java=java, jars=kafka_jars, settings=impatient)
    yield broker
    broker.stop()


@pytest.fixture
def own_broker(spare_broker: EmbeddedBroker) -> EmbeddedBroker:
    """A broker to stop, damage and start again; it runs, and holds what tests before left."""
    if running_broker(spare_broker.directory) is None:
        spare_broker.start()
    return spare_broker


@pytest.fixture
def snapshot(tmp_path: Path, needs_spark: None) -> Callable[..., TakenSnapshot]:
    """Take a snapshot into this test's archive; now stands still at one instant unless told otherwise."""
    instants = iter(range(1_800_000_000_000, 1_900_000_000_000))

    def take(config: ClientConfig) -> TakenSnapshot:
        with Engine(iceberg=True, quiet=True) as engine:
            request = SnapshotRequest(config=config, archive=str(tmp_path / "archive"))
            return run_snapshot(engine, request, now_ms=lambda: next(instants))

    return take


@pytest.fixture(params=[*SEEDS, "drawn"])
def rng(request: pytest.FixtureRequest, drawn: int) -> Random:
    return Random(drawn if request.param == "drawn" else request.param)


@pytest.fixture
def cluster(rng: Random, tmp_path: Path, java: JavaHome, kafka_jars: list[Path]) -> Iterator[ThreeBrokers]:
    """Three brokers of a test's own, once for each seed; files that need another cluster have theirs."""
    with new_cluster(tmp_path / "cluster", java, kafka_jars) as cluster:
        yield cluster
