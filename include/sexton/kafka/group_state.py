"""Answers of a cluster's coordinators about groups: groups with type and state, and committed offsets.

Offsets are as OffsetFetch with topic names returns them: all, or stable ones only (KIP-447).
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from sexton.errors import BrokerError
from sexton.kafka.session import ClusterSession, TransientError
from sexton.kafka.topics import TopicPartition, by_topic

GROUP_COORDINATOR, TRANSACTION_COORDINATOR = 0, 1
OFFSET_FETCH_BY_NAME = 9
"""The last version with topic names. Its answers are what clients call committed offsets."""

CommittedValue: TypeAlias = tuple[int, int | None, str]
"""Offset, leader epoch (None when it is not known), metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group in the answer to ListGroups: type in lower case (classic, consumer, share, streams), state unchanged."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    coordinator: int | None = None
    """Id of the broker that lists the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The groups of a cluster, by group id. Groups of `failed` brokers (their errors, by id) are missing."""

    groups: list[GroupListing] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A committed offset in the answer to OffsetFetch: -1 where none is committed, "" where metadata is empty."""

    committed_offset: int
    leader_epoch: int | None
    metadata: str
    error_code: int = 0

    @property
    def as_committed(self) -> CommittedValue:
        return self.committed_offset, self.leader_epoch, self.metadata


def list_groups(session: ClusterSession) -> Listing:
    """Every group of the cluster that this principal may see; `rights.sees_all_groups` says whether these are all
    groups.

    A failing broker does not end the listing. Raises the last error when every broker fails, and NotAllowed when this
    principal may list no group.
    """
    attempts: list[Listing] = []

    def ask() -> Listing:
        groups: list[GroupListing] = []
        failures: dict[int, BrokerError] = {}
        for broker in session.broker_ids:
            try:
                groups += groups_at(session, broker)
            except BrokerError as error:
                failures[broker] = error
        found = Listing(
            groups=sorted(groups, key=lambda group: group.group_id),
            failed={broker: error.message for broker, error in failures.items()},
        )
        attempts.append(found)
        passing: list[BrokerError] = [error for error in failures.values() if isinstance(error, TransientError)]
        if passing or (failures and len(failures) == len(session.broker_ids)):
            raise (passing or list(failures.values()))[-1]
        return found

    try:
        return session.retrying(ask)
    except BrokerError:
        if len(attempts[-1].failed) == len(session.broker_ids):
            raise
        return attempts[-1]


def groups_at(session: ClusterSession, node_id: int) -> list[GroupListing]:
    """The groups that one broker coordinates and this principal may see."""
    answer = session.call(ListGroupsRequest(states_filter=[], types_filter=[]), node_id=node_id)
    session.check(answer.error_code, "ListGroups")
    return [
        GroupListing(
            group_id=group.group_id,
            group_type=group.group_type,
            state=group.group_state,
            protocol_type=group.protocol_type,
            coordinator=node_id,
        )
        for group in answer.groups
    ]


def committed_offsets(
    session: ClusterSession,
    group_id: str,
    *,
    require_stable: bool = False,
    only: Collection[TopicPartition] | None = None,
) -> dict[TopicPartition, CommittedOffset]:
    """Committed offsets of a group as OffsetFetch by name answers; with `require_stable` an offset that an open
    transaction may still change has error code 88 (UNSTABLE_OFFSET_COMMIT) and no value.

    Without `only` the answer has all offsets, except those of topics that this principal may not describe, which the
    broker silently leaves out. With `only` each of its partitions is answered: a committed_offset of -1 where none
    is committed, error code 29 (TOPIC_AUTHORIZATION_FAILED) where this principal may not see it. Raises
    NotAllowed for the group.
    """
    Asked = OffsetFetchRequest.OffsetFetchRequestGroup  # noqa: N806 (a class)
    named = by_topic(sorted(only or ())).items()
    topics = [Asked.OffsetFetchRequestTopics(name=topic, partition_indexes=some) for topic, some in named]
    # Up to version 7 (Kafka 2.8) request and answer are about one group.
    of_one = {"group_id": group_id, "topics": None if only is None else topics}
    request = OffsetFetchRequest(
        groups=[Asked(**of_one)], **of_one, require_stable=require_stable, max_version=OFFSET_FETCH_BY_NAME
    )

    def ask() -> dict[TopicPartition, CommittedOffset]:
        answer = session.call(request, node_id=find_coordinator(session, group_id))
        group = answer.groups[0] if answer.groups else answer
        session.check(group.error_code, "OffsetFetch", group_id=group_id)
        return offsets_in(group)

    return session.retrying(ask)


def offsets_in(group: Any) -> dict[TopicPartition, CommittedOffset]:
    """The offsets of a group in an answer to OffsetFetch by name."""
    return {
        (topic.name, partition.partition_index): CommittedOffset(
            committed_offset=partition.committed_offset,
            leader_epoch=None if partition.committed_leader_epoch < 0 else partition.committed_leader_epoch,
            metadata=partition.metadata or "",
            error_code=partition.error_code,
        )
        for topic in group.topics
        for partition in topic.partitions
    }


def find_coordinator(session: ClusterSession, group_id: str) -> int:
    """The broker that coordinates a group; TransientError while there is no coordinator."""
    found = coordinator_of(session, group_id)
    session.check(found.error_code, "FindCoordinator", group_id=group_id)
    node_id: int = found.node_id
    return node_id


def coordinator_of(session: ClusterSession, key: str, *, key_type: int = GROUP_COORDINATOR) -> Any:
    """The answer about the coordinator of a group or of a transactional id: its `error_code` and `node_id`."""
    # Up to version 3 (Kafka 2.8) a request has one key, and the answer is about that key.
    answer = session.call(FindCoordinatorRequest(key_type=key_type, key=key, coordinator_keys=[key]))
    return answer.coordinators[0] if answer.coordinators else answer
