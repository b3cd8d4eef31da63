"""A log that lost its tail by an unclean election, and the other reasons to reset, on three real brokers: `sexton lag`
foretells each, and Kafka's own consumer that comes back does what was foretold.

Minutes, so only with `--full`. test_lag_truncation.py has one broker whose disk loses records, by default.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic
from kafka.protocol.consumer import OffsetCommitRequest

from sexton.java import JavaHome
from sexton.kafka.group_state import committed_offsets, find_coordinator
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import describe_topic
from sexton_dev.workload import wait
from tests.clients import commit_when_ready
from tests.integration.test_lag import told
from tests.integration.test_lag_truncation import AFTER, BEFORE, CAME_BACK, END, LEFT, PLANTED, Console, produce
from tests.replicas_cluster import A, B, C, ThreeBrokers

pytestmark = [pytest.mark.full, pytest.mark.timeout(1_800)]

CUT, CALM, ANEW = "cut", "calm", "anew"
CALM_START, CALM_END, NO_EPOCH = 4, 10, -1
TIMEOUT_S = 120
CALM_GROUPS = {
    "behind": (CALM_START - 1, NO_EPOCH),
    "beyond": (CALM_END + 1, NO_EPOCH),
    "at-start": (CALM_START, 0),
    "at-end": (CALM_END, 0),
}
OLD_TOPIC = "of-the-old-topic"
FORETOLD = {
    **dict.fromkeys((CAME_BACK, "knows-its-epoch", "first-that-is-gone"), "truncated"),
    "behind": "behind_log_start",
    "beyond": "beyond_log_end",
    OLD_TOPIC: "topic_recreated",
}
"""Of every group that does not continue."""


class Lost:
    """The cluster after all of it."""

    def __init__(self, cluster: ThreeBrokers, java: JavaHome, jars: list[Path]) -> None:
        self.cluster = cluster
        self.console = Console(cluster.config.bootstrap_servers, java, jars)
        self.old_topic_id: str | None = None

    def happen(self) -> None:
        """`cut` is on A and C; C is away while its tail is written, and leads alone when A is gone."""
        cluster = self.cluster
        places = [NewTopic(CUT, 1, replica_assignment=[[A, C]], config={"unclean.leader.election.enable": "true"})]
        places += [NewTopic(name, 1, replica_assignment=[[B, A]]) for name in (CALM, ANEW)]
        wait(cluster.admin.create_topics(places))
        produce(cluster.config, CUT, LEFT)
        produce(cluster.config, CALM, CALM_END)
        produce(cluster.config, ANEW, 3)
        cluster.wait_for(lambda: self._isr(CUT) == {A, C}, "both replicas of the topic in sync")
        cluster.kill(C)
        cluster.wait_for(lambda: self._isr(CUT) == {A}, "the topic without C")
        produce(cluster.config, CUT, BEFORE - LEFT)
        assert self._read_all() == [*range(BEFORE)]
        with ClusterSession(cluster.config) as session:
            for topic, groups in ((CUT, PLANTED), (CALM, CALM_GROUPS)):
                for group, (offset, epoch) in groups.items():
                    commit_when_ready(session, group, {(topic, 0): (offset, epoch, "")})
            self.old_topic_id = describe_topic(session, ANEW).topic_id
        self._commit_with_id(OLD_TOPIC, ANEW, 2)
        cluster.kill(A)
        cluster.kill(B, is_last=True)
        cluster.start(C)
        cluster.wait_for(lambda: self._leader(CUT) == C, "C leads by an unclean election")
        produce(cluster.config, CUT, AFTER)
        # No coordinator leads, so that nobody deletes the offsets of the topic with it.
        wait(cluster.admin.delete_topics([ANEW]))
        cluster.wait_for(self._makes_anew, "a topic of the same name")
        produce(cluster.config, ANEW, 3)
        cluster.start(B)
        cluster.start(A)
        cluster.elect(B)
        cluster.wait_for(lambda: self._isr(CUT) == {A, C}, "A follows the new leader")
        # Not before: a broker that is killed forgets a log start of the last minute, which is written once a minute.
        wait(cluster.admin.delete_records([TopicPartition(CALM, 0, CALM_START)]))

    def _makes_anew(self) -> bool:
        try:
            wait(self.cluster.admin.create_topics([NewTopic(ANEW, 1, replica_assignment=[[C, A]])]))
        except Exception:  # its deletion is not finished, or it is made
            return self._leader(ANEW) == C
        return True

    def _read_all(self) -> list[int]:
        commits = {"enable.auto.commit": "true"}
        return self.console.read(CAME_BACK, CUT, reset="earliest", messages=BEFORE, **commits)

    def _commit_with_id(self, group: str, topic: str, offset: int) -> None:
        """As clients do since Kafka 4.1 (OffsetCommit v10)."""
        Topic = OffsetCommitRequest.OffsetCommitRequestTopic
        part = Topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        with ClusterSession(self.cluster.config) as session:
            topic_id = describe_topic(session, topic).topic_id
            request = OffsetCommitRequest(
                version=10,
                group_id=group,
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[Topic(topic_id=as_uuid(topic_id), partitions=[part])],
            )
            answer = session.call(request, node_id=find_coordinator(session, group))
        assert {one.error_code for each in answer.topics for one in each.partitions} == {0}

    def _isr(self, topic: str) -> set[int]:
        described = self.cluster.admin.list_topics(topic, TIMEOUT_S).topics[topic]
        return set(described.partitions[0].isrs) if described.partitions else set()

    def _leader(self, topic: str) -> int:
        described = self.cluster.admin.list_topics(topic, TIMEOUT_S).topics[topic]
        return described.partitions[0].leader if described.partitions else -1


def as_uuid(topic_id: str | None) -> uuid.UUID:
    """Of Kafka's base64."""
    import base64

    assert topic_id is not None
    return uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]) -> Iterator[Lost]:
    with ThreeBrokers(tmp_path_factory.mktemp("unclean"), java=java, jars=kafka_jars) as cluster:
        lost = Lost(cluster, java, kafka_jars)
        lost.happen()
        yield lost


@pytest.fixture(scope="module")
def lags(lost: Lost, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The rows of the groups above."""
    archive = tmp_path_factory.mktemp("unclean-archive")
    found = told("--bootstrap-servers", lost.cluster.config.bootstrap_servers, "--archive", archive)
    rows = {row["group_id"]: row for row in found["offsets"]}
    return {group: rows[group] for group in (CAME_BACK, *PLANTED, *CALM_GROUPS, OLD_TOPIC)}


def test_the_election_was_unclean(lost: Lost) -> None:
    with ClusterSession(lost.cluster.config) as session:
        leader = describe_topic(session, CUT).leaders[0]
        committed = committed_offsets(session, CAME_BACK)[CUT, 0]
    assert (leader.node_id, committed.committed_offset) == (C, BEFORE)
    assert committed.leader_epoch is not None
    assert committed.leader_epoch < leader.epoch


def test_every_reset_is_foretold_and_no_other(lags: dict[str, dict[str, Any]]) -> None:
    assert {group: row["would_reset"] for group, row in lags.items() if row["would_reset"]} == FORETOLD
    truncated = {row["diverged_at"] for row in lags.values() if row["would_reset"] == "truncated"}
    assert truncated == {LEFT}
    assert lags[CAME_BACK]["log_end_offset"] == END
    assert lags["knows-no-epoch"]["leader_epoch"] is None


@pytest.mark.parametrize(
    ("group", "topic", "reset", "first"),
    [
        # A consumer that can find where the logs part goes back there, whatever auto.offset.reset says.
        (CAME_BACK, CUT, "latest", LEFT),
        (CAME_BACK, CUT, "earliest", LEFT),
        (CAME_BACK, CUT, "none", None),
        ("first-that-is-gone", CUT, "latest", LEFT),
        ("up-to-the-loss", CUT, "none", LEFT),
        ("before-the-loss", CUT, "none", LEFT - 1),
        # Without an epoch it skips what it never read.
        ("knows-no-epoch", CUT, "none", BEFORE),
        ("behind", CALM, "earliest", CALM_START),
        ("behind", CALM, "none", None),
        ("beyond", CALM, "earliest", CALM_START),
        ("beyond", CALM, "none", None),
        ("at-start", CALM, "none", CALM_START),
    ],
)
def test_what_a_consumer_that_comes_back_does(
    lost: Lost, lags: dict[str, dict[str, Any]], group: str, topic: str, reset: str, first: int | None
) -> None:
    """With `none` exactly those fail that were foretold to reset."""
    assert lost.console.read(group, topic, reset=reset) == ([] if first is None else [first])
    if reset == "none":
        assert (first is None) == (lags[group]["would_reset"] is not None)


@pytest.mark.parametrize(
    ("protocol", "first"), [("consumer", {"earliest": [0], "none": []}), ("classic", {"earliest": [2], "none": [2]})]
)
def test_a_consumer_of_the_topic_recreated(
    lost: Lost, lags: dict[str, dict[str, Any]], protocol: str, first: dict[str, list[int]]
) -> None:
    """One of KIP-848 asks for its offset by the topic's id, and there is none. A classic one asks by name: it goes on
    at the offset of the old topic, and skips what the new one has before it."""
    assert lags[OLD_TOPIC]["would_reset"] == "topic_recreated"
    own = {"group.protocol": protocol}
    found = {reset: lost.console.read(OLD_TOPIC, ANEW, reset=reset, **own) for reset in first}
    assert found == first
