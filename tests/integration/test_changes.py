"""A scripted hour of a real broker in a minute: every offset that disappeared is told by its cause, or as ambiguous."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import ClusterMetadata
from sexton.coordinator.changes.rules import SLACK_MS
from sexton.coordinator.profiles import NEWEST
from sexton.history.offset_changes import changes_of, known_of
from sexton.java import JavaHome
from sexton.kafka.admin import delete_offsets
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.collect_metadata import collect_metadata
from sexton.kafka.group_state import committed_offsets
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import describe_topic
from sexton.log.segment import list_segments
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from sexton_dev.workload import QUIET, TIMEOUT_S, commit_offsets, wait
from tests.clients import commit_for
from tests.waiting import until

pytestmark = pytest.mark.thorough

LOCAL = pafs.LocalFileSystem()
SWEEP_EVERY_MS = 15_000
RETENTION_MINUTES = 60
TOPICS = {"a": 2, "b": 1, "doomed": 1, "doomed-too": 1}
E, D, G, T = "expired", "deleted", "group_deleted", "topic_deleted"


class Script:
    """What clients and administrators do, and what becomes of it: `truth` by (group, topic, partition)."""

    def __init__(self, config: ClientConfig, session: ClusterSession) -> None:
        self.admin = AdminClient({**config.for_confluent(), **QUIET})
        self.session = session
        self.truth: dict[tuple[str, str, int], tuple[str, set[str]]] = {}
        """The cause, and what the log cannot tell it from."""

    def make_topics(self) -> None:
        wait(self.admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]))

    def commit(self, group_id: str, *offsets: tuple[str, int]) -> None:
        """Offsets that stay for as long as the broker keeps them."""
        commit_offsets(self.admin, group_id, [TopicPartition(topic, part, 5) for topic, part in offsets])

    def commit_due(self, group_id: str, *offsets: tuple[str, int]) -> None:
        self.commit_for(1, group_id, *offsets)

    def commit_for(self, kept_ms: int, group_id: str, *offsets: tuple[str, int], value: int = 5) -> None:
        """Offsets that ask to be kept for a span, as clients could before KIP-211."""
        commit_for(self.session, group_id, dict.fromkeys(offsets, (value, "")), kept_ms=kept_ms)

    def expect(self, cause: str, group_id: str, *offsets: tuple[str, int], like: Iterable[str] = ()) -> None:
        for offset in offsets:
            self.truth[(group_id, *offset)] = cause, {cause, *like}

    def delete_offset(self, group_id: str, topic: str, part: int, *, like: Iterable[str] = ()) -> None:
        assert delete_offsets(self.session, group_id, {topic: [part]}) == {(topic, part): None}
        self.expect(D, group_id, (topic, part), like=like)

    def delete_group(self, group_id: str, *offsets: tuple[str, int], like: Iterable[str] = ()) -> None:
        self.admin.delete_consumer_groups([group_id])[group_id].result(TIMEOUT_S)
        self.expect(G, group_id, *offsets, like=like)

    def wait_for_sweep(self, group_id: str) -> None:
        """Until the due offsets of a group are gone."""
        until(lambda: not committed_offsets(self.session, group_id), within_s=4 * SWEEP_EVERY_MS / 1000)


def play(script: Script) -> None:
    """Two sweeps, and between them what administrators do."""
    script.commit("stays", ("a", 0), ("b", 0))
    script.commit("part", ("b", 0))
    script.commit_due("part", ("a", 0), ("a", 1))
    script.commit_due("whole", ("a", 0), ("b", 0))
    script.expect(E, "part", ("a", 0), ("a", 1))
    script.expect(E, "whole", ("a", 0), ("b", 0))
    script.wait_for_sweep("whole")
    swept_at = time.monotonic()

    # from here on there are some seconds in which what is due is still there
    script.commit_due("due-some", ("a", 0), ("a", 1))
    due_at = time.monotonic()
    script.commit("young", ("a", 0), ("b", 0))
    script.delete_offset("young", "a", 0)
    script.commit("young", ("a", 0))  # and committed again
    script.commit("young-group", ("a", 0), ("b", 0))
    script.delete_group("young-group", ("a", 0), ("b", 0))
    script.commit_due("due-group", ("a", 0), ("a", 1))
    script.delete_group("due-group", ("a", 0), ("a", 1), like={E})
    script.commit("due-part", ("b", 0))
    script.commit_due("due-part", ("a", 0))
    script.delete_offset("due-part", "a", 0, like={E})
    script.commit_due("due-all", ("a", 0))
    script.delete_offset("due-all", "a", 0)  # and the group, too
    for group_id in ("lost", "lost-too"):
        script.commit(group_id, ("doomed", 0), ("a", 0))
        script.expect(T, group_id, ("doomed", 0))
    script.commit("lost-alone", ("doomed-too", 0), ("a", 0))
    script.expect(T, "lost-alone", ("doomed-too", 0), like={D})
    for topic in ("doomed", "doomed-too"):
        script.admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    time.sleep(max(0, due_at + SLACK_MS / 1000 + 1 - time.monotonic()))
    script.delete_offset("due-some", "a", 0)  # a sweep would have taken the other one, too
    script.expect(E, "due-some", ("a", 1), like={G})
    assert time.monotonic() - swept_at < SWEEP_EVERY_MS / 1000 - 2, "too slow: the next sweep came between"
    script.wait_for_sweep("due-some")
    assert not committed_offsets(script.session, "due-all")


@pytest.fixture
def broker(tmp_path: Path, java: JavaHome, kafka_jars: list[Path]) -> Iterator[EmbeddedBroker]:
    own = {
        "offsets.topic.num.partitions": "1",
        "offsets.retention.minutes": str(RETENTION_MINUTES),
        "offsets.retention.check.interval.ms": str(SWEEP_EVERY_MS),
    }
    with EmbeddedBroker(tmp_path, port=free_port(), java=java, jars=kafka_jars, settings=own) as started:
        yield started


def test_every_disappearance_is_told_by_its_cause(broker: EmbeddedBroker) -> None:
    config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
    with ClusterSession(config) as session:
        script = Script(config, session)
        script.make_topics()
        script.commit("first", ("a", 0))
        before = facts_of(session)
        play(script)
        after = facts_of(session)
    known = known_of(before, after)
    assert known.retentions_ms == (RETENTION_MINUTES * 60_000,)

    gone: dict[tuple[str, str, int], dict[str, Any]] = {}
    for log_partition, found in list_segments(LOCAL, str(broker.data)).items():
        table = changes_of(LOCAL, found, log_partition=log_partition, start=None, cut=None, known=known, profile=NEWEST)
        for row in table.to_pylist():
            if row["kind"] != "set":
                gone[row["group_id"], row["topic"], row["partition"]] = row
    told = {key: set(row["candidates"] or [row["kind"]]) for key, row in gone.items()}
    assert told == {key: like for key, (_, like) in script.truth.items()}, {
        key: row["evidence"] for key, row in gone.items()
    }
    decided = [key for key, (cause, like) in script.truth.items() if like == {cause}]
    assert all(gone[key]["kind"] == script.truth[key][0] for key in decided)
    assert len(decided) > len(told) / 2


def facts_of(session: ClusterSession) -> ClusterMetadata:
    """What a snapshot would record now."""
    taken_at_ms = time.time_ns() // 1_000_000
    record, _ = collect_metadata(session, offsets_topic=describe_topic(session, OFFSETS_TOPIC), taken_at_ms=taken_at_ms)
    return record
