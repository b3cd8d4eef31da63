"""A cluster in memory that answers the requests of a snapshot, and to whose log everything can happen.

It stands behind ClusterSession: what goes over the wire, connections and quotas are not played. Its logs keep the rules
that our checks stand on: every election raises the leader epoch, the epoch cache says where each epoch began, a request
with another epoch is fenced, one for another topic id is refused (Partition, LeaderEpochFileCache, KIP-101, KIP-320).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace as Answer
from typing import Any
from uuid import UUID

from confluent_kafka.admin import ConfigEntry, ConfigResource
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from sexton.errors import BrokerError
from sexton.kafka.admin_client import Answers, K, Question
from sexton.kafka.broker_settings import BROKER
from sexton.kafka.client import ClientConfig
from sexton.kafka.session import ClusterSession, TransientError
from sexton.log.batch import encode_batch, read_batches
from sexton.records import ZERO_UUID
from sexton.topics import OFFSETS_TOPIC
from tests.log.samples import STAMP_MS

OUT_OF_RANGE, NO_TOPIC, FENCED, UNKNOWN_EPOCH, UNKNOWN_ID = 1, 3, 74, 75, 100
ATTEMPTS = 60


@dataclass
class FakeLog:
    """One log partition as its leader has it. `epochs` is the leader epoch cache: (epoch, first log_offset)."""

    rng: Random
    log_partition: int
    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    end: int = 0
    epoch: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    history: dict[int, bytes] = field(default_factory=dict)
    """Every batch of the log as it was written, by base offset; what is cut off is taken out, what is cleaned stays."""

    _written: dict[int, int] = field(default_factory=dict)
    """How far each epoch's leader ever wrote: an epoch has one log only."""

    def append(self, count: int = 1, *, epoch: int | None = None) -> None:
        for _ in range(count):
            records = self.rng.randint(1, 3)
            batch = encode_batch(
                [(self.rng.randbytes(4), self.rng.randbytes(6)) for _ in range(records)],
                base_offset=self.end,
                timestamp_ms=STAMP_MS + self.end,
                leader_epoch=self.epoch if epoch is None else epoch,
            )
            self.append_raw(batch)

    def append_raw(self, batch: bytes) -> None:
        self.batches.append(batch)
        self.history[int.from_bytes(batch[:8], "big")] = batch
        self.end = _next_offset(batch)
        epoch = int.from_bytes(batch[12:16], "big", signed=True)
        self._written[epoch] = max(self._written.get(epoch, 0), self.end)

    def elect(self, *, cut_at: int | None = None, divergent: int = 0) -> None:
        """Another leader. It may lack all from `cut_at` on, and have batches of its own there from the epoch before, if
        that epoch's leader never wrote others there."""
        if cut_at is not None:
            kept = [batch for batch in self.batches if _next_offset(batch) <= cut_at]
            self.end = _next_offset(kept[-1]) if kept else self.start
            self.batches = kept
            self.history = {at: batch for at, batch in self.history.items() if _next_offset(batch) <= self.end}
            self.epochs = [(epoch, at) for epoch, at in self.epochs if at < self.end]
        if divergent and self.epochs and self._written.get(self.epochs[-1][0], 0) <= self.end:
            self.append(divergent, epoch=self.epochs[-1][0])
        self.epoch += 1
        self.epochs.append((self.epoch, self.end))

    def delete_below(self, log_offset: int) -> None:
        """Move the log start up as retention does, which deletes whole segments: to where a batch begins, or the end.
        DeleteRecords, which could leave it within a batch, is refused for internal topics (ReplicaManager)."""
        begins = (int.from_bytes(batch[:8], "big") for batch in self.batches)
        self.start = max(self.start, next((at for at in begins if at >= log_offset), self.end))
        self.batches = [batch for batch in self.batches if _next_offset(batch) > self.start]
        earlier = [entry for entry in self.epochs if entry[1] <= self.start]
        later = [entry for entry in self.epochs if entry[1] > self.start]
        self.epochs = [(earlier[-1][0], self.start), *later] if earlier else later

    def clean(self) -> None:
        """Take whole batches out, never the last one."""
        self.batches = [batch for batch in self.batches[:-1] if self.rng.random() < 0.6] + self.batches[-1:]

    def end_of(self, asked: int) -> tuple[int, int]:
        """As LeaderEpochFileCache.endOffsetFor."""
        if not self.epochs:
            return -1, -1
        if asked == self.epochs[-1][0]:
            return asked, self.end
        higher = [at for epoch, at in self.epochs if epoch > asked]
        if not higher:
            return -1, -1
        floor = [epoch for epoch, _ in self.epochs if epoch <= asked]
        return (floor[-1] if floor else asked), higher[0]

    def read(self, log_offset: int, max_bytes: int) -> bytes:
        """Batches from the one that holds `log_offset` on; the last one may be cut off, as a broker's answers are."""
        data = b"".join(batch for batch in self.batches if _next_offset(batch) > log_offset)
        first = next((len(batch) for batch in self.batches if _next_offset(batch) > log_offset), 0)
        return data[: max(first, max_bytes)]


class FakeCluster:
    """The cluster: `logs` by log partition. `before_request` is called with every request, and may change anything."""

    def __init__(self, seed: int, *, log_partitions: int = 2, cluster_id: str = "fake") -> None:
        self.rng = Random(seed)
        self.cluster_id = cluster_id
        self.topic = OFFSETS_TOPIC
        """The only topic that there is."""
        self.topic_id = UUID(int=self.rng.getrandbits(128))
        self.logs = [FakeLog(self.rng, n) for n in range(log_partitions)]
        self.delete_retention_ms = 86_400_000
        self.response_bytes = 200
        self.is_even = False
        """Whether every answer is of the same size, else of any up to that."""
        self.requests: list[Any] = []
        self.failures = 0
        """How many requests are to fail as those to a broker that restarts do."""
        self.hold_back = 0
        """How many fetches are to be answered without a byte, as a quota makes a broker do."""
        self.brokers: dict[int, dict[str, str]] = {1: {"offsets.retention.minutes": "10080"}}
        """The settings of each broker, by id; broker 1 leads everything."""
        self.groups: dict[int | None, list[str]] = {}
        """The simple groups that each broker lists."""
        self.errors: dict[int | None, int] = {}
        """The error code that each broker answers a list of groups with."""
        self.asked: int | None = None
        """The broker that the request goes to."""
        self.dead: set[int] = set()
        """Brokers that give no answer."""
        self.before_request: Callable[[Any], None] = lambda request: None

    def connect(self, config: ClientConfig) -> ClusterSession:
        return FakeSession(self, config)

    def make_anew(self) -> None:
        """Delete the topic and make it again: another id, everything else begins at 0."""
        self.topic_id = UUID(int=self.rng.getrandbits(128))
        self.logs = [FakeLog(self.rng, n) for n in range(len(self.logs))]

    def add_log_partitions(self, count: int) -> None:
        self.logs += [FakeLog(self.rng, n) for n in range(len(self.logs), len(self.logs) + count)]

    def answer(self, request: Any) -> Any:
        self._begin(request)
        return _ANSWERS[type(request).__name__](self, request)

    def _begin(self, request: Any) -> None:
        self.requests.append(request)
        self.before_request(request)
        if self.failures:
            self.failures -= 1
            raise TransientError("the broker restarts")

    def metadata(self, request: MetadataRequest) -> Answer:
        partitions = [
            Answer(partition_index=log.log_partition, leader_id=1, leader_epoch=log.epoch) for log in self.logs
        ]
        topic = Answer(error_code=0, name=self.topic, topic_id=self.topic_id, is_internal=True, partitions=partitions)
        asked = [self.topic] if request.topics is None else [wanted.name for wanted in request.topics]
        others = [Answer(error_code=NO_TOPIC, name=name) for name in asked if name != self.topic]
        return Answer(
            cluster_id=self.cluster_id, controller_id=1, topics=[topic, *others] if self.topic in asked else others
        )

    def list_offsets(self, request: ListOffsetsRequest) -> Answer:
        def listed(asked: Any) -> Answer:
            log = self.logs[asked.partition_index]
            offset = log.start if asked.timestamp == -2 else log.end
            return Answer(partition_index=log.log_partition, error_code=0, offset=offset)

        found = [Answer(name=one.name, partitions=[*map(listed, one.partitions)]) for one in request.topics]
        return Answer(topics=found)

    def describe_configs(self, resources: list[ConfigResource]) -> dict[ConfigResource, "Future[Any]"]:
        """As AdminClient.describe_configs."""
        self._begin(resources)
        answers: dict[ConfigResource, Future[Any]] = {resource: Future() for resource in resources}
        for resource, future in answers.items():
            future.set_result({name: ConfigEntry(name, value) for name, value in self._settings(resource).items()})
        return answers

    def _settings(self, resource: ConfigResource) -> dict[str, str]:
        if resource.restype is not BROKER:
            return {"delete.retention.ms": str(self.delete_retention_ms), "max.message.bytes": "1048588"}
        if int(resource.name) in self.dead:
            raise TransientError(f"broker {resource.name} gives no answer")
        return self.brokers[int(resource.name)]

    def listed(self, request: ListGroupsRequest) -> Answer:
        groups = [
            Answer(group_id=name, group_type="classic", group_state="Empty", protocol_type="")
            for name in self.groups.get(self.asked, [])
        ]
        return Answer(error_code=self.errors.get(self.asked, 0), groups=groups)

    def epoch_ends(self, request: OffsetForLeaderEpochRequest) -> Answer:
        found = []
        for asked in request.topics[0].partitions:
            log = self.logs[asked.partition]
            code = _fenced(log, asked.current_leader_epoch)
            epoch, end = log.end_of(asked.leader_epoch)
            found.append(Answer(partition=asked.partition, error_code=code, leader_epoch=epoch, end_offset=end))
        return Answer(topics=[Answer(topic=self.topic, partitions=found)])

    def fetch(self, request: FetchRequest) -> Answer:
        asked = request.topics[0].partitions[0]
        log = self.logs[asked.partition]
        code = _fenced(log, asked.current_leader_epoch)
        if request.topics[0].topic_id not in (ZERO_UUID, self.topic_id):
            code = UNKNOWN_ID
        elif not code and not log.start <= asked.fetch_offset <= log.end:
            code = OUT_OF_RANGE
        size_bytes = self.response_bytes if self.is_even else self.rng.randint(1, self.response_bytes)
        size_bytes = min(size_bytes, asked.partition_max_bytes)
        if not code and self.hold_back > 0:
            self.hold_back -= 1
            return Answer(error_code=0, throttle_time_ms=1, responses=[])
        found = Answer(
            partition_index=asked.partition,
            error_code=code,
            records=b"" if code else log.read(asked.fetch_offset, size_bytes),
            log_start_offset=log.start,
            high_watermark=log.end,
            last_stable_offset=log.end,
        )
        return Answer(error_code=0, throttle_time_ms=0, responses=[Answer(partitions=[found])])


_ANSWERS: dict[str, Callable[[FakeCluster, Any], Any]] = {
    "ListGroupsRequest": FakeCluster.listed,
    "MetadataRequest": FakeCluster.metadata,
    "ListOffsetsRequest": FakeCluster.list_offsets,
    "OffsetForLeaderEpochRequest": FakeCluster.epoch_ends,
    "FetchRequest": FakeCluster.fetch,
}


class FakeSession(ClusterSession):
    """A session with a cluster in memory: asks again at once, a few times."""

    def __init__(self, cluster: FakeCluster, config: ClientConfig) -> None:
        self.config = config
        self._cluster = cluster

    @property
    def broker_ids(self) -> list[int]:
        return sorted(self._cluster.brokers)

    @property
    def broker_version(self) -> str | None:
        return "4.3"

    def close(self) -> None:
        pass

    def refresh(self) -> None:
        pass

    def call(self, request: Any, *, node_id: int | None = None) -> Any:
        self._cluster.asked = node_id
        if node_id in self._cluster.dead:
            raise TransientError(f"broker {node_id} gives no answer")
        return self._cluster.answer(request)

    def ask_admin(self, question: Question[K]) -> Answers[K]:
        return {about: future.result() for about, future in question(self._cluster).items()}

    def retrying(self, work: Callable[[], Any]) -> Any:
        for attempt in range(ATTEMPTS):
            try:
                return work()
            except TransientError:
                if attempt == ATTEMPTS - 1:
                    raise
        raise BrokerError("unreachable")


def _fenced(log: FakeLog, current_leader_epoch: int) -> int:
    if current_leader_epoch in (-1, log.epoch):
        return 0
    return FENCED if current_leader_epoch < log.epoch else UNKNOWN_EPOCH


def _next_offset(batch: bytes) -> int:
    """Where a batch ends, or a message set: an entry of magic 0 or 1 carries the offset of its last record."""
    if batch[16] >= 2:
        return int.from_bytes(batch[0:8], "big") + int.from_bytes(batch[23:27], "big") + 1
    last = list(read_batches(batch))[-1]
    return last.base_offset + 1


def batches_in(log: bytes) -> Iterator[tuple[int, bytes]]:
    """(base offset, bytes) of every batch of a log."""
    for batch in read_batches(log):
        yield batch.base_offset, log[batch.position : batch.position + batch.size_bytes]
