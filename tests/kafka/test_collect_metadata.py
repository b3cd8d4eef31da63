"""Settings as brokers tell them, each for the log partitions that it leads, and their groups."""

import pytest

from sexton.kafka.broker_settings import reported_settings
from sexton.kafka.client import client_config
from sexton.kafka.failures import NotAllowed, TransientError
from sexton.kafka.group_state import list_groups
from sexton.topics import OFFSETS_TOPIC
from tests.kafka.fake_cluster import FakeCluster

CODEC = "offsets.topic.compression.codec"
CONFIG = client_config({}, bootstrap_servers="fake:9092")


def cluster(*values: str) -> FakeCluster:
    made = FakeCluster(1)
    made.brokers = {number: {CODEC: value, "log.dirs": str(number)} for number, value in enumerate(values, start=1)}
    return made


def test_brokers_that_agree() -> None:
    told, warnings = reported_settings(cluster("3", "3", "3").connect(CONFIG), OFFSETS_TOPIC)
    assert (told.broker, told.brokers_differ, warnings) == ({CODEC: "3"}, {}, [])


def test_brokers_that_differ_are_said() -> None:
    """And the one with the lowest id is taken."""
    made = cluster("3", "0")
    made.brokers[2]["offset.metadata.max.bytes"] = "9"
    told, warnings = reported_settings(made.connect(CONFIG), OFFSETS_TOPIC)
    assert told.broker == {CODEC: "3"}
    assert told.brokers_differ == {CODEC: {"1": "3", "2": "0"}, "offset.metadata.max.bytes": {"1": "", "2": "9"}}
    assert warnings == [
        "brokers differ in offset.metadata.max.bytes: not reported on broker 1, 9 on broker 2; that of broker 1 is "
        "taken for all",
        f"brokers differ in {CODEC}: 3 on broker 1, 0 on broker 2; that of broker 1 is taken for all",
    ]


def test_a_broker_that_gives_no_answer_is_said() -> None:
    made = cluster("3", "0", "3")
    made.dead = {2}
    told, warnings = reported_settings(made.connect(CONFIG), OFFSETS_TOPIC)
    assert (told.broker, told.brokers_differ) == ({CODEC: "3"}, {})
    assert warnings == ["the settings of broker 2 are not known, those of broker 1 are taken: broker 2 gives no answer"]


UNKNOWN_SERVER_ERROR, LOADING, CLUSTER_AUTHORIZATION_FAILED = -1, 14, 31


@pytest.fixture
def listing() -> FakeCluster:
    made = cluster("0", "0", "0")
    made.groups = {1: ["b"], 2: ["c", "d"], 3: ["a"]}
    return made


def test_groups_of_every_broker(listing: FakeCluster) -> None:
    found = list_groups(listing.connect(CONFIG))
    assert [(group.group_id, group.coordinator) for group in found.groups] == [("a", 3), ("b", 1), ("c", 2), ("d", 2)]
    assert found.failed == {}


def test_a_broker_that_fails_does_not_end_a_listing(listing: FakeCluster) -> None:
    listing.dead = {2}
    found = list_groups(listing.connect(CONFIG))
    assert [group.group_id for group in found.groups] == ["a", "b"]
    assert found.failed == {2: "broker 2 gives no answer"}


@pytest.mark.parametrize("code, name", [(UNKNOWN_SERVER_ERROR, "Unknown"), (LOADING, "CoordinatorLoadInProgress")])
def test_a_broker_that_answers_an_error_does_not_end_a_listing(listing: FakeCluster, code: int, name: str) -> None:
    listing.errors = {3: code}
    found = list_groups(listing.connect(CONFIG))
    assert [group.group_id for group in found.groups] == ["b", "c", "d"]
    assert found.failed.keys() == {3}
    assert name in found.failed[3]


def test_no_broker_at_all_is_an_error(listing: FakeCluster) -> None:
    listing.dead = {1, 2, 3}
    with pytest.raises(TransientError, match="broker 3 gives no answer"):
        list_groups(listing.connect(CONFIG))


def test_who_may_list_nothing_is_told_so(listing: FakeCluster) -> None:
    listing.errors = {2: CLUSTER_AUTHORIZATION_FAILED}
    with pytest.raises(NotAllowed):
        list_groups(listing.connect(CONFIG))
