"""Base classes of the group kinds: `Group` for all of them, `ModernGroup` and `Member` for those since KIP-848.

The kinds follow Kafka 4.3: ClassicGroup (classic.py), and as ModernGroup ConsumerGroup (KIP-848, consumer.py),
ShareGroup (KIP-932, share.py) and StreamsGroup (KIP-1071, streams.py). They have only the state that a load leaves: no
timers, no pending joins, no metadata images.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from uuid import UUID

from sexton.coordinator.profile import Profile
from sexton.errors import TransitionError
from sexton.records import ZERO_UUID, Key, MemberKey, Value, kafka_uuid
from sexton.records.consumer import (
    EpochedTopicPartitions,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    TopicPartitions,
    TopicRacks,
)

LEAVE_EPOCH = -1
"""Epoch of a member whose current assignment was deleted, and of a deleted target (LEAVE_GROUP_MEMBER_EPOCH)."""

_ZERO_ID = 22 * "A"
_STABLE = 0  # MemberState.STABLE of consumer and share members; streams members say 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTombstone:
    """One of the tombstones that delete a group: `record_type`, and the parts of its key other than the group id."""

    record_type: int
    member_id: str | None = None
    regular_expression: str | None = None


class Group(ABC):
    """A group in the coordinator's memory after a load.

    `log_offset` is that of the group's last record, None for a group created by offsets alone.
    """

    group_type: ClassVar[str]
    members: Mapping[str, Any]
    """By id; in a modern group each is a `Member`, in a classic group the member of the record."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.log_offset: int | None = None

    @property
    @abstractmethod
    def state(self) -> str:
        """The state, as ListGroups names it."""

    @property
    @abstractmethod
    def protocol_type(self) -> str | None:
        """None for a simple group: one created by offsets alone, or whose metadata names no protocol type."""

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return self.state == "Empty"

    @property
    @abstractmethod
    def subscribed_topics(self) -> Collection[str] | None:
        """The topics that the group is subscribed to; None when the coordinator does not know."""

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Whether the coordinator keeps the group's offsets of `topic` because of its subscription."""

    def loading_failure(self) -> str | None:
        """Why this group makes the load fail after the last record; None where it does not."""
        return None

    @property
    def left_targets(self) -> Sequence[str] | None:
        """Former members that still have a target assignment; None for classic groups, which have none.

        While there is any, an Empty group cannot be deleted: replaying the tombstone of its target assignment throws.
        """
        return None

    @abstractmethod
    def tombstones(self) -> list[GroupTombstone]:
        """The records that delete this group, in the order of createGroupTombstoneRecords."""

    def to_member_rows(self) -> list[dict[str, Any]]:
        """The group's rows of the table `members`, by member id."""
        return [self.member_row(member) for _, member in sorted(self.members.items())]

    @abstractmethod
    def member_row(self, member: Any) -> dict[str, Any]:
        """The row of one member."""

    def common_row(self, member: Any, topics: Collection[str] | None) -> dict[str, Any]:
        """A row of `members` with the values that every kind of group has; the columns of other values are NULL."""
        return {
            "group_id": self.group_id,
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "rack_id": None,
            "session_timeout_ms": member.session_timeout_ms,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "member_epoch": None,
            "subscribed_topics": None if topics is None else sorted(topics),
            "assignment": None,
            **dict.fromkeys(("assignment_epochs", "member_metadata", "member_assignment", "static_instance_ids")),
        }

    def to_group_row(self) -> dict[str, Any]:
        """The group's row of the table `groups`, without the columns that depend on more than the group."""
        topics = self.subscribed_topics
        return {
            "group_id": self.group_id,
            "group_type": self.group_type,
            "state": self.state,
            "protocol_type": self.protocol_type,
            "protocol": None,
            "generation": None,
            "leader": None,
            "current_state_timestamp_ms": None,
            "member_count": self.member_count,
            "subscribed_topics": None if topics is None else sorted(topics),
            "subscription_known": topics is not None,
            "subtopologies": None,
            "left_targets": None if self.left_targets is None else list(self.left_targets),
            "log_offset": self.log_offset,
        }


@dataclass(slots=True, kw_only=True)
class Member:
    """A member of a modern group; the defaults are those of a member without a metadata record."""

    member_id: str
    member_epoch: int | None = 0
    state: int | None = _STABLE
    group_instance_id: str | None = None
    rack_id: str | None = None
    client_id: str | None = ""
    client_host: str | None = ""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    subscribed_topics: frozenset[str] | None = frozenset()
    assigned: Mapping[Any, frozenset[int]] = field(default_factory=dict)
    revoking: Mapping[Any, frozenset[int]] = field(default_factory=dict)
    assignment_epochs: Mapping[tuple[Any, int], int] | None = None
    """The member epoch since which the member has each partition, by topic id, or each active task, by subtopology,
    including what it has yet to revoke; None where no record stores it."""


class ModernGroup(Group):
    """Members, target assignment and epochs as KIP-848, KIP-932 and KIP-1071 share them (Kafka: ModernGroup).

    The methods are the transitions. Each checks everything that may throw before it changes anything, so that a record
    on which a coordinator throws leaves the group unchanged.
    """

    kafka_name: ClassVar[str]
    """The name of the type in Kafka's messages and record names."""
    stable_state: ClassVar[int] = _STABLE
    member_tombstone_types: ClassVar[tuple[int, int, int, int]]
    """The record types of a member's assignment, its target, the target's epoch and the member, in order of
    deletion."""
    group_tombstone_types: ClassVar[tuple[int, int]]
    metadata_type: ClassVar[int]
    """The record type whose tombstone removes the group."""
    creating_types: ClassVar[frozenset[int] | None] = None
    """The record types whose values create the group; None for all types."""
    wrong_type_message: ClassVar[str]
    """Kafka's message where a group of another type has the id."""
    missing_message: ClassVar[str | None] = None
    """Kafka's message where a record cannot create its group; None where Kafka ignores the record."""
    replaces_simple: ClassVar[bool] = True
    """Whether its records replace a simple classic group of the same id; otherwise they throw."""
    targets_hold: ClassVar[bool] = True
    """Whether a remaining target assignment prevents the deletion of the group."""
    checked_tombstone_types: ClassVar[tuple[int, ...]] = ()
    """The record types whose tombstones throw if the group does not have the member."""
    group_epoch_message: ClassVar[str] = "did not receive {}GroupTargetAssignmentMetadataValue tombstone."
    member_epoch_message: ClassVar[str] = "but did not receive {}GroupCurrentMemberAssignmentValue tombstone."
    member_target_message: ClassVar[str] = "but did not receive {}GroupTargetAssignmentMetadataValue tombstone."
    """How Kafka's messages end where a tombstone comes too early, with `kafka_name`."""

    def __init__(self, group_id: str, profile: Profile) -> None:
        super().__init__(group_id)
        self.profile = profile
        self.group_epoch = profile.initial_epoch
        self.assignment_epoch = profile.initial_epoch
        self.members: dict[str, Member] = {}
        self.targets = set[str]()

    @abstractmethod
    def replay_value(self, key: Key, value: Value) -> None:
        """Apply one of the group's records; TransitionError, with no change, where Kafka's replay throws."""

    def replay_tombstone(self, record_type: int, key: Key) -> None:
        """Apply a tombstone of one of the group's records; raises like `replay_value`."""
        if record_type in self.checked_tombstone_types:
            self.check_member(key)
        assignment, target, epoch, member = self.member_tombstone_types
        if record_type == self.metadata_type:
            self.check_removable()
        elif record_type == epoch:
            self.delete_target_epoch()
        elif isinstance(key, MemberKey):
            if record_type == member:
                self.delete_member(key.member_id)
            elif record_type == target:
                self.targets.discard(key.member_id)
            elif record_type == assignment and key.member_id in self.members:
                self.delete_assignment(key.member_id)

    def check_member(self, key: Key) -> None:
        """Throw for the key of a member that the group does not have."""
        if isinstance(key, MemberKey) and key.member_id not in self.members:
            raise TransitionError(f"Member {key.member_id} is not a member of group {self.group_id}.")

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        return "Stable" if self.is_reconciled() else "Reconciling"

    @property
    def protocol_type(self) -> str | None:
        return self.kafka_name.lower()

    @property
    def left_targets(self) -> Sequence[str]:
        return sorted(self.targets - self.members.keys())

    @property
    def subscribed_topics(self) -> Collection[str] | None:
        return frozenset[str]().union(*(member.subscribed_topics or () for member in self.members.values()))

    def is_subscribed(self, topic: str) -> bool:
        return topic in (self.subscribed_topics or ())

    def set_target_epoch(self, value: TargetAssignmentMetadataValue) -> None:
        epoch = value.assignment_epoch
        if self.profile.checks_target_epochs:
            if epoch < LEAVE_EPOCH:
                raise TransitionError("The assignment epoch must be non-negative or -1.")
            if value.assignment_timestamp < 0:
                raise TransitionError("The assignment timestamp must be non-negative.")
        self.assignment_epoch = epoch

    def delete_target_epoch(self) -> None:
        if self.targets:
            raise TransitionError(
                f"Received a tombstone record to delete target assignment of {self.group_id} but the assignment still "
                f"has {len(self.targets)} members."
            )
        self.assignment_epoch = LEAVE_EPOCH

    def set_target(self, member_id: str, value: TargetAssignmentMemberValue) -> None:
        refuse_duplicates(part.topic_id for part in value.topic_partitions)
        self.targets.add(member_id)

    def delete_assignment(self, member_id: str) -> None:
        """Remove a member's assignment, and give it the epoch of a leaving member."""
        member = self.members[member_id]
        epochs = member.assignment_epochs and {}
        self.members[member_id] = replace(member, member_epoch=LEAVE_EPOCH, assigned={}, assignment_epochs=epochs)

    def check_deletable(self, member_id: str) -> None:
        """Throw unless the member's assignment and target have been deleted before it."""
        start = f"Received a tombstone record to delete member {member_id} "
        if self.members[member_id].member_epoch != LEAVE_EPOCH:
            raise TransitionError(start + self.member_epoch_message.format(self.kafka_name))
        if member_id in self.targets:
            raise TransitionError(start + self.member_target_message.format(self.kafka_name))

    def delete_member(self, member_id: str) -> None:
        if member_id in self.members:
            self.check_deletable(member_id)
            del self.members[member_id]

    def check_removable(self) -> None:
        """Throw unless the group may be deleted."""
        start = f"Received a tombstone record to delete group {self.group_id} but "
        if self.members:
            raise TransitionError(f"{start}the group still has {len(self.members)} members.")
        if self.targets and self.targets_hold:
            raise TransitionError(f"{start}the target assignment still has {len(self.targets)} members.")
        if self.assignment_epoch != LEAVE_EPOCH:
            raise TransitionError(start + self.group_epoch_message.format(self.kafka_name))

    def is_reconciled(self) -> bool:
        return all(
            member.state == self.stable_state and member.member_epoch == self.assignment_epoch
            for member in self.members.values()
        )

    def tombstones(self) -> list[GroupTombstone]:
        assignment, target, epoch, member = self.member_tombstone_types
        ids = sorted(self.members)
        return [
            *(GroupTombstone(record_type=assignment, member_id=member_id) for member_id in ids),
            *(GroupTombstone(record_type=target, member_id=member_id) for member_id in ids),
            GroupTombstone(record_type=epoch),
            *(GroupTombstone(record_type=member, member_id=member_id) for member_id in ids),
            *self.further_tombstones(),
            *(GroupTombstone(record_type=record_type) for record_type in self.group_tombstone_types),
        ]

    def further_tombstones(self) -> list[GroupTombstone]:
        return []

    def to_group_row(self) -> dict[str, Any]:
        return {**super().to_group_row(), "generation": self.group_epoch}

    def described_assignment(self, member: Member) -> Mapping[Any, Collection[int]]:
        """A member's assignment as describe requests show it, by topic id or subtopology."""
        return member.assigned

    def member_row(self, member: Member) -> dict[str, Any]:
        row = self.common_row(member, member.subscribed_topics) | {
            "rack_id": member.rack_id,
            "member_epoch": member.member_epoch,
            "assignment": assignment_text(self.described_assignment(member)),
        }
        if member.assignment_epochs is not None:
            epochs = sorted(member.assignment_epochs.items())
            row["assignment_epochs"] = [f"{id_text(topic)}-{number}@{epoch}" for (topic, number), epoch in epochs]
        return row


def refuse_duplicates(keys: Iterable[object]) -> None:
    """Throw as Java's Collectors.toMap does when a key comes twice."""
    seen = set()
    for key in keys:
        if key in seen:
            raise TransitionError(f"Duplicate key {id_text(key)}")
        seen.add(key)


def refuse_bad_topics(topics: Iterable[TopicRacks]) -> None:
    """Throw as TopicMetadata of 4.0 does: if a topic has no id, no name, or a negative number of partitions."""
    for topic in topics:
        if topic.topic_id == ZERO_UUID:
            raise TransitionError("Topic id cannot be ZERO_UUID.")
        if not topic.topic_name:
            raise TransitionError("Topic name cannot be empty.")
        if topic.num_partitions < 0:
            raise TransitionError("Number of partitions cannot be negative.")


def partitions_by_topic(parts: Iterable[TopicPartitions | EpochedTopicPartitions]) -> dict[UUID, frozenset[int]]:
    """Topic partitions of a record by topic id; for a repeated topic the last entry counts."""
    return {part.topic_id: frozenset(part.partitions) for part in parts}


def epochs_by_partition(owner: str, member_epoch: int, *lists: Sequence[Any]) -> dict[tuple[Any, int], int]:
    """The epoch since which a member has each partition or task, by the field `owner`, a topic id or subtopology; the
    member epoch if the record has no such epochs (KIP-1251, KAFKA-19779). For a repeated owner the last entry of a list
    counts, and entries of the last list before those of others."""
    found = {}
    for parts in lists:
        for own, part in {getattr(part, owner): part for part in parts}.items():
            numbers, epochs = part.partitions, part.assignment_epochs or ()
            since = epochs if len(epochs) == len(numbers) else [max(member_epoch, 0)] * len(numbers)
            found.update({(own, number): epoch for number, epoch in zip(numbers, since, strict=True)})
    return found


def assignment_text(assigned: Mapping[Any, Collection[int]]) -> list[str]:
    """A member's assignment, one `<topic, topic id or subtopology>-<partition>` each, in order."""
    items = sorted((id_text(owner), number) for owner, numbers in assigned.items() for number in numbers)
    return [f"{owner}-{number}" for owner, number in items]


def id_text(key: object) -> str:
    """A topic id as Kafka's Uuid.toString writes it, including the zero id; other values unchanged."""
    return kafka_uuid(key) or _ZERO_ID if isinstance(key, UUID) else str(key)
