"""Record batches: read the batches of a segment and the records of a batch, and write batches of format v2.

This is the plain version, with an object per record. `kernels` reads the same bytes into columns and uses this module
for batches that it does not accept. Reading never raises: bad bytes become BadRecord, Damage or TornTail. Follows
Kafka's DefaultRecordBatch, DefaultRecord and ControlRecordType; formats v0 and v1 are in `message_set`.

Stricter than Kafka in one point: offset deltas must rise and stay within the batch (as Kafka always writes them), so
that the order of records in the log is the order of their log_offsets.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

from sexton.errors import LogError
from sexton.log import codec as codecs
from sexton.log import message_set
from sexton.log.crc import U8Array, as_u8, crc32c
from sexton.log.entry import (
    CONTROL_BIT,
    MAX_BAD_RECORDS,
    MAX_RAW_BYTES,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
    BadRecord,
    Batch,
    Damage,
    Record,
    TornTail,
)
from sexton.log.framing import (
    DAMAGE,
    GOOD,
    OUT_OF_ORDER,
    TOO_MANY_FALSE_STARTS,
    TORN,
    frames,
)
from sexton.log.varint import BadVarint, read_varint, read_varlong, write_varint

__all__ = [
    "BadRecord",
    "Batch",
    "Damage",
    "Record",
    "TornTail",
    "encode_batch",
    "marker_of",
    "read_batches",
    "read_frame",
    "read_records",
]

OUT_OF_ORDER_BATCH, SKIPPED_BYTES = "out_of_order", "skipped_bytes"
_UP_TO_CRC = struct.Struct(">qiibI")  # base offset, size of what follows, leader epoch, magic, CRC
# attributes, last offset delta, base and max timestamp, producer id and epoch, base sequence, record count
_AFTER_CRC = struct.Struct(">hiqqqhii")
_SIZE_END = 12
_MAGIC_END = 17
_SMALLEST_BODY = 14
_CRC_END = _UP_TO_CRC.size
_HEADER_BYTES = _CRC_END + _AFTER_CRC.size
_MARKER_KEY = struct.Struct(">hh")
_MARKERS: dict[int, Literal["COMMIT", "ABORT"]] = {0: "ABORT", 1: "COMMIT"}


def read_batches(
    data: bytes | bytearray | memoryview | U8Array, *, floor_offset: int = 0
) -> Iterator[Batch | Damage | TornTail]:
    """Everything in a segment, in order and without a gap; never raises.

    `floor_offset` is the smallest possible log_offset, for a segment the base offset in its file name. Batches with a
    bad CRC have `crc_ok` False.
    """
    view = as_u8(data)
    whole = view.data
    for rows in frames(view, floor_offset=floor_offset):
        for row in rows.tolist():
            yield read_frame(whole, row)


def read_frame(whole: memoryview, row: Sequence[int]) -> Batch | Damage | TornTail:
    """The batch, damage or torn tail at a row of `framing.scan` (KIND, POSITION, SIZE, WHY) in the segment `whole`."""
    kind, position, size_bytes, why = row
    if kind == TORN:
        return TornTail(position=position, size_bytes=size_bytes)
    if kind == DAMAGE:
        return _damage(whole, position=position, size_bytes=size_bytes, why=why)
    return _batch_at(whole, position=position, size_bytes=size_bytes, crc_ok=kind == GOOD)


def batch_in(data: bytes, damage: Damage) -> Batch:
    """The batch in a Damage with reason `out_of_order`: its CRC is good."""
    whole = memoryview(data)
    return _batch_at(whole, position=damage.position, size_bytes=damage.size_bytes, crc_ok=True)


def _damage(whole: memoryview, *, position: int, size_bytes: int, why: int) -> Damage:
    reason = SKIPPED_BYTES if _is_skipped(whole, position) else "malformed_batch"
    if why == OUT_OF_ORDER:
        reason = OUT_OF_ORDER_BATCH
        (base_offset,) = struct.unpack_from(">q", whole, position)
        detail = f"a batch of base offset {base_offset} at byte {position} is out of order with its neighbours"
    elif why == TOO_MANY_FALSE_STARTS:
        detail = f"{size_bytes} bytes from byte {position} on hold too many false beginnings of a batch to search on"
    else:
        detail = f"expected a batch at byte {position}; the next good one is {size_bytes} bytes on, or there is none"
    return Damage(position=position, size_bytes=size_bytes, reason=reason, detail=detail)


def _is_skipped(whole: memoryview, position: int) -> bool:
    """Whether a broker mistakes bytes that are not a batch for a batch that ends after the segment.

    If so, the broker continues with the next segment (ByteBufferLogInputStream.nextBatch,
    FileRecords.searchForOffsetFromPosition), else it throws. It does not read the size if fewer than 12 bytes are left,
    nor the magic if fewer than 17 are.
    """
    head = whole[position : position + _MAGIC_END]
    if len(head) < _SIZE_END:
        return True
    (body_bytes,) = struct.unpack_from(">i", head, _SIZE_END - 4)
    if body_bytes < _SMALLEST_BODY:
        return False
    if len(head) < _MAGIC_END:
        return True
    return head[_MAGIC_END - 1] <= 2 and position + _SIZE_END + body_bytes > len(whole)


def _batch_at(whole: memoryview, *, position: int, size_bytes: int, crc_ok: bool) -> Batch:
    data = whole[position : position + size_bytes]
    if data[16] < 2:
        return message_set.batch_of_entry(data, position=position, crc_ok=crc_ok)
    base_offset, _, leader_epoch, magic, _ = _UP_TO_CRC.unpack_from(data)
    attributes, last_delta, base_ms, max_ms, producer_id, producer_epoch, sequence, count = _AFTER_CRC.unpack_from(
        data, _CRC_END
    )
    return Batch(
        position=position,
        size_bytes=size_bytes,
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        leader_epoch=leader_epoch,
        magic=magic,
        attributes=attributes,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        record_count=count,
        crc_ok=crc_ok,
        data=data,
    )


def read_records(batch: Batch, *, cap_bytes: int) -> Iterator[Record | BadRecord]:
    """The records of `batch` in order; never raises, and never has more than `cap_bytes` of inflated bytes in memory.

    A batch that cannot be inflated yields one BadRecord without log_offset. If the bytes do not contain exactly
    `record_count` records, a BadRecord follows the readable ones. After MAX_BAD_RECORDS the rest of a batch is not
    read, and one more BadRecord says so.
    """
    read = message_set.read_entry if batch.magic < 2 else _read_batch
    bad_count = 0
    for record in read(batch, cap_bytes=cap_bytes):
        if isinstance(record, BadRecord):
            bad_count += 1
            if bad_count > MAX_BAD_RECORDS:
                detail = f"the rest of the batch is not decoded after {MAX_BAD_RECORDS} bad records"
                yield BadRecord(log_offset=None, reason="malformed_record", detail=detail, raw=b"")
                return
        yield record


def _read_batch(batch: Batch, *, cap_bytes: int) -> Iterator[Record | BadRecord]:
    if batch.record_count == 0:  # a producer's last batch, emptied by compaction: Kafka does not read the body either
        return
    body = batch.data[_HEADER_BYTES:]
    if batch.codec != codecs.NONE:
        try:
            body = memoryview(codecs.inflate(batch.codec, body, magic=batch.magic, cap_bytes=cap_bytes))
        except LogError as error:
            yield BadRecord(log_offset=None, reason=error.reason, detail=error.detail, raw=b"")
            return
    yield from _read_body(batch, body)


def _read_body(batch: Batch, body: memoryview) -> Iterator[Record | BadRecord]:
    pos, last_delta = 0, -1
    for index in range(batch.record_count):
        try:
            size, start = read_varint(body, pos, len(body))
            if not 0 <= size <= len(body) - start:
                raise BadVarint(f"{size} bytes announced where {len(body) - start} are left")
        except BadVarint as error:
            detail = f"record {index} of {batch.record_count} has no length: {error}"
            yield _malformed(detail, body[pos:])
            return
        pos = start + size
        record, delta = _read_record(batch, body, start=start, end=pos, after_delta=last_delta)
        last_delta = last_delta if delta is None else delta
        yield record
    if batch.record_count < 0:
        yield _malformed(f"a batch of {batch.record_count} records", body)
    elif pos < len(body):
        yield _malformed(f"{len(body) - pos} bytes are left after {batch.record_count} records", body[pos:])


def _malformed(detail: str, raw: memoryview, *, log_offset: int | None = None) -> BadRecord:
    kept = bytes(raw[:MAX_RAW_BYTES])
    return BadRecord(log_offset=log_offset, reason="malformed_record", detail=detail, raw=kept)


def _read_record(
    batch: Batch, body: memoryview, *, start: int, end: int, after_delta: int
) -> tuple[Record | BadRecord, int | None]:
    """Decode the record in bytes [start, end); return it and its offset delta, None where the delta is invalid."""
    delta: int | None = None
    last_delta = batch.last_offset - batch.base_offset
    try:
        timestamp_delta, pos = read_varlong(body, start + 1, end)  # after the attributes, which are unused
        offset_delta, pos = read_varint(body, pos, end)
        if not after_delta < offset_delta <= last_delta:
            raise BadVarint(f"offset delta {offset_delta}, not above {after_delta} and up to {last_delta}")
        delta = offset_delta
        key, pos = _read_bytes(body, pos, end)
        value, pos = _read_bytes(body, pos, end)
        pos = _skip_headers(body, pos, end)
        if pos != end:
            raise BadVarint(f"{end - pos} bytes are left after its last field")
    except BadVarint as error:
        log_offset = None if delta is None else batch.base_offset + delta
        return _malformed(str(error), body[start:end], log_offset=log_offset), delta
    timestamp_ms = batch.max_timestamp_ms if batch.is_log_append_time else batch.base_timestamp_ms + timestamp_delta
    record = Record(log_offset=batch.base_offset + delta, timestamp_ms=_as_int64(timestamp_ms), key=key, value=value)
    return record, delta


def _as_int64(value: int) -> int:
    """The value wrapped as a Java long, so that hostile deltas cannot produce a number too large for its column."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _read_bytes(body: memoryview, pos: int, end: int) -> tuple[bytes | None, int]:
    size, pos = read_varint(body, pos, end)
    if size < 0:
        return None, pos  # Kafka takes any negative size for null
    if size > end - pos:
        raise BadVarint(f"{size} bytes announced at byte {pos} where {end - pos} are left")
    return bytes(body[pos : pos + size]), pos + size


def _skip_headers(body: memoryview, pos: int, end: int) -> int:
    count, pos = read_varint(body, pos, end)
    if not 0 <= count <= end - pos:
        raise BadVarint(f"{count} headers announced at byte {pos} where {end - pos} bytes are left")
    for _ in range(count):
        name, pos = _read_bytes(body, pos, end)
        if name is None:
            raise BadVarint(f"a header without a name before byte {pos}")
        _, pos = _read_bytes(body, pos, end)
    return pos


class _Keyed(Protocol):
    @property
    def key(self) -> bytes | memoryview | None: ...


def marker_of(record: _Keyed) -> Literal["COMMIT", "ABORT"] | None:
    """A control record's marker for its producer's transaction; None for other control types.

    Raises LogError (malformed_control) for a key that Kafka's ControlRecordType.parse would not accept.
    """
    if record.key is None or len(record.key) < _MARKER_KEY.size:
        got = "no key" if record.key is None else f"a key of {len(record.key)} bytes"
        raise LogError("malformed_control", f"expected a control key of {_MARKER_KEY.size} bytes, got {got}")
    version, number = _MARKER_KEY.unpack_from(record.key)
    if version < 0:
        raise LogError("malformed_control", f"expected a control key of version 0 or later, got {version}")
    return _MARKERS.get(number)


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
) -> bytes:
    """A v2 batch of (key, value) records with one timestamp, byte for byte as Kafka writes it where the codec is
    NONE."""
    body = b"".join(_encode_record(key, value, offset_delta=number) for number, (key, value) in enumerate(records))
    if codec != codecs.NONE:
        body = codecs.deflate(codec, body)
    tail = _AFTER_CRC.pack(
        codec | (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0),
        len(records) - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    crc = crc32c(body, crc32c(tail))
    size_bytes = _CRC_END - _SIZE_END + len(tail) + len(body)
    return _UP_TO_CRC.pack(base_offset, size_bytes, leader_epoch, 2, crc) + tail + body


def _encode_record(key: bytes | None, value: bytes | None, *, offset_delta: int) -> bytes:
    body = b"\x00" + write_varint(0) + write_varint(offset_delta)  # no attributes, at the batch's timestamp
    for field in (key, value):
        body += write_varint(-1) if field is None else write_varint(len(field)) + field
    body += b"\x00"  # no headers
    return write_varint(len(body)) + body
