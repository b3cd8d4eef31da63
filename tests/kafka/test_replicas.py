"""What is suspicious about a replica and what is lag, and every way in which a broker fails to answer for its own.

A cluster of three in memory, whose replicas have logs, high watermarks and transactions of their own; a real one is in
tests/integration/test_replicas.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace as Answer
from typing import Any

import pytest

from sexton.errors import UsageError
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.failures import NotAllowed
from sexton.kafka.replicas import FIXES, ReplicaProbe, probe_replicas
from sexton.kafka.session import TransientError
from sexton.replicas import copy as copying
from sexton.replicas.copy import CopiedReplica, copy_replicas
from sexton.topics import OFFSETS_TOPIC
from tests.kafka.fake_cluster import ATTEMPTS, FakeCluster, FakeLog, FakeSession

A, B, C = BROKERS = 1, 2, 3
CONFIG = client_config({}, bootstrap_servers="127.0.0.1:1")
OUT_OF_RANGE, CORRUPT, NOT_REPLICA, NOT_ALLOWED, STORAGE, FENCED, UNKNOWN_EPOCH = 1, 2, 6, 29, 56, 74, 75


@dataclass
class FakeReplica:
    """One log partition on one broker. `open` are the offsets where its open transactions begin."""

    log: FakeLog
    high_watermark: int | None = None
    open: list[int] = field(default_factory=list)
    error: int = 0
    """What the broker answers every fetch with."""

    @property
    def end(self) -> int:
        return self.log.end if self.high_watermark is None else self.high_watermark


class FakeReplicas(FakeCluster):
    """Log partition n on brokers 1 to 3, led by 1: `replicas[broker][n]`, equal at first."""

    def __init__(self, *, log_partitions: int = 1, batches: int = 12) -> None:
        super().__init__(3, log_partitions=log_partitions)
        self.brokers = {broker: {} for broker in BROKERS}
        self.replicas = {
            broker: [FakeReplica(FakeLog(Random(7), n)) for n in range(log_partitions)] for broker in BROKERS
        }
        for found in self.replicas.values():
            for replica in found:
                replica.log.append(batches)
        self.moves: dict[str, list[int]] = {"adding": [], "removing": []}
        self.asked_of: list[tuple[int | None, str]] = []

    def session(self, config: ClientConfig = CONFIG) -> FakeSession:
        return ReplicaSession(self, config)

    def of(self, broker: int) -> FakeReplica:
        return self.replicas[broker][0]

    def elect(self) -> None:
        for found in self.replicas.values():
            for replica in found:
                replica.log.elect()

    def answer_from(self, broker: int | None, request: Any) -> Any:
        name = type(request).__name__
        self.asked_of.append((broker, name))
        self.before_request(request)
        if broker in self.dead:
            raise TransientError(f"broker {broker} gives no answer")
        if name == "MetadataRequest":
            return self._metadata()
        if name == "ListPartitionReassignmentsRequest":
            adding, removing = self.moves["adding"], self.moves["removing"]
            moved = [Answer(partition_index=0, adding_replicas=adding, removing_replicas=removing)]
            return Answer(topics=[Answer(partitions=moved)])
        found = self.replicas[broker or A]
        if name == "ListOffsetsRequest":
            listed = [
                Answer(partition_index=one.partition_index, error_code=0, offset=self._offset(found, one))
                for one in request.topics[0].partitions
            ]
            return Answer(topics=[Answer(name=OFFSETS_TOPIC, partitions=listed)])
        if name == "DescribeProducersRequest":
            return Answer(
                topics=[Answer(partitions=[_producers(n, found[n]) for n in request.topics[0].partition_indexes])]
            )
        assert name == "FetchRequest"
        if self.hold_back:
            self.hold_back -= 1
            return Answer(error_code=0, throttle_time_ms=1, responses=[])
        answers = [self._fetched(found[one.partition], one) for one in request.topics[0].partitions]
        return Answer(error_code=0, throttle_time_ms=0, responses=[Answer(partitions=answers)])

    def _metadata(self) -> Answer:
        told = {"leader_id": A, "replica_nodes": list(BROKERS), "isr_nodes": [A, B]}
        epochs = [replica.log.epoch for replica in self.replicas[A]]
        partitions = [Answer(partition_index=n, leader_epoch=epoch, **told) for n, epoch in enumerate(epochs)]
        topic = Answer(error_code=0, name=OFFSETS_TOPIC, topic_id=self.topic_id, partitions=partitions)
        return Answer(cluster_id=self.cluster_id, topics=[topic])

    def _offset(self, found: list[FakeReplica], asked: Any) -> int:
        replica = found[asked.partition_index]
        return replica.log.start if asked.timestamp == -2 else replica.end

    def _fetched(self, replica: FakeReplica, asked: Any) -> Answer:
        log, code = replica.log, replica.error
        if not code and asked.current_leader_epoch != log.epoch:
            code = FENCED if asked.current_leader_epoch < log.epoch else UNKNOWN_EPOCH
        if not code and not log.start <= asked.fetch_offset <= log.end:
            code = OUT_OF_RANGE
        readable = asked.fetch_offset < replica.end and not code
        size_bytes = min(asked.partition_max_bytes, self.response_bytes)
        return Answer(
            partition_index=asked.partition,
            error_code=code,
            records=log.read(asked.fetch_offset, size_bytes) if readable else b"",
            log_start_offset=-1 if code else log.start,
            high_watermark=-1 if code else replica.end,
            last_stable_offset=-1 if code else min([replica.end, *replica.open]),
            preferred_read_replica=-1,
        )


def _producers(log_partition: int, replica: FakeReplica) -> Answer:
    producers = [
        Answer(producer_id=100 + start, producer_epoch=2, current_txn_start_offset=start)
        for start in (*replica.open, -1)
    ]
    return Answer(partition_index=log_partition, error_code=0, active_producers=producers)


class ReplicaSession(FakeSession):
    def call(self, request: Any, *, node_id: int | None = None) -> Any:
        return self._cluster.answer_from(node_id, request)  # type: ignore[attr-defined]


def probe(cluster: FakeReplicas, **options: float) -> dict[int, ReplicaProbe]:
    return {row.broker: row for row in probe_replicas(cluster.session(), **{"catch_up_s": 0, **options})}


def suspicious(cluster: FakeReplicas, **options: float) -> set[int]:
    return {broker for broker, row in probe(cluster, **options).items() if row.suspicion}


def copy(cluster: FakeReplicas, folder: Path) -> dict[int, CopiedReplica]:
    """The states of the replicas of log partition 0, by broker."""
    found = copy_replicas(CONFIG, folder, taken_at_ms=1, connect=cluster.session)
    return {one.broker: one for one in found.replicas if one.log_partition == 0}


def copied(folder: Path, broker: int) -> bytes:
    files = sorted((folder / f"broker-{broker}" / f"{OFFSETS_TOPIC}-0").glob("*.log"))
    return b"".join(file.read_bytes() for file in files)


@pytest.fixture
def cluster() -> FakeReplicas:
    return FakeReplicas()


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def open_at(broker: int, *offsets: int) -> Callable[[FakeReplicas], None]:
    return lambda cluster: cluster.of(broker).open.extend(offsets)


def lagging(broker: int, high_watermark: int) -> Callable[[FakeReplicas], None]:
    return lambda cluster: setattr(cluster.of(broker), "high_watermark", high_watermark)


SUSPICIONS = {
    "equal": ([], set()),
    "one": ([open_at(C, 5)], {C}),
    "two": ([open_at(B, 5), open_at(C, 9)], {B, C}),
    "same": ([open_at(A, 5), open_at(B, 5), open_at(C, 5)], set()),
    "one-more-below": ([open_at(A, 5), open_at(B, 5), open_at(C, 3, 5)], {C}),
    "one-more-above": ([open_at(A, 5), open_at(B, 5), open_at(C, 5, 9)], set()),
    # The marker of 5 may be above what the follower has: it lies beyond the leader's last stable offset.
    "lag-past-the-stable-offset": ([open_at(A, 9), open_at(B, 9), open_at(C, 5), lagging(C, 11)], set()),
    "lag": ([open_at(C, 5), lagging(C, 11)], set()),
    "leader": ([open_at(A, 5)], {A}),
}


@pytest.mark.parametrize(("makes", "wanted"), SUSPICIONS.values(), ids=SUSPICIONS)
def test_what_is_suspicious(
    cluster: FakeReplicas, makes: list[Callable[[FakeReplicas], None]], wanted: set[int]
) -> None:
    for make in makes:
        make(cluster)
    assert suspicious(cluster) == wanted


def test_the_producers_are_named(cluster: FakeReplicas) -> None:
    open_at(C, 5)(cluster)
    row = probe(cluster)[C]
    assert row.last_stable_offset == 5
    assert [one.start_offset for one in row.open_transactions or ()] == [5]
    assert row.suspicion is not None
    assert "105 (epoch 2) since 5" in row.suspicion


def test_fetches_that_a_quota_held_back_are_repeated(cluster: FakeReplicas, tmp_path: Path) -> None:
    seen = probe(cluster)
    cluster.hold_back = 2
    assert probe(cluster) == seen
    cluster.hold_back = 2
    copy(cluster, tmp_path)
    assert cluster.hold_back == 0
    assert copied(tmp_path, C) == b"".join(cluster.of(C).log.batches)


def test_a_follower_that_is_behind_is_waited_for(cluster: FakeReplicas) -> None:
    """Its replication goes on between two probes: then it has a marker of its own, or lacks it."""
    open_at(C, 5)(cluster)
    lagging(C, 11)(cluster)

    def replicate(request: Any) -> None:
        if [broker for broker, name in cluster.asked_of if name == "FetchRequest"].count(C) > 2:
            cluster.of(C).high_watermark = None

    cluster.before_request = replicate
    assert suspicious(cluster, catch_up_s=30) == {C}


def test_a_transaction_that_ends_during_the_snapshot_is_not_suspicious(cluster: FakeReplicas) -> None:
    """All three have it open when the leader is asked first; it ends before the followers are asked, or after."""
    for ended_after in range(1, 12):
        for broker in BROKERS:
            cluster.of(broker).open = [5]
        cluster.asked_of.clear()

        def end(request: Any, at: int = ended_after) -> None:
            if len(cluster.asked_of) == at:
                for broker in BROKERS:
                    cluster.of(broker).open = []

        cluster.before_request = end
        assert suspicious(cluster) == set()


@pytest.mark.parametrize(
    ("error", "fault"),
    [(NOT_REPLICA, "no_replica"), (UNKNOWN_EPOCH, "other_epoch"), (CORRUPT, "corrupt"), (STORAGE, "failed")],
)
def test_a_replica_that_answers_with_an_error(cluster: FakeReplicas, tmp_path: Path, error: int, fault: str) -> None:
    cluster.of(C).error = error
    rows, states = probe(cluster), copy(cluster, tmp_path / "out")
    for found in (rows[C], states[C]):
        assert (found.fault, found.fix) == (fault, FIXES[fault])  # type: ignore[index]
        assert found.high_watermark is None
    assert {broker for broker, row in rows.items() if row.fault is None} == {A, B}
    assert {broker for broker, state in states.items() if state.folder} == {A, B}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["broker-1", "broker-2", "replicas.json"]


def test_a_broker_that_does_not_answer_is_waited_for_once(tmp_path: Path) -> None:
    cluster = FakeReplicas(log_partitions=5)
    cluster.dead = {C}
    states = copy_replicas(CONFIG, tmp_path / "out", taken_at_ms=1, connect=cluster.session).replicas
    assert [one.broker for one in states if one.fault == "unreachable"] == [C] * 5
    assert cluster.asked_of.count((C, "FetchRequest")) == ATTEMPTS


def test_a_broker_without_its_replicas_is_waited_for_once(tmp_path: Path) -> None:
    cluster = FakeReplicas(log_partitions=5)
    for replica in cluster.replicas[C]:
        replica.error = NOT_REPLICA
    states = copy_replicas(CONFIG, tmp_path / "out", taken_at_ms=1, connect=cluster.session).replicas
    assert [one.broker for one in states if one.fault == "no_replica"] == [C] * 5
    assert cluster.asked_of.count((C, "FetchRequest")) == ATTEMPTS + 4


def test_a_stalled_broker_does_not_keep_the_metadata_from_the_others(cluster: FakeReplicas) -> None:
    cluster.dead = {A}
    rows = probe(cluster)
    assert [row.fault for row in rows.values()] == ["unreachable", None, None]


def test_replicas_that_are_reassigned(cluster: FakeReplicas) -> None:
    cluster.moves = {"adding": [B], "removing": [C]}
    assert [row.reassignment for row in probe(cluster).values()] == [None, "adding", "removing"]


def test_without_the_right_to_read_nothing_is_answered(cluster: FakeReplicas, tmp_path: Path) -> None:
    for broker in BROKERS:
        cluster.of(broker).error = NOT_ALLOWED
    with pytest.raises(NotAllowed, match="READ"):
        probe(cluster)
    with pytest.raises(NotAllowed, match="READ"):
        copy(cluster, tmp_path / "out")


def test_a_copy_ends_at_the_high_watermark_of_its_own_broker(cluster: FakeReplicas, tmp_path: Path) -> None:
    third = int.from_bytes(cluster.of(C).log.batches[3][:8], "big")
    lagging(C, third)(cluster)
    states = copy(cluster, tmp_path / "out")
    assert copied(tmp_path / "out", B) == b"".join(cluster.of(B).log.batches)
    assert copied(tmp_path / "out", C) == b"".join(cluster.of(C).log.batches[:3])
    assert states[C].high_watermark == third
    checkpoint = (tmp_path / "out" / "broker-3" / "replication-offset-checkpoint").read_text("utf-8")
    assert checkpoint == f"0\n1\n{OFFSETS_TOPIC} 0 {third}\n"


def test_a_log_is_cut_into_segments(cluster: FakeReplicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "SEGMENT_BYTES", 300)
    copy(cluster, tmp_path / "out")
    files = sorted((tmp_path / "out" / "broker-2" / f"{OFFSETS_TOPIC}-0").glob("*.log"))
    assert len(files) > 2
    assert [file.name for file in files[1:]] == [
        f"{int.from_bytes(file.read_bytes()[:8], 'big'):020d}.log" for file in files[1:]
    ]
    assert copied(tmp_path / "out", B) == b"".join(cluster.of(B).log.batches)


@pytest.mark.parametrize("times", [1, 9])
def test_an_election_while_a_replica_is_read(cluster: FakeReplicas, tmp_path: Path, times: int) -> None:
    """What was read may have been cut off: the log is read again; where elections do not end, it is a fault."""
    left = iter(range(times))

    def elect(request: Any) -> None:
        is_read = type(request).__name__ == "FetchRequest" and request.topics[0].partitions[0].fetch_offset > 8
        if is_read and next(left, None) is not None:
            cluster.elect()

    cluster.before_request = elect
    states = copy(cluster, tmp_path / "out")
    whole = {broker for broker, state in states.items() if state.folder}
    assert whole == set(BROKERS) if times == 1 else whole != set(BROKERS)
    assert {state.fault for state in states.values()} - {None} <= {"other_epoch"}
    for broker in whole:
        assert copied(tmp_path / "out", broker) == b"".join(cluster.of(broker).log.batches)


def test_a_log_start_that_moves_while_a_replica_is_read(cluster: FakeReplicas, tmp_path: Path) -> None:
    is_moved = iter([True])

    def move(request: Any) -> None:
        is_read = type(request).__name__ == "FetchRequest" and request.topics[0].partitions[0].fetch_offset > 2
        if is_read and next(is_moved, False):
            for broker in BROKERS:
                cluster.of(broker).log.delete_below(9)

    cluster.before_request = move
    states = copy(cluster, tmp_path / "out")
    start = cluster.of(A).log.start
    assert start >= 9
    assert {state.fault for state in states.values()} == {None}
    late = [broker for broker in BROKERS if states[broker].log_start_offset == start]
    assert late
    for broker in late:
        assert copied(tmp_path / "out", broker) == b"".join(cluster.of(broker).log.batches)


def test_a_log_that_begins_after_the_leaders_is_read_from_its_own_start(cluster: FakeReplicas, tmp_path: Path) -> None:
    cluster.of(C).log.delete_below(6)
    states = copy(cluster, tmp_path / "out")
    assert states[C].log_start_offset == cluster.of(C).log.start
    assert copied(tmp_path / "out", C) == b"".join(cluster.of(C).log.batches)


def test_a_log_that_holds_neither_end_of_the_leaders(cluster: FakeReplicas, tmp_path: Path) -> None:
    cluster.of(C).log.delete_below(6)
    cluster.of(A).log.append(4)
    assert probe(cluster)[C].fault == "out_of_range"
    assert copy(cluster, tmp_path / "out")[C].fault == "out_of_range"


def test_a_bad_batch_is_copied_and_named(cluster: FakeReplicas, tmp_path: Path) -> None:
    log = cluster.of(C).log
    log.batches[5] = log.batches[5][:-1] + bytes([log.batches[5][-1] ^ 1])
    states = copy(cluster, tmp_path / "out")
    assert [state.fault for state in states.values()] == [None, None, "corrupt"]
    assert states[C].folder
    assert copied(tmp_path / "out", C) == b"".join(log.batches)


def test_copies_are_not_mixed(cluster: FakeReplicas, tmp_path: Path) -> None:
    copy(cluster, tmp_path / "out")
    with pytest.raises(UsageError, match="already"):
        copy(cluster, tmp_path / "out")


def test_a_slow_copy_says_what_it_may_lack(cluster: FakeReplicas, tmp_path: Path) -> None:
    cluster.delete_retention_ms = 0
    (warning,) = copy_replicas(CONFIG, tmp_path / "out", taken_at_ms=1, connect=cluster.session).warnings
    assert "delete.retention.ms" in warning
