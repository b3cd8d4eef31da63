"""Commits with an older member epoch, which a broker that has loaded the log has to answer as Sexton does."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetCommitRequest

from sexton.coordinator.api.commit import Commit, CommitPartition, validate_commit
from sexton.coordinator.api.errors import Error
from sexton.coordinator.partitioner import partition_of
from sexton.errors import BrokerError
from sexton.java import JavaHome
from sexton.kafka.client import client_config
from sexton.kafka.session import ClusterSession
from sexton.records import kafka_uuid
from tests.campaign.broker.command import PINNED_RELEASE
from tests.campaign.broker.judge import NEVER_S, Judge
from tests.coordinator.api.broker import coordinator_of
from tests.coordinator.group_records import assigned, consumer_member_fields, streams_member, topology
from tests.log_builder import BatchSpec, encode_log, group_entry
from tests.waiting import until

PARTITION_COUNT = 4
WITH_NAMES, WITH_IDS = 9, 10  # of OffsetCommit
EPOCH = 5


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]) -> Judge:
    folder = tmp_path_factory.mktemp("epochs") / "broker"
    judge = Judge(folder, release=PINNED_RELEASE, java=java, jars=kafka_jars, partition_count=PARTITION_COUNT)
    judge.prepare()
    return judge


def streams_group() -> Iterator[Any]:
    def tasks(partitions: list[int], epochs: list[int]) -> list[dict[str, Any]]:
        return [{"subtopology_id": "0", "partitions": partitions, "assignment_epochs": epochs}]

    yield group_entry(17, "g", {"epoch": EPOCH, "metadata_hash": 0, "validated_topology_epoch": 0})
    yield streams_member()
    yield topology()
    yield assigned(epoch=EPOCH, active=tasks([0], [3]), revoking=tasks([1], [4]))


def consumer_group(topic_id: Any) -> Iterator[Any]:
    def parts(partition: int, epoch: int) -> list[dict[str, Any]]:
        return [{"topic_id": topic_id, "partitions": [partition], "assignment_epochs": [epoch]}]

    epochs = {"member_epoch": EPOCH, "previous_member_epoch": EPOCH - 1, "state": 0}
    assignment = {"assigned_partitions": parts(0, 3), "partitions_pending_revocation": parts(1, 4)}
    yield group_entry(3, "g", {"epoch": EPOCH})
    yield group_entry(5, "g", consumer_member_fields(rack_id=None, classic_member_metadata=None), member_id="m")
    yield group_entry(8, "g", {**epochs, **assignment}, member_id="m")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind, api_version", [("streams", WITH_NAMES), ("consumer", WITH_IDS), ("consumer", WITH_NAMES)]
)
def test_an_older_epoch_is_answered_as_a_broker_does(judge: Judge, kind: str, api_version: int) -> None:
    topic_id = judge.place.topic_ids["t"]
    records = streams_group() if kind == "streams" else consumer_group(topic_id)
    log = encode_log([BatchSpec(entries=(record,)) for record in records])
    home = partition_of("g", PARTITION_COUNT)
    logs = {number: log if number == home else b"" for number in range(PARTITION_COUNT)}
    coordinator = coordinator_of(logs, profile=judge.profile, partition_count=PARTITION_COUNT)
    judge.write({home: {0: log}})
    (judge.log_folder(home) / f"{0:020d}.index").touch()
    told, said = {}, {}
    with (
        judge.running({"offsets.retention.check.interval.ms": str(NEVER_S * 1_000)}) as broker,
        ClusterSession(client_config({}, bootstrap_servers=broker.bootstrap_servers)) as session,
    ):
        for epoch, partition in product(range(2, EPOCH + 2), (0, 1)):
            place = CommitPartition(topic="t", partition=partition, topic_id=kafka_uuid(topic_id))
            commit = Commit(group_id="g", partitions=(place,), member_id="m", generation=epoch)
            told[epoch, partition] = validate_commit(coordinator, commit)["t", partition]
            said[epoch, partition] = answer(session, commit, api_version, topic_id)
    assert said == told
    assert {place for place, error in told.items() if error is Error.NONE} == {(3, 0), (4, 0), (4, 1), (5, 0), (5, 1)}


def answer(session: ClusterSession, commit: Commit, api_version: int, topic_id: Any) -> Error:
    """The broker's, once its coordinator has loaded."""
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic
    (place,) = commit.partitions
    part = Topic.OffsetCommitRequestPartition(
        partition_index=place.partition, committed_offset=place.committed_offset, committed_metadata=""
    )
    called = {"topic_id": topic_id} if api_version == WITH_IDS else {"name": place.topic}
    own = {
        "group_id": commit.group_id,
        "member_id": commit.member_id,
        "generation_id_or_member_epoch": commit.generation,
    }
    request = OffsetCommitRequest(version=api_version, topics=[Topic(**called, partitions=[part])], **own)
    passing = {Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE, Error.COORDINATOR_LOAD_IN_PROGRESS}

    def ask() -> list[Error]:
        (topic,) = session.call(request).topics
        error = Error(topic.partitions[0].error_code)
        return [] if error in passing else [error]

    (error,) = until(ask, passing=(BrokerError,))
    return error
