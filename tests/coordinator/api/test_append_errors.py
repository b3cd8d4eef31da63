"""What becomes of an append's error on its way to the client."""

import pytest

from sexton.coordinator.api.append_errors import Operation, acks_error, answered, never_caused
from sexton.coordinator.api.errors import Error
from sexton.coordinator.profiles import profile_of

JAVA = profile_of("group_coordinator:4.3.1")
SCALA = profile_of("group_metadata_manager:2.8")
COMMIT, FETCH, STORE = Operation.OFFSET_COMMIT, Operation.OFFSET_FETCH, Operation.STORE_GROUP


GONE, NOT_HERE, LOADING = "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"
UNKNOWN, TOO_LARGE = "UNKNOWN_SERVER_ERROR", "INVALID_COMMIT_OFFSET_SIZE"
AFTER_APPEND = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
ANSWERS = {
    # what the log says: (the newest coordinator, to a fetch; the one before, to a group's store)
    "NONE": ("NONE", "NONE", "NONE", "NONE"),
    "UNKNOWN_TOPIC_OR_PARTITION": (GONE, NOT_HERE, GONE, GONE),
    "NOT_ENOUGH_REPLICAS": (GONE, NOT_HERE, GONE, GONE),
    "REQUEST_TIMED_OUT": (GONE, NOT_HERE, "REQUEST_TIMED_OUT", "REBALANCE_IN_PROGRESS"),
    AFTER_APPEND: (AFTER_APPEND, AFTER_APPEND, GONE, GONE),
    "NOT_LEADER_OR_FOLLOWER": (NOT_HERE, NOT_HERE, NOT_HERE, NOT_HERE),
    "KAFKA_STORAGE_ERROR": (NOT_HERE, NOT_HERE, NOT_HERE, NOT_HERE),
    "MESSAGE_TOO_LARGE": (UNKNOWN, UNKNOWN, TOO_LARGE, UNKNOWN),
    "RECORD_LIST_TOO_LARGE": (UNKNOWN, UNKNOWN, TOO_LARGE, UNKNOWN),
    "INVALID_FETCH_SIZE": (UNKNOWN, UNKNOWN, TOO_LARGE, UNKNOWN),
    "NETWORK_EXCEPTION": (LOADING, LOADING, "NETWORK_EXCEPTION", "NETWORK_EXCEPTION"),
}


@pytest.mark.parametrize("log_error, answers", ANSWERS.items())
def test_spec_6_2(log_error, answers):
    java, java_fetch, scala, scala_group = answers
    error = Error[log_error]
    told = [answered(error, operation, JAVA).name for operation in (COMMIT, STORE, FETCH)]
    assert told == [java, java, java_fetch]
    assert [answered(error, operation, SCALA).name for operation in (COMMIT, STORE)] == [scala, scala_group]


@pytest.mark.parametrize(
    "profile, log_error, told",
    [
        ("offset_manager:0.8.2", "MESSAGE_TOO_LARGE", "MESSAGE_TOO_LARGE"),
        ("offset_manager:0.9", "MESSAGE_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE"),
        ("offset_manager:0.9", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS"),
        ("group_metadata_manager:0.10.1", "NOT_ENOUGH_REPLICAS", "COORDINATOR_NOT_AVAILABLE"),
        ("group_metadata_manager:1.0", "KAFKA_STORAGE_ERROR", "NOT_COORDINATOR"),
        ("offset_manager:0.8.2", "NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
    ],
)
def test_since(profile, log_error, told):
    assert answered(Error[log_error], COMMIT, profile_of(profile)).name == told


@pytest.mark.parametrize(
    "profile, acks, missing",
    [
        (SCALA, -1, set()),
        (SCALA, 0, {"REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS", AFTER_APPEND}),
        (SCALA, 1, {"REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS", AFTER_APPEND}),
        (SCALA, 2, {"NOT_ENOUGH_REPLICAS", AFTER_APPEND}),
        (JAVA, -1, {"NOT_ENOUGH_REPLICAS", AFTER_APPEND}),
    ],
)
def test_only_who_waits_for_replicas_fails_for_them(profile, acks, missing):
    assert {error.name for error in never_caused(acks, profile)} == missing


@pytest.mark.parametrize(
    "profile, acks, told",
    [
        ("offset_manager:0.8.2", 2, "NONE"),
        ("offset_manager:0.9", 2, "INVALID_REQUIRED_ACKS"),
        ("group_metadata_manager:3.9", 2, "INVALID_REQUIRED_ACKS"),
        ("group_metadata_manager:3.9", 1, "NONE"),
        ("group_metadata_manager:3.9", -1, "NONE"),
    ],
)
def test_since_0_9_a_broker_starts_with_acks_that_no_append_takes(profile, acks, told):
    assert acks_error(acks, profile_of(profile)).name == told


@pytest.mark.parametrize(
    "profile, acks, told",
    [
        ("offset_manager:0.8.2", 0, "NETWORK_EXCEPTION"),
        ("offset_manager:0.8.2", 1, "NOT_COORDINATOR"),
        ("offset_manager:0.9", 0, "NOT_COORDINATOR"),
    ],
)
def test_0_8_2_closes_the_connection_without_acks(profile, acks, told):
    assert answered(Error.NOT_LEADER_OR_FOLLOWER, COMMIT, profile_of(profile), required_acks=acks).name == told
