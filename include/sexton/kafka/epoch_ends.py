"""Where the logs of user topics leave given leader epochs (OffsetForLeaderEpoch), as a consumer asks before it resumes.

A consumer that committed the leader epoch of the last record it read has its offset validated (KIP-320): where the log
leaves that epoch before the offset, what it read was truncated. The question needs DESCRIBE on the topic. Partitions
that cannot be answered for are left out: without an answer no truncation is claimed.
"""

from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from sexton.archive.time_points import Key, TimePoint
from sexton.kafka.failures import TransientError
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import ORDINARY_CONSUMER, PARTITIONS_A_REQUEST, by_leader, describe_cluster


def epoch_ends(
    session: ClusterSession, epochs: Mapping[Key, Collection[int]], *, as_of_ms: int
) -> dict[Key, list[TimePoint]]:
    """The ends of leader epochs, as points of the instant `as_of_ms`; -1 where the log has no such epoch.

    The current epoch of a partition is not asked for: it has not ended. A request has one question for each partition.
    """
    if not epochs:
        return {}
    topics = describe_cluster(session).topics
    found: dict[Key, list[TimePoint]] = {}
    for node_id, keys in by_leader(topics.values()).items():
        open_questions = {
            key: sorted(set(epochs.get(key, ())) - {topics[key[0]].leaders[key[1]].epoch}, reverse=True) for key in keys
        }
        while asked := {key: each.pop() for key, each in open_questions.items() if each}:
            some = list(asked.items())
            for at in range(0, len(some), PARTITIONS_A_REQUEST):
                try:
                    answers = _answers(session, node_id, dict(some[at : at + PARTITIONS_A_REQUEST]))
                except TransientError:
                    continue
                for key, end in answers.items():
                    point = TimePoint(offset=end, timestamp_ms=as_of_ms, source="epoch_end", leader_epoch=asked[key])
                    found.setdefault(key, []).append(point)
    return found


def _answers(session: ClusterSession, node_id: int, asked: Mapping[Key, int]) -> dict[Key, int]:
    AskedTopic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic  # noqa: N806 (a class)
    by_topic: dict[str, list[Any]] = {}
    for (name, number), epoch in asked.items():
        by_topic.setdefault(name, []).append(
            AskedTopic.OffsetForLeaderPartition(partition=number, current_leader_epoch=-1, leader_epoch=epoch)
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=ORDINARY_CONSUMER,
        topics=[AskedTopic(topic=name, partitions=some) for name, some in by_topic.items()],
    )
    return {
        (topic.topic, one.partition): one.end_offset
        for topic in session.call(request, node_id=node_id).topics
        for one in topic.partitions
        if one.error_code == 0
    }
