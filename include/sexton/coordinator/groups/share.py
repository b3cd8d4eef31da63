"""Share groups of KIP-932: types 10 to 15, in 4.0 types 9 to 14 (ShareGroup, ShareGroupMember).

Share groups have no committed offsets: their delivery state is in another topic, __share_group_state.
"""

from dataclasses import replace

from sexton.coordinator.groups.group import (
    Member,
    ModernGroup,
    partitions_by_topic,
    refuse_bad_topics,
    refuse_duplicates,
)
from sexton.records import Key, MemberKey, Value
from sexton.records.consumer import PartitionMetadataValue, TargetAssignmentMemberValue, TargetAssignmentMetadataValue
from sexton.records.share import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
)


class ShareGroup(ModernGroup):
    """A share group. Its records never replace a group created by offsets: Kafka throws."""

    group_type = "Share"
    kafka_name = "Share"
    metadata_type = 11
    member_tombstone_types = (14, 13, 12, 10)
    group_tombstone_types = (15, 11)
    replaces_simple = False
    wrong_type_message = "Group {} is not a share group."
    group_epoch_message = "target assignment epoch in invalid."
    member_epoch_message = "with invalid leave group epoch."
    member_target_message = "but member exists in target assignment."

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    def replay_value(self, key: Key, value: Value) -> None:
        match key, value:
            case MemberKey(member_id=member_id), ShareGroupMemberMetadataValue() as member:
                self._describe_member(member_id, member)
            case _, ShareGroupMetadataValue(epoch=epoch):
                self.group_epoch = epoch
            case _, TargetAssignmentMetadataValue() as target:
                self.set_target_epoch(target)
            case MemberKey(member_id=member_id), TargetAssignmentMemberValue() as target:
                self.set_target(member_id, target)
            case MemberKey(member_id=member_id), ShareGroupCurrentMemberAssignmentValue() as assignment:
                self._assign(member_id, assignment)
            case _, ShareGroupStatePartitionMetadataValue() as topics:
                # Kafka keeps these topics outside of the groups: they say nothing about a group.
                refuse_duplicates(topic.topic_id for topic in topics.initializing_topics)
                refuse_duplicates(topic.topic_id for topic in topics.initialized_topics)

    def _describe_member(self, member_id: str, value: ShareGroupMemberMetadataValue) -> None:
        self.members[member_id] = replace(
            self._member(member_id),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topics=frozenset(value.subscribed_topic_names),
        )

    def _assign(self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue) -> None:
        refuse_duplicates(part.topic_id for part in value.assigned_partitions)
        self.members[member_id] = replace(
            self._member(member_id),
            member_epoch=value.member_epoch,
            state=value.state,
            assigned=partitions_by_topic(value.assigned_partitions),
        )

    def _member(self, member_id: str) -> Member:
        return self.members.get(member_id) or Member(member_id=member_id)


class EarlyShareGroup(ShareGroup):
    """A share group of the early access in 4.0, where each record has to come after the record of its group or
    member."""

    group_tombstone_types = (9, 11)
    checked_tombstone_types = (10, 14)
    creating_types = frozenset({10, 11})
    missing_message = "Share group {} not found."

    def replay_value(self, key: Key, value: Value) -> None:
        match value:
            case ShareGroupCurrentMemberAssignmentValue():
                self.check_member(key)
            case PartitionMetadataValue(topics=topics) if self.profile.keeps_topic_metadata:
                refuse_bad_topics(topics)
        super().replay_value(key, value)
