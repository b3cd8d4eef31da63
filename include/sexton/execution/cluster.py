"""A real cluster behind the port: sessions of the principal that may delete, and what reads the end of the log.

Calls that change something go over a session of their own that tries once: tried again after a while, such a call would
come long after the last look.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from sexton.execution.cluster_protocol import BrokerTime, Identity, Tail, TopicPartition
from sexton.kafka import admin
from sexton.kafka.admin import CommittedValue, ErrorName, GroupNow
from sexton.kafka.append import append_tombstones
from sexton.kafka.bounds import controller_time_ms, max_message_bytes, newest_stamp_ms, retention_minutes
from sexton.kafka.client import ClientConfig
from sexton.kafka.group_state import CommittedOffset, committed_offsets
from sexton.kafka.session import ClusterSession
from sexton.kafka.tail import TailReader
from sexton.kafka.topics import OFFSETS_TOPIC, UNKNOWN_ID, describe_cluster, describe_topic


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """`ClusterPort` over `reading`, which retries, and `changing`, which does not."""

    reading: ClusterSession
    changing: ClusterSession

    def identity(self) -> Identity:
        cluster = self.reading.retrying(lambda: describe_cluster(self.reading, [OFFSETS_TOPIC]))
        topic = cluster.topics[OFFSETS_TOPIC]
        minutes = retention_minutes(self.reading)
        return Identity(
            cluster_id=cluster.cluster_id,
            topic_id=topic.topic_id or UNKNOWN_ID,
            partition_count=len(topic.leaders),
            max_message_bytes=max_message_bytes(self.reading, OFFSETS_TOPIC),
            retention_ms=None if minutes is None else minutes * 60_000,
        )

    def broker_time(self) -> BrokerTime:
        topic = self.reading.retrying(lambda: describe_topic(self.reading, OFFSETS_TOPIC))
        at_least_ms = self.reading.retrying(lambda: newest_stamp_ms(self.reading, topic))
        return BrokerTime(at_least_ms=at_least_ms, now_ms=controller_time_ms(self.reading))

    def tail(self, log_partition: int, *, from_log_offset: int) -> Tail:
        return TailReader(self.reading, OFFSETS_TOPIC, log_partition, from_log_offset=from_log_offset)

    def committed(self, group_id: str, *, require_stable: bool) -> Mapping[TopicPartition, CommittedOffset]:
        return committed_offsets(self.reading, group_id, require_stable=require_stable)

    def group_now(self, group_id: str) -> GroupNow:
        return admin.group_now(self.reading, group_id)

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorName | None]:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        return admin.delete_offsets(self.changing, group_id, by_topic)

    def delete_group(self, group_id: str) -> ErrorName | None:
        return admin.delete_group(self.changing, group_id)

    def commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedValue]
    ) -> Mapping[TopicPartition, ErrorName | None]:
        return admin.commit_offsets(self.changing, group_id, offsets)

    def append_tombstones(self, log_partition: int, batches: bytes) -> int:
        return append_tombstones(self.changing.config, log_partition, batches, connect=_once)


@contextmanager
def connected(config: ClientConfig) -> Iterator[KafkaCluster]:
    """The cluster of `config`, for one thread; UsageError when it refuses the credentials, BrokerError without it."""
    with ClusterSession(config) as reading, _once(config) as changing:
        yield KafkaCluster(reading, changing)


_once = partial(ClusterSession, retry_for_s=0)
