"""Clusters on which nothing is wrong, each made anew from a seed: no replica differs, whatever the log cleaners do.

Each broker cleans at its own speed and rolls its segments when it likes. Groups of both protocols come and go, offsets
and groups are deleted, transactions of both versions end, brokers restart, one gets a new replica. For most of the time
`delete.retention.ms` is 0. While a broker is away there are commits alone: what else it would miss is no false alarm.
Minutes for each seed, so only with `--full`.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pyarrow.compute as pc
import pytest
from confluent_kafka import TopicPartition

from sexton.java import JavaHome
from sexton.replicas import ReplicaComparison
from tests.integration.replica_kinds import CLASSIC, CONSUMER, Groups, comparison, copied, predicted, require_told
from tests.integration.version_two_producer import VersionTwoProducer
from tests.replicas_cluster import LOG_PARTITIONS, NODES, PARTITIONS, TOPIC, A, B, C, ThreeBrokers

SEEDS = (1, 2, 3, 4, 5)
ROUNDS = 5
STEPS = 25
NEVER_MS = "3600000"
LONGER_THAN_A_COPY_MS = "60000"
TIMEOUT_S = 60
CLEANERS = (
    {"log.cleaner.backoff.ms": "15"},
    {"log.cleaner.backoff.ms": "2000"},
    {"log.cleaner.io.max.bytes.per.second": "20000"},
    {"log.cleaner.enable": "false"},
)

pytestmark = [pytest.mark.full, pytest.mark.timeout(1_200)]


@pytest.fixture(params=SEEDS)
def rng(request: pytest.FixtureRequest) -> Random:
    return Random(f"{request.param}/control")


@pytest.fixture
def cluster(rng: Random, tmp_path: Path, java: JavaHome, kafka_jars: list[Path]) -> Iterator[ThreeBrokers]:
    own = dict(zip(NODES, rng.sample(CLEANERS, len(NODES)), strict=True))
    settings = {"replica.high.watermark.checkpoint.interval.ms": "300", "group.initial.rebalance.delay.ms": "0"}
    with ThreeBrokers(tmp_path / "cluster", java=java, jars=kafka_jars, settings=settings, settings_of=own) as cluster:
        yield cluster


class Life:
    """What clients do on a cluster while all replicas are in sync."""

    def __init__(self, cluster: ThreeBrokers, groups: Groups, rng: Random) -> None:
        self._cluster, self._groups, self._rng = cluster, groups, rng
        self.simple = [groups.new(part, f"simple-{number}") for part in range(LOG_PARTITIONS) for number in range(6)]
        self._members = [groups.new(part, f"member-{number}") for part in range(LOG_PARTITIONS) for number in range(2)]
        self._numbers = iter(range(1_000_000))
        self._protocols = {group: rng.choice([CLASSIC, CONSUMER]) for group in self._members}

    def go_on(self) -> None:
        """Some steps at random, of each kind at least one."""
        kinds: list[Callable[[], None]] = [self.commit, self.transact, self.trim, self.remove, self.join]
        for step in (*kinds, *self._rng.choices(kinds, [12, 5, 3, 2, 1], k=STEPS)):
            step()
        self._cluster.wait_for(
            lambda: not any(self._cluster.open_transactions(node) for node in NODES), "the markers everywhere"
        )

    def commit(self) -> None:
        self._groups.commit(self._rng.choice(self.simple))

    def transact(self) -> None:
        """One transaction of either version, with offsets of two groups; its group may have been deleted before."""
        producer_id = f"producer-{self._rng.randrange(4)}"
        first, second = self._rng.sample(self.simple, 2)
        if self._rng.random() < 0.5:
            two = VersionTwoProducer(self._cluster.config, f"{producer_id}-two")
            two.send_offsets(first, self._offsets())
            two.send_offsets(second, self._offsets())
            two.commit_transaction() if self._rng.random() < 0.6 else two.abort_transaction()
            return
        one = self._cluster.transaction(f"{producer_id}-one", first, self._offsets())
        one.commit_transaction(TIMEOUT_S) if self._rng.random() < 0.6 else one.abort_transaction(TIMEOUT_S)

    def trim(self) -> None:
        """Delete offsets that a group has just committed."""
        group = self._rng.choice(self.simple)
        offsets = self._offsets()
        self._groups.put(group, offsets)
        self._cluster.delete_offsets(group, [number for _, number in offsets])

    def remove(self) -> None:
        """Delete a group; later steps may use its name again."""
        group = self._rng.choice(self.simple)
        self._groups.commit(group)
        self._cluster.delete_groups(group)

    def join(self) -> None:
        """A member comes, commits and leaves; the group may then be deleted, or change its protocol."""
        group = self._rng.choice(self._members)
        consumer = self._groups.join(group, self._protocols[group])
        consumer.commit(
            offsets=[TopicPartition(*at, offset) for at, offset in self._offsets().items()], asynchronous=False
        )
        consumer.close()
        if self._rng.random() < 0.5:
            self._cluster.delete_groups(group)
        if self._rng.random() < 0.5:
            self._protocols[group] = self._rng.choice([CLASSIC, CONSUMER])

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Commits and deletions by another thread, as long as this lasts."""
        is_over, failures = threading.Event(), list[BaseException]()
        group = self._groups.new(0, "beside")

        def work() -> None:
            try:
                while not is_over.is_set():
                    number = next(self._numbers)
                    self._groups.put(group, {(TOPIC, number % PARTITIONS): number})
                    if number % 5 == 0:
                        self._cluster.delete_offsets(group, [number % PARTITIONS])
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
        assert failures == []

    def _offsets(self) -> dict[tuple[str, int], int]:
        some = self._rng.sample(range(PARTITIONS), self._rng.randint(1, 3))
        return {(TOPIC, number): self._rng.randrange(1_000_000) for number in some}


def test_replicas_that_were_always_in_sync_do_not_differ(cluster: ThreeBrokers, rng: Random, tmp_path: Path) -> None:
    # Every broker rolls at instants of its own.
    cluster.configure(segment_jitter_ms="150", delete_retention_ms=LONGER_THAN_A_COPY_MS)
    groups = Groups(cluster, rng)
    life, found = Life(cluster, groups, rng), list[ReplicaComparison]()

    life.go_on()
    with life.beside():  # the copies are of other instants
        for number in range(3):
            under_load = comparison(copied(cluster, tmp_path / f"load-{number}"))
            assert under_load.alarms.to_pylist() == []
            found.append(under_load)

    cluster.configure(delete_retention_ms="0")
    for number in range(ROUNDS):
        life.go_on()
        restart(cluster, life, rng)
        if number == ROUNDS // 2:
            replicate_anew(cluster)
        cluster.wait_until_in_sync()
        found.append(alike(copied(cluster, tmp_path / f"round-{number}")))
    assert any(
        len({*each.state.filter(pc.equal(each.state["log_partition"], part))["record_count"].to_pylist()}) > 1
        for each in found
        for part in range(LOG_PARTITIONS)
    ), "the log cleaners have left the same records everywhere"

    told = 0
    for node in NODES:
        cluster.elect(node)
        cluster.wait_until_in_sync()
        folders = copied(cluster, tmp_path / f"led-by-{node}")
        found.append(alike(folders))
        for folder in folders:
            told += require_told(cluster.answers(groups.ids), predicted(folder, groups.ids))
    cluster.wait_until_in_sync()
    for node in (C, B):
        cluster.kill(node)
    cluster.kill(A, is_last=True)
    found.append(alike([cluster.brokers[node].data for node in NODES]))
    print(f"{told} answers as predicted of every replica; {len(found)} comparisons without a difference")


def alike(folders: list[Path]) -> ReplicaComparison:
    """A comparison that finds nothing."""
    found = comparison(folders)
    assert found.differences.to_pylist() == []
    assert found.notes == []
    return found


def restart(cluster: ThreeBrokers, life: Life, rng: Random) -> None:
    """End a broker, which may lead, in either way, and start it again after some commits."""
    node = rng.choice(NODES)
    cluster.wait_until_in_sync()
    if rng.random() < 0.5:
        cluster.kill(node)
    else:
        cluster.brokers[node].stop()
        cluster.wait_for(lambda: all(node not in isr for isr in cluster.isr().values()), f"{node} out of the ISR")
    cluster.wait_for(lambda: len(cluster.leaders()) == 1 and not cluster.leaders() & {node, -1}, "another leads")
    cluster.wait_for_coordinator(*cluster.leaders())
    for _ in range(10):
        life.commit()
    cluster.start(node)


def replicate_anew(cluster: ThreeBrokers) -> None:
    """C loses its replicas and gets new ones. What a cleaner takes away between two fetches it would never see."""
    cluster.configure(min_compaction_lag_ms=NEVER_MS, max_compaction_lag_ms=NEVER_MS)
    cluster.elect(A)
    cluster.assign(A, B)
    cluster.wait_for(lambda: {row.broker for row in cluster.probe()} == {A, B}, "C has no replica")
    cluster.assign(A, B, C)
    cluster.wait_until_in_sync()
    cluster.configure(min_compaction_lag_ms="0", max_compaction_lag_ms="1000")
