"""What clients and administrators do on the broker of a test."""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.consumer import OffsetCommitRequest

from sexton.errors import BrokerError
from sexton.kafka.admin import commit_offsets
from sexton.kafka.client import ClientConfig
from sexton.kafka.group_state import CommittedOffset, committed_offsets, find_coordinator
from sexton.kafka.session import ClusterSession
from sexton_dev.workload import QUIET, wait
from tests.waiting import until


def admin_of(config: ClientConfig) -> AdminClient:
    return AdminClient({**config.for_confluent(), **QUIET})


def make_topics(config: ClientConfig, topics: Mapping[str, int]) -> AdminClient:
    """Topics with so many partitions each; the client that made them."""
    admin = admin_of(config)
    wait(admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]))
    return admin


def offsets_of(config: ClientConfig, groups: Iterable[str]) -> dict[str, Mapping[tuple[str, int], CommittedOffset]]:
    """What is committed of those groups that have offsets."""
    with ClusterSession(config) as session:
        found = {group: committed_offsets(session, group) for group in groups}
    return {group: offsets for group, offsets in found.items() if offsets}


def joined(config: ClientConfig, group_id: str, topic: str, *, protocol: str = "classic", **own: Any) -> Consumer:
    """A member of a group that has its partitions; `own` are settings with _ for the dots."""
    settings = {"group.id": group_id, "group.protocol": protocol, "enable.auto.commit": False}
    settings |= {name.replace("_", "."): value for name, value in own.items()}
    consumer = Consumer({**config.for_confluent(), **QUIET, **settings})
    consumer.subscribe([topic])
    until(lambda: (consumer.poll(0.2), consumer.assignment())[1], f"{group_id} gets no partitions", every_s=0)
    return consumer


def commit_when_ready(session: ClusterSession, group_id: str, offsets: Mapping[tuple[str, int], Any]) -> None:
    """A coordinator that has just started refuses for a moment, as does a group whose last member has just left."""
    until(lambda: set(commit_offsets(session, group_id, offsets).values()) == {None}, passing=(BrokerError,))


def commit_for(
    session: ClusterSession, group_id: str, offsets: Mapping[tuple[str, int], tuple[int, str]], *, kept_ms: int = 1
) -> None:
    """Commit (offset, metadata) to be kept for a span, as clients could before KIP-211: nobody has to wait."""
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic
    Part = Topic.OffsetCommitRequestPartition
    topics = [
        Topic(name=topic, partitions=[Part(partition_index=part, committed_offset=offset, committed_metadata=metadata)])
        for (topic, part), (offset, metadata) in offsets.items()
    ]
    own = {"generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": kept_ms}
    request = OffsetCommitRequest(version=4, group_id=group_id, topics=topics, **own)

    def ask() -> None:
        answer = session.call(request, node_id=find_coordinator(session, group_id))
        for topic in answer.topics:
            for part in topic.partitions:
                session.check(part.error_code, "OffsetCommit", group_id=group_id, topic=topic.name)

    session.retrying(ask)
