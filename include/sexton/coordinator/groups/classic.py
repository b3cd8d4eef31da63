"""Classic groups: the last record of type 2 is the whole state (Kafka: ClassicGroup, GroupMetadataManager.replay).

After a load a classic group is Empty or Stable; the rebalance states exist only in a running coordinator.
"""

import struct
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sexton.coordinator.groups.group import Group, GroupTombstone, assignment_text
from sexton.coordinator.profile import Profile, Subscriptions
from sexton.errors import TransitionError
from sexton.records import (
    MAX_ITEMS,
    GroupMetadataMember,
    GroupMetadataValue,
    MalformedRecord,
    decode_subscription,
    decode_utf8,
)

CONSUMER = "consumer"
_METADATA_TYPE = 2


class ClassicGroup(Group):
    """A classic group. Created from an id alone it is a simple group, which has offsets and no record."""

    group_type = "Classic"

    def __init__(self, group_id: str, profile: Profile) -> None:
        super().__init__(group_id)
        self._profile = profile
        self._protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.current_state_timestamp_ms: int | None = None
        self.members: dict[str, GroupMetadataMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance; if a member occurs twice, its first instance stays in this map, as in Kafka."""
        self._topics_by_member: dict[str, frozenset[str] | None] = {}
        self._subscribed_topics: frozenset[str] | None = None

    @classmethod
    def from_value(cls, group_id: str, value: GroupMetadataValue, profile: Profile) -> "ClassicGroup":
        """The group of a record of type 2.

        Raises MalformedRecord (malformed_subscription) where the coordinator cannot parse a consumer's subscription,
        and TransitionError where it refuses to add a member; both end the load.
        """
        group = cls(group_id, profile)
        group.protocol = value.protocol
        group.generation = value.generation
        group.leader = value.leader
        stamp = value.current_state_timestamp_ms
        group.current_state_timestamp_ms = None if stamp == -1 else stamp
        # "" means no protocol type, but a group with members gets their protocol type, even "" (ClassicGroup.add)
        if value.members:
            group._protocol_type = value.protocol_type
        elif not profile.forgets_protocol_type:
            group._protocol_type = value.protocol_type or None
        group._add_members(value.members)
        group._subscribed_topics = group._join_subscriptions()
        return group

    def become_empty(self, *, protocol_type: str | None, since_ms: int) -> None:
        """The last member leaves: no members, no protocol, Empty since `since_ms` (initNextGeneration)."""
        self._protocol_type = protocol_type
        self.protocol, self.leader, self.members, self.static_members = None, None, {}, {}
        self._topics_by_member = {}
        self.current_state_timestamp_ms = since_ms
        self._subscribed_topics = self._join_subscriptions()

    def _add_members(self, members: Collection[GroupMetadataMember]) -> None:
        for added, member in enumerate(members):
            instance = member.group_instance_id
            if instance is not None:
                if instance in self.static_members and not self._profile.instances_may_repeat:
                    raise TransitionError(
                        f"Static member with groupInstanceId={instance} cannot be added to group {self.group_id} since "
                        "it is already a member."
                    )
                self.static_members[instance] = member.member_id
            is_double = added != len(self.members)
            if is_double and not self._profile.members_may_repeat:  # more votes for the protocol than members
                raise TransitionError("None of the member's protocols can be supported.")
            self.leader = member.member_id if self.leader is None else self.leader
            rebalance_ms, session_ms = member.rebalance_timeout_ms, member.session_timeout_ms
            self.members[member.member_id] = replace(
                member, rebalance_timeout_ms=session_ms if rebalance_ms == -1 else rebalance_ms
            )
            self._topics_by_member[member.member_id] = self._topics(member.subscription)

    def _topics(self, subscription: bytes) -> frozenset[str] | None:
        """The topics of a member's subscription, None where the coordinator does not know them."""
        rule = self._profile.subscriptions
        if self._protocol_type != CONSUMER or self.protocol is None or rule is Subscriptions.UNREAD:
            return None
        try:
            # Kafka stops at the first subscription too short for its version and leaves the rest unread, in the order
            # of a hash map; here a malformed one ends the load at any position.
            topics = decode_subscription(subscription, may_be_short=rule is Subscriptions.FAIL_UNLESS_SHORT)
        except MalformedRecord as error:
            if rule is not Subscriptions.UNKNOWN or error.reason == "too_many_items":
                raise
            return None
        return None if topics is None else frozenset(topics)

    def _join_subscriptions(self) -> frozenset[str] | None:
        """ClassicGroup.computeSubscribedTopics: known for consumers only, and only if every member's topics are
        known."""
        if self._protocol_type != CONSUMER:
            return None
        topics = set[str]()
        for of_member in self._topics_by_member.values():
            if of_member is None:
                return None
            topics |= of_member
        return frozenset(topics)

    @property
    def state(self) -> str:
        is_stable = self.members or (self._profile.loads_groups_stable and self.log_offset is not None)
        return "Stable" if is_stable else "Empty"

    @property
    def protocol_type(self) -> str | None:
        return self._protocol_type

    @property
    def is_simple(self) -> bool:
        """Whether records of a consumer or streams group may replace this group."""
        return self._protocol_type is None and self.is_empty

    @property
    def subscribed_topics(self) -> Collection[str] | None:
        return self._subscribed_topics

    def is_subscribed(self, topic: str) -> bool:
        if self._subscribed_topics is None:
            return self._protocol_type == CONSUMER
        return topic in self._subscribed_topics

    def tombstones(self) -> list[GroupTombstone]:
        return [GroupTombstone(record_type=_METADATA_TYPE)]

    def to_group_row(self) -> dict[str, Any]:
        return {
            **super().to_group_row(),
            "protocol": self.protocol,
            "generation": self.generation,
            "leader": self.leader,
            "current_state_timestamp_ms": self.current_state_timestamp_ms,
        }

    def member_row(self, member: GroupMetadataMember) -> dict[str, Any]:
        held = sorted(instance for instance, holder in self.static_members.items() if holder == member.member_id)
        named = [] if member.group_instance_id is None else [member.group_instance_id]
        return self.common_row(member, self._topics_by_member[member.member_id]) | {
            "assignment": read_assignment(member.assignment) if self._protocol_type == CONSUMER else None,
            "member_metadata": member.subscription,
            "member_assignment": member.assignment,
            # NULL if it would only repeat group_instance_id
            "static_instance_ids": None if held == named else held,
        }


def read_assignment(data: bytes) -> list[str] | None:
    """The partitions in a ConsumerProtocolAssignment, which the coordinator never reads.

    None if it is malformed, or has more partitions than the limit for one record (records.MAX_ITEMS).
    """
    assigned: dict[str, list[int]] = {}
    total = 0
    try:
        _, topic_count = struct.unpack_from(">hi", data)
        pos = 6
        for _ in range(topic_count):
            (size,) = struct.unpack_from(">H", data, pos)
            topic = decode_utf8(data[pos + 2 : pos + 2 + size])
            (count,) = struct.unpack_from(">i", data, pos + 2 + size)
            pos += 6 + size
            total += count
            if total > MAX_ITEMS:
                return None
            assigned[topic] = list(struct.unpack_from(f">{count}i", data, pos))
            pos += 4 * count
    except struct.error:
        return None
    return assignment_text(assigned)
