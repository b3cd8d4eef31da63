"""Asks the brokers for their clock, for max.message.bytes of a topic and for offsets.retention.minutes.

Verdicts and writes need them. Only one broker reports its clock: the leader of the controllers, with the quorum
(KIP-836). The clocks of the others show in the timestamps that they wrote.
"""

from typing import Any

from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.consumer import ListOffsetsRequest

from sexton.errors import BrokerError
from sexton.kafka.configs import BROKER, MAX_MESSAGE_BYTES, RETENTION_MINUTES, TOPIC, Resource, described
from sexton.kafka.failures import TransientError
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import ORDINARY_CONSUMER, READ_UNCOMMITTED, Topic, by_leader, offset_topics

METADATA_LOG = "__cluster_metadata"
NEWEST_STAMP = -3
"""Asks for the record with the largest timestamp (KIP-734)."""
_WITH_TIMES = 1  # version of DescribeQuorum
_WITH_NEWEST_STAMP = 7  # version of ListOffsets


def controller_time_ms(session: ClusterSession) -> int | None:
    """The clock of the leader of the controllers; None without KRaft, and where this principal may not ask for it.

    It takes DESCRIBE on the cluster.
    """
    Data = DescribeQuorumRequest.TopicData  # noqa: N806 (a class)
    topics = [Data(topic_name=METADATA_LOG, partitions=[Data.PartitionData(partition_index=0)])]
    request = DescribeQuorumRequest(topics=topics, min_version=_WITH_TIMES)
    answer = session.retrying(lambda: _known(session, request))
    if answer is None or answer.error_code or not answer.topics:
        return None
    (found,) = answer.topics[0].partitions
    if found.error_code:
        return None
    times_ms: dict[int, int] = {voter.replica_id: voter.last_caught_up_timestamp for voter in found.current_voters}
    now_ms = times_ms.get(found.leader_id, -1)
    return now_ms if now_ms >= 0 else None


def newest_stamp_ms(session: ClusterSession, topic: Topic) -> int:
    """The largest timestamp of a record in any partition of a topic that has a leader; -1 for none.

    Also -1 where brokers do not know the request (before Kafka 3.0).
    """
    newest_ms = -1
    for node_id, partitions in by_leader([topic]).items():
        request = ListOffsetsRequest(
            replica_id=ORDINARY_CONSUMER,
            isolation_level=READ_UNCOMMITTED,
            topics=offset_topics(partitions, NEWEST_STAMP),
            min_version=_WITH_NEWEST_STAMP,
        )
        answer = _known(session, request, node_id=node_id)
        for found in answer.topics[0].partitions if answer is not None else ():
            newest_ms = max(newest_ms, found.timestamp if not found.error_code else -1)
    return newest_ms


def max_message_bytes(session: ClusterSession, topic: str) -> int | None:
    """The topic's max.message.bytes; None where this principal may not see it."""
    return _number(session, MAX_MESSAGE_BYTES, (TOPIC, topic))


def retention_minutes(session: ClusterSession) -> int | None:
    """A broker's offsets.retention.minutes; None where this principal may not see it.

    It takes DESCRIBE_CONFIGS on the cluster. One broker is asked: they are the cluster's in practice.
    """
    broker = session.broker_ids[0]
    return _number(session, RETENTION_MINUTES, (BROKER, str(broker)))


def _number(session: ClusterSession, name: str, resource: Resource) -> int | None:
    """One setting by DescribeConfigs; None where it is not reported."""
    (found,) = session.retrying(lambda: described(session, resource))
    return int(found.settings[name]) if name in found.settings else None


def _known(session: ClusterSession, request: Any, *, node_id: int | None = None) -> Any:
    """The answer to a request that only some releases know; None from one that does not."""
    try:
        return session.call(request, node_id=node_id)
    except TransientError:
        raise
    except BrokerError:
        return None
