"""The embedded broker and what its clients are told, against the real thing."""

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from sexton.errors import BrokerError, SetupError, UsageError
from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.collect_metadata import collect_metadata, log_ends
from sexton.kafka.fetch import LogReader, OutOfRangeError
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import describe_topic, end_of_epoch
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.broker import EmbeddedBroker, running_broker, stop_broker
from sexton_dev.ports import free_port
from sexton_dev.workload import (
    LASTING_TOPICS,
    PINNED_GROUP,
    REBORN_PARTITIONS,
    SIMPLE_GROUPS,
    TOPICS,
    Workload,
    commit_offsets,
)
from tests.clients import make_topics

UNSTABLE_OFFSET_COMMIT = 88


def commit(config: ClientConfig, *, group_id: str, count: int) -> None:
    """`count` commits of one group, each a record batch of its own; makes the topic when it is not there."""
    admin = AdminClient({**config.for_confluent(), "log_level": 0})
    if "somewhere" not in admin.list_topics(timeout=10).topics:
        make_topics(config, {"somewhere": 1})
    for number in range(count):
        commit_offsets(admin, group_id, [TopicPartition("somewhere", 0, number)])


def test_the_port_is_taken(tmp_path: Path, broker: EmbeddedBroker, java: JavaHome, kafka_jars: list[Path]) -> None:
    second = EmbeddedBroker(tmp_path, port=broker.port, java=java, jars=kafka_jars)
    with pytest.raises(SetupError, match=f"port {broker.port} cannot be used: Address already in use .*another port"):
        second.start()
    assert running_broker(tmp_path) is None


def test_the_directory_is_taken(broker: EmbeddedBroker, java: JavaHome, kafka_jars: list[Path]) -> None:
    second = EmbeddedBroker(broker.directory, port=free_port(), java=java, jars=kafka_jars)
    with pytest.raises(SetupError, match=r"a broker already runs here .*make down"):
        second.start()
    assert running_broker(broker.directory) is not None


def test_a_broker_that_cannot_start_says_why(tmp_path: Path, java: JavaHome, kafka_jars: list[Path]) -> None:
    wrong = {"authorizer.class.name": "no.such.Authorizer"}
    broken = EmbeddedBroker(tmp_path, port=free_port(), java=java, jars=kafka_jars, settings=wrong)
    with pytest.raises(BrokerError, match=r"no\.such\.Authorizer"):
        broken.start()
    assert running_broker(tmp_path) is None


def test_another_process_stops_it_and_the_cluster_goes_on(own_broker: EmbeddedBroker) -> None:
    first_id = own_broker.cluster_id
    code = "import sys, pathlib; from sexton_dev.broker import *; print(stop_broker(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", code, str(own_broker.directory)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"
    assert running_broker(own_broker.directory) is None
    assert not stop_broker(own_broker.directory)
    own_broker.stop()
    own_broker.start()
    assert own_broker.cluster_id == first_id


def test_a_fetch_outlives_a_restart_of_the_broker(own_broker: EmbeddedBroker) -> None:
    config = client_config({}, bootstrap_servers=own_broker.bootstrap_servers)
    commit(config, group_id="g", count=30)
    with ClusterSession(config) as session:
        (log,) = (log for log in log_ends(session, describe_topic(session, OFFSETS_TOPIC)) if log.high_watermark)
        reader = LogReader(session, OFFSETS_TOPIC, log.log_partition, response_bytes=500)
        steps = reader.read(start=0, end=log.high_watermark)
        fetched = [next(steps).data]
        own_broker.stop()
        own_broker.start()
        fetched += [step.data for step in steps]
    on_disk = own_broker.data / f"{OFFSETS_TOPIC}-{log.log_partition}" / f"{0:020d}.log"
    assert len(fetched) > 3
    assert b"".join(fetched) == on_disk.read_bytes()


def test_an_absent_topic_is_named(session: ClusterSession) -> None:
    with pytest.raises(UsageError, match="topic no-such-topic does not exist"):
        list(LogReader(session, "no-such-topic", 0).read(start=0, end=1))


def test_an_offset_that_the_log_does_not_hold(workload: Workload, session: ClusterSession) -> None:
    with pytest.raises(OutOfRangeError, match="does not hold offset 1000000"):
        list(LogReader(session, OFFSETS_TOPIC, 0).read(start=1_000_000, end=1_000_001))


def test_facts_of_the_cluster(broker: EmbeddedBroker, workload: Workload, session: ClusterSession) -> None:
    topic = describe_topic(session, OFFSETS_TOPIC)
    facts, warnings = collect_metadata(session, offsets_topic=topic, taken_at_ms=5)
    assert (facts.taken_at_ms, facts.cluster_id, facts.broker_version) == (5, broker.cluster_id, "4.3")
    assert facts.settings["offsets.retention.minutes"] == "10080"
    assert (facts.topic_id, facts.partition_count) == (topic.topic_id, 4)
    assert (facts.delete_retention_ms, facts.max_message_bytes) == (86_400_000, 1_048_588)
    assert facts.sees_all_topics is True
    rows = {row["topic"]: row["partitions"] for row in facts.topics}
    assert {name: len(rows[name]) for name in LASTING_TOPICS} == {name: TOPICS[name] for name in LASTING_TOPICS}
    assert rows["orders"] == [[0, 20]] * 3
    assert "doomed" not in rows
    assert rows["reborn"] == [[0, 0]] * REBORN_PARTITIONS
    assert warnings == []


def test_groups_of_the_workload(workload: Workload, session: ClusterSession) -> None:
    groups = {group.group_id: group for group in list_groups(session).groups}
    assert workload.left_out == ()
    assert {groups[name].group_type for name in SIMPLE_GROUPS if name in groups} == {"classic"}
    kinds = {
        kind: groups[ids[0]] for kind, ids in workload.groups.items() if kind not in ("simple", "orphaned", "stale")
    }
    assert (kinds["classic_open"].group_type, kinds["classic_open"].state) == ("classic", "Stable")
    assert (kinds["consumer_open"].group_type, kinds["consumer_open"].state) == ("consumer", "Stable")
    assert (kinds["consumer"].group_type, kinds["consumer"].state) == ("consumer", "Empty")
    assert (kinds["share"].group_type, kinds["share"].state) == ("share", "Empty")


def test_pending_offsets_are_unstable(workload: Workload, session: ClusterSession) -> None:
    plain = committed_offsets(session, PINNED_GROUP)
    stable = committed_offsets(session, PINNED_GROUP, require_stable=True)
    assert {offset.committed_offset for offset in plain.values()} == {11}
    unstable = {partition for (_, partition), offset in stable.items() if offset.error_code == UNSTABLE_OFFSET_COMMIT}
    assert unstable == {0, 1, 2, 3}


def test_the_last_stable_offset_is_below_the_open_transaction(workload: Workload, session: ClusterSession) -> None:
    ends = log_ends(session, describe_topic(session, OFFSETS_TOPIC))
    assert any(log.last_stable_offset < log.high_watermark for log in ends)


def test_the_end_of_a_leader_epoch(workload: Workload, session: ClusterSession) -> None:
    topic = describe_topic(session, OFFSETS_TOPIC)
    ends = {log.log_partition: log.high_watermark for log in log_ends(session, topic)}
    assert end_of_epoch(session, topic, {0: 0}) == {0: (0, ends[0])}
