"""A cluster in memory as AdminClient: groups, members, offsets, topics, and whatever comes between two calls.

It answers a commit by Kafka's rules for one without a member, written down anew and simply, so that the judge's rules
are not held against themselves; a transaction of offsets, too. `between` is called before every call; answers may be
lost on either way.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sexton.execution.kafka_admin import ClusterIdentity, TopicView
from sexton.execution.restore.restore_plan import OffsetValue
from sexton.kafka.admin import CommittedValue, GroupError, GroupNow
from sexton.kafka.group_state import CommittedOffset
from sexton.kafka.offset_transactions import ProducerIdentity
from sexton.kafka.session import TransientError, Unsettled
from sexton.kafka.tail import TailRecord
from tests.log_builder import classic_fields, group_entry, offset_key, offset_value

UNSTABLE = 88
RIVAL = 900
"""The producer id of somebody else's transaction."""
MAX_METADATA_BYTES = 4096


@dataclass(frozen=True)
class Written:
    """An offset record of a group in its log partition; a `value` of None is a tombstone. `is_committed` makes it the
    end of a transaction."""

    log_offset: int
    key: tuple[str, int]
    value: OffsetValue | None
    timestamp_ms: int
    producer_id: int = -1
    is_committed: bool | None = None
    of_group: tuple[bytes, bytes] | None = None
    """Key and value of a record of the group itself."""

    def record(self, group_id: str) -> TailRecord:
        if self.of_group is not None:
            return TailRecord(self.log_offset, *self.of_group, self.timestamp_ms, self.producer_id, is_control=False)
        if self.is_committed is not None:
            key = b"\0\0\0" + bytes([self.is_committed])
            return TailRecord(self.log_offset, key, b"\0" * 6, self.timestamp_ms, self.producer_id, is_control=True)
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
            producer_id=self.producer_id,
            is_control=False,
        )


@dataclass
class Group:
    """A group; `members` are counted, not named. `subscribed` are the topics of its members, None if not known."""

    group_type: str = "Classic"
    members: int = 0
    protocol_type: str = ""
    subscribed: frozenset[str] | None = None
    offsets: dict[tuple[str, int], OffsetValue] = field(default_factory=dict)
    pending: set[tuple[str, int]] = field(default_factory=set)

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"


@dataclass
class SimulatedCluster:
    """`topics` are {name: (topic id, [(log start, log end), ...])}. `lost` says of the next commits, of a transaction
    of its end, which way their message gets lost: "request" before it is carried out, "answer" after it, None not at
    all; "nobody there" says that it is not sent. `lost_pends` says it of what is pended."""

    groups: dict[str, Group] = field(default_factory=dict)
    topics_now: dict[str, tuple[str, list[tuple[int, int]]]] = field(default_factory=dict)
    cluster_id: str = "cluster"
    broker_version: str | None = None
    log_partition_count: int = 4
    hides_log: bool = False
    between: Callable[[str], None] = lambda _: None
    lost: list[str | None] = field(default_factory=list)
    lost_pends: list[str | None] = field(default_factory=list)
    takes_transactions: bool = True
    producers: int = 0
    rival: tuple[str, Written] | None = None
    open: dict[tuple[str, tuple[str, int]], Written] = field(default_factory=dict)
    """What our transaction has pending, by group and key."""
    at: dict[tuple[str, tuple[str, int]], int] = field(default_factory=dict)
    """Where the value of each offset was written."""
    log: list[tuple[str, Written]] = field(default_factory=list)
    """Every offset record of every group, in one log; its log partitions share the numbers."""
    joins: list[str] = field(default_factory=list)
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
        return GroupNow(
            exists=True,
            group_type=found.group_type.lower(),
            state=found.state,
            protocol_type=found.protocol_type,
            member_count=found.members,
        )

    def committed(
        self, group_id: str, *, require_stable: bool, only: Collection[tuple[str, int]] | None = None
    ) -> Mapping[tuple[str, int], CommittedOffset]:
        assert require_stable == (only is not None)
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
            raise TransientError("the coordinator is loading", where=f"group {group_id}")
        if way == "request":
            raise Unsettled("no answer came", where=f"group {group_id}")
        answer = {key: self._commit(group_id, key, value) for key, value in values.items()}
        done = {key: values[key] for key, error in answer.items() if error is None}
        if done:
            self.commits.append((group_id, done))
        if way == "answer":
            raise Unsettled("no answer came", where=f"group {group_id}")
        return answer

    def subscribed_topics(self, group_id: str, group_type: str) -> frozenset[str] | None:
        self.between("members")
        group = self.groups[group_id]
        assert group.group_type.lower() == group_type
        return group.subscribed

    def join_and_leave(self, group_id: str, protocol_type: str) -> str | None:
        self.between("join")
        way = self.lost.pop(0) if self.lost else None
        if way == "request":
            raise Unsettled("no answer came", where=f"group {group_id}")
        assert protocol_type == self.groups[group_id].protocol_type
        fields = classic_fields(protocol_type=protocol_type, state_timestamp_ms=1_000 + len(self.log))
        key, told = group_entry(2, group_id, fields)
        assert told is not None
        self._append(group_id, ("", 0), None, of_group=(key, told))
        self.joins.append(group_id)
        if way == "answer":
            raise Unsettled("no answer came", where=f"group {group_id}")
        return None

    def begin_transactions(self, transactional_id: str) -> ProducerIdentity:
        self.between("begin")
        if not self.takes_transactions:
            raise GroupError("refused", error_name="TRANSACTIONAL_ID_AUTHORIZATION_FAILED", fix="allow it")
        if self.open:
            self._end(committed=False)
        self.producers += 1
        return ProducerIdentity(transactional_id=transactional_id, producer_id=self.producers, producer_epoch=0)

    def pend_offsets(
        self, producer: ProducerIdentity, group_id: str, offsets: Mapping[tuple[str, int], CommittedValue]
    ) -> Mapping[tuple[str, int], str | None]:
        self.between("pend")
        assert producer.producer_id == self.producers
        way = self.lost_pends.pop(0) if self.lost_pends else None
        if way == "nobody there" or self.lost[:1] == ["nobody there"]:
            self.lost = []
            raise TransientError("the coordinator is loading", where=f"group {group_id}")
        if way == "request":
            raise Unsettled("no answer came", where=f"group {group_id}")
        answer = {}
        for key, (offset, epoch, metadata) in offsets.items():
            put = value(offset, epoch, metadata)
            answer[key] = self._refusal(group_id, key, put, has_member_guard=False)
            if answer[key] is None:
                self.groups.setdefault(group_id, Group())
                self.open[group_id, key] = self._append(group_id, key, put, producer_id=producer.producer_id)
        if way == "answer":
            raise Unsettled("no answer came", where=f"group {group_id}")
        return answer

    def end_transaction(self, producer: ProducerIdentity, *, committed: bool) -> None:
        self.between("end")
        if producer.producer_id != self.producers:
            raise GroupError("refused", error_name="INVALID_PRODUCER_EPOCH")
        way = self.lost.pop(0) if self.lost else None
        if way == "request":
            raise Unsettled("no answer came")
        self._end(committed=committed)
        if way == "answer":
            raise Unsettled("no answer came")

    def _end(self, *, committed: bool) -> None:
        """The marker. A pending offset takes effect if nothing newer is there."""
        done: dict[str, dict[tuple[str, int], OffsetValue]] = {}
        for (group_id, key), record in self.open.items():
            assert record.value is not None
            if committed:
                done.setdefault(group_id, {})[key] = record.value
                if record.log_offset > self.at.get((group_id, key), -1):
                    self.groups.setdefault(group_id, Group()).offsets[key] = record.value
                    self.at[group_id, key] = record.log_offset
        self.commits += done.items()
        self.open = {}
        self._append("", ("", 0), None, producer_id=self.producers, is_committed=committed)

    def _append(self, group_id: str, key: tuple[str, int], value: OffsetValue | None, **own: Any) -> Written:
        at = len(self.log)
        record = Written(log_offset=at, key=key, value=value, timestamp_ms=1_000 + at, **own)
        self.log.append((group_id, record))
        return record

    def _commit(self, group_id: str, key: tuple[str, int], value: OffsetValue) -> str | None:
        error = self._refusal(group_id, key, value, has_member_guard=True)
        if error is None:
            self._put(group_id, key, value)
        return error

    def _refusal(
        self, group_id: str, key: tuple[str, int], value: OffsetValue, *, has_member_guard: bool
    ) -> str | None:
        topic, partition = key
        if partition >= len(self.topics_now.get(topic, ("", []))[1]):
            return "UNKNOWN_TOPIC_OR_PARTITION"
        group = self.groups.get(group_id)
        if group is not None and group.group_type == "Share":
            return "GROUP_ID_NOT_FOUND"
        if has_member_guard and group is not None and group.members:
            return "UNKNOWN_MEMBER_ID"
        if len(value.metadata) > MAX_METADATA_BYTES:
            return "OFFSET_METADATA_TOO_LARGE"
        return None

    def _put(self, group_id: str, key: tuple[str, int], value: OffsetValue) -> None:
        self.groups.setdefault(group_id, Group()).offsets[key] = value
        self.at[group_id, key] = self._append(group_id, key, value).log_offset

    def delete_group(self, group_id: str) -> None:
        """DeleteGroups: a tombstone for each offset."""
        pending = [key for owner, key in self.open if owner == group_id]
        for key in {*self.groups.pop(group_id, Group()).offsets, *pending}:
            self.open.pop((group_id, key), None)
            self.at[group_id, key] = self._append(group_id, key, None).log_offset

    def log_end(self, log_partition: int) -> int:
        assert not self.hides_log
        self.between("log_end")
        return len(self.log)

    def tail(self, log_partition: int, *, from_log_offset: int, topic_id: str | None = None) -> "SimulatedTail":
        assert not self.hides_log
        return SimulatedTail(self, from_log_offset)

    def rival_pends(self, group_id: str, topic: str, partition: int, committed_offset: int) -> None:
        """A transaction of somebody else pends an offset; one at a time."""
        self.rival_ends(committed=False)
        self.rival = group_id, self._append(group_id, (topic, partition), value(committed_offset), producer_id=RIVAL)
        self.groups.setdefault(group_id, Group()).pending.add((topic, partition))

    def rival_ends(self, *, committed: bool) -> None:
        if self.rival is None:
            return
        (group_id, record), self.rival = self.rival, None
        self._append("", ("", 0), None, producer_id=RIVAL, is_committed=committed)
        if (group := self.groups.get(group_id)) is None or record.key not in group.pending:
            return
        group.pending.discard(record.key)
        if committed and record.log_offset > self.at.get((group_id, record.key), -1):
            assert record.value is not None
            group.offsets[record.key], self.at[group_id, record.key] = record.value, record.log_offset

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
