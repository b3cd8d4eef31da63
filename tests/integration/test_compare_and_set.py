"""Offsets written by a transaction on a real broker: what comes in the same milliseconds stays, and whoever dies in
between has changed nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from sexton.as_text import now_ms
from sexton.errors import BrokerError
from sexton.execution.engine import Clocks
from sexton.execution.kafka_admin import KafkaAdmin, connected
from sexton.execution.restore.apply_restore import RestoreSummary, apply_restore
from sexton.execution.restore.diff import make_restore
from sexton.execution.restore.restore_plan import OffsetValue, RestorePlan, Then, keep_restore
from sexton.execution.restore.sources import Source
from sexton.java import JavaHome
from sexton.kafka import offset_transactions
from sexton.kafka.admin import commit_offsets, delete_offsets
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import TRANSACTION_COORDINATOR, committed_offsets, coordinator_of, find_coordinator
from sexton.kafka.offset_transactions import ProducerIdentity
from sexton.kafka.session import ClusterSession
from sexton.ledger.ledger import Ledger
from sexton_dev.broker import EmbeddedBroker, running_broker
from tests.clients import commit_when_ready
from tests.integration.compare_and_set import FIRST, KEY, OURS, TOPIC, Rounds, broker_of, rounds_on
from tests.release_jars import jars_of
from tests.replicas_cluster import NODES, ThreeBrokers
from tests.waiting import until

pytestmark = pytest.mark.thorough

RELEASE = "4.3.1"
UNSTABLE = 88


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[EmbeddedBroker]:
    folder = tmp_path_factory.mktemp("compare-and-set")
    with broker_of(RELEASE, folder / "broker", java=java, jars=kafka_jars) as broker:
        rounds_on(broker, folder, 0)
        yield broker


@pytest.fixture(scope="module")
def config(broker: EmbeddedBroker) -> ClientConfig:
    return client_config({}, bootstrap_servers=broker.bootstrap_servers)


@pytest.fixture
def client(config: ClientConfig) -> Iterator[KafkaAdmin]:
    with connected(config) as client:
        yield client


def plan_of(client: KafkaAdmin, group_id: str, *, first: bool = True) -> RestorePlan:
    """A restore of OURS, over FIRST or where nothing is."""
    if first:
        assert set(commit_offsets(client.reading, group_id, {KEY: FIRST}).values()) == {None}
    values = {(group_id, *KEY): Then(value=OffsetValue(*OURS))}
    source = Source(name=f"as_of {group_id}", cluster_id=client.identity().cluster_id, values=values)
    return make_restore(source, client, overwrites=True)


def apply(client: KafkaAdmin, plan: RestorePlan, root: Path) -> RestoreSummary:
    ledger = Ledger(pafs.LocalFileSystem(), str(root), plan.cluster_id, plan.restore_id)
    return apply_restore(client, plan, ledger, approved_by="ann", lease_ms=60_000, clocks=Clocks(now_ms=now_ms))


def served(session: ClusterSession, group_id: str) -> tuple[int, int | None, str] | None:
    found = committed_offsets(session, group_id).get(KEY)
    return None if found is None else found.as_committed


@pytest.mark.timeout(0)
@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.full)])
def test_nothing_is_lost(
    count: int, config: ClientConfig, seed: int, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """Rivals commit, rewind, delete and end transactions at random instants around each restore."""
    run(Rounds(config, tmp_path, seed), count, tell)


@pytest.mark.full
@pytest.mark.timeout(0)
@pytest.mark.parametrize("release", ["3.9.1", "2.8.2"])
def test_nothing_is_lost_on_older_releases(
    release: str, java: JavaHome, seed: int, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    with broker_of(release, tmp_path / "broker", java=java, jars=jars_of(release)) as broker:
        run(rounds_on(broker, tmp_path / "archive", seed), 2_000, tell)


def run(rounds: Rounds, count: int, tell: Callable[[str], None]) -> None:
    rounds.run(count)
    tell(f"{count} rounds, {rounds.between} with a rival between pending and end, {len(rounds.lost)} lost")
    assert rounds.lost == []
    outcomes = {outcome for _, outcome in rounds.outcomes}
    assert outcomes >= {"done", "changed_since"}
    assert rounds.between


def test_bytes_are_exact(client: KafkaAdmin, tmp_path: Path) -> None:
    plan = plan_of(client, "exact")
    assert apply(client, plan, tmp_path).counts() == {"done": 1}
    assert served(client.reading, "exact") == OURS


def test_an_offset_that_is_only_pending_is_left_alone(client: KafkaAdmin, tmp_path: Path) -> None:
    """Nothing is committed, and an OffsetFetch of all offsets does not show it: by name it does."""
    plan = plan_of(client, "only-pending", first=False)
    rival = offset_transactions.begin(client.reading, "only-pending")
    offset_transactions.pend(client.reading, rival, "only-pending", {KEY: (77, 1, "theirs")})
    assert committed_offsets(client.reading, "only-pending", require_stable=True) == {}
    assert (
        committed_offsets(client.reading, "only-pending", require_stable=True, only=[KEY])[KEY].error_code == UNSTABLE
    )
    summary = apply(client, plan, tmp_path)
    assert [(result.outcome, result.error) for _, result in summary.results] == [("refused", "UNSTABLE_OFFSET_COMMIT")]
    offset_transactions.end(client.reading, rival, committed=True)
    until(lambda: served(client.reading, "only-pending") == (77, 1, "theirs"))


class Meanwhile:
    """A cluster on which something happens right before the end of our transaction."""

    def __init__(self, client: KafkaAdmin, act: Callable[[], object]) -> None:
        self._client, self._act = client, act

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        self._act()
        self._client.end_transaction(producer, committed=committed)


def test_a_deletion_between_pending_and_commit_stays(client: KafkaAdmin, tmp_path: Path) -> None:
    """It cancels what is pending."""
    plan = plan_of(client, "deleted")
    meanwhile = Meanwhile(client, lambda: delete_offsets(client.reading, "deleted", {TOPIC: [0]}))
    apply(meanwhile, plan, tmp_path)  # type: ignore[arg-type]
    assert served(client.reading, "deleted") is None


def test_a_commit_between_pending_and_commit_wins(client: KafkaAdmin, tmp_path: Path) -> None:
    plan = plan_of(client, "rewound")
    meanwhile = Meanwhile(client, lambda: commit_offsets(client.reading, "rewound", {KEY: (1, None, "back")}))
    assert apply(meanwhile, plan, tmp_path).counts() == {"done": 1}  # type: ignore[arg-type]
    assert served(client.reading, "rewound") == (1, None, "back")


@pytest.mark.parametrize(("failpoint", "came"), [("apply.pended", FIRST), ("apply.committed", OURS)])
def test_a_process_that_dies_in_between(
    failpoint: str, came: tuple[int, int, str], client: KafkaAdmin, config: ClientConfig, tmp_path: Path
) -> None:
    """What is pending is ended by the next start, at once, whatever it is that is restored."""
    plan = plan_of(client, failpoint)
    keep_restore(pafs.LocalFileSystem(), str(tmp_path), plan)
    argv = ["restore", "--id", plan.restore_id, "--apply", "--approved-by", "ann", "--archive", str(tmp_path)]
    argv += ["--cluster-id", plan.cluster_id, "--bootstrap-servers", config.bootstrap_servers, "--json"]
    command = [sys.executable, "-m", "sexton", *argv]

    def run(**more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more}, check=False)

    died = run(SEXTON_FAILPOINT=failpoint)
    assert died.returncode == -signal.SIGKILL, died.stderr
    until(lambda: served(client.reading, failpoint) == came)
    again = run()
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["counts"] == {"done": 1}
    assert served(client.reading, failpoint) == OURS
    by_name = committed_offsets(client.reading, failpoint, require_stable=True, only=[KEY])
    assert by_name[KEY].error_code == 0


def test_a_broker_that_dies_in_between(
    tmp_path: Path, java: JavaHome, kafka_jars: list[Path], client: KafkaAdmin
) -> None:
    """Before COMMIT: the value stays, and the next attempt writes it."""
    impatient = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
    broker = broker_of(RELEASE, tmp_path / "broker", java=java, jars=kafka_jars)
    broker._settings |= impatient
    with broker:
        own = rounds_on(broker, tmp_path, 0).config
        with connected(own) as mine:
            plan = plan_of(mine, "killed")
            changing = replace(mine, reading=ClusterSession(own, retry_for_s=1, request_timeout_ms=2_000))
            with pytest.raises(BrokerError):
                apply(Meanwhile(changing, broker.kill), plan, tmp_path)  # type: ignore[arg-type]
            changing.reading.close()
        broker.start()
        with connected(own) as mine:
            assert until(lambda: served(mine.reading, "killed"), passing=(BrokerError,)) == FIRST
            assert apply(mine, plan, tmp_path).counts() == {"done": 1}
            assert served(mine.reading, "killed") == OURS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]) -> Iterator[ThreeBrokers]:
    with ThreeBrokers(tmp_path_factory.mktemp("three"), java=java, jars=kafka_jars) as cluster:
        yield cluster


@pytest.mark.parametrize("rivals", [False, True])
@pytest.mark.parametrize("change", ["election", "group coordinator killed", "transaction coordinator killed"])
def test_another_broker_leads_between_pending_and_commit(
    change: str, rivals: bool, cluster: ThreeBrokers, tmp_path: Path
) -> None:
    """What is pending is in the log of the new leader too, and a rival's commit to it wins. A change that takes longer
    than a transaction may be open ends ours with ABORT: nothing has changed, and the next attempt writes it."""
    group_id = f"{change}-{rivals}"
    with connected(cluster.config) as client:
        plan = plan_of(client, group_id)
        led = find_coordinator(client.reading, group_id)

        def act() -> None:
            if change == "election":
                cluster.elect(next(node for node in NODES if node != led))
            else:
                name = f"sexton-{plan.restore_id[:32]}"
                found = coordinator_of(client.reading, name, key_type=TRANSACTION_COORDINATOR).node_id
                cluster.kill(led if change.startswith("group") else found)
            if rivals:
                commit_when_ready(client.reading, group_id, {KEY: (1, None, "back")})

        try:
            ((_, result),) = apply(Meanwhile(client, act), plan, tmp_path).results  # type: ignore[arg-type]
            if rivals:
                until(lambda: served(client.reading, group_id) == (1, None, "back"))
            else:
                assert result.outcome in ("done", "not_done")
                until(lambda: served(client.reading, group_id) == (OURS if result.outcome == "done" else FIRST))
                assert apply(client, plan, tmp_path).counts() == {"done": 1}
                assert served(client.reading, group_id) == OURS
        finally:
            cluster.start(*(node for node in NODES if running_broker(cluster.brokers[node].directory) is None))
