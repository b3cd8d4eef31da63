"""One controller and three brokers, which clean their logs of `__consumer_offsets` at will: replicas that disagree.

A = 1 leads both log partitions at first, B = 2 and C = 3 follow. The hazard, step by step:

    cluster.commit("gone", {("t", 0): 10})
    cluster.kill(C)
    cluster.delete_groups("gone")
    cluster.clean(A, B, until=lambda node: not cluster.records("gone", node))   # value and tombstone
    cluster.start(C)                # back in the ISR at the same end offsets, and still has the value
    cluster.elect(C)
    cluster.answers(["gone"])       # what C as coordinator answers

Every wait has a long limit and ends as soon as what it waits for is there.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self, TypeAlias

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeGroupsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from sexton.coordinator.partitioner import partition_of
from sexton.errors import BrokerError
from sexton.java import JavaHome
from sexton.kafka.admin import delete_group, delete_offsets
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.failures import TransientError, error_name
from sexton.kafka.group_state import committed_offsets, find_coordinator, list_groups
from sexton.kafka.replicas import ReplicaProbe, ReplicaTransaction, probe_replicas
from sexton.kafka.session import ClusterSession
from sexton.log.batch import Batch, Record, read_batches, read_records
from sexton.ports import HOST
from sexton.records import decode_key
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.broker import EmbeddedBroker, new_cluster_id, running_broker
from sexton_dev.ports import free_port
from sexton_dev.workload import commit_offsets, group_metadata, wait
from tests import waiting

A, B, C = NODES = 1, 2, 3
LOG_PARTITIONS = 2
TOPIC, PARTITIONS = "t", 8
PATIENCE_S = 120
ANSWER_S = 15
HEAP = "-Xmx320m"
RECORD_LIMIT_BYTES = 1 << 20
OF_A_TOPIC, SET = 2, 0
"""Of IncrementalAlterConfigs."""

SETTINGS = {
    "offsets.topic.num.partitions": str(LOG_PARTITIONS),
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "auto.leader.rebalance.enable": "false",
    # A dead broker leaves the ISR soon; a slow one does not.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "6000",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
    # Markers are kept while the producer state has their producer.
    "producer.id.expiration.ms": "2000",
    "producer.id.expiration.check.interval.ms": "500",
    "transactional.id.expiration.ms": "604800000",
    "num.network.threads": "2",
    "num.io.threads": "4",
}
CLEANED_EAGERLY = {
    "cleanup.policy": "compact", "compression.type": "producer", "segment.ms": "200",
    "internal.segment.bytes": "16384", "segment.index.bytes": "4096", "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0", "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "1000",
    "file.delete.delay.ms": "100", "min.insync.replicas": "1",
}  # fmt: skip


OffsetAnswers: TypeAlias = dict[tuple[str, int], tuple[int, int | None, str, str | None]]
"""(topic, partition) -> offset, leader epoch, metadata, error (None, or Kafka's name)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """What the coordinator of a group answers: OffsetFetch by name, plain and with requireStable, without partitions
    that have neither an offset nor an error; `listed` (type, state), None for a group that is not; `described` (state,
    members) as of a classic group. `error` is that of the coordinator, as when it cannot load; the rest is then empty.
    """

    listed: tuple[str, str] | None = None
    described: tuple[str, int] = ("", 0)
    offsets: OffsetAnswers = field(default_factory=dict)
    stable: OffsetAnswers = field(default_factory=dict)
    error: str | None = None


class ThreeBrokers:
    """The cluster, in `folder`; a context manager. `settings` are broker settings that win over SETTINGS, and over both
    those in `settings_of` a broker."""

    def __init__(
        self,
        folder: Path,
        *,
        java: JavaHome,
        jars: Sequence[Path],
        settings: Mapping[str, str] | None = None,
        settings_of: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        cluster_id, port = new_cluster_id(), free_port()
        common = {**SETTINGS, "controller.quorum.voters": f"100@{HOST}:{port}", **(settings or {})}

        def node(number: int, role: str, port: int) -> EmbeddedBroker:
            own = {**common, **(settings_of or {}).get(number, {}), "process.roles": role, "node.id": str(number)}
            return EmbeddedBroker(
                folder / f"node-{number}", port=port, java=java, jars=jars, settings=own, jvm_options=[HEAP],
                cluster_id=cluster_id,
            )  # fmt: skip

        self._controller = node(100, "controller", port)
        self.brokers = {number: node(number, "broker", free_port()) for number in NODES}
        self.cluster_id = cluster_id
        self._stack = ExitStack()

    @property
    def config(self) -> ClientConfig:
        servers = ",".join(broker.bootstrap_servers for broker in self.brokers.values())
        return client_config({}, bootstrap_servers=servers)

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({**self.config.for_confluent(), "log_level": 0})

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.stop)
            with ThreadPoolExecutor(len(NODES) + 1) as pool:
                list(pool.map(lambda node: node.start(), [self._controller, *self.brokers.values()]))
            self._make_topics()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def stop(self) -> None:
        for node in NODES:
            self.thaw(node)
            self.brokers[node].kill()
        self._controller.kill()

    # Brokers

    def kill(self, node: int, *, is_last: bool = False) -> None:
        """End a broker by SIGKILL, and wait until it has left the ISR, which the last one never does."""
        self.brokers[node].kill()
        if not is_last:
            self.wait_for(lambda: all(node not in isr for isr in self.isr().values()), f"{node} out of the ISR")

    def start(self, *nodes: int) -> None:
        """Start brokers again; once all three run, wait until they are in sync."""
        for node in nodes:
            self.brokers[node].start()
        if all(running_broker(broker.directory) for broker in self.brokers.values()):
            self.wait_until_in_sync()

    def configure(self, **settings: str) -> None:
        """Change settings of the offsets topic, with _ for the dots: unclean_leader_election_enable="true"."""
        Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        entries = [
            Resource.AlterableConfig(name=name.replace("_", "."), config_operation=SET, value=value)
            for name, value in settings.items()
        ]
        resource = Resource(resource_type=OF_A_TOPIC, resource_name=OFFSETS_TOPIC, configs=entries)

        def is_set() -> bool:
            with ClusterSession(self.config) as session:
                answer = session.call(IncrementalAlterConfigsRequest(resources=[resource]))
            return [one.error_code for one in answer.responses] == [0]

        self.wait_for(is_set, f"{settings} set")

    def wait_until_in_sync(self) -> None:
        """All three in the ISR, at the same end offsets, and knowing that these are committed."""
        self.wait_for(lambda: all(set(isr) == {*NODES} for isr in self.isr().values()), "three replicas in sync")

        def is_level() -> bool:
            ends = {part: {self.end(part, node) for node in NODES} for part in range(LOG_PARTITIONS)}
            return all(ends[row.log_partition] == {row.high_watermark} for row in self.probe())

        self.wait_for(is_level, "equal end offsets, and high watermarks there")

    def freeze(self, node: int) -> None:
        """A broker that keeps its connections and answers nothing (SIGSTOP)."""
        self._signal(node, signal.SIGSTOP)

    def thaw(self, node: int) -> None:
        self._signal(node, signal.SIGCONT)

    def elect(self, node: int, *, unloadable: Collection[int] = ()) -> None:
        """Make a broker, which must be in the ISR, the leader of both log partitions, and wait until it has loaded."""
        partitions = ElectLeadersRequest.TopicPartitions(topic=OFFSETS_TOPIC, partitions=[*range(LOG_PARTITIONS)])
        elected = ElectLeadersRequest(election_type=0, topic_partitions=[partitions], timeout_ms=30_000)

        def leads() -> bool:
            self.assign(node, *(other for other in NODES if other != node))
            with ClusterSession(self.config) as session:
                session.call(elected)
            return self.leaders() == {node}

        self.wait_for(leads, f"{node} leads")
        self.wait_for_coordinator(node, unloadable=unloadable)

    def wait_for_coordinator(self, node: int, *, unloadable: Collection[int] = ()) -> None:
        """Until a broker that leads both log partitions has loaded them, but for those that are `unloadable`."""
        with ClusterSession(self.config) as session:
            groups = [next(self.groups_of(part)) for part in range(LOG_PARTITIONS) if part not in unloadable]
            self.wait_for(
                lambda: {find_coordinator(session, group) for group in groups} == {node}, f"{node} coordinates"
            )
            for group in groups:
                committed_offsets(session, group)  # waits until it has loaded

    def assign(self, *nodes: int) -> None:
        """Ask for replicas of both log partitions on these brokers, the preferred leader first."""
        Topic = AlterPartitionReassignmentsRequest.ReassignableTopic
        moves = [Topic.ReassignablePartition(partition_index=p, replicas=[*nodes]) for p in range(LOG_PARTITIONS)]
        request = AlterPartitionReassignmentsRequest(
            topics=[Topic(name=OFFSETS_TOPIC, partitions=moves)],
            timeout_ms=30_000,
            allow_replication_factor_change=True,
        )
        with ClusterSession(self.config) as session:
            session.call(request)

    def isr(self) -> dict[int, list[int]]:
        return {part: isr for part, (_, isr) in self._partitions().items()}

    def leaders(self) -> set[int]:
        """The brokers that lead a log partition; -1 where nobody leads."""
        return {leader for leader, _ in self._partitions().values()}

    # Groups

    def groups_of(self, log_partition: int, name: str = "group") -> Iterator[str]:
        """Names of groups of a log partition."""
        names = (f"{name}-{number}" for number in range(1_000_000))
        return (group for group in names if partition_of(group, LOG_PARTITIONS) == log_partition)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        commit_offsets(self.admin, group, [TopicPartition(*place, offset) for place, offset in offsets.items()])

    def delete_groups(self, *groups: str) -> None:
        with ClusterSession(self.config) as session:
            for group in groups:
                assert delete_group(session, group) is None

    def delete_offsets(self, group: str, partitions: Iterable[int], topic: str = TOPIC) -> None:
        with ClusterSession(self.config) as session:
            answer = delete_offsets(session, group, {topic: list(partitions)})
        assert set(answer.values()) == {None}

    def transaction(self, transactional_id: str, group: str, offsets: Mapping[tuple[str, int], int]) -> Producer:
        """A transaction with these offsets, open: the caller commits or aborts it."""
        settings = {**self.config.for_confluent(), "log_level": 0, "transactional.id": transactional_id}
        producer = Producer({**settings, "transaction.timeout.ms": 900_000})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        producer.send_offsets_to_transaction(wanted, group_metadata(self.config.for_confluent(), group), PATIENCE_S)
        return producer

    def answers(self, groups: Iterable[str]) -> dict[str, GroupAnswer]:
        """What the coordinators answer of each group now."""
        with ClusterSession(self.config, retry_for_s=ANSWER_S) as session:
            listed = {one.group_id: (one.group_type, one.state) for one in list_groups(session).groups}
            return {group: self._answer(session, group, listed.get(group)) for group in groups}

    # Logs

    def log(self, log_partition: int, node: int) -> bytes:
        """The bytes of a replica as they lie on its broker's disk."""
        folder = self.brokers[node].data / f"{OFFSETS_TOPIC}-{log_partition}"
        while True:  # the cleaner replaces and deletes files
            try:
                files = sorted(file for file in folder.iterdir() if re.fullmatch(r"\d{20}\.log", file.name))
                return b"".join(file.read_bytes() for file in files)
            except FileNotFoundError:
                continue

    def batches(self, log_partition: int, node: int) -> list[Batch]:
        return [batch for batch in read_batches(self.log(log_partition, node)) if isinstance(batch, Batch)]

    def end(self, log_partition: int, node: int) -> int:
        return max((batch.last_offset + 1 for batch in self.batches(log_partition, node)), default=0)

    def log_partition_of(self, group: str) -> int:
        return partition_of(group, LOG_PARTITIONS)

    def records(self, group: str, node: int) -> list[Record]:
        """The records of a group in the log of a broker, tombstones too, in the order of the log."""
        return self.records_in(self.log(self.log_partition_of(group), node), group)

    def records_in(self, log: bytes, group: str) -> list[Record]:
        return [
            record
            for batch in read_batches(log)
            if isinstance(batch, Batch) and not batch.is_control
            for record in read_records(batch, cap_bytes=RECORD_LIMIT_BYTES)
            if isinstance(record, Record) and record.key and getattr(decode_key(record.key)[1], "group_id", "") == group
        ]

    def markers(self, producer_id: int, node: int) -> list[Batch]:
        """The control batches of a producer that hold a marker; one that is kept empty is none."""
        return [
            one
            for part in range(LOG_PARTITIONS)
            for one in self.batches(part, node)
            if one.is_control and one.record_count and one.producer_id == producer_id
        ]

    def open_transactions(self, node: int) -> list[ReplicaTransaction]:
        """The transactions that are open in the logs of a broker, by its own producer state."""
        return [one for row in self.probe() if row.broker == node for one in row.open_transactions or ()]

    def probe(self) -> list[ReplicaProbe]:
        with ClusterSession(self.config) as session:
            return probe_replicas(session)

    def clean(self, *nodes: int, until: Callable[[int], bool]) -> None:
        """Commit to both log partitions, which rolls their segments, until `until(node)` holds for every node."""
        ticks = [next(self.groups_of(part, "tick")) for part in range(LOG_PARTITIONS)]
        rounds = iter(range(1_000_000))

        def is_clean() -> bool:
            for group in ticks:
                self.commit(group, {(TOPIC, 0): next(rounds)})
            time.sleep(0.25)  # longer than segment.ms: the next commit rolls
            return all(until(node) for node in nodes)

        self.wait_for(is_clean, f"{nodes} cleaned")

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Until it holds; a broker that does not answer is asked again."""
        waiting.until(condition, what, within_s=PATIENCE_S, every_s=0.1, passing=(TransientError,))

    def _make_topics(self) -> None:
        replicas = [*NODES]
        made = [
            NewTopic(name, count, replica_assignment=[replicas] * count, config=config)
            for name, count, config in ((OFFSETS_TOPIC, LOG_PARTITIONS, CLEANED_EAGERLY), (TOPIC, PARTITIONS, {}))
        ]
        self.wait_for(lambda: len(self._broker_ids()) == len(NODES), "three brokers registered")
        wait(self.admin.create_topics(made))
        for part in range(LOG_PARTITIONS):
            self.commit(next(self.groups_of(part)), {(TOPIC, 0): 0})
        self.wait_until_in_sync()

    def _broker_ids(self) -> list[int]:
        with ClusterSession(self.config) as session:
            return session.broker_ids

    def _partitions(self) -> dict[int, tuple[int, list[int]]]:
        """Leader and ISR of each log partition."""
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=OFFSETS_TOPIC)], allow_auto_topic_creation=False
        )
        with ClusterSession(self.config) as session:
            (topic,) = session.retrying(lambda: session.call(request)).topics
        return {one.partition_index: (one.leader_id, list(one.isr_nodes)) for one in topic.partitions}

    def _answer(self, session: ClusterSession, group: str, listed: tuple[str, str] | None) -> GroupAnswer:
        describe = DescribeGroupsRequest(groups=[group])
        try:
            (described,) = session.retrying(
                lambda: session.call(describe, node_id=find_coordinator(session, group)).groups
            )
            offsets, stable = (_offsets(session, group, require_stable=is_stable) for is_stable in (False, True))
        except BrokerError as error:
            return GroupAnswer(error=error.message)
        state = described.group_state, len(described.members)
        return GroupAnswer(listed=listed, described=state, offsets=offsets, stable=stable)

    def _signal(self, node: int, number: signal.Signals) -> None:
        if running := running_broker(self.brokers[node].directory):
            os.kill(running.pid, number)


def _offsets(session: ClusterSession, group: str, *, require_stable: bool) -> OffsetAnswers:
    every = [(TOPIC, partition) for partition in range(PARTITIONS)]
    return {
        place: (
            one.committed_offset,
            one.leader_epoch,
            one.metadata,
            error_name(one.error_code) if one.error_code else None,
        )
        for place, one in committed_offsets(session, group, require_stable=require_stable, only=every).items()
        if one.committed_offset >= 0 or one.error_code
    }
