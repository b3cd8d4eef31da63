"""Encodes the record batches of planned tombstones from whole columns, to the same bytes as
`coordinator.tombstones.encode_batches`.

The plain version needs several Python objects for each record, which is too slow for a plan of a million tombstones.
Compiled code divides the keys into batches and writes records and headers; `log.codec` compresses, batch by batch.
Record formats 0 and 1, which have no batches, are left to the plain version.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value"

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sexton.coordinator.batches import BATCH_FORMAT, MAX_BATCH_BYTES, LogEnd, TopicSettings, encode_append
from sexton.coordinator.profile import Profile
from sexton.coordinator.tombstones import encode_batches
from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import copy_bytes, pointer, same_bytes
from sexton.kernels.columns import value_spans
from sexton.kernels.layout import Bytes, Int64s, sealed
from sexton.log import codec as codecs
from sexton.log.batch import Batch, read_batches
from sexton.log.crc import as_u8, crc32c_of
from sexton.log.entry import HEADER_BYTES, TOMBSTONE_OVERHEAD_BYTES

_SIZE_AT, _SIZE_END, _CRC_AT, _CRC_END, _LAST_DELTA_AT, _COUNT_AT = 8, 12, 17, 21, 23, 57
_FIXED_BYTES = 1 + 1 + 1 + 1  # of a record: attributes, timestamp delta of 0, no value, no headers
_NO_ENDS = sealed(np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedBatches:
    """Record batches one after the other, and the size of each.

    Uncompressed messages of record formats 0 and 1 count as a batch each. `last_row` is the first row of the last
    batch; that batch could change if more rows followed.
    """

    data: bytes
    sizes: list[int]
    last_row: int = 0

    def without_last(self) -> "EncodedBatches":
        """All batches but the last."""
        return EncodedBatches(data=self.data[: sum(self.sizes[:-1])], sizes=self.sizes[:-1])


def encode_tombstone_batches(
    group_ids: pa.Array | pa.ChunkedArray,
    keys: pa.Array | pa.ChunkedArray,
    *,
    base_offset: int,
    as_of_ms: int,
    profile: Profile,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    codec: int = codecs.NONE,
    magic: int | None = None,
) -> EncodedBatches:
    """Batches of tombstones as the profile's coordinator writes them, with offsets from `base_offset` on.

    For each record `group_ids` (string) has the group and `keys` (binary) the key; ValueError if a group or a key is
    NULL or missing. The other parameters are those of `coordinator.tombstones.encode_batches`.
    """
    if len(group_ids) != len(keys) or group_ids.null_count or keys.null_count:
        raise ValueError(f"expected a group and a key for each record, got {len(group_ids)} and {len(keys)} or NULL")
    topic = TopicSettings(codec=codec, message_format=magic)
    if topic.magic(profile) < BATCH_FORMAT:
        data = encode_batches(
            list(zip(group_ids.to_pylist(), keys.to_pylist(), strict=True)),
            base_offset=base_offset,
            as_of_ms=as_of_ms,
            profile=profile,
            max_batch_bytes=max_batch_bytes,
            codec=codec,
            magic=magic,
        )
        found = [batch.size_bytes for batch in read_batches(data) if isinstance(batch, Batch)]
        return EncodedBatches(data=data, sizes=found)
    if not len(keys):
        return EncodedBatches(data=b"", sizes=[])
    ends, key_bytes = value_spans(keys)
    group_ends, group_bytes = value_spans(group_ids) if profile.batch_per_group else (_NO_ENDS, key_bytes)
    firsts, sizes = np.empty(len(keys) + 1, np.int64), np.empty(len(keys), np.int64)
    count = _divide(ends, group_ends, group_bytes, max_batch_bytes, firsts, sizes)
    firsts, sizes = firsts[: count + 1], sizes[:count]
    out = np.empty(int(sizes.sum()), np.uint8)
    _write_records(ends, key_bytes, firsts, out)
    header = _header(profile, topic, log_offset=base_offset + int(firsts[-2]), as_of_ms=as_of_ms)
    if codec != codecs.NONE:
        out, sizes = _deflated(out, sizes, codec)
    _write_headers(firsts, sizes, header, base_offset, out)
    return EncodedBatches(data=out.tobytes(), sizes=sizes.tolist(), last_row=int(firsts[-2]))


def _header(profile: Profile, topic: TopicSettings, *, log_offset: int, as_of_ms: int) -> Bytes:
    """The header fields that all batches share; base offset, size, counts and CRC are set for each batch.

    `log_offset` is the base offset of the last batch: an impossible offset raises an error, as in the plain version.
    """
    end, sequence = LogEnd(log_offset=log_offset), profile.base_sequence
    one = encode_append([(b"", None)], profile=profile, topic=topic, end=end, now_ms=as_of_ms, base_sequence=sequence)
    return as_u8(one[:HEADER_BYTES])


def _deflated(plain: Bytes, sizes: Int64s, codec: int) -> tuple[Bytes, Int64s]:
    """The batches with their records compressed; still without headers."""
    no_header, ends = bytes(HEADER_BYTES), [0, *np.cumsum(sizes).tolist()]
    parts = [
        no_header + codecs.deflate(codec, plain[start + HEADER_BYTES : end].tobytes()) for start, end in pairwise(ends)
    ]
    return np.frombuffer(bytearray().join(parts), np.uint8), np.array([len(part) for part in parts], np.int64)


@compiled
def _divide(ends: Any, group_ends: Any, group_bytes: Any, max_batch_bytes: int, firsts: Any, sizes: Any) -> int:
    """Fill in the first row and the size of each batch; return the number of batches. After the last batch, `firsts`
    has the number of rows.

    A batch ends before the row with which the upper bound of its size would exceed `max_batch_bytes` and, if there are
    `group_ends`, where the group changes.
    """
    count, first, bound = 0, 0, 0
    groups = pointer(group_bytes)
    for row in range(len(ends) - 1):
        key_size = ends[row + 1] - ends[row]
        most = key_size + TOMBSTONE_OVERHEAD_BYTES
        if row == 0 or bound + most > max_batch_bytes or _is_of_another_group(group_ends, groups, row):
            first, bound = row, HEADER_BYTES
            firsts[count], sizes[count] = first, HEADER_BYTES
            count += 1
        bound += most
        record_size = _record_size(key_size, row - first)
        sizes[count - 1] += _varint_size(record_size) + record_size
    firsts[count] = len(ends) - 1
    return count


@inlined
def _is_of_another_group(ends: Any, data: Any, row: int) -> bool:
    """Whether the group of a row differs from the previous row's."""
    if len(ends) == 0:
        return False
    start, end = ends[row], ends[row + 1]
    before = ends[row - 1]
    return end - start != start - before or not same_bytes(data, before, data, start, end - start)


@compiled
def _write_records(ends: Any, keys: Any, firsts: Any, out: Any) -> None:
    """Write the records of all batches, and leave space for the header of each."""
    source, target = pointer(keys), pointer(out)
    at = 0
    for batch in range(len(firsts) - 1):
        at += HEADER_BYTES
        for row in range(firsts[batch], firsts[batch + 1]):
            delta = row - firsts[batch]
            key_size = ends[row + 1] - ends[row]
            at = _write_varint(target, at, _record_size(key_size, delta))
            target[at] = np.uint8(0)  # attributes
            target[at + 1] = np.uint8(0)  # timestamp delta
            at = _write_varint(target, at + 2, delta)
            at = _write_varint(target, at, key_size)
            copy_bytes(target, at, source, ends[row], key_size)
            at += key_size
            target[at] = np.uint8(1)  # a value of size -1: none
            target[at + 1] = np.uint8(0)  # headers
            at += 2


@compiled
def _write_headers(firsts: Any, sizes: Any, header: Any, base_offset: int, out: Any) -> None:
    """Write each batch's header: a copy of `header` with base offset, size, counts and CRC."""
    source, target = pointer(header), pointer(out)
    at = 0
    for batch in range(len(sizes)):
        size, count = sizes[batch], firsts[batch + 1] - firsts[batch]
        copy_bytes(target, at, source, 0, HEADER_BYTES)
        write_number(target, at, base_offset + firsts[batch], 8)
        write_number(target, at + _SIZE_AT, size - _SIZE_END, 4)
        write_number(target, at + _LAST_DELTA_AT, count - 1, 4)
        write_number(target, at + _COUNT_AT, count, 4)
        write_number(target, at + _CRC_AT, np.int64(crc32c_of(target, at + _CRC_END, at + size)), 4)
        at += size


@inlined
def _record_size(key_size: int, offset_delta: int) -> int:
    """The size of a record, without the varint that states this size."""
    return _FIXED_BYTES + _varint_size(offset_delta) + _varint_size(key_size) + key_size


@inlined
def _varint_size(value: int) -> int:
    """The size of a non-negative number as a zigzag varint."""
    size, rest = 1, value >> 6
    while rest > 0:
        size, rest = size + 1, rest >> 7
    return size


@inlined
def _write_varint(out: Any, at: int, value: int) -> int:
    """Write a non-negative number as a zigzag varint; return where it ends."""
    rest = value << 1
    while rest > 0x7F:
        out[at] = np.uint8(rest & 0x7F | 0x80)
        at, rest = at + 1, rest >> 7
    out[at] = np.uint8(rest)
    return at + 1


@inlined
def write_number(out: Any, at: int, value: int, size: int) -> None:
    """Write a big-endian number of `size` bytes."""
    for i in range(size):
        out[at + i] = np.uint8((value >> (8 * (size - 1 - i))) & 0xFF)
