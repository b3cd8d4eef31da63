"""End offsets of leader epochs in the logs of user topics (OffsetForLeaderEpoch), as a consumer asks before it resumes.

A consumer that committed the leader epoch of the last record it read has its offset validated (KIP-320): if that epoch
ends below the offset, records that it read were truncated. The request needs DESCRIBE on the topic.
Partitions without an answer are left out: no truncation is claimed for them.
"""

from collections.abc import Collection, Mapping

from sexton.archive.time_points import Key, TimePoint
from sexton.kafka.failures import TransientError
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import ask_epoch_ends, describe_cluster, requests_to_leaders


def epoch_ends(
    session: ClusterSession, epochs: Mapping[Key, Collection[int]], *, as_of_ms: int
) -> dict[Key, list[TimePoint]]:
    """The ends of leader epochs, as points with the instant `as_of_ms`; -1 where the log has no such epoch.

    The current epoch of a partition is not asked for: it has not ended.
    """
    if not epochs:
        return {}
    topics = describe_cluster(session).topics

    def ended(key: Key) -> list[int]:
        return sorted(set(epochs.get(key, ())) - {topics[key[0]].leaders[key[1]].epoch})

    found: dict[Key, list[TimePoint]] = {}
    for node_id, asked in requests_to_leaders(topics.values(), ended):
        try:
            answers = ask_epoch_ends(session, node_id, asked)
        except TransientError:
            continue
        for key, answer in answers:
            if answer.error_code == 0:
                point = TimePoint(
                    offset=answer.end_offset, timestamp_ms=as_of_ms, source="epoch_end", leader_epoch=asked[key]
                )
                found.setdefault(key, []).append(point)
    return found
