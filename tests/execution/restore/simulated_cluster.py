"""A cluster in memory as AdminClient: groups, members, offsets, topics, and whatever comes between two calls.

It answers a commit by Kafka's rules for one without a member, written down anew and simply, so that the judge's rules
are not held against themselves. `between` is called before every call; answers may be lost on either way.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sexton.execution.kafka_admin import ClusterIdentity, TopicView
from sexton.execution.restore.restore_plan import OffsetValue
from sexton.kafka.admin import CommittedValue, GroupNow
from sexton.kafka.group_state import CommittedOffset
from sexton.kafka.session import TransientError, Unsettled
from sexton.kafka.tail import TailRecord
from tests.log_builder import offset_key, offset_value

UNSTABLE = 88
MAX_METADATA_BYTES = 4096


@dataclass(frozen=True)
class Written:
    """An offset record of a group in its log partition; a `value` of None is a tombstone."""

    log_offset: int
    key: tuple[str, int]
    value: OffsetValue | None
    timestamp_ms: int

    def record(self, group_id: str) -> TailRecord:
        value = self.value and offset_value(
            self.value.committed_offset,
            leader_epoch=-1 if self.value.leader_epoch is None else self.value.leader_epoch,
            metadata=self.value.metadata,
            commit_timestamp_ms=self.timestamp_ms,
        )
        return TailRecord(
            log_offset=self.log_offset,
            key=offset_key(group_id, *self.key),
            value=value,
            timestamp_ms=self.timestamp_ms,
            producer_id=-1,
            is_control=False,
        )


@dataclass
class Group:
    """A group; `members` are counted, not named."""

    group_type: str = "Classic"
    members: int = 0
    offsets: dict[tuple[str, int], OffsetValue] = field(default_factory=dict)
    pending: set[tuple[str, int]] = field(default_factory=set)

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"


@dataclass
class SimulatedCluster:
    """`topics` are {name: (topic id, [(log start, log end), ...])}. `lost` says of the next commits which way their
    message gets lost: "request" before it is carried out, "answer" after it, None not at all;
    "nobody there" says that it is not sent."""

    groups: dict[str, Group] = field(default_factory=dict)
    topics_now: dict[str, tuple[str, list[tuple[int, int]]]] = field(default_factory=dict)
    cluster_id: str = "cluster"
    broker_version: str | None = None
    log_partition_count: int = 4
    hides_log: bool = False
    between: Callable[[str], None] = lambda _: None
    lost: list[str | None] = field(default_factory=list)
    log: list[tuple[str, Written]] = field(default_factory=list)
    """Every offset record of every group, in one log; its log partitions share the numbers."""
    commits: list[tuple[str, dict[tuple[str, int], OffsetValue]]] = field(default_factory=list)
    """Every commit without a member that was carried out, whole or in part."""

    def identity(self, *, may_hide_log: bool = False) -> ClusterIdentity:
        assert may_hide_log or not self.hides_log
        return ClusterIdentity(
            cluster_id=self.cluster_id,
            topic_id="offsets",
            partition_count=0 if self.hides_log else self.log_partition_count,
            max_message_bytes=None,
            broker_version=self.broker_version,
        )

    def group_now(self, group_id: str) -> GroupNow:
        self.between("group")
        found = self.groups.get(group_id)
        if found is None:
            return GroupNow(exists=False)
        return GroupNow(exists=True, group_type=found.group_type.lower(), state=found.state, member_count=found.members)

    def committed(self, group_id: str, *, require_stable: bool) -> Mapping[tuple[str, int], CommittedOffset]:
        found = self.groups.get(group_id, Group())
        pending = found.pending if require_stable else set()
        offsets = {} if found.group_type == "Share" else found.offsets
        return {key: _committed(one) for key, one in offsets.items()} | {
            key: CommittedOffset(committed_offset=-1, leader_epoch=None, metadata="", error_code=UNSTABLE)
            for key in pending
        }

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicView]:
        self.between("topics")
        return {name: self._topic(name) for name in names}

    def _topic(self, name: str) -> TopicView:
        if name not in self.topics_now:
            return TopicView(topic=name, ranges={}, error="UNKNOWN_TOPIC_OR_PARTITION")
        topic_id, ranges = self.topics_now[name]
        return TopicView(topic=name, topic_id=topic_id, ranges=dict(enumerate(ranges)))

    def commit_offsets(
        self, group_id: str, offsets: Mapping[tuple[str, int], CommittedValue]
    ) -> Mapping[tuple[str, int], str | None]:
        self.between("commit")
        values = {key: value(offset, epoch, metadata) for key, (offset, epoch, metadata) in offsets.items()}
        way = self.lost.pop(0) if self.lost else None
        if way == "nobody there":
            raise TransientError("the coordinator loads", where=f"group {group_id}")
        if way == "request":
            raise Unsettled("no answer came", where=f"group {group_id}")
        answer = {key: self._commit(group_id, key, value) for key, value in values.items()}
        done = {key: values[key] for key, error in answer.items() if error is None}
        if done:
            self.commits.append((group_id, done))
        if way == "answer":
            raise Unsettled("no answer came", where=f"group {group_id}")
        return answer

    def _commit(self, group_id: str, key: tuple[str, int], value: OffsetValue) -> str | None:
        topic, partition = key
        if partition >= len(self.topics_now.get(topic, ("", []))[1]):
            return "UNKNOWN_TOPIC_OR_PARTITION"
        group = self.groups.get(group_id)
        if group is not None and group.group_type == "Share":
            return "GROUP_ID_NOT_FOUND"
        if group is not None and group.members:
            return "UNKNOWN_MEMBER_ID"
        if len(value.metadata) > MAX_METADATA_BYTES:
            return "OFFSET_METADATA_TOO_LARGE"
        self._put(group_id, key, value)
        return None

    def _put(self, group_id: str, key: tuple[str, int], value: OffsetValue) -> None:
        self.groups.setdefault(group_id, Group()).offsets[key] = value
        record = Written(log_offset=len(self.log), key=key, value=value, timestamp_ms=1_000 + len(self.log))
        self.log.append((group_id, record))

    def delete_group(self, group_id: str) -> None:
        """DeleteGroups: a tombstone for each offset."""
        for key in self.groups.pop(group_id, Group()).offsets:
            record = Written(log_offset=len(self.log), key=key, value=None, timestamp_ms=1_000 + len(self.log))
            self.log.append((group_id, record))

    def log_end(self, log_partition: int) -> int:
        assert not self.hides_log
        self.between("log_end")
        return len(self.log)

    def tail(self, log_partition: int, *, from_log_offset: int, topic_id: str | None = None) -> "SimulatedTail":
        assert not self.hides_log
        return SimulatedTail(self, from_log_offset)

    def client_commits(self, group_id: str, topic: str, partition: int, committed_offset: int) -> None:
        """A consumer without a group's protocol, or a member, commits."""
        self._put(group_id, (topic, partition), value(committed_offset))


@dataclass
class SimulatedTail:
    """The log of a cluster from an offset on."""

    cluster: SimulatedCluster
    log_offset: int

    def records(self) -> list[TailRecord]:
        self.cluster.between("written")
        found = [record.record(group_id) for group_id, record in self.cluster.log[self.log_offset :]]
        self.log_offset += len(found)
        return found


def _committed(found: OffsetValue) -> CommittedOffset:
    return CommittedOffset(
        committed_offset=found.committed_offset, leader_epoch=found.leader_epoch, metadata=found.metadata
    )


def value(committed_offset: int, leader_epoch: int | None = None, metadata: str = "") -> OffsetValue:
    return OffsetValue(committed_offset=committed_offset, leader_epoch=leader_epoch, metadata=metadata)
