"""A log that lost its tail and was written anew, on a real broker: `sexton lag` foretells who would not continue, and a
real consumer that comes back finds it so. The principal may describe topics and read no message."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig
from sexton.kafka.failures import error_name
from sexton.kafka.group_state import committed_offsets
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import describe_topic
from sexton_dev.broker import run_tool
from sexton_dev.workload import wait
from tests.clients import commit_when_ready, make_topics
from tests.integration.secure_broker import APPLIER, READER, SecureCluster, secure_cluster
from tests.integration.test_admin import wait_for_coordinators
from tests.integration.test_documented_acls import SHELL
from tests.integration.test_lag import told

pytestmark = pytest.mark.thorough

TOPIC, BEFORE, LEFT, AFTER = "cut", 10, 5, 10
"""Records before the loss, those that stay, and those that are written after it."""
END = LEFT + AFTER
TIMEOUT_S = 60
CAME_BACK = "came-back"
"""A group that read everything before the loss, with a consumer that commits leader epochs."""
PLANTED = {
    "knows-its-epoch": (BEFORE, 0), "first-that-is-gone": (LEFT + 1, 0), "up-to-the-loss": (LEFT, 0),
    "before-the-loss": (LEFT - 1, 0), "knows-no-epoch": (BEFORE, -1),
}  # fmt: skip
TRUNCATED = {CAME_BACK, "knows-its-epoch", "first-that-is-gone"}


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[SecureCluster]:
    """One broker, whose disk loses the last records of the topic while it is down."""
    with secure_cluster(tmp_path_factory.mktemp("truncation"), java=java, jars=kafka_jars) as cluster:
        admin = make_topics(cluster.all_powerful, {TOPIC: 1})
        wait(admin.create_acls([acl.binding() for acl in SHELL if acl.principal == f"User:{READER}"]))
        produce(cluster.all_powerful, TOPIC, BEFORE)
        with ClusterSession(cluster.all_powerful) as session:
            for group, (offset, epoch) in PLANTED.items():
                commit_when_ready(session, group, {(TOPIC, 0): (offset, epoch, "")})
        read_all(cluster)
        cluster.broker.stop()
        lose_the_tail(cluster.broker.data / f"{TOPIC}-0")
        cluster.broker.start()
        with ClusterSession(cluster.all_powerful) as session:
            wait_for_coordinators(session)
        produce(cluster.all_powerful, TOPIC, AFTER)
        yield cluster


def produce(config: ClientConfig, topic: str, count: int) -> None:
    """A batch each, acknowledged by those in sync."""
    producer = Producer({**config.for_confluent(), "log_level": 0, "linger.ms": 0})
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
        assert producer.flush(TIMEOUT_S) == 0


def consumer(cluster: SecureCluster, **config: Any) -> Consumer:
    return Consumer(
        {**cluster.all_powerful.for_confluent(), "group.id": CAME_BACK, "log_level": 0, "enable.auto.commit": False}
        | config
    )


def read_all(cluster: SecureCluster) -> None:
    reading = consumer(cluster, **{"auto.offset.reset": "earliest"})
    reading.subscribe([TOPIC])
    read = 0
    while read < BEFORE:
        read += len(reading.consume(BEFORE, 1))
    reading.commit(asynchronous=False)
    reading.close()


def first_offset(cluster: SecureCluster, group: str) -> int:
    """The first that a consumer of librdkafka gets when it comes back; it commits nothing."""
    reading = consumer(cluster, **{"group.id": group, "auto.offset.reset": "error"})
    reading.subscribe([TOPIC])
    message = reading.poll(TIMEOUT_S)
    reading.close()
    assert message.error() is None
    return int(message.offset())


def lose_the_tail(folder: Path) -> None:
    """What a disk does that was not flushed: the segment ends after the first records."""
    (segment,) = folder.glob("*.log")
    data, at = segment.read_bytes(), 0
    while struct.unpack_from(">q", data, at)[0] < LEFT:
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    segment.write_bytes(data[:at])
    for index in (*folder.glob("*.index"), *folder.glob("*.timeindex"), *folder.glob("*.snapshot")):
        index.unlink()


@pytest.fixture(scope="module")
def lags(cluster: SecureCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The rows of the principal that may read no message, by group."""
    folder = tmp_path_factory.mktemp("truncation-archive")
    client = folder / "client.properties"
    client.write_text("".join(f"{name}={value}\n" for name, value in cluster.properties(READER).items()))
    found = told("--client-config", client, "--archive", folder / "archive")
    return {row["group_id"]: row for row in found["offsets"]}


def test_the_log_is_another_from_there_on(cluster: SecureCluster) -> None:
    with ClusterSession(cluster.all_powerful) as session:
        assert describe_topic(session, TOPIC).leaders[0].epoch > 0
        committed = committed_offsets(session, CAME_BACK)[TOPIC, 0]
    assert (committed.committed_offset, committed.leader_epoch) == (BEFORE, 0), "a real client commits its epoch"


def test_every_truncation_is_foretold(lags: dict[str, dict[str, Any]]) -> None:
    assert {group for group, row in lags.items() if row["would_reset"] == "truncated"} == TRUNCATED
    assert {row["diverged_at"] for group, row in lags.items() if group in TRUNCATED} == {LEFT}
    others = [row for group, row in lags.items() if group not in TRUNCATED]
    assert {(row["would_reset"], row["diverged_at"]) for row in others} == {(None, None)}
    assert {group for group, row in lags.items() if row["leader_epoch"] is None} == {"knows-no-epoch"}
    assert lags[CAME_BACK]["log_end_offset"] == END


@dataclass(frozen=True)
class Console:
    """Kafka's own consumer."""

    servers: str
    java: JavaHome
    jars: list[Path]

    def read(self, group: str, topic: str, *, reset: str, messages: int = 1, **more: str) -> list[int]:
        """The offsets of the first messages that it gets; none where it fails, or where nothing comes."""
        properties = {"auto.offset.reset": reset, "enable.auto.commit": "false", **more}
        printed = run_tool(
            self.java,
            self.jars,
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", self.servers, "--topic", topic, "--group", group),
            *("--max-messages", str(messages), "--timeout-ms", "20000", "--formatter-property", "print.offset=true"),
            *(word for name, value in properties.items() for word in ("--command-property", f"{name}={value}")),
        )
        return [int(word.removeprefix("Offset:")) for word in printed.split() if word.startswith("Offset:")]


def test_a_consumer_that_comes_back_does_not_continue(
    cluster: SecureCluster, lags: dict[str, dict[str, Any]], java: JavaHome, kafka_jars: list[Path]
) -> None:
    """Kafka's own goes back to where the log is another, whatever auto.offset.reset says; with none it fails."""
    assert lags[CAME_BACK]["would_reset"] == "truncated"
    console = Console(cluster.broker.bootstrap_servers, java, kafka_jars)
    assert console.read(CAME_BACK, TOPIC, reset="latest") == [LEFT]
    assert console.read(CAME_BACK, TOPIC, reset="none") == []


def test_librdkafka_does_not_look(cluster: SecureCluster) -> None:
    """It validates when a leader changes while it reads, not when it starts: what was written anew is skipped."""
    assert first_offset(cluster, CAME_BACK) == BEFORE


@pytest.mark.parametrize("group", ["up-to-the-loss", "before-the-loss", "knows-no-epoch"])
def test_the_others_continue(cluster: SecureCluster, lags: dict[str, dict[str, Any]], group: str) -> None:
    """Also the one without an epoch, which skips what it never read: nothing shows it the loss."""
    assert lags[group]["would_reset"] is None
    assert first_offset(cluster, group) == PLANTED[group][0]


@pytest.mark.parametrize(("principal", "error"), [(READER, "NoError"), (APPLIER, "TOPIC_AUTHORIZATION_FAILED")])
def test_the_question_needs_describe_and_no_more(cluster: SecureCluster, principal: str, error: str) -> None:
    AskedTopic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    asked = AskedTopic.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[AskedTopic(topic=TOPIC, partitions=[asked])])
    with ClusterSession(cluster.config(principal)) as session:
        answer = session.call(request, node_id=session.broker_ids[0]).topics[0].partitions[0]
    assert (error_name(answer.error_code) if answer.error_code else "NoError") == error
    assert answer.end_offset == (LEFT if error == "NoError" else -1)
