"""Asks the cluster for its clock, for max.message.bytes of a topic and for offsets.retention.minutes.

Verdicts and writes need these values. Only the active controller reports its clock, in DescribeQuorum (KIP-836). The
clocks of brokers show in the timestamps that they wrote.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kafka.protocol.admin import DescribeQuorumRequest

from sexton.errors import BrokerError
from sexton.kafka.broker_settings import BROKER, MAX_MESSAGE_BYTES, RETENTION_MINUTES, TOPIC, Resource, described
from sexton.kafka.failures import TransientError
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import Topic, ask_offsets, requests_to_leaders
from sexton.topics import METADATA_TOPIC

NEWEST_STAMP = -3
"""Timestamp in ListOffsets that asks for the record with the largest timestamp (KIP-734)."""
_WITH_TIMES = 1  # version of DescribeQuorum
_WITH_NEWEST_STAMP = 7  # version of ListOffsets

T = TypeVar("T")


def controller_time_ms(session: ClusterSession) -> int | None:
    """The clock of the active controller, in epoch ms; None without KRaft, and without the right to ask.

    Needs DESCRIBE on the cluster.
    """
    Data = DescribeQuorumRequest.TopicData  # noqa: N806 (a class)
    topics = [Data(topic_name=METADATA_TOPIC, partitions=[Data.PartitionData(partition_index=0)])]
    request = DescribeQuorumRequest(topics=topics, min_version=_WITH_TIMES)
    answer = session.retrying(lambda: _known(partial(session.call, request)))
    if answer is None or answer.error_code or not answer.topics:
        return None
    (found,) = answer.topics[0].partitions
    if found.error_code:
        return None
    times_ms: dict[int, int] = {voter.replica_id: voter.last_caught_up_timestamp for voter in found.current_voters}
    now_ms = times_ms.get(found.leader_id, -1)
    return now_ms if now_ms >= 0 else None


def newest_stamp_ms(session: ClusterSession, topic: Topic) -> int:
    """The largest record timestamp in a topic, of its partitions that have a leader; -1 if there is none.

    Also -1 where brokers do not support the request (before Kafka 3.0).
    """
    newest_ms = -1
    for node_id, asked in requests_to_leaders([topic], lambda _: [NEWEST_STAMP]):
        answers = _known(partial(ask_offsets, session, node_id, asked, min_version=_WITH_NEWEST_STAMP)) or ()
        newest_ms = max([newest_ms, *(found.timestamp for _, found in answers if not found.error_code)])
    return newest_ms


def max_message_bytes(session: ClusterSession, topic: str) -> int | None:
    """The topic's max.message.bytes; None where this principal may not see it."""
    return _number(session, MAX_MESSAGE_BYTES, (TOPIC, topic))


def retention_minutes(session: ClusterSession) -> int | None:
    """A broker's offsets.retention.minutes; None where this principal may not see it.

    Needs DESCRIBE_CONFIGS on the cluster. One broker is asked: in practice all brokers have the same value.
    """
    broker = session.broker_ids[0]
    return _number(session, RETENTION_MINUTES, (BROKER, str(broker)))


def _number(session: ClusterSession, name: str, resource: Resource) -> int | None:
    """One setting by DescribeConfigs; None where it is not reported."""
    (found,) = session.retrying(lambda: described(session, resource))
    return int(found.settings[name]) if name in found.settings else None


def _known(ask: Callable[[], T]) -> T | None:
    """The answer to a request that only newer releases support; None from an older broker."""
    try:
        return ask()
    except TransientError:
        raise
    except BrokerError:
        return None
