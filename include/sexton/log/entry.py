"""Types for the entries of a segment (batches, damage between them, a torn tail) and for the records of a batch.

The names and the header fields are those of Kafka's DefaultRecordBatch (record format v2, KIP-98). An entry of the
older message formats v0 and v1 (KIP-32) is a `Batch` too: a single message, or a compressed wrapper of many.
"""

from dataclasses import dataclass
from typing import Literal, get_args

NO_PRODUCER_ID = -1
# Positions of header fields, in bytes from the start of the batch. Base offset (0), size and magic: in every format.
SIZE_AT, LEADER_EPOCH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, BASE_TIMESTAMP_AT = 8, 12, 16, 17, 21, 23, 27
MAX_TIMESTAMP_AT, PRODUCER_ID_AT, PRODUCER_EPOCH_AT, COUNT_AT, HEADER_BYTES = 35, 43, 51, 57, 61
TOMBSTONE_OVERHEAD_BYTES = 5 + 1 + 10 + 5 + 5 + 1 + 1
"""The largest size of a tombstone without its key: length, attributes, deltas, key size, no value, no headers."""
LEGACY_CRC_AT, LEGACY_ATTRIBUTES_AT, LEGACY_TIMESTAMP_AT = 12, 17, 18
CODEC_MASK = 0x07
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CodecName = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: tuple[CodecName, ...] = get_args(CodecName)
"""Codec names by number, as in a batch's attributes and in offsets.topic.compression.codec."""
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
BATCH_HEAD_BYTES = 12
"""Fewer bytes than this at the end of a segment are not a batch head: a broker ignores them."""
MAX_RAW_BYTES = 1 << 20
"""Bytes of a bad record that are kept: about the largest batch that a broker accepts (message.max.bytes)."""
MAX_BAD_RECORDS = 100
"""After this many bad records the rest of a batch is not read: a few kilobytes can inflate to tens of millions of them,
and a coordinator stops loading at the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a batch; a `value` of None is a tombstone."""

    log_offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """Bytes of a batch that are not a record, or a batch without a readable record (`raw` is then empty).

    `log_offset` is None where it is not known. `reason` is a code of the table undecodable_records, `raw` at most the
    first MAX_RAW_BYTES: the content of a decompression bomb must not be in memory twice.
    """

    log_offset: int | None
    reason: str
    detail: str
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A record batch whose frame is complete; its records may still be bad.

    `position` and `size_bytes` locate it in the bytes that were read; `data` is the whole batch with its header.
    Message formats v0 and v1 have fewer fields: `base_offset` is then the entry's own offset (for a wrapper, that of
    its last record), `record_count` is -1 for a wrapper, and epochs, sequence and producer are -1, as is the timestamp
    of v0.
    """

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    crc_ok: bool
    data: memoryview

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        """The transactional bit, which coordinators of Kafka 2.x and 3.x check; 4.x checks `producer_id` instead."""
        return self.magic >= 2 and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_log_append_time(self) -> bool:
        return self.magic >= 1 and bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def next_offset(self) -> int:
        """The log_offset after this batch, also where compaction left fewer records or none."""
        return self.last_offset + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Bytes between batches that are not a batch, or a batch out of order; a row of undecodable_records."""

    position: int
    size_bytes: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TornTail:
    """A last batch that was not written to its end, or a tail of zeros: brokers leave both, and they are not damage."""

    position: int
    size_bytes: int
