"""Batches and message sets that Sexton reads and never writes: with holes that compaction left, markers, broker stamps.

What both can write is the same byte for byte (tests/log/test_encoding.py).
"""

import struct
from collections.abc import Sequence

from sexton.log import codec as codecs
from sexton.log.crc import crc32c
from sexton.log.entry import CONTROL_BIT, NO_PRODUCER_ID, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT
from sexton.log.message_set import NO_TIMESTAMP_MS, encode_message
from sexton.log.varint import write_varint

_UP_TO_CRC = struct.Struct(">qiibI")  # base offset, size of what follows, leader epoch, magic, CRC
# attributes, last offset delta, base and max timestamp, producer id and epoch, base sequence, record count
_AFTER_CRC = struct.Struct(">hiqqqhii")
_SIZE_END = 12
_EMPTY_BATCH_TIMESTAMP_MS = -1

DELETE_HORIZON_BIT = 0x40


def encode_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    base_offset: int,
    timestamp_ms: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = 0,
    codec: int = codecs.NONE,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    delete_horizon_ms: int | None = None,
    offset_deltas: Sequence[int] | None = None,
    timestamp_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
) -> bytes:
    """A v2 batch of (key, value) records, byte for byte as Kafka writes it where the codec is NONE.

    `offset_deltas` and `last_offset_delta` make the holes that compaction leaves; no records at all make the empty
    batch it keeps for a producer. Record timestamps are `timestamp_ms` plus their delta, whatever the delete horizon.
    """
    at_deltas = list(offset_deltas) if offset_deltas is not None else list(range(len(records)))
    ms_deltas = list(timestamp_deltas) if timestamp_deltas is not None else [0] * len(records)
    first_ms = timestamp_ms if records else _EMPTY_BATCH_TIMESTAMP_MS
    base_ms = first_ms if delete_horizon_ms is None else delete_horizon_ms
    body = b"".join(
        _encode_record(key, value, offset_delta=at, timestamp_delta=timestamp_ms + ms - base_ms)
        for (key, value), at, ms in zip(records, at_deltas, ms_deltas, strict=True)
    )
    if codec != codecs.NONE:
        body = codecs.deflate(codec, body)
    attributes = codec | (TIMESTAMP_TYPE_BIT if log_append_time else 0) | (TRANSACTIONAL_BIT if transactional else 0)
    attributes |= (CONTROL_BIT if control else 0) | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
    last_delta = last_offset_delta if last_offset_delta is not None else (at_deltas[-1] if at_deltas else 0)
    max_ms = timestamp_ms + max(ms_deltas, default=0)
    ids = producer_id, producer_epoch, base_sequence
    tail = _AFTER_CRC.pack(attributes, last_delta, base_ms, max_ms, *ids, len(records))
    crc = crc32c(body, crc32c(tail))
    size_bytes = _UP_TO_CRC.size - _SIZE_END + len(tail) + len(body)
    return _UP_TO_CRC.pack(base_offset, size_bytes, leader_epoch, 2, crc) + tail + body


def _encode_record(key: bytes | None, value: bytes | None, *, offset_delta: int, timestamp_delta: int) -> bytes:
    body = b"\x00" + write_varint(timestamp_delta) + write_varint(offset_delta)
    for field in (key, value):
        body += write_varint(-1) if field is None else write_varint(len(field)) + field
    body += b"\x00"  # no headers
    return write_varint(len(body)) + body


def encode_marker(
    committed: bool,
    *,
    base_offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """The control batch that ends a transaction of `producer_id`, as the transaction coordinator has it written."""
    return encode_batch(
        [(struct.pack(">hh", 0, int(committed)), struct.pack(">hi", 0, coordinator_epoch))],
        base_offset=base_offset,
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )


def encode_message_set(
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    base_offset: int,
    magic: int,
    timestamp_ms: int = NO_TIMESTAMP_MS,
    codec: int = codecs.NONE,
    log_append_time: bool = False,
    offset_deltas: Sequence[int] | None = None,
) -> bytes:
    """(key, value) records as a broker of that format stores them: one entry each, or one wrapper around all."""
    deltas = list(offset_deltas) if offset_deltas is not None else list(range(len(records)))
    is_wrapped = codec != codecs.NONE
    inner_base = 0 if is_wrapped and magic == 1 else base_offset
    stamped = {"magic": magic, "timestamp_ms": timestamp_ms}
    own = stamped if is_wrapped else {**stamped, "log_append_time": log_append_time}
    messages = b"".join(
        encode_message(key, value, offset=inner_base + delta, **own)
        for (key, value), delta in zip(records, deltas, strict=True)
    )
    if not is_wrapped:
        return messages
    value = codecs.deflate(codec, messages, magic=magic)
    wrapper = {"offset": base_offset + deltas[-1], "codec": codec, "log_append_time": log_append_time}
    return encode_message(None, value, **wrapper, **stamped)
