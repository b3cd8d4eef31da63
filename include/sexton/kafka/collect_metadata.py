"""Cluster metadata that a snapshot records with the log: topics with ids and offsets, and the brokers' settings."""

from dataclasses import dataclass
from typing import Any

from sexton.archive.cluster_metadata import ClusterMetadata
from sexton.kafka.broker_settings import DELETE_RETENTION, MAX_MESSAGE_BYTES, OF_APPENDS, reported_settings
from sexton.kafka.rights import sees_all_topics
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    UNKNOWN_ID,
    LiveCluster,
    Topic,
    describe_cluster,
    list_offsets,
)

UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """Where one log partition begins and ends, and who leads it."""

    log_partition: int
    leader: int
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int


def collect_metadata(
    session: ClusterSession, *, offsets_topic: Topic, taken_at_ms: int
) -> tuple[ClusterMetadata, list[str]]:
    """Everything that a run needs to know about the cluster except its log, and warnings about what was not read."""
    cluster = describe_cluster(session)
    reported, warnings = reported_settings(session, offsets_topic.name)
    sees_all = sees_all_topics(session)
    if not sees_all:
        acl = session.missing_acl("TOPIC_AUTHORIZATION_FAILED", "Metadata")
        warnings.append(f"not every topic can be seen, so none is considered deleted: {acl}")
    elif not cluster.is_whole:
        warnings.append("some topics are being created or deleted, or have no leader: none is considered deleted")
    record = ClusterMetadata(
        taken_at_ms=taken_at_ms,
        cluster_id=cluster.cluster_id,
        broker_version=session.broker_version,
        settings=reported.broker,
        topic_id=offsets_topic.topic_id or UNKNOWN_ID,
        partition_count=len(offsets_topic.leaders),
        topics=_topic_rows(session, cluster),
        delete_retention_ms=_number(reported.topic.get(DELETE_RETENTION)),
        max_message_bytes=_number(reported.topic.get(MAX_MESSAGE_BYTES)),
        sees_all_topics=sees_all and cluster.is_whole,
        topic_settings={name: reported.topic[name] for name in OF_APPENDS if name in reported.topic},
        brokers_differ=reported.brokers_differ,
    )
    return record, warnings


def log_ends(session: ClusterSession, topic: Topic) -> list[LogEnds]:
    """Start and end of every partition that has a leader, in order of partitions."""
    starts = list_offsets(session, [topic], timestamp=EARLIEST)
    ends = list_offsets(session, [topic], timestamp=LATEST)
    stable = list_offsets(session, [topic], timestamp=LATEST, isolation=READ_COMMITTED)
    return [
        LogEnds(
            log_partition=partition,
            leader=leader.node_id,
            leader_epoch=leader.epoch,
            log_start_offset=starts[topic.name, partition],
            high_watermark=ends[topic.name, partition],
            last_stable_offset=stable[topic.name, partition],
        )
        for partition, leader in topic.leaders.items()
        if (topic.name, partition) in starts and (topic.name, partition) in ends and (topic.name, partition) in stable
    ]


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _topic_rows(session: ClusterSession, cluster: LiveCluster) -> list[dict[str, Any]]:
    """One row per topic, by name: {"topic", "id", "partitions": [[log start, log end], ...]}; -1 is an unknown
    offset."""
    topics = [cluster.topics[name] for name in sorted(cluster.topics)]
    starts = list_offsets(session, topics, timestamp=EARLIEST)
    ends = list_offsets(session, topics, timestamp=LATEST)
    return [
        {
            "topic": topic.name,
            "id": topic.topic_id,
            "partitions": [
                [starts.get((topic.name, partition), UNKNOWN_OFFSET), ends.get((topic.name, partition), UNKNOWN_OFFSET)]
                for partition in topic.leaders
            ],
        }
        for topic in topics
    ]
