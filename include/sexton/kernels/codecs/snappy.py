"""Snappy in the framing of xerial's snappy-java, which Java clients and brokers write, decompressed by compiled code.

It accepts a single stream of version 1 whose blocks have exactly the sizes in their headers. For any other input it
returns FALLBACK: `log.codec` reads that with the Snappy library, which names the reason. Follows Snappy's
format_description.txt. No byte outside the given spans is read or written.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import be32, be64, copy_bytes, little
from sexton.kernels.codecs.lz4 import FALLBACK, NO_ROOM, WIDE_BYTES, repeat

_MAGIC = 0x82534E4150505900 - (1 << 64)
_VERSION = _COMPATIBLE_VERSION = 1
_HEADER_BYTES = 16
_SHORT_LITERALS = 60  # longer literals have their size in up to 4 further bytes


@compiled
def inflate_xerial(data: Any, pos: int, end: int, out: Any, at: int, limit: int) -> int:
    """Decompress the stream in [pos, end) to `out` from `at`; return where the output ends, or NO_ROOM or FALLBACK.

    Nothing is written beyond `limit`, but bytes between the end of the output and `limit` may be overwritten.
    """
    if end - pos <= _HEADER_BYTES or be64(data, pos) != _MAGIC:
        return FALLBACK
    if be32(data, pos + 8) != _VERSION or be32(data, pos + 12) != _COMPATIBLE_VERSION:
        return FALLBACK
    pos += _HEADER_BYTES
    while pos < end:
        if end - pos < 4:
            return FALLBACK
        size = be32(data, pos)
        pos += 4
        if size < 1 or size > end - pos:
            return FALLBACK
        at = _inflate_block(data, pos, pos + size, out, at, limit)
        if at < 0:
            return at
        pos += size
    return at


@compiled
def _inflate_block(data: Any, pos: int, end: int, out: Any, at: int, limit: int) -> int:
    """Decompress the raw block in [pos, end)."""
    size, pos = _inflated_size(data, pos, end)
    if size < 1:
        return FALLBACK
    if size > limit - at:
        return NO_ROOM
    start, done = at, at + size
    while pos < end:
        tag = np.int64(data[pos])
        pos += 1
        if tag & 3 == 0:
            length, pos = _literal_size(data, pos, end, tag >> 2)
            if length > end - pos or length > done - at:
                return FALLBACK
            if length <= WIDE_BYTES and end - pos >= WIDE_BYTES and limit - at >= WIDE_BYTES:
                copy_bytes(out, at, data, pos, WIDE_BYTES)
            else:
                copy_bytes(out, at, data, pos, length)
            pos += length
            at += length
            continue
        more = 1 if tag & 3 == 1 else 2 if tag & 3 == 2 else 4
        if more > end - pos:
            return FALLBACK
        distance = little(data, pos, more)
        pos += more
        length = 1 + (tag >> 2)
        if more == 1:
            length = 4 + (tag >> 2 & 7)
            distance |= tag >> 5 << 8
        if distance < 1 or distance > at - start or length > done - at:
            return FALLBACK
        at = repeat(out, at, distance, length, limit)
    return at if at == done else FALLBACK


@compiled
def _inflated_size(data: Any, pos: int, end: int) -> tuple[int, int]:
    """The inflated size that a block declares, and the position after that number; size 0 if it is not valid."""
    size = shift = 0
    while pos < end and shift < 35:
        byte = np.int64(data[pos])
        pos += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (0 if (byte == 0 and shift) or size >= 1 << 31 else size), pos
        shift += 7
    return 0, pos


@compiled
def _literal_size(data: Any, pos: int, end: int, short: int) -> tuple[int, int]:
    """The size of a literal and the position where it begins; past `end` if the size is truncated."""
    if short < _SHORT_LITERALS:
        return short + 1, pos
    more = short - _SHORT_LITERALS + 1
    return (little(data, pos, more) + 1, pos + more) if more <= end - pos else (1, end + 1)
