"""`KafkaAdmin`: the calls with which `execution` reads and changes a cluster; tests simulate them.

It has two sessions. The reading session retries. The changing session tries once: a repeated call would arrive long
after the preflight check. Errors are those of `sexton.kafka`: GroupError: the whole request was refused; Unsettled: it
may have been carried out; TransientError: it certainly was not; LogChangedError: the log is not the one read before;
BrokerError: all others.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from sexton.as_text import MINUTE_MS
from sexton.coordinator.api.view import TopicPartition
from sexton.errors import UsageError
from sexton.kafka import admin, membership, offset_transactions
from sexton.kafka.admin import ErrorName, GroupNow
from sexton.kafka.admin_snapshot import STREAMS, GroupSnapshot, snapshot_group
from sexton.kafka.append import append_tombstones
from sexton.kafka.broker_limits import controller_time_ms, max_message_bytes, newest_stamp_ms, retention_minutes
from sexton.kafka.client import ClientConfig
from sexton.kafka.failures import NotAllowed
from sexton.kafka.group_state import CommittedOffset, CommittedValue, committed_offsets
from sexton.kafka.offset_transactions import ProducerIdentity
from sexton.kafka.session import ClusterSession
from sexton.kafka.tail import TailReader
from sexton.kafka.topics import (
    EARLIEST,
    LATEST,
    UNKNOWN_ID,
    Topic,
    by_topic,
    describe_cluster,
    describe_topic,
    high_watermark,
    list_offsets,
)
from sexton.topics import OFFSETS_TOPIC

UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdentity:
    """A cluster and its offsets topic. Fields that this principal may not see are None; `partition_count` is 0 for a
    hidden topic.

    `retention_ms` is the broker's offsets.retention.minutes, `broker_version` the release that the brokers run.
    """

    cluster_id: str
    topic_id: str
    partition_count: int
    max_message_bytes: int | None
    retention_ms: int | None = None
    broker_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTime:
    """What is known of the brokers' clock: the newest timestamp in the log, and the time in a broker's answer.

    `at_least_ms` is -1 where the log is empty or in an old format; `now_ms` is None without such an answer.
    """

    at_least_ms: int
    now_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """The current log start and end of each partition of a topic, None for a partition without a leader.

    `error` is Kafka's name for why they are unknown; UNKNOWN_TOPIC_OR_PARTITION means that the topic does not exist.
    """

    topic: str
    topic_id: str | None = None
    ranges: Mapping[int, tuple[int, int] | None]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class KafkaAdmin:
    """A cluster as seen by a principal that may change it, through two sessions: `reading` retries, `changing` does
    not."""

    reading: ClusterSession
    changing: ClusterSession

    def identity(self, *, may_hide_log: bool = False) -> ClusterIdentity:
        """The cluster's identity. NotAllowed or UsageError when the offsets topic is hidden, unless `may_hide_log`."""
        topic = self._offsets_topic(may_hide=may_hide_log)
        cluster = self.reading.retrying(lambda: describe_cluster(self.reading, []))
        minutes = retention_minutes(self.reading)
        return ClusterIdentity(
            cluster_id=cluster.cluster_id,
            topic_id=UNKNOWN_ID if topic is None else topic.topic_id or UNKNOWN_ID,
            partition_count=0 if topic is None else len(topic.leaders),
            max_message_bytes=None if topic is None else max_message_bytes(self.reading, OFFSETS_TOPIC),
            retention_ms=None if minutes is None else minutes * MINUTE_MS,
            broker_version=self.reading.broker_version,
        )

    def broker_time(self) -> BrokerTime:
        topic = self._offsets_topic(may_hide=True)
        at_least_ms = -1
        if topic is not None:
            at_least_ms = self.reading.retrying(lambda: newest_stamp_ms(self.reading, topic))
        return BrokerTime(at_least_ms=at_least_ms, now_ms=controller_time_ms(self.reading))

    def _offsets_topic(self, *, may_hide: bool) -> Topic | None:
        """The offsets topic; None where it is hidden and `may_hide` is set."""
        try:
            return self.reading.retrying(lambda: describe_topic(self.reading, OFFSETS_TOPIC))
        except UsageError:  # also NotAllowed
            if not may_hide:
                raise
            return None

    def log_end(self, log_partition: int) -> int:
        """Where a log partition ends now (its high watermark)."""
        return self.reading.retrying(lambda: high_watermark(self.reading, OFFSETS_TOPIC, log_partition))

    def tail(self, log_partition: int, *, from_log_offset: int, topic_id: str | None = None) -> TailReader:
        """A log partition from an offset on; with `topic_id`, a recreated topic raises LogChangedError."""
        known_id = None if topic_id == UNKNOWN_ID else topic_id
        return TailReader(
            self.reading, OFFSETS_TOPIC, log_partition, from_log_offset=from_log_offset, topic_id=known_id
        )

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicView]:
        """Each topic by its requested name, including topics that do not exist."""
        names = list(names)
        if not names:
            return {}
        found: dict[str, Topic] = {}
        views: dict[str, TopicView] = {}
        try:
            found.update(describe_cluster(self.reading, names).topics)
        except UsageError:  # one of them does not exist or may not be seen: ask for each topic separately
            for name in names:
                try:
                    found[name] = describe_topic(self.reading, name)
                except NotAllowed as error:
                    views[name] = TopicView(topic=name, ranges={}, error=f"{error.error_name}: {error.fix}")
                except UsageError:
                    views[name] = TopicView(topic=name, ranges={}, error=UNKNOWN_TOPIC)
        starts = list_offsets(self.reading, found.values(), timestamp=EARLIEST)
        ends = list_offsets(self.reading, found.values(), timestamp=LATEST)
        known = {key: (starts[key], ends[key]) for key in starts.keys() & ends.keys()}
        for name, topic in found.items():
            ranges = {partition: known.get((topic.name, partition)) for partition in topic.leaders}
            views[name] = TopicView(topic=topic.name, topic_id=topic.topic_id, ranges=ranges)
        return views

    def committed(
        self, group_id: str, *, require_stable: bool, only: Collection[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """All committed offsets that this principal may see, or those of the partitions in `only`.

        With `require_stable` an offset that an open transaction may change has error code 88. If it has no committed
        value yet, the answer has it only if `only` names it.
        """
        return committed_offsets(self.reading, group_id, require_stable=require_stable, only=only)

    def group_now(self, group_id: str) -> GroupNow:
        return admin.group_now(self.reading, group_id)

    def snapshot(self, group_id: str, group_type: str, wanted: Collection[TopicPartition] = ()) -> GroupSnapshot:
        """A fresh admin snapshot of a group; never raises."""
        return snapshot_group(self.reading, group_id, group_type, wanted)

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorName | None]:
        return admin.delete_offsets(self.changing, group_id, by_topic(partitions))

    def delete_group(self, group_id: str) -> ErrorName | None:
        return admin.delete_group(self.changing, group_id)

    def commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedValue]
    ) -> Mapping[TopicPartition, ErrorName | None]:
        """OffsetCommit without a member; an error names the missing ACL, if any."""
        answers = admin.commit_offsets(self.changing, group_id, offsets)
        return {key: error and self._with_acl(error, group_id, key[0]) for key, error in answers.items()}

    def _with_acl(self, error: ErrorName, group_id: str, topic: str) -> str:
        acl = self.changing.missing_acl(error, "OffsetCommit", topic=topic, group_id=group_id)
        return error if acl is None else f"{error}: {acl}"

    # The retrying session sends the requests of a transaction: values that were pended late are seen before it ends.

    def begin_transactions(self, transactional_id: str) -> ProducerIdentity:
        """InitProducerId; it ends a transaction that an earlier producer with this id left open."""
        return offset_transactions.begin(self.reading, transactional_id)

    def pend_offsets(
        self, producer: ProducerIdentity, group_id: str, offsets: Mapping[TopicPartition, CommittedValue]
    ) -> Mapping[TopicPartition, ErrorName | None]:
        """AddOffsetsToTxn and TxnOffsetCommit without a member; an error names the missing ACL, if any."""
        answers = offset_transactions.pend(self.reading, producer, group_id, offsets)
        return {key: error and self._with_acl(error, group_id, key[0]) for key, error in answers.items()}

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """EndTxn; GroupError when the transaction has ended without it."""
        offset_transactions.end(self.reading, producer, committed=committed)

    def subscribed_topics(self, group_id: str, group_type: str) -> frozenset[str] | None:
        """The topics to which the members of a group subscribe; None when they are not known.

        Those of a streams group are not known: its topology may read topics by a pattern, which the coordinator does
        not show.
        """
        is_streams = group_type.capitalize() == STREAMS
        topics = None if is_streams else self.snapshot(group_id, group_type).subscribed_topics
        return None if topics is None else frozenset(topics)

    def join_and_leave(self, group_id: str, protocol_type: str) -> ErrorName | None:
        """Join an Empty classic group of a protocol type and leave it immediately; None if the join succeeded, else
        Kafka's error."""
        return membership.join_and_leave(self.changing, self.reading, group_id, protocol_type)

    def append_tombstones(self, log_partition: int, batches: bytes) -> int:
        return append_tombstones(self.changing.config, log_partition, batches, connect=_once)


@contextmanager
def connected(config: ClientConfig) -> Iterator[KafkaAdmin]:
    """The cluster of `config`, for one thread. UsageError when it refuses the credentials, BrokerError when it does not
    answer."""
    with ClusterSession(config) as reading, _once(config) as changing:
        yield KafkaAdmin(reading, changing)


_once = partial(ClusterSession, retry_for_s=0)
