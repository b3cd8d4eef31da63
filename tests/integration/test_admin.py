"""Deleting, committing and appending on a real broker, and the tail of the log that shows what came of it."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka.protocol.consumer import OffsetDeleteRequest

from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import NEWEST
from sexton.coordinator.tombstones import encode_batches
from sexton.errors import Refused
from sexton.java import JavaHome
from sexton.kafka.admin import GroupError, GroupNow, commit_offsets, delete_group, delete_offsets, group_now
from sexton.kafka.append import append_tombstones
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.failures import Unsettled
from sexton.kafka.group_state import committed_offsets, find_coordinator, list_groups
from sexton.kafka.session import ClusterSession
from sexton.kafka.tail import TailReader
from sexton.log.batch import encode_batch
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.broker import EmbeddedBroker, running_broker
from sexton_dev.ports import free_port
from tests.clients import joined, make_topics
from tests.integration.streams_client import streams_member
from tests.record_fields import encode_key
from tests.waiting import until

PARTITIONS = 4
TIMEOUT_S = 60
EARLIER_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def admin_broker(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("admin"), port=free_port(), java=java, jars=kafka_jars) as broker:
        yield broker


@pytest.fixture(scope="module")
def there(admin_broker: EmbeddedBroker) -> ClientConfig:
    """A cluster with a topic of three partitions and one of one."""
    config = client_config({}, bootstrap_servers=admin_broker.bootstrap_servers)
    make_topics(config, {"numbers": 3, "somewhere": 1})
    with ClusterSession(config) as session:
        wait_for_coordinators(session)
    return config


@pytest.fixture
def session(there: ClientConfig) -> Iterator[ClusterSession]:
    with ClusterSession(there) as session:
        yield session


def wait_for_coordinators(session: ClusterSession) -> None:
    """Until every coordinator has loaded: before, it answers NOT_COORDINATOR, and that tells of nothing done or not."""
    groups = {partition_of(f"g{number}", PARTITIONS): f"g{number}" for number in range(10 * PARTITIONS)}
    assert len(groups) == PARTITIONS
    for group_id in groups.values():
        group_now(session, group_id)


def tail_of(session: ClusterSession, group_id: str) -> TailReader:
    """A reader that stands at the end of the group's log partition."""
    tail = TailReader(session, OFFSETS_TOPIC, partition_of(group_id, PARTITIONS), from_log_offset=0)
    tail.read()
    return tail


def key_of(group_id: str, topic: str, partition: int) -> bytes:
    return encode_key(1, {"group_id": group_id, "topic": topic, "partition": partition})


def tombstones(group_id: str, *offsets: tuple[str, int], base_offset: int = 0) -> bytes:
    keys = [(group_id, key_of(group_id, *offset)) for offset in offsets]
    return encode_batches(keys, base_offset=base_offset, as_of_ms=EARLIER_MS, profile=NEWEST)


def test_offsets_are_committed_and_deleted_one_by_one(session: ClusterSession) -> None:
    tail = tail_of(session, "g")
    given = {("numbers", 0): (7, 3, "m"), ("numbers", 1): (8, None, ""), ("nowhere", 0): (1, None, "")}
    answers = commit_offsets(session, "g", given)
    assert answers == {("numbers", 0): None, ("numbers", 1): None, ("nowhere", 0): "UNKNOWN_TOPIC_OR_PARTITION"}
    found = {
        key: (offset.committed_offset, offset.leader_epoch, offset.metadata)
        for key, offset in committed_offsets(session, "g").items()
    }
    assert found == {key: value for key, value in given.items() if answers[key] is None}
    assert len(tail.records()) == 2

    answers = delete_offsets(session, "g", {"numbers": [1, 2, 9], "nowhere": [0]})
    assert answers == {
        ("numbers", 1): None,
        ("numbers", 2): None,  # it had no offset
        ("numbers", 9): "UNKNOWN_TOPIC_OR_PARTITION",
        ("nowhere", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert committed_offsets(session, "g").keys() == {("numbers", 0)}
    assert [(record.key, record.value) for record in tail.records()] == [(key_of("g", "numbers", 1), None)]
    assert tail.records() == []


def test_a_group_that_is_not_there(session: ClusterSession) -> None:
    assert group_now(session, "absent") == GroupNow(exists=False)
    assert delete_group(session, "absent") == "GROUP_ID_NOT_FOUND"
    with pytest.raises(GroupError, match=r"group absent: OffsetDelete was refused: GROUP_ID_NOT_FOUND") as caught:
        delete_offsets(session, "absent", {"numbers": [0]})
    assert caught.value.error_name == "GROUP_ID_NOT_FOUND"


def test_a_group_is_deleted(session: ClusterSession) -> None:
    commit_offsets(session, "whole", {("numbers", 0): (1, -1, "")})
    now = group_now(session, "whole")
    assert (now.exists, now.group_type, now.state, now.member_count) == (True, "classic", "Empty", 0)
    tail = tail_of(session, "whole")
    assert delete_group(session, "whole") is None
    assert group_now(session, "whole") == GroupNow(exists=False)
    written = tail.records()
    assert written[0].key == key_of("whole", "numbers", 0)
    assert [record.value for record in written] == [None, None]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_keeps_what_it_reads(there: ClientConfig, session: ClusterSession, protocol: str) -> None:
    group_id = f"busy-{protocol}"
    commit_offsets(session, group_id, {("numbers", 0): (1, -1, ""), ("somewhere", 0): (2, -1, "")})
    with closing(joined(there, group_id, "numbers", protocol=protocol)):
        now = group_now(session, group_id)
        assert (now.group_type, now.state) == (protocol, "Stable")
        assert now.member_count == (1 if protocol == "classic" else None)
        answers = delete_offsets(session, group_id, {"numbers": [0], "somewhere": [0]})
        assert answers == {("numbers", 0): "GROUP_SUBSCRIBED_TO_TOPIC", ("somewhere", 0): None}
        assert delete_group(session, group_id) == "NON_EMPTY_GROUP"
        assert set(commit_offsets(session, group_id, {("numbers", 1): (1, -1, "")}).values()) == {"UNKNOWN_MEMBER_ID"}
    assert committed_offsets(session, group_id).keys() == {("numbers", 0)}


def test_tombstones_behind_the_coordinators_back(there: ClientConfig, session: ClusterSession) -> None:
    """They are in the log, each batch in its turn, and the coordinator goes on serving what it has in memory: until it
    writes next, finds that the log is not where it left it, and loads itself anew. That write is in the log, and what
    it is answered says nothing of the kind."""
    commit_offsets(session, "stubborn", {("numbers", 0): (6, -1, "")})
    tail = tail_of(session, "stubborn")
    batches = tombstones("stubborn", ("numbers", 0)) + tombstones("stubborn", ("nowhere", 0), base_offset=1)
    log_offset = append_tombstones(there, OWN, batches)
    assert [(record.log_offset, record.key, record.value) for record in tail.records()] == [
        (log_offset, OFFSET_KEY, None),
        (log_offset + 1, key_of("stubborn", "nowhere", 0), None),
    ]
    assert committed_offsets(session, "stubborn").keys() == {("numbers", 0)}
    with pytest.raises(Unsettled, match="OffsetCommit was answered NOT_COORDINATOR"):
        commit_offsets(session, "stubborn", {("numbers", 1): (7, -1, "")})
    assert committed_offsets(session, "stubborn").keys() == {("numbers", 1)}
    assert [record.key for record in tail.records()] == [key_of("stubborn", "numbers", 1)]


GROUP_KEY = encode_key(2, {"group_id": "stubborn"})
OFFSET_KEY = key_of("stubborn", "numbers", 0)
OWN = partition_of("stubborn", PARTITIONS)


@pytest.mark.parametrize(
    "log_partition, batches, said",
    [
        (OWN, b"", "no record batch"),
        (OWN, b"x" * 80, "the bytes at 0 are not a record batch of format 2"),
        (OWN, tombstones("stubborn", ("numbers", 0))[:-1], "the bytes at 0 are not a record batch of format 2"),
        (OWN, encode_batch([(OFFSET_KEY, b"v")], base_offset=0, timestamp_ms=1), "is not a tombstone"),
        (OWN, encode_batch([(GROUP_KEY, None)], base_offset=0, timestamp_ms=1), "has type 2, which is not an offset's"),
        (OWN, encode_batch([(b"\0", None)], base_offset=0, timestamp_ms=1), "a key that cannot be read"),
        (OWN, encode_batch([(None, None)], base_offset=0, timestamp_ms=1), "a key that cannot be read"),
        (
            OWN,
            encode_batch([(OFFSET_KEY, None)], base_offset=0, timestamp_ms=1, producer_id=4),
            "batch with a producer id",
        ),
        ((OWN + 1) % PARTITIONS, tombstones("stubborn", ("numbers", 0)), f"belongs to a group of log partition {OWN}"),
        (PARTITIONS, tombstones("stubborn", ("numbers", 0)), "there are 4 log partitions"),
    ],
    ids=["nothing", "noise", "torn", "value", "group", "short-key", "no-key", "producer", "elsewhere", "absent"],
)
def test_nothing_else_is_appended(there: ClientConfig, log_partition: int, batches: bytes, said: str) -> None:
    with ClusterSession(there) as session:
        ends = TailReader(session, OFFSETS_TOPIC, min(log_partition, PARTITIONS - 1), from_log_offset=0)
        ends.read()
        with pytest.raises(Refused, match=said):
            append_tombstones(there, log_partition, batches)
        assert ends.read() == b""


def test_other_clients_may_not_append(there: ClientConfig, session: ClusterSession) -> None:
    """The broker goes by the client id: this is what makes it take ours."""
    from confluent_kafka import Producer

    refused: list[str] = []
    producer = Producer({**there.for_confluent(), "log_level": 0})
    producer.produce(OFFSETS_TOPIC, key=OFFSET_KEY, on_delivery=lambda error, _: refused.append(error.name()))
    producer.flush(10)
    assert refused == ["TOPIC_EXCEPTION"]


def test_a_streams_group(session: ClusterSession, kafka_jars: list[Path]) -> None:
    """Its members keep it from being deleted, and it stays a streams group without them."""
    with streams_member(session, "streaming", ["numbers"], jars=kafka_jars) as member:
        assert member.tasks == [0, 1, 2]
        assert member.commit({("numbers", 0): 5, ("numbers", 1): 6}) == {("numbers", 0): None, ("numbers", 1): None}
        (listed,) = (group for group in list_groups(session).groups if group.group_id == "streaming")
        assert (listed.group_type, listed.state, listed.protocol_type) == ("streams", "Stable", "streams")
        assert group_now(session, "streaming") == GroupNow(
            exists=True, group_type="streams", state="Stable", protocol_type="streams"
        )
        assert delete_offsets(session, "streaming", {"numbers": [0]}) == {("numbers", 0): "GROUP_SUBSCRIBED_TO_TOPIC"}
        assert delete_group(session, "streaming") == "NON_EMPTY_GROUP"
    assert group_now(session, "streaming").state == "Empty"
    assert delete_offsets(session, "streaming", {"numbers": [0]}) == {("numbers", 0): None}
    assert commit_offsets(session, "streaming", {("numbers", 2): (9, -1, "")}) == {("numbers", 2): None}
    assert committed_offsets(session, "streaming").keys() == {("numbers", 1), ("numbers", 2)}
    assert delete_group(session, "streaming") is None


def test_a_request_that_gets_no_answer_may_have_been_carried_out(
    there: ClientConfig, admin_broker: EmbeddedBroker, session: ClusterSession
) -> None:
    """The broker falls silent, comes back, and has done it: nothing but reading tells."""
    commit_offsets(session, "silent", {("numbers", 0): (1, -1, "")})
    running = running_broker(admin_broker.directory)
    assert running is not None
    Topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    topics = [Topic(name="numbers", partitions=[Topic.OffsetDeleteRequestPartition(partition_index=0)])]
    with ClusterSession(there, request_timeout_ms=1_000) as impatient:
        node_id = find_coordinator(impatient, "silent")
        os.kill(running.pid, signal.SIGSTOP)
        try:
            with pytest.raises(Unsettled, match="OffsetDeleteRequest was sent, but may not have been carried out"):
                impatient.call_once(OffsetDeleteRequest(group_id="silent", topics=topics), node_id=node_id)
        finally:
            os.kill(running.pid, signal.SIGCONT)
    until(lambda: not committed_offsets(session, "silent"), within_s=20)
