"""Writes tombstones directly to the log, without the coordinator: for offsets that no coordinator deletes any more.

The coordinator of the log partition keeps serving its state in memory. A 4.x coordinator notices at its next write that
the log does not end where it left it, so it loads itself again (CoordinatorRuntime: "out of sync with the underlying
log"). Until then, requests that wait for their write to be committed may time out; that next write is answered
NOT_COORDINATOR though it is in the log. Older coordinators notice when the log partition gets another leader, or when
they restart.

One wrong byte can make it impossible for a coordinator to load, so this accepts only record batches of tombstones of
offsets (record types 0 and 1) of groups that belong to this log partition, without a producer id. Follows
KafkaApis.handleProduceRequest and LogValidator.
"""

from dataclasses import replace

from kafka.protocol.producer import ProduceRequest

from sexton.coordinator.partitioner import partition_of
from sexton.errors import BrokerError, Refused
from sexton.kafka.client import ClientConfig
from sexton.kafka.failures import AMBIGUOUS, TransientError, Unsettled, error_name
from sexton.kafka.session import ClusterSession, Connect
from sexton.kafka.tail import TailRecord, records_of
from sexton.kafka.topics import NO_LEADER, Topic, describe_topic
from sexton.log.batch import Batch, Damage, TornTail, read_batches
from sexton.records import OFFSET_TYPES, MalformedRecord, UnknownRecordType, decode_key
from sexton.topics import OFFSETS_TOPIC

ADMIN_CLIENT_ID = "__admin_client"
"""The only client id that may write to an internal topic (KafkaApis.handleProduceRequest)."""
ALL_REPLICAS = -1
PRODUCE_BY_NAME = 12
"""The last version with the topic's name: version 13 has only the topic's id."""
PRODUCE_TIMEOUT_MS = 15_000
NO_PRODUCER = -1
BASE_OFFSET_ZERO = bytes(8)
"""The base offset to send: the broker assigns offsets, and accepts no other base offset from a client
(UnifiedLog.analyzeAndValidateRecords)."""


def append_tombstones(
    config: ClientConfig, log_partition: int, batches: bytes, *, connect: Connect = ClusterSession
) -> int:
    """Append record batches, one Produce with acks=all for each; return the log_offset of the first batch.

    `batches` come from `coordinator.tombstones.encode_batches`, with rising base offsets, which the broker replaces.
    Their timestamps must not be ahead of the broker's clock by more than an hour. Raises Refused for anything but
    tombstones of offsets of this log partition, NotAllowed without WRITE on the topic, BrokerError when the broker
    refuses a batch, Unsettled when a batch may have been appended. If the broker answered, the messages of the last two
    give the number of batches that were appended before that batch.
    """
    framed = list(read_batches(batches))
    with connect(replace(config, client_id=ADMIN_CLIENT_ID)) as session:
        topic = describe_topic(session, OFFSETS_TOPIC, call="Produce")
        good = _offset_tombstones(framed, log_partition=log_partition, partition_count=len(topic.leaders))
        log_offsets = [_append(session, topic, log_partition, batch, before=n) for n, batch in enumerate(good)]
    return log_offsets[0]


def _append(session: ClusterSession, topic: Topic, log_partition: int, batch: bytes, *, before: int) -> int:
    place = f"{topic.name}-{log_partition} on {session.config.bootstrap_servers}"
    before_text = f"; {before} batches were appended before" if before else ""
    Data = ProduceRequest.TopicProduceData  # noqa: N806 (a class)
    partition = Data.PartitionProduceData(index=log_partition, records=batch)
    request = ProduceRequest(
        transactional_id=None,
        acks=ALL_REPLICAS,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=[Data(name=topic.name, partition_data=[partition])],
        max_version=PRODUCE_BY_NAME,
    )

    def ask() -> int:
        leader = describe_topic(session, OFFSETS_TOPIC, call="Produce").leaders[log_partition]
        if leader.node_id == NO_LEADER:
            raise TransientError(f"log partition {log_partition} has no leader", where=session.config.bootstrap_servers)
        answer = session.call_once(request, node_id=leader.node_id)
        found = answer.responses[0].partition_responses[0]
        if not found.error_code:
            base_offset: int = found.base_offset
            return base_offset
        name = error_name(found.error_code)
        if name in AMBIGUOUS:
            what = f"the broker answered {name}: whether the batch was appended is not known{before_text}"
            raise Unsettled(what, where=place, fix="read the log's tail before trying again")
        if name == "TOPIC_AUTHORIZATION_FAILED":
            session.check(found.error_code, "Produce", where=place, topic=topic.name)
        raise BrokerError(f"refused: {name} {found.error_message or ''}{before_text}", where=place)

    return session.retrying(ask)


def _offset_tombstones(
    framed: list[Batch | Damage | TornTail], *, log_partition: int, partition_count: int
) -> list[bytes]:
    """The batches to send; Refused when a batch must not be sent."""
    place = f"log partition {log_partition}"
    if log_partition not in range(partition_count):
        raise Refused(f"there are {partition_count} log partitions", where=place)
    if not framed:
        raise Refused("no record batch to append", where=place)
    sound = []
    for batch in framed:
        if not isinstance(batch, Batch) or not batch.crc_ok or batch.magic != 2:
            raise Refused(f"the bytes at {batch.position} are not a record batch of format 2", where=place)
        if batch.producer_id != NO_PRODUCER or batch.is_transactional or batch.is_control:
            raise Refused("a batch with a producer id: its values would stay pending for ever", where=place)
        for record in records_of(bytes(batch.data)):
            if why := _why_not(record, log_partition=log_partition, partition_count=partition_count):
                raise Refused(f"record {record.log_offset} {why}", where=place)
        sound.append(BASE_OFFSET_ZERO + bytes(batch.data[len(BASE_OFFSET_ZERO) :]))
    return sound


def _why_not(record: TailRecord, *, log_partition: int, partition_count: int) -> str | None:
    """Why a record must not be appended; None for a tombstone of an offset that belongs to this log partition."""
    if record.value is not None:
        return "is not a tombstone"
    try:
        record_type, key = decode_key(record.key or b"")
    except (MalformedRecord, UnknownRecordType) as error:
        return f"has a key that cannot be read: {error}"
    if record_type not in OFFSET_TYPES:
        return f"has type {record_type}, which is not an offset's"
    own = partition_of(key.group_id, partition_count)
    return None if own == log_partition else f"belongs to a group of log partition {own}"
