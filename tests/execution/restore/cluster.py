"""A cluster in memory behind RestorePort: groups, members, offsets, topics, and whatever comes between two calls.

It answers a commit by Kafka's rules for one without a member, written down anew and simply, so that the judge's rules
are not held against themselves. `between` is called before every call; answers may be lost on either way.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sexton.execution.restore.port import GroupView, TopicView, Written
from sexton.execution.restore.rows import OffsetValue
from sexton.kafka.session import TransientError, Unsettled

MAX_METADATA_BYTES = 4096


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
    between: Callable[[str], None] = lambda _: None
    lost: list[str | None] = field(default_factory=list)
    log: list[tuple[str, Written]] = field(default_factory=list)
    """Every offset record of every group, in one log; its log partitions share the numbers."""
    commits: list[tuple[str, dict[tuple[str, int], OffsetValue]]] = field(default_factory=list)
    """Every commit without a member that was carried out, whole or in part."""

    def group(self, group_id: str) -> GroupView:
        self.between("group")
        found = self.groups.get(group_id)
        if found is None:
            return GroupView(group_id=group_id, offsets={}, looked_at_s=time.perf_counter())
        is_share = found.group_type == "Share"
        return GroupView(
            group_id=group_id,
            exists=True,
            group_type=found.group_type,
            state=found.state,
            member_count=found.members,
            offsets={} if is_share else dict(found.offsets),
            unstable=frozenset(found.pending),
            looked_at_s=time.perf_counter(),
        )

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicView]:
        self.between("topics")
        return {name: self._topic(name) for name in names}

    def _topic(self, name: str) -> TopicView:
        if name not in self.topics_now:
            return TopicView(topic=name, ranges={}, error="UNKNOWN_TOPIC_OR_PARTITION")
        topic_id, ranges = self.topics_now[name]
        return TopicView(topic=name, topic_id=topic_id, ranges=dict(enumerate(ranges)))

    def commit(
        self, group_id: str, values: Mapping[tuple[str, int], OffsetValue]
    ) -> Mapping[tuple[str, int], str | None]:
        self.between("commit")
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
        self.between("log_end")
        return len(self.log)

    def written(self, log_partition: int, group_id: str, *, since: int) -> list[Written]:
        self.between("written")
        return [record for owner, record in self.log[since:] if owner == group_id]

    def client_commits(self, group_id: str, topic: str, partition: int, committed_offset: int) -> None:
        """A consumer without a group's protocol, or a member, commits."""
        self._put(group_id, (topic, partition), value(committed_offset))


def value(committed_offset: int, leader_epoch: int | None = None, metadata: str = "") -> OffsetValue:
    return OffsetValue(committed_offset=committed_offset, leader_epoch=leader_epoch, metadata=metadata)
