"""Reads and writes message formats v0 and v1, in which brokers before 0.11 wrote the topic.

An entry is a single message or a compressed wrapper whose value is a message set. Follows Kafka's LegacyRecord and
AbstractLegacyRecordBatch (KIP-31 relative offsets, KIP-32 timestamps): inner offsets of v0 are absolute. Those of v1
are relative, and the wrapper's offset is the absolute offset of the last inner message.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence

from sexton.errors import LogError
from sexton.log import codec as codecs
from sexton.log.entry import CODEC_MASK, MAX_RAW_BYTES, NO_PRODUCER_ID, TIMESTAMP_TYPE_BIT, BadRecord, Batch, Record

NO_TIMESTAMP_MS = -1

_ENTRY = struct.Struct(">qiIbb")  # offset, size, CRC, magic, attributes
_ENTRY_OFFSET_AND_SIZE = struct.Struct(">qi")
_SMALLEST_MESSAGE_BYTES = (14, 22)  # per magic, after offset and size


def batch_of_entry(data: memoryview, *, position: int, crc_ok: bool) -> Batch:
    """The whole entry `data` as a batch with a record count of 1, or -1 for a wrapper, whose header does not have the
    count."""
    offset, _, _, magic, attributes = _ENTRY.unpack_from(data)
    (timestamp_ms,) = struct.unpack_from(">q", data, _ENTRY.size) if magic == 1 else (NO_TIMESTAMP_MS,)
    return Batch(
        position=position,
        size_bytes=len(data),
        base_offset=offset,
        last_offset=offset,
        leader_epoch=-1,
        magic=magic,
        attributes=attributes & 0xFF,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=-1 if attributes & CODEC_MASK else 1,
        crc_ok=crc_ok,
        data=data,
    )


def read_entry(batch: Batch, *, cap_bytes: int) -> Iterator[Record | BadRecord]:
    """The messages of an entry in order; never raises."""
    try:
        key, value = _key_and_value(batch.data, batch.magic)
        if batch.codec == codecs.NONE:
            yield Record(log_offset=batch.base_offset, timestamp_ms=batch.max_timestamp_ms, key=key, value=value)
            return
        if value is None:
            raise LogError("malformed_record", "a compressed wrapper without a value")
        inner = memoryview(codecs.inflate(batch.codec, value, magic=batch.magic, cap_bytes=cap_bytes))
        base_offset = _inner_base_offset(batch, inner)
    except LogError as error:
        log_offset = batch.base_offset if batch.codec == codecs.NONE else None
        raw = bytes(batch.data[:MAX_RAW_BYTES]) if batch.codec == codecs.NONE else b""
        yield BadRecord(log_offset=log_offset, reason=error.reason, detail=error.detail, raw=raw)
        return
    yield from _read_inner(batch, inner, base_offset=base_offset)


def _key_and_value(message: memoryview, magic: int) -> tuple[bytes | None, bytes | None]:
    """Key and value of a whole message, offset and size included; raises LogError when its fields do not fill it."""
    at = _ENTRY.size + (8 if magic == 1 else 0)
    fields: list[bytes | None] = []
    for name in ("key", "value"):
        if at + 4 > len(message):
            raise LogError("malformed_record", f"a message of {len(message)} bytes ends before its {name}")
        (size,) = struct.unpack_from(">i", message, at)
        at += 4
        if size > len(message) - at:
            raise LogError("malformed_record", f"a {name} of {size} bytes where {len(message) - at} are left")
        fields.append(None if size < 0 else bytes(message[at : at + size]))
        at += max(size, 0)
    if at != len(message):
        raise LogError("malformed_record", f"{len(message) - at} bytes are left after the value")
    return fields[0], fields[1]


def _inner_messages(inner: memoryview) -> Iterator[memoryview]:
    """The messages of an inflated message set; raises LogError at the first one with an implausible size."""
    at = 0
    while at < len(inner):
        if at + _ENTRY.size > len(inner):
            raise LogError("malformed_record", f"an inner message set ends in {len(inner) - at} loose bytes")
        _, size, _, magic, _ = _ENTRY.unpack_from(inner, at)
        end = at + _ENTRY_OFFSET_AND_SIZE.size + size
        if magic not in (0, 1) or size < _SMALLEST_MESSAGE_BYTES[magic] or end > len(inner):
            raise LogError("malformed_record", f"an inner message of magic {magic} and {size} bytes at byte {at}")
        yield inner[at:end]
        at = end


def _inner_base_offset(batch: Batch, inner: memoryview) -> int:
    """The number to add to the inner offsets of a wrapper, which makes them log_offsets."""
    last_inner: int | None = None
    try:
        for message in _inner_messages(inner):
            (last_inner,) = struct.unpack_from(">q", message)
    except LogError:
        pass  # reported when the messages are read; the last offset before the bad message is used
    if last_inner is None:
        raise LogError("malformed_record", "a compressed wrapper with no message inside")
    if batch.magic == 0 or batch.base_offset == 0:  # as a producer sent it, never renumbered by a broker
        return 0
    if last_inner > batch.base_offset or last_inner < 0:
        raise LogError(
            "malformed_record", f"wrapper offset {batch.base_offset} is less than the last inner offset {last_inner}"
        )
    return batch.base_offset - last_inner


def _read_inner(batch: Batch, inner: memoryview, *, base_offset: int) -> Iterator[Record | BadRecord]:
    log_offset: int | None = None
    at = 0
    try:
        for message in _inner_messages(inner):
            at += len(message)
            offset, _, _, magic, attributes = _ENTRY.unpack_from(message)
            before, log_offset = log_offset, base_offset + offset
            try:
                if magic != batch.magic or attributes & CODEC_MASK:
                    raise LogError("malformed_record", f"an inner message of magic {magic}, attributes {attributes}")
                if not (-1 if before is None else before) < log_offset <= batch.last_offset:
                    detail = f"inner offset {log_offset} after {before} of {batch.last_offset}"
                    raise LogError("malformed_record", detail)
                key, value = _key_and_value(message, magic)
            except LogError as error:
                raw = bytes(message[:MAX_RAW_BYTES])
                yield BadRecord(log_offset=None, reason=error.reason, detail=error.detail, raw=raw)
                continue
            timestamp_ms = _inner_timestamp_ms(batch, message)
            yield Record(log_offset=log_offset, timestamp_ms=timestamp_ms, key=key, value=value)
    except LogError as error:
        yield BadRecord(
            log_offset=None, reason=error.reason, detail=error.detail, raw=bytes(inner[at : at + MAX_RAW_BYTES])
        )


def _inner_timestamp_ms(batch: Batch, message: memoryview) -> int:
    if batch.magic == 0 or batch.is_log_append_time:
        return batch.max_timestamp_ms  # LogAppendTime: the wrapper's timestamp overrides the message's
    (timestamp_ms,) = struct.unpack_from(">q", message, _ENTRY.size)
    return int(timestamp_ms)


def encode_message(
    key: bytes | None,
    value: bytes | None,
    *,
    offset: int,
    magic: int,
    timestamp_ms: int = NO_TIMESTAMP_MS,
    codec: int = codecs.NONE,
    log_append_time: bool = False,
) -> bytes:
    """One entry of a message set; with a `codec` it is a wrapper, and `value` is a message set that is already
    compressed."""
    body = struct.pack(">bb", magic, codec | (TIMESTAMP_TYPE_BIT if log_append_time else 0))
    body += struct.pack(">q", timestamp_ms) if magic == 1 else b""
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def encode_message_set(
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    base_offset: int,
    magic: int,
    timestamp_ms: int = NO_TIMESTAMP_MS,
    codec: int = codecs.NONE,
) -> bytes:
    """(key, value) records as a broker of that format stores them: one entry each, or one wrapper around all."""
    inner_base = 0 if codec != codecs.NONE and magic == 1 else base_offset
    messages = b"".join(
        encode_message(key, value, offset=inner_base + number, magic=magic, timestamp_ms=timestamp_ms)
        for number, (key, value) in enumerate(records)
    )
    if codec == codecs.NONE:
        return messages
    value, last = codecs.deflate(codec, messages, magic=magic), base_offset + len(records) - 1
    return encode_message(None, value, offset=last, magic=magic, timestamp_ms=timestamp_ms, codec=codec)
