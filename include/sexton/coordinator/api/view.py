"""The result of loading one log partition: groups, members, offsets, open transactions.

Filled by the plain replay (plain_view.py) and by the kernels' tables (tables_view.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sexton.coordinator.offsets import OffsetKey, StoredOffset

TopicPartition = tuple[str, int]
"""(topic, partition)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedGroup:
    """A group in the coordinator's memory, without its members; the defaults are those of a group that a request
    creates.

    `generation` is the group epoch of the new types. `log_offset` is None for a group created by offsets alone.
    """

    group_id: str
    group_type: str = "Classic"
    state: str = "Empty"
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int | None = 0
    leader: str | None = None
    current_state_timestamp_ms: int | None = None
    member_count: int = 0
    log_offset: int | None = None
    left_targets: tuple[str, ...] = ()
    """Former members that still have a target assignment; of the new types."""
    subscription_known: bool = True
    """Whether the coordinator knows the group's subscription; for a streams group, whether it has a topology."""
    subtopologies: Mapping[str, str] = field(default_factory=dict)
    """The subtopology of a streams group that reads a topic, by topic."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "LoadedGroup":
        """A group from a row of the table `groups`, or of `Group.to_group_row`."""
        read = (text.rpartition("@") for text in row["subtopologies"] or ())
        own: dict[str, Any] = {"left_targets": tuple(row["left_targets"] or ())}
        own["subtopologies"] = {topic: subtopology_id for subtopology_id, _, topic in read}
        return cls(**{name: row[name] for name in cls.__slots__ if name not in own}, **own)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMember:
    """A member of a group. `assignment` is None where it cannot be parsed, or where coordinators do not parse it."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    session_timeout_ms: int | None = None
    member_epoch: int | None = None
    """None for members of classic groups."""
    assignment: tuple[str, ...] | None = None
    """`<topic, topic id or subtopology>-<partition>` each."""
    assignment_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The member epoch since which the member has each partition, by (topic id, partition), in a streams group by
    (subtopology, partition); empty without such epochs in its record (KIP-1251, KAFKA-19779)."""
    rebalance_timeout_ms: int | None = None
    member_metadata: bytes | None = None
    """The subscription of a classic group's member, as the member sent it; None for other types."""
    member_assignment: bytes | None = None
    """The assignment of a classic group's member, as its leader sent it; None for other types."""
    static_instance_ids: tuple[str, ...] | None = None
    """The instances that the coordinator maps to the member, where they differ from its group_instance_id."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "LoadedMember":
        """A member from a row of the table `members`, or of `Group.to_member_rows`."""
        values = {name: row[name] for name in cls.__slots__}
        for name in ("assignment", "static_instance_ids"):
            values[name] = None if row[name] is None else tuple(row[name])
        epochs = (text.rpartition("@") for text in row["assignment_epochs"] or ())
        values["assignment_epochs"] = {_topic_partition(partition): int(epoch) for partition, _, epoch in epochs}
        return cls(**values)

    def holds(self, group_instance_id: str) -> bool:
        """Whether the coordinator maps that instance to the member."""
        if self.static_instance_ids is None:
            return self.group_instance_id == group_instance_id
        return group_instance_id in self.static_instance_ids

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """`assignment` split into its parts; empty where it is not known."""
        return tuple(map(_topic_partition, self.assignment or ()))


def _topic_partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return topic, int(number)


class PartitionView(Protocol):
    """The coordinator's state of one log partition."""

    def group(self, group_id: str) -> LoadedGroup | None:
        """The group, None when it is missing; its offsets may still exist."""

    def groups(self) -> Iterable[LoadedGroup]:
        """Every group, by id."""

    def members(self, group_id: str) -> tuple[LoadedMember, ...]:
        """The group's members, by id."""

    def offsets(self, group_id: str) -> Mapping[TopicPartition, StoredOffset]:
        """The group's committed offsets, even if the group was removed."""

    def pending(self, group_id: str) -> frozenset[TopicPartition]:
        """Keys of the group with pending offsets in open transactions."""

    def offset_counts(self) -> Mapping[str, int]:
        """Number of committed offsets, by group id."""

    def transactions(self) -> Mapping[int, Mapping[OffsetKey, StoredOffset]]:
        """Pending offsets of each producer."""


class EmptyView:
    """A view without content; it ignores the arguments that the protocol names."""

    def group(self, group_id: str) -> LoadedGroup | None:  # noqa: ARG002
        return None

    def groups(self) -> Iterator[LoadedGroup]:
        return iter(())

    def members(self, group_id: str) -> tuple[LoadedMember, ...]:  # noqa: ARG002
        return ()

    def offsets(self, group_id: str) -> Mapping[TopicPartition, StoredOffset]:  # noqa: ARG002
        return {}

    def pending(self, group_id: str) -> frozenset[TopicPartition]:  # noqa: ARG002
        return frozenset()

    def offset_counts(self) -> Mapping[str, int]:
        return {}

    def transactions(self) -> Mapping[int, Mapping[OffsetKey, StoredOffset]]:
        return {}
