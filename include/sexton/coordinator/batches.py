"""The record batch of one append by a coordinator; its bytes before compression are exactly Kafka's.

Follows CoordinatorRuntime.append (Kafka 4.x), GroupMetadataManager.storeOffsets and storeGroup (0.9 to 3.9) and
KafkaApis.producerRequestFromOffsetCommit (0.8.2). A 4.x coordinator may put the records of several requests into one
batch (group.coordinator.append.linger.ms); here the request is alone in its batch.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from sexton.coordinator.profile import Profile
from sexton.log import codec as codecs
from sexton.log.batch import encode_batch
from sexton.log.entry import NO_PRODUCER_ID
from sexton.log.message_set import encode_message_set

MAX_BATCH_BYTES = 1_048_588
"""Kafka's default of max.message.bytes."""
NO_PRODUCER_EPOCH = -1
_BASE_OFFSET_BYTES = 8
_ENTRY_SIZE = struct.Struct(">i")
BATCH_FORMAT = 2
"""The record format that has batches, and so transactions (KIP-98, Kafka 0.11)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Settings of the broker and of the offsets topic that determine a batch; the defaults are Kafka's."""

    codec: int = codecs.NONE
    """offsets.topic.compression.codec."""
    message_format: int | None = None
    """message.format.version of the topic, as magic; None for the newest that the release writes."""
    max_message_bytes: int = MAX_BATCH_BYTES

    def magic(self, profile: Profile) -> int:
        """The record format that the release appends in."""
        return profile.record_format if self.message_format is None else self.message_format


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of the log, where the batch is appended."""

    log_offset: int = 0
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """The producer of a batch in a transaction; none by default."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


NOBODY = Producer()
KAFKA_DEFAULTS = TopicSettings()
EMPTY_LOG = LogEnd()


def encode_append(
    records: Sequence[tuple[bytes, bytes | None]],
    *,
    profile: Profile,
    topic: TopicSettings,
    end: LogEnd,
    now_ms: int,
    base_sequence: int,
    producer: Producer = NOBODY,
) -> bytes:
    """The bytes of the log from `end` on after the append of `records`, (key, value) each, in this order.

    A batch of format 2; up to 0.10 a message set, where each record is a message, unless one compressed message wraps
    them all. Compressed bytes come from this machine's libraries, not from Kafka's: they inflate to the same content.
    """
    magic = topic.magic(profile)
    if magic < BATCH_FORMAT:
        return encode_message_set(
            records, base_offset=end.log_offset, magic=magic, timestamp_ms=now_ms, codec=topic.codec
        )
    return encode_batch(
        records,
        base_offset=end.log_offset,
        timestamp_ms=now_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=end.leader_epoch,
        codec=topic.codec,
        transactional=producer.producer_id != NO_PRODUCER_ID,
    )


def largest_entry_bytes(data: bytes) -> int:
    """The size of the largest batch, or of the largest message of a message set, which max.message.bytes limits."""
    largest = at = 0
    while at < len(data):
        (size,) = _ENTRY_SIZE.unpack_from(data, at + _BASE_OFFSET_BYTES)
        entry_bytes = _BASE_OFFSET_BYTES + _ENTRY_SIZE.size + size
        largest, at = max(largest, entry_bytes), at + entry_bytes
    return largest
