"""LZ4 frames as Kafka's brokers and Java clients write them, decompressed by compiled code.

It accepts a single frame as Lz4BlockOutputStream makes it, with nothing after it: independent blocks of up to 64 KB, no
content size, no checksum except the header's. It refuses whatever the LZ4 library might refuse, including blocks that
break the rules for the end of a block, so its output always equals the library's. For any other input it returns
FALLBACK: `log.codec` reads that with the library, which names the reason.

Follows lz4_Frame_format.md and lz4_Block_format.md. No byte outside the given spans is read or written.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import be32, copy_bytes, little

NO_ROOM, FALLBACK = -1, -2
"""Returned instead of the end of the output: the output does not fit; the library has to read the input."""

WIDE_BYTES = 16
"""Short copies move this many bytes at once where there is space."""

_MAGIC, _FLAGS, _BLOCK_SIZE, _HEADER_CHECKSUM = 0x04224D18, 0x60, 0x40, 0x82
_HEADER_BYTES = 7
_BLOCK_BYTES = 64 << 10
_RAW_BLOCK = 1 << 31

_END_LITERALS = 5  # a block with a match ends with at least this many literals,
_END_BYTES = 12  # and its last match begins at least this many bytes before its end


@compiled
def inflate_frame(data: Any, pos: int, end: int, out: Any, at: int, limit: int) -> int:
    """Decompress the frame in [pos, end) to `out` from `at`; return where the output ends, or NO_ROOM or FALLBACK.

    Nothing is written beyond `limit`, but bytes between the end of the output and `limit` may be overwritten.
    """
    if not _is_header(data, pos, end):
        return FALLBACK
    start = at
    pos += _HEADER_BYTES
    while end - pos >= 4:
        size = little(data, pos, 4)
        pos += 4
        if size == 0:
            return at if pos == end and at > start else FALLBACK
        is_raw = size >= _RAW_BLOCK
        size &= _RAW_BLOCK - 1
        if size > _BLOCK_BYTES or size > end - pos:
            return FALLBACK
        if not is_raw:
            block_end = _inflate_block(data, pos, pos + size, out, at, min(limit, at + _BLOCK_BYTES))
            if block_end < 0:
                return FALLBACK if limit - at >= _BLOCK_BYTES else block_end
            at = block_end
        elif size > limit - at:
            return NO_ROOM
        else:
            copy_bytes(out, at, data, pos, size)
            at += size
        pos += size
    return FALLBACK


@compiled
def _is_header(data: Any, pos: int, end: int) -> bool:
    return (
        end - pos >= _HEADER_BYTES
        and be32(data, pos) == _MAGIC
        and data[pos + 4] == _FLAGS
        and data[pos + 5] == _BLOCK_SIZE
        and data[pos + 6] == _HEADER_CHECKSUM
    )


@compiled
def _inflate_block(data: Any, pos: int, end: int, out: Any, at: int, limit: int) -> int:
    """Decompress the block in [pos, end); its matches reach back no further than its own start."""
    start, match = at, -1
    while pos < end:
        token = np.int64(data[pos])
        pos += 1
        literals = token >> 4
        if literals == 15:
            literals, pos = _long(data, pos, end, literals)
        if literals > end - pos:
            return FALLBACK
        if literals > limit - at:
            return NO_ROOM
        if literals <= WIDE_BYTES and end - pos >= WIDE_BYTES and limit - at >= WIDE_BYTES:
            copy_bytes(out, at, data, pos, WIDE_BYTES)
        else:
            copy_bytes(out, at, data, pos, literals)
        pos += literals
        at += literals
        if pos == end:
            is_end = at > start if match < 0 else literals >= _END_LITERALS and at - match >= _END_BYTES
            return at if is_end else FALLBACK
        if end - pos < 2:
            return FALLBACK
        distance = np.int64(data[pos]) | (np.int64(data[pos + 1]) << 8)
        pos += 2
        size = token & 15
        if size == 15:
            size, pos = _long(data, pos, end, size)
        size += 4
        if distance == 0 or distance > at - start or pos > end:
            return FALLBACK
        if size > limit - at:
            return NO_ROOM
        match = at
        at = repeat(out, at, distance, size, limit)
    return FALLBACK


@compiled
def _long(data: Any, pos: int, end: int, size: int) -> tuple[int, int]:
    """A length that continues in further bytes, and the position after it; past `end` where the length is truncated."""
    while pos < end:
        byte = np.int64(data[pos])
        pos += 1
        size += byte
        if byte != 255:
            return size, pos
    return size, end + 1


@compiled
def repeat(out: Any, at: int, distance: int, size: int, limit: int) -> int:
    """Append `size` bytes, each a copy of the byte `distance` positions before it; return where they end."""
    done = at + size
    if distance >= WIDE_BYTES and limit - done >= WIDE_BYTES:
        while at < done:
            copy_bytes(out, at, out, at - distance, WIDE_BYTES)
            at += WIDE_BYTES
    else:
        while at < done:
            out[at] = out[at - distance]
            at += 1
    return done
