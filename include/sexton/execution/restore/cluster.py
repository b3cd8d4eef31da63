"""A real cluster behind RestorePort: each question is one or a few requests."""

import time
from collections.abc import Iterable, Mapping

from sexton.coordinator.api.view import TopicPartition
from sexton.coordinator.offsets import StoredOffset
from sexton.errors import LogError, UsageError
from sexton.execution.cluster import KafkaCluster
from sexton.execution.restore.port import GroupView, TopicView, Written
from sexton.execution.restore.rows import OffsetValue
from sexton.kafka.acls import missing_acl
from sexton.kafka.admin import GroupError
from sexton.kafka.failures import NotAllowed
from sexton.kafka.group_state import CommittedOffset
from sexton.kafka.session import TransientError
from sexton.kafka.tail import TailReader, TailRecord
from sexton.kafka.topics import EARLIEST, LATEST, OFFSETS_TOPIC, Topic, describe_cluster, describe_topic, list_offsets
from sexton.records import OFFSET_TYPES, decode_key, decode_value

NO_EPOCH = -1
UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
UNSTABLE = 88


class KafkaPort:
    """RestorePort over the cluster that plans are applied to: what it reads may be tried again, a commit is not."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster, self._session = cluster, cluster.reading
        found = describe_cluster(self._session, [OFFSETS_TOPIC])
        self._cluster_id = found.cluster_id
        self._offsets_topic = found.topics[OFFSETS_TOPIC]

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    @property
    def broker_version(self) -> str | None:
        return self._session.broker_version

    @property
    def log_partition_count(self) -> int:
        return len(self._offsets_topic.leaders)

    def group(self, group_id: str) -> GroupView:
        try:
            now = self._cluster.group_now(group_id)
            unstable = self._cluster.committed(group_id, require_stable=True)
            looked_at_s = time.perf_counter()
            offsets = self._cluster.committed(group_id, require_stable=False)
        except (GroupError, NotAllowed) as error:
            told = f"{error.error_name}: {error.fix}" if error.fix else error.error_name
            return GroupView(group_id=group_id, offsets={}, error=told, looked_at_s=time.perf_counter())
        state = now.state or "Empty"
        return GroupView(
            group_id=group_id,
            exists=now.exists,
            group_type=(now.group_type or "classic").capitalize(),
            state=state,
            member_count=int(state != "Empty") if now.member_count is None else now.member_count,
            offsets={key: _value(found) for key, found in offsets.items() if found.error_code == 0},
            unstable=frozenset(key for key, found in unstable.items() if found.error_code == UNSTABLE),
            looked_at_s=looked_at_s,
        )

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicView]:
        names = list(names)
        if not names:
            return {}
        found: dict[str, Topic] = {}
        missing: dict[str, TopicView] = {}
        try:
            found.update(describe_cluster(self._session, names).topics)
        except UsageError:  # one of them is not there, or not ours to see: which of the two is told one by one
            for name in names:
                try:
                    found[name] = describe_topic(self._session, name)
                except NotAllowed as error:
                    missing[name] = TopicView(topic=name, ranges={}, error=f"{error.error_name}: {error.fix}")
                except UsageError:
                    missing[name] = TopicView(topic=name, ranges={}, error=UNKNOWN_TOPIC)
        starts = list_offsets(self._session, found.values(), timestamp=EARLIEST)
        ends = list_offsets(self._session, found.values(), timestamp=LATEST)
        views = {name: _view(topic, starts, ends) for name, topic in found.items()}
        return views | missing

    def log_end(self, log_partition: int) -> int:
        return self._session.retrying(lambda: self._log_end(log_partition))

    def _log_end(self, log_partition: int) -> int:
        ends = list_offsets(self._session, [describe_topic(self._session, OFFSETS_TOPIC)], timestamp=LATEST)
        if (OFFSETS_TOPIC, log_partition) not in ends:
            raise TransientError("nobody leads it", where=f"log partition {log_partition}")
        return ends[OFFSETS_TOPIC, log_partition]

    def written(self, log_partition: int, group_id: str, *, since: int) -> list[Written]:
        tail = TailReader(
            self._session,
            OFFSETS_TOPIC,
            log_partition,
            from_log_offset=since,
            topic_id=self._offsets_topic.topic_id,
        )
        return [found for record in tail.records() if (found := _written(record, group_id)) is not None]

    def commit(
        self, group_id: str, values: Mapping[TopicPartition, OffsetValue]
    ) -> Mapping[TopicPartition, str | None]:
        offsets = {
            key: (
                value.committed_offset,
                NO_EPOCH if value.leader_epoch is None else value.leader_epoch,
                value.metadata,
            )
            for key, value in values.items()
        }
        try:
            answer = self._cluster.commit_offsets(group_id, offsets)
        except GroupError as error:
            return dict.fromkeys(values, f"{error.error_name}: {error.fix}" if error.fix else error.error_name)
        return {key: self._told(error, group_id, key[0]) for key, error in answer.items()}

    def _told(self, error: str | None, group_id: str, topic: str) -> str | None:
        """An error with the ACL that is missing, where one is."""
        if error is None:
            return None
        principal = self._session.config.principal
        acl = missing_acl(error, "OffsetCommit", principal=principal, topic=topic, group_id=group_id)
        return error if acl is None else f"{error}: {acl}"


def _view(topic: Topic, starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]) -> TopicView:
    ranges: dict[int, tuple[int, int] | None] = {}
    for partition in topic.leaders:
        key = topic.name, partition
        ranges[partition] = (starts[key], ends[key]) if key in starts and key in ends else None
    return TopicView(topic=topic.name, topic_id=topic.topic_id, ranges=ranges)


def _value(found: CommittedOffset) -> OffsetValue:
    return OffsetValue(
        committed_offset=found.committed_offset,
        leader_epoch=None if found.leader_epoch == NO_EPOCH else found.leader_epoch,
        metadata=found.metadata,
    )


def _written(record: TailRecord, group_id: str) -> Written | None:
    """A record of the log, where it is about an offset of the group; what cannot be decoded is about none."""
    if record.is_control or record.key is None:
        return None
    try:
        record_type, key = decode_key(record.key)
        if record_type not in OFFSET_TYPES or key["group_id"] != group_id:
            return None
        fields = None if record.value is None else decode_value(record_type, record.value)[1]
    except LogError:
        return None
    value, timestamp_ms = None, record.timestamp_ms
    if fields is not None:
        stored = StoredOffset.from_value(fields, log_offset=record.log_offset, producer_id=record.producer_id)
        value = OffsetValue(
            committed_offset=stored.committed_offset, leader_epoch=stored.leader_epoch, metadata=stored.metadata
        )
        timestamp_ms = stored.commit_timestamp_ms
    return Written(
        log_offset=record.log_offset,
        key=(key["topic"], key["partition"]),
        value=value,
        timestamp_ms=timestamp_ms,
    )
