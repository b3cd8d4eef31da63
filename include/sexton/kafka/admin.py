"""Requests that change a group's offsets: delete some (OffsetDelete, KIP-496), delete the group, commit for it.

Every function sends one request to one coordinator. Errors of partitions are returned, not raised: Kafka's error name,
None for success. A request that was certainly not carried out (the coordinator loads, the broker cannot be reached) is
retried for a while. A request that may have been carried out is not retried: Unsettled is raised, and the caller reads
the state before it does anything else.

Not here: which changes are allowed (execution, execution/restore), and tombstones that no coordinator accepts
(append.py).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest

from sexton.errors import BrokerError
from sexton.kafka.failures import AMBIGUOUS, NamedError, NotAllowed, TransientError, Unsettled, error_name
from sexton.kafka.group_state import CommittedValue, find_coordinator, groups_at
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import NO_EPOCH, by_topic

ErrorName: TypeAlias = str
Key: TypeAlias = tuple[str, int]
"""Topic and partition."""
NO_GENERATION = -1
OFFSET_COMMIT_BY_NAME = 9
"""The last version with topic names: version 10 has topic ids only."""
DEAD = "Dead"
"""State in DescribeGroups for a group that does not exist, or is not a classic group."""

NOT_DONE = "COORDINATOR_LOAD_IN_PROGRESS"
"""The error that is returned before the request is processed: a retry is safe."""


class GroupError(NamedError, BrokerError):
    """The coordinator refuses an entire request about a group, or about a transaction with a group's offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNow:
    """A group as its coordinator describes it now: type in lower case (classic, consumer, share, streams).

    All fields but `exists` are None for a group that does not exist. `member_count` is known for classic groups only;
    other groups, which our clients cannot describe, show by their state whether they have members (Empty: none).
    """

    exists: bool
    group_type: str | None = None
    state: str | None = None
    protocol_type: str | None = None
    member_count: int | None = None


def delete_offsets(
    session: ClusterSession, group_id: str, partitions: Mapping[str, Collection[int]]
) -> dict[Key, ErrorName | None]:
    """Delete committed offsets of a group; return each partition's error.

    A partition without a committed offset succeeds like any other. Errors per partition are
    UNKNOWN_TOPIC_OR_PARTITION (the topic is gone: its offsets cannot be deleted like this), GROUP_SUBSCRIBED_TO_TOPIC,
    TOPIC_AUTHORIZATION_FAILED. Raises GroupError for the whole request (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP,
    GROUP_AUTHORIZATION_FAILED), and Unsettled. `session.missing_acl` names the ACL that a refused partition lacks.
    """
    DeletedTopic = OffsetDeleteRequest.OffsetDeleteRequestTopic  # noqa: N806 (a class)
    topics = [
        DeletedTopic(
            name=topic,
            partitions=[DeletedTopic.OffsetDeleteRequestPartition(partition_index=n) for n in sorted(some)],
        )
        for topic, some in sorted(partitions.items())
    ]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)
    answer = _ask_once(session, group_id, request, call="OffsetDelete")
    if answer.error_code:
        raise _refusal(session, group_id, error_name(answer.error_code), "OffsetDelete")
    return errors_by_partition(answer)


def delete_group(session: ClusterSession, group_id: str) -> ErrorName | None:
    """Delete a group with all its offsets; None on success, else Kafka's error name (GROUP_ID_NOT_FOUND,
    NON_EMPTY_GROUP, GROUP_AUTHORIZATION_FAILED). Raises Unsettled."""
    try:
        request = DeleteGroupsRequest(groups_names=[group_id])
        answer = _ask_once(session, group_id, request, call="DeleteGroups")
    except GroupError as error:
        return error.error_name
    return name_or_none(answer.results[0].error_code)


def commit_offsets(
    session: ClusterSession, group_id: str, offsets: Mapping[Key, CommittedValue]
) -> dict[Key, ErrorName | None]:
    """Commit offsets for a group without members, as an administrator does; return each partition's error.

    A group that does not exist is created. Errors are per partition, including errors of the whole group
    (UNKNOWN_MEMBER_ID: it has members; GROUP_ID_NOT_FOUND: a share group; GROUP_AUTHORIZATION_FAILED). Raises
    Unsettled. The coordinator stamps the commit with its own time.
    """
    CommittedTopic = OffsetCommitRequest.OffsetCommitRequestTopic  # noqa: N806 (a class)
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=NO_GENERATION,
        member_id="",
        topics=topics_with(offsets, CommittedTopic, CommittedTopic.OffsetCommitRequestPartition),
        max_version=OFFSET_COMMIT_BY_NAME,
    )
    try:
        return errors_by_partition(_ask_once(session, group_id, request, call="OffsetCommit"))
    except GroupError as error:
        return dict.fromkeys(offsets, error.error_name)


def topics_with(
    offsets: Mapping[Key, CommittedValue], topic_type: Callable[..., Any], partition_type: Callable[..., Any]
) -> list[Any]:
    """The topics of a request that commits these offsets, in the types of that request."""
    partitions = by_topic(
        (
            topic,
            partition_type(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=NO_EPOCH if leader_epoch is None else leader_epoch,
                committed_metadata=metadata,
            ),
        )
        for (topic, partition), (offset, leader_epoch, metadata) in sorted(offsets.items())
    )
    return [topic_type(name=topic, partitions=some) for topic, some in partitions.items()]


def group_now(session: ClusterSession, group_id: str) -> GroupNow:
    """The group as its coordinator describes it now; GroupError when this principal may not describe it."""
    request = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=False)

    def ask() -> GroupNow:
        node_id = _coordinator(session, group_id, "DescribeGroups")
        (group,) = session.call(request, node_id=node_id).groups
        error = name_or_none(group.error_code)
        if error in (NOT_DONE, *AMBIGUOUS):
            raise TransientError(f"{error}", where=f"group {group_id}")
        if error is not None and error != "GROUP_ID_NOT_FOUND":
            raise _refusal(session, group_id, error, "DescribeGroups")
        if error is None and group.group_state != DEAD:
            return GroupNow(
                exists=True,
                group_type="classic",
                state=group.group_state,
                protocol_type=group.protocol_type,
                member_count=len(group.members),
            )
        # Not a classic group: DescribeGroups describes only those; ListGroups has type and state of the others.
        for listed in groups_at(session, node_id):
            if listed.group_id == group_id:
                return GroupNow(
                    exists=True,
                    group_type=listed.group_type or "classic",  # brokers before KIP-848 have only this type
                    state=listed.state,
                    protocol_type=listed.protocol_type,
                )
        return GroupNow(exists=False)

    return session.retrying(ask)


def _ask_once(session: ClusterSession, group_id: str, request: Any, *, call: str) -> Any:
    """The coordinator's answer to a request that changes something; retried only when the request was certainly not
    carried out."""

    def ask() -> Any:
        answer = session.call_once(request, node_id=_coordinator(session, group_id, call))
        errors = _errors(answer)
        if NOT_DONE in errors:
            raise TransientError("the coordinator is loading", where=f"group {group_id}")
        if unclear := sorted(error for error in errors & AMBIGUOUS if error):
            what = f"{call} was answered {', '.join(unclear)}, which leaves open whether it was done"
            raise Unsettled(what, where=f"group {group_id}", fix="read the present state before trying again")
        return answer

    return session.retrying(ask)


def _coordinator(session: ClusterSession, group_id: str, call: str) -> int:
    try:
        return find_coordinator(session, group_id)
    except NotAllowed as error:
        # The ACL that allows the call also allows finding the coordinator.
        raise _refusal(session, group_id, error.error_name, call) from None


def _refusal(session: ClusterSession, group_id: str, error: ErrorName, call: str) -> GroupError:
    fix = session.missing_acl(error, call, group_id=group_id)
    return GroupError(f"{call} was refused: {error}", where=f"group {group_id}", fix=fix, error_name=error)


def _errors(answer: Any) -> set[ErrorName | None]:
    """The errors in an answer: of the whole request, of its groups and of its partitions."""
    partitions = [one for topic in getattr(answer, "topics", ()) for one in topic.partitions]
    parts = [answer, *getattr(answer, "results", ()), *partitions]
    return {name_or_none(getattr(part, "error_code", 0)) for part in parts}


def errors_by_partition(answer: Any) -> dict[Key, ErrorName | None]:
    """The error of each partition in an answer about topics; None where it succeeded."""
    return {
        (topic.name, partition.partition_index): name_or_none(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }


def name_or_none(error_code: int) -> ErrorName | None:
    """Kafka's name of an error code; None for 0."""
    return error_name(error_code) if error_code else None
