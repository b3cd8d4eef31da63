"""A member of a streams group (KIP-1071) without Kafka Streams: the heartbeats it would send, and what it commits.

kafka-python has no schema of StreamsGroupHeartbeat, and librdkafka no Streams. The schemas are taken from the broker's
own jar, so they are always those of the broker that is spoken to.
"""

import importlib
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import OffsetCommitRequest

from sexton.kafka.failures import error_name
from sexton.kafka.group_state import find_coordinator
from sexton.kafka.session import ClusterSession
from tests.waiting import until

SUBTOPOLOGY = "0"
JOIN, LEAVE = 0, -1
JOIN_TIMEOUT_S = 20
BY_NAME = 9


@cache
def request_class(kafka_clients: Path, api: str) -> Any:
    """kafka-python's class of the requests of `api`, made of the schemas in a jar of Kafka's clients."""
    names = f"{api}Request", f"{api}Response"
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(kafka_clients) as jar:
        package = f"schemas_{uuid.uuid4().hex}"
        (Path(folder) / package).mkdir()
        for name in names:
            (Path(folder) / package / f"{name}.json").write_bytes(jar.read(f"common/message/{name}.json"))
        sys.path.insert(0, folder)
        try:
            importlib.invalidate_caches()
            request, response = (type(ApiMessage)(name, (ApiMessage,), {}, load_json=package) for name in names)
        finally:
            sys.path.remove(folder)
    request.answered_by = response  # kafka-python refers to it weakly
    return request


class StreamsMember:
    """One member with one subtopology that reads `topics`, all of whose tasks it is given when it is alone."""

    def __init__(self, session: ClusterSession, group_id: str, topics: Sequence[str], *, jars: Sequence[Path]) -> None:
        self.group_id, self.topics = group_id, list(topics)
        self.member_id, self.epoch = str(uuid.uuid4()), JOIN
        self.tasks: list[int] = []
        """The partitions that it reads."""
        self._session = session
        (clients,) = (jar for jar in jars if jar.name.startswith("kafka-clients-"))
        self._request = request_class(clients, "StreamsGroupHeartbeat")

    def join(self) -> None:
        """Until all that it is assigned is its own."""
        self._heartbeat(topology=self._topology(), active_tasks=[], standby_tasks=[], warmup_tasks=[])
        until(lambda: self.heartbeat() or self.tasks, "no task", within_s=JOIN_TIMEOUT_S, every_s=0.1)
        self.heartbeat()

    def heartbeat(self) -> None:
        """Say that it is there, and which tasks it has; take those that it is given."""
        owned = [self._request.TaskIds(subtopology_id=SUBTOPOLOGY, partitions=self.tasks)] if self.tasks else []
        self._heartbeat(active_tasks=owned, standby_tasks=[], warmup_tasks=[])

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], str | None]:
        """Commit as the member that it is; Kafka's name of each partition's error, None where there is none."""
        Topic = OffsetCommitRequest.OffsetCommitRequestTopic
        Partition = Topic.OffsetCommitRequestPartition
        topics = [
            Topic(
                name=topic,
                partitions=[
                    Partition(partition_index=number, committed_offset=offset, committed_metadata="")
                    for (name, number), offset in offsets.items()
                    if name == topic
                ],
            )
            for topic in sorted({topic for topic, _ in offsets})
        ]
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=topics,
            max_version=BY_NAME,
        )
        answer = self._session.call(request, node_id=find_coordinator(self._session, self.group_id))
        return {
            (topic.name, partition.partition_index): error_name(partition.error_code) if partition.error_code else None
            for topic in answer.topics
            for partition in topic.partitions
        }

    def leave(self) -> None:
        self.epoch = LEAVE
        self._heartbeat()

    def _topology(self) -> Any:
        subtopology = self._request.Topology.Subtopology(
            subtopology_id=SUBTOPOLOGY,
            source_topics=sorted(self.topics),
            source_topic_regex=[],
            state_changelog_topics=[],
            repartition_sink_topics=[],
            repartition_source_topics=[],
            copartition_groups=[],
        )
        return self._request.Topology(epoch=0, subtopologies=[subtopology])

    def _heartbeat(self, **more: Any) -> None:
        request = self._request(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=0,
            rebalance_timeout_ms=45_000 if self.epoch == JOIN else -1,
            process_id=self.member_id if self.epoch == JOIN else None,
            client_tags=[] if self.epoch == JOIN else None,
            **more,
        )

        def ask() -> Any:
            answer = self._session.call(request, node_id=find_coordinator(self._session, self.group_id))
            self._session.check(answer.error_code, "FindCoordinator", group_id=self.group_id)
            return answer

        answer = self._session.retrying(ask)
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.tasks = sorted(number for task in answer.active_tasks for number in task.partitions)


@contextmanager
def streams_member(
    session: ClusterSession, group_id: str, topics: Sequence[str], *, jars: Sequence[Path]
) -> Iterator[StreamsMember]:
    """A member that has joined, and leaves when the block ends."""
    member = StreamsMember(session, group_id, topics, jars=jars)
    member.join()
    try:
        yield member
    finally:
        if member.epoch >= 0:
            member.leave()
