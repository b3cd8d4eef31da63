"""Consumer groups of the protocol of KIP-848: types 3 to 8 and 16 (Kafka 4.3: ConsumerGroup, ConsumerGroupMember)."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from sexton.coordinator.groups.assignment_epochs import PartitionOwners
from sexton.coordinator.groups.group import (
    LEAVE_EPOCH,
    GroupTombstone,
    Member,
    ModernGroup,
    epochs_by_partition,
    partitions_by_topic,
    refuse_bad_topics,
    refuse_duplicates,
)
from sexton.coordinator.profile import Profile
from sexton.records import Key, MemberKey, RegularExpressionKey, Value
from sexton.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    PartitionMetadataValue,
    RegularExpressionValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
)

_MEMBER_TYPE, _ASSIGNMENT_TYPE, _REGEX_TYPE = 5, 8, 16


class ConsumerGroup(ModernGroup):
    """A KIP-848 group: its members, and the epoch since which each partition is owned."""

    group_type = "Consumer"
    kafka_name = "Consumer"
    metadata_type = 3
    member_tombstone_types = (_ASSIGNMENT_TYPE, 7, 6, _MEMBER_TYPE)
    group_tombstone_types = (4, 3)
    wrong_type_message = "Group {} is not a consumer group"

    def __init__(self, group_id: str, profile: Profile) -> None:
        super().__init__(group_id, profile)
        self.resolved_regexes: dict[str, frozenset[str]] = {}
        self._owners = PartitionOwners(newer_owners_win=profile.newer_owners_win)

    @property
    def subscribed_topics(self) -> Collection[str] | None:
        return frozenset(super().subscribed_topics or ()).union(*self.resolved_regexes.values())

    def replay_value(self, key: Key, value: Value) -> None:
        match key, value:
            case _, ConsumerGroupMetadataValue(epoch=epoch):
                self.group_epoch = epoch
            case _, PartitionMetadataValue(topics=topics):  # of a 4.0 coordinator; 4.1 keeps a hash (KIP-1101)
                if self.profile.keeps_topic_metadata:
                    refuse_bad_topics(topics)
            case MemberKey(member_id=member_id), ConsumerGroupMemberMetadataValue() as member:
                self._describe_member(member_id, member)
            case _, TargetAssignmentMetadataValue() as target:
                self.set_target_epoch(target)
            case MemberKey(member_id=member_id), TargetAssignmentMemberValue() as target:
                self.set_target(member_id, target)
            case MemberKey(member_id=member_id), ConsumerGroupCurrentMemberAssignmentValue() as assignment:
                self._assign(member_id, assignment)
            case RegularExpressionKey(regular_expression=regex), RegularExpressionValue(topics=topics):
                self.resolved_regexes[regex] = frozenset(topics)

    def replay_tombstone(self, record_type: int, key: Key) -> None:
        if isinstance(key, RegularExpressionKey):
            self.resolved_regexes.pop(key.regular_expression, None)
        else:
            super().replay_tombstone(record_type, key)

    def further_tombstones(self) -> list[GroupTombstone]:
        return [
            GroupTombstone(record_type=_REGEX_TYPE, regular_expression=regex) for regex in sorted(self.resolved_regexes)
        ]

    def delete_member(self, member_id: str) -> None:
        if member_id in self.members:
            self.check_deletable(member_id)
            self._owners.move(self.members[member_id], None)
        super().delete_member(member_id)

    def _describe_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue) -> None:
        classic = value.classic_member_metadata
        self._update(
            replace(
                self._member(member_id),
                group_instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                session_timeout_ms=None if classic is None else classic.session_timeout_ms,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                subscribed_topics=frozenset(value.subscribed_topic_names),
            )
        )

    def described_assignment(self, member: Member) -> Mapping[Any, Collection[int]]:
        """The assignment in ConsumerGroupDescribe; from 4.3 on including partitions still to be revoked
        (ConsumerGroupMember.asConsumerGroupDescribeMember)."""
        if not self.profile.describes_revoking:
            return member.assigned
        topic_ids = {*member.assigned, *member.revoking}
        nothing = frozenset[int]()
        return {one: member.assigned.get(one, nothing) | member.revoking.get(one, nothing) for one in topic_ids}

    def _assign(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue) -> None:
        if 8 in self.profile.refuses_repeats:
            refuse_duplicates(part.topic_id for part in value.assigned_partitions)
            refuse_duplicates(part.topic_id for part in value.partitions_pending_revocation)
        self._update(
            replace(
                self._member(member_id),
                member_epoch=value.member_epoch,
                state=value.state,
                assigned=partitions_by_topic(value.assigned_partitions),
                revoking=partitions_by_topic(value.partitions_pending_revocation),
                assignment_epochs=epochs_by_partition(
                    "topic_id", value.member_epoch, value.partitions_pending_revocation, value.assigned_partitions
                ),
            )
        )

    def delete_assignment(self, member_id: str) -> None:
        member = self.members[member_id]
        self._update(replace(member, member_epoch=LEAVE_EPOCH, assigned={}, revoking={}, assignment_epochs={}))

    def _member(self, member_id: str) -> Member:
        return self.members.get(member_id) or Member(member_id=member_id, rebalance_timeout_ms=-1)

    def _update(self, new: Member) -> None:
        """Replace the member with the same id by `new`, and move the ownership of partitions."""
        self._owners.move(self.members.get(new.member_id), new)
        self.members[new.member_id] = new


class EarlyConsumerGroup(ConsumerGroup):
    """A consumer group of the preview in 3.8 and 3.9, where each record has to come after the record of its group or
    member."""

    checked_tombstone_types = (_MEMBER_TYPE, _ASSIGNMENT_TYPE)
    creating_types = frozenset({3, 5})
    replaces_simple = False
    wrong_type_message = "Group {} is not a consumer group."
    missing_message = "Consumer group {} not found."

    def replay_value(self, key: Key, value: Value) -> None:
        if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
            self.check_member(key)
        super().replay_value(key, value)
