"""The topics of a cluster: leaders of their partitions, log starts and ends, and the ends of leader epochs.

From Metadata, ListOffsets and OffsetForLeaderEpoch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from sexton.errors import Refused
from sexton.kafka.session import ClusterSession, TransientError
from sexton.records import kafka_uuid

UNKNOWN_ID = "unknown"
"""The id of topics before Kafka 2.8, which have none."""
NO_LEADER = -1
EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
ORDINARY_CONSUMER = -1
NO_EPOCH = -1
"""The leader epoch of batches before record format 2, and where nothing was read yet."""
PARTITIONS_A_REQUEST = 5_000

T = TypeVar("T")
TopicPartition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLeader:
    """The leader of one partition: `node_id` is -1 without a leader, `epoch` -1 when unknown."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the cluster knows it now. `topic_id` is Kafka's text form, None before Kafka 2.8."""

    name: str
    topic_id: str | None
    leaders: Mapping[int, PartitionLeader]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """The answer to one Metadata request; `is_whole` unless a topic was left out of `topics`."""

    cluster_id: str
    topics: Mapping[str, Topic]
    is_whole: bool = True


def describe_cluster(
    session: ClusterSession, topics: Iterable[str] | None = None, *, call: str = "Metadata"
) -> LiveCluster:
    """The cluster and the named topics, or all that this principal may see. Absent topics raise UsageError; topics that
    may not be described raise NotAllowed with the ACL that `call`, the reason for this request, needs.

    A topic that is being deleted or has no leader yet is left out of a listing of all topics.
    """
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    answer = session.call(request)
    found = {}
    for topic in answer.topics:
        if wanted is not None:
            session.check(topic.error_code, call, topic=topic.name)
        if topic.error_code == 0:
            found[topic.name] = _topic(topic)
    return LiveCluster(
        cluster_id=answer.cluster_id or "unknown",
        topics=found,
        is_whole=len(found) == len(answer.topics),
    )


def require_cluster(cluster_id: str, expected: str | None, *, where: str) -> None:
    """Raise Refused if the brokers belong to another cluster than `expected`; None accepts every cluster."""
    if expected not in (None, cluster_id):
        raise Refused(
            f"this is cluster {cluster_id}, expected {expected}",
            where=where,
            fix="check the connection, and cluster_id in SEXTON_CLUSTERS",
        )


def describe_topic(session: ClusterSession, name: str, *, call: str = "Metadata") -> Topic:
    """One topic; UsageError when it is absent, NotAllowed as in `describe_cluster`."""
    return describe_cluster(session, [name], call=call).topics[name]


def list_offsets(
    session: ClusterSession, topics: Iterable[Topic], *, timestamp: int, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """An offset of every partition: EARLIEST (log start) or LATEST (high watermark; with READ_COMMITTED the last stable
    offset).

    Partitions whose leader cannot answer now are left out.
    """
    return {
        key: answer.offset
        for node_id, asked in requests_to_leaders(topics, lambda _: [timestamp])
        for key, answer in ask_offsets(session, node_id, asked, isolation=isolation)
        if answer.error_code == 0
    }


def high_watermark(session: ClusterSession, name: str, partition: int, *, call: str = "Metadata") -> int:
    """The high watermark of one partition; TransientError while it has no leader. `call` as in `describe_cluster`."""
    topic = describe_topic(session, name, call=call)
    leaders = {number: leader for number, leader in topic.leaders.items() if number == partition}
    ends = list_offsets(session, [replace(topic, leaders=leaders)], timestamp=LATEST)
    if (name, partition) not in ends:
        raise TransientError(f"log partition {partition} has no leader", where=session.config.bootstrap_servers)
    return ends[name, partition]


def end_of_epoch(session: ClusterSession, topic: Topic, epochs: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The end of a leader epoch in the log: for each given partition and epoch, (epoch, end log_offset) (KIP-320).

    The epoch in the answer is the largest in the log up to the given one; (-1, -1) if there is none.
    Raises TransientError while a partition has no leader that answers.
    """
    place = session.config.bootstrap_servers
    ends = {}
    for node_id, asked in requests_to_leaders([topic], lambda key: [epochs[key[1]]] if key[1] in epochs else []):
        for (_, partition), answer in ask_epoch_ends(session, node_id, asked, known=topic):
            where = f"{topic.name}-{partition} on {place}"
            session.check(answer.error_code, "OffsetForLeaderEpoch", where=where, topic=topic.name)
            ends[partition] = (answer.leader_epoch, answer.end_offset)
    if missing := sorted(set(epochs) - set(ends)):
        raise TransientError(f"log partitions {missing} have no leader", where=place)
    return ends


def requests_to_leaders(
    topics: Iterable[Topic], questions: Callable[[TopicPartition], Sequence[int]]
) -> Iterator[tuple[int, dict[TopicPartition, int]]]:
    """Requests as (node id of the leader, one question per partition), until all `questions` have been asked.

    A broker refuses a request that names a partition twice. Partitions without a leader are left out.
    """
    by_leader: dict[int, dict[TopicPartition, Sequence[int]]] = {}
    for topic in topics:
        for partition, leader in topic.leaders.items():
            if leader.node_id != NO_LEADER:
                by_leader.setdefault(leader.node_id, {})[topic.name, partition] = questions((topic.name, partition))
    for node_id, asked in by_leader.items():
        for number in range(max(map(len, asked.values()))):
            some = [(key, each[number]) for key, each in asked.items() if len(each) > number]
            for at in range(0, len(some), PARTITIONS_A_REQUEST):
                yield node_id, dict(some[at : at + PARTITIONS_A_REQUEST])


def ask_offsets(
    session: ClusterSession,
    node_id: int,
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    min_version: int | None = None,
) -> list[tuple[TopicPartition, Any]]:
    """A leader's answers to one ListOffsets request; the caller handles error codes."""
    Asked = ListOffsetsRequest.ListOffsetsTopic  # noqa: N806 (a class)
    topics = by_topic(
        (name, Asked.ListOffsetsPartition(partition_index=number, current_leader_epoch=NO_EPOCH, timestamp=timestamp))
        for (name, number), timestamp in timestamps.items()
    )
    request = ListOffsetsRequest(
        replica_id=ORDINARY_CONSUMER,
        isolation_level=isolation,
        topics=[Asked(name=name, partitions=some) for name, some in topics.items()],
        min_version=min_version,
    )
    answer = session.call(request, node_id=node_id)
    return [((topic.name, one.partition_index), one) for topic in answer.topics for one in topic.partitions]


def ask_epoch_ends(
    session: ClusterSession, node_id: int, epochs: Mapping[TopicPartition, int], *, known: Topic | None = None
) -> list[tuple[TopicPartition, Any]]:
    """A leader's answers to one OffsetForLeaderEpoch request; the caller handles error codes.

    With `known`, the request has the leader epochs in it, and a leader that was elected since refuses the request.
    """
    Asked = OffsetForLeaderEpochRequest.OffsetForLeaderTopic  # noqa: N806 (a class)
    topics: dict[str, list[Any]] = {}
    for (name, partition), epoch in epochs.items():
        current = known.leaders[partition].epoch if known else NO_EPOCH
        topics.setdefault(name, []).append(
            Asked.OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=ORDINARY_CONSUMER, topics=[Asked(topic=name, partitions=some) for name, some in topics.items()]
    )
    answer = session.call(request, node_id=node_id)
    return [((topic.topic, one.partition), one) for topic in answer.topics for one in topic.partitions]


def by_topic(pairs: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    """The items of (topic, item) pairs, by topic, in the given order."""
    found: dict[str, list[T]] = {}
    for topic, one in pairs:
        found.setdefault(topic, []).append(one)
    return found


def _topic(answer: Any) -> Topic:
    leaders = {
        partition.partition_index: PartitionLeader(node_id=partition.leader_id, epoch=partition.leader_epoch)
        for partition in answer.partitions
    }
    topic_id = kafka_uuid(answer.topic_id) if answer.topic_id else None
    return Topic(name=answer.name, topic_id=topic_id, leaders=dict(sorted(leaders.items())))
