"""The answer to a client when the append of its request fails.

Follows CoordinatorOperationExceptionHelper and GroupCoordinatorService.handleOffsetFetchException (Kafka 4.0 on),
GroupMetadataManager.storeOffsets and storeGroup (0.9 to 3.9), OffsetCommitRequest.responseFor (0.8.2).
"""

from collections.abc import Mapping
from enum import Enum

from sexton.coordinator.api.errors import Error
from sexton.coordinator.profile import Profile


class Operation(Enum):
    """Requests that wait for an append."""

    OFFSET_COMMIT = "offset commit"
    """Plain or transactional; in 4.x also every other request of a client that writes."""
    OFFSET_FETCH = "offset fetch"
    """A fetch of stable offsets: in 4.x it is queued with the writes; in earlier releases it does not wait for them."""
    STORE_GROUP = "store group"
    """The record of a classic group, when a rebalance has ended."""


_TOO_LARGE = (Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE, Error.INVALID_FETCH_SIZE)
_MOVED = {
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
}
_NOT_THERE = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
}
_JAVA: Mapping[Error, Error] = {
    **_MOVED,
    **_NOT_THERE,
    **dict.fromkeys(_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NETWORK_EXCEPTION: Error.COORDINATOR_LOAD_IN_PROGRESS,
}
_JAVA_FETCH: Mapping[Error, Error] = {
    **_JAVA,
    # consumers before 3.9 do not retry what _JAVA answers for these
    **dict.fromkeys((*_NOT_THERE, Error.REQUEST_TIMED_OUT), Error.NOT_COORDINATOR),
}
_SCALA = {
    **_MOVED,
    **_NOT_THERE,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Error.COORDINATOR_NOT_AVAILABLE,
    **dict.fromkeys(_TOO_LARGE, Error.INVALID_COMMIT_OFFSET_SIZE),
}
_SCALA_GROUP = {
    **_SCALA,
    **dict.fromkeys(_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
    Error.REQUEST_TIMED_OUT: Error.REBALANCE_IN_PROGRESS,
}


ALL_IN_SYNC = -1
"""Kafka's default of offsets.commit.required.acks; every 4.x coordinator waits for all in-sync replicas (KIP-1041)."""
_AT_ONCE = (0, 1)
_OF_REPLICAS = (Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def acks_error(required_acks: int, profile: Profile) -> Error:
    """The error of every append with that offsets.commit.required.acks before it reaches the log; NONE without one.

    A broker starts with any number from -1 to offsets.topic.replication.factor. 0.8.2 waits for that many replicas;
    from 0.9 on ReplicaManager accepts only -1, 0 and 1.
    """
    is_taken = required_acks in (ALL_IN_SYNC, *_AT_ONCE) or not profile.reads(2)
    return Error.NONE if is_taken else Error.INVALID_REQUIRED_ACKS


def never_caused(required_acks: int, profile: Profile) -> frozenset[Error]:
    """The errors that no append with that offsets.commit.required.acks returns: errors about replicas.

    Partition.appendRecordsToLeader counts the in-sync replicas only for -1, before and after the append. A 4.x
    coordinator appends with acks 1 (CoordinatorPartitionWriter.append) and then waits for the high watermark: too few
    replicas are REQUEST_TIMED_OUT.
    """
    if profile.is_java:
        return frozenset(_OF_REPLICAS)
    if required_acks == ALL_IN_SYNC:
        return frozenset()
    return frozenset((*_OF_REPLICAS, *([Error.REQUEST_TIMED_OUT] if required_acks in _AT_ONCE else [])))


def answered(log_error: Error, operation: Operation, profile: Profile, *, required_acks: int = ALL_IN_SYNC) -> Error:
    """The error that a client gets for `operation` when the log has returned `log_error`; most are passed on unchanged.

    0.8.2 closes the connection of a commit that failed with `required_acks` 0, like a producer's: the client sees
    NETWORK_EXCEPTION (KafkaApis.handleProducerOrOffsetCommitRequest).
    """
    if required_acks == 0 and not profile.reads(2):
        return Error.NETWORK_EXCEPTION
    if profile.is_java:
        return (_JAVA_FETCH if operation is Operation.OFFSET_FETCH else _JAVA).get(log_error, log_error)
    if log_error in _TOO_LARGE and not profile.maps_size_errors:
        return log_error
    if log_error in _OF_REPLICAS and not profile.maps_replica_errors:
        return log_error
    return (_SCALA_GROUP if operation is Operation.STORE_GROUP else _SCALA).get(log_error, log_error)
