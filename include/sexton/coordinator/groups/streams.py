"""Streams groups of KIP-1071: types 17 and 19 to 23 (Kafka 4.3: StreamsGroup, StreamsGroupMember, StreamsTopology)."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from sexton.coordinator.groups.assignment_epochs import TASK_KINDS, TaskOwners, Tasks
from sexton.coordinator.groups.group import Member, ModernGroup, epochs_by_partition, refuse_duplicates
from sexton.coordinator.profile import Profile
from sexton.errors import TransitionError
from sexton.records import Key, MemberKey, Value
from sexton.records.consumer import TargetAssignmentMetadataValue
from sexton.records.streams import (
    EpochedTasks,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTopologyValue,
)

_UNREVOKED_TASKS = 2
_TOPOLOGY_TYPE = 23
_NO_NUMBER = (
    'Cannot invoke "java.lang.Integer.intValue()" because the return value of '
    '"org.apache.kafka.coordinator.group.streams.StreamsGroupMember.{}()" is null'
)


class StreamsGroup(ModernGroup):
    """A streams group: it is subscribed to the source topics of its topology, and only while it has members."""

    group_type = "Streams"
    kafka_name = "Streams"
    stable_state = 1
    metadata_type = 17
    member_tombstone_types = (22, 21, 20, 19)
    group_tombstone_types = (17, 23)
    targets_hold = False
    wrong_type_message = "Group {} is not a streams group."

    def __init__(self, group_id: str, profile: Profile) -> None:
        super().__init__(group_id, profile)
        self.validated_topology_epoch = profile.validated_topology_epoch
        self.topology_epoch: int | None = None
        self.subtopologies: Mapping[str, str] | None = None
        """Source topic -> the subtopology that reads it; None without a topology."""
        self._owners = None if profile.newer_owners_win else TaskOwners()

    @property
    def state(self) -> str:
        is_ready = self.topology_epoch is not None and self.topology_epoch == self.validated_topology_epoch
        return super().state if is_ready or not self.members else "NotReady"

    @property
    def subscribed_topics(self) -> Collection[str] | None:
        return None if self.validated_topology_epoch is None else self.subtopologies

    def is_subscribed(self, topic: str) -> bool:
        return not self.is_empty and super().is_subscribed(topic)

    def replay_value(self, key: Key, value: Value) -> None:
        match key, value:
            case _, StreamsGroupMetadataValue() as metadata:
                refuse_duplicates(config.key for config in metadata.last_assignment_configs or ())
                self.group_epoch = metadata.epoch
                if self.validated_topology_epoch is not None:
                    self.validated_topology_epoch = metadata.validated_topology_epoch
            case MemberKey(member_id=member_id), StreamsGroupMemberMetadataValue() as member:
                self._describe_member(member_id, member)
            case _, TargetAssignmentMetadataValue() as target:
                self.set_target_epoch(target)
            case MemberKey(member_id=member_id), StreamsGroupTargetAssignmentMemberValue() as target:
                for tasks in (target.active_tasks, target.standby_tasks, target.warmup_tasks):
                    refuse_duplicates(task.subtopology_id for task in tasks)
                self.targets.add(member_id)
            case MemberKey(member_id=member_id), StreamsGroupCurrentMemberAssignmentValue() as assignment:
                self._assign(member_id, assignment)
            case _, StreamsGroupTopologyValue() as topology:
                self._set_topology(topology)

    def replay_tombstone(self, record_type: int, key: Key) -> None:
        if record_type == _TOPOLOGY_TYPE:
            self.topology_epoch = self.subtopologies = None
        else:
            super().replay_tombstone(record_type, key)

    def delete_member(self, member_id: str) -> None:
        if self._owners is not None and member_id in self.members:
            self.check_deletable(member_id)
            self._owners.remove(member_id)
        super().delete_member(member_id)

    def check_deletable(self, member_id: str) -> None:
        if self.members[member_id].member_epoch is None:
            raise TransitionError(_NO_NUMBER.format("memberEpoch"))
        super().check_deletable(member_id)

    def loading_failure(self) -> str | None:
        """A member with tasks to revoke gets a timer with its rebalance timeout: Kafka throws if no metadata record of
        the member has set it."""
        for member_id, member in sorted(self.members.items()):
            if member.state == _UNREVOKED_TASKS and member.rebalance_timeout_ms is None:
                reason = _NO_NUMBER.format("rebalanceTimeoutMs")
                return f"member {member_id} of streams group {self.group_id}: {reason}"
        return None

    def _set_topology(self, value: StreamsGroupTopologyValue) -> None:
        subtopologies = value.subtopologies
        refuse_duplicates(subtopology.subtopology_id for subtopology in subtopologies)
        if value.epoch < 0:
            raise TransitionError("Topology epoch must be non-negative.")
        self.topology_epoch = value.epoch
        self.subtopologies = {
            topic: subtopology.subtopology_id
            for subtopology in subtopologies
            for topic in (*subtopology.source_topics, *(one.name for one in subtopology.repartition_source_topics))
        }

    def _describe_member(self, member_id: str, value: StreamsGroupMemberMetadataValue) -> None:
        refuse_duplicates(tag.key for tag in value.client_tags)
        if self._owners is not None:
            self._owners.describe(member_id, value.process_id)
        self.members[member_id] = replace(
            self._member(member_id),
            group_instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
        )

    def _assign(self, member_id: str, value: StreamsGroupCurrentMemberAssignmentValue) -> None:
        assigned = value.active_tasks, value.standby_tasks, value.warmup_tasks
        revoking = (
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        )
        self._check_tasks(assigned, revoking)
        if self._owners is not None:
            self._owners.assign(member_id, _by_subtopology(assigned), _by_subtopology(revoking))
        self.members[member_id] = replace(
            self._member(member_id),
            member_epoch=value.member_epoch,
            state=value.state,
            assigned=_named(_by_subtopology(assigned)),
            assignment_epochs=epochs_by_partition("subtopology_id", value.member_epoch, revoking[0], assigned[0]),
        )

    def to_group_row(self) -> dict[str, Any]:
        read = sorted((self.subtopologies or {}).items())
        return super().to_group_row() | {"subtopologies": [f"{owner}@{topic}" for topic, owner in read]}

    def _check_tasks(self, assigned: "_TasksByKind", revoking: "_TasksByKind") -> None:
        if 22 in self.profile.refuses_repeats:
            for tasks in (*assigned, *revoking):
                refuse_duplicates(task.subtopology_id for task in tasks)
        for task in (*assigned[0], *revoking[0]) if self.profile.checks_task_epochs else ():
            count, epoch_count = len(task.partitions), len(task.assignment_epochs or ())
            if epoch_count not in (0, count):
                raise TransitionError(
                    f"Assignment epochs must be provided for all partitions. Subtopology {task.subtopology_id} "
                    f"has {count} partitions but {epoch_count} epochs"
                )

    def delete_assignment(self, member_id: str) -> None:
        if self._owners is not None:
            self._owners.assign(member_id)
        super().delete_assignment(member_id)

    def _member(self, member_id: str) -> Member:
        """The member; a new member is empty until its records come (getOrCreateUninitializedMember)."""
        blank = Member(
            member_id=member_id, member_epoch=None, state=None, client_id=None, client_host=None, subscribed_topics=None
        )
        return self.members.get(member_id) or blank


_TasksByKind = tuple[tuple[EpochedTasks, ...], tuple[EpochedTasks, ...], tuple[EpochedTasks, ...]]
"""Active, standby and warm-up tasks: in the order of TASK_KINDS."""


def _by_subtopology(tasks: _TasksByKind) -> Tasks:
    """Partitions by kind of task and subtopology; for a repeated subtopology the last entry counts."""
    return {
        (kind, task.subtopology_id): frozenset(task.partitions)
        for kind, some in zip(TASK_KINDS, tasks, strict=True)
        for task in some
    }


def _named(tasks: Tasks) -> Mapping[Any, frozenset[int]]:
    """Tasks by subtopology; standby and warm-up tasks have their kind in the name."""
    return {
        subtopology_id + ("" if kind == "active_tasks" else f" ({kind.removesuffix('_tasks')})"): partitions
        for (kind, subtopology_id), partitions in tasks.items()
    }
