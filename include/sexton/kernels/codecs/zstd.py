"""zstd frames of many batches, decompressed by the library in one call.

A call for each small batch spends nearly all of its time on setting up the decoder. Concatenated frames decompress to
their concatenated contents, but frames need not declare their content size. So each batch is followed by a frame that
contains a seal. The output has at least as many seals as the input; if it has exactly as many, they mark the ends of
the batches. (No prefix of the seal is also its suffix, so no seal can begin within another.)

Only batches that are exactly one frame are joined. When a call fails, the output of all its batches is dropped:
`inflate` tries fewer batches, and finally `log.codec` reads a single one and names the reason. Frames follow RFC 8878,
section 3.1.1.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import cramjam
import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import copy_bytes, little, pointer, word64
from sexton.kernels import layout as L
from sexton.kernels.layout import Bytes, Int64s, batches_of
from sexton.log import codec
from sexton.log.entry import CODEC_MASK

MAX_WINDOW_BYTES = 4 << 20
"""Frames with a larger window are left to `log.codec`, which counts the window towards `cap_bytes`."""
JOINED_BYTES = 512 << 10
"""Limit of the compressed bytes that are joined; they decompress to about 10 times as much."""

_ZSTD = codec.ZSTD
_FRAME_MAGIC = 0xFD2FB528
_IS_SINGLE_SEGMENT, _HAS_CHECKSUM = 0x20, 0x04
_UNKNOWN_FLAGS = 0x1B  # a dictionary's id, and bits that are not in use
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_BLOCK_BYTES = 128 << 10
_RAW_BLOCK, _RLE_BLOCK, _RESERVED_BLOCK = 0, 1, 3

_SEAL = np.arange(16, dtype=np.uint8)
SEAL_BYTES = 16
"""Size of the seal after the contents of each batch."""
_SEALED_FRAME = np.frombuffer(
    _FRAME_MAGIC.to_bytes(4, "little")
    + bytes([_IS_SINGLE_SEGMENT, SEAL_BYTES])
    + (1 | _RAW_BLOCK << 1 | SEAL_BYTES << 3).to_bytes(3, "little")
    + _SEAL.tobytes(),
    np.uint8,
)


def inflate_together(data: Bytes, batches: Int64s, packed: Int64s, arena: Bytes, *, cap_bytes: int) -> int:
    """Inflate as many batches as can be joined, from the first of the rows `packed` on, into `arena`; return how many.

    Their rows then say where their records lie. Returns 0 if the first batch is not exactly one zstd frame, or if any
    of the joined batches failed.
    """
    library: Any = cramjam.zstd
    joined = np.empty(JOINED_BYTES, np.uint8)
    count, used = _join(data, batches, packed, joined, _SEALED_FRAME)
    if count == 0:
        return 0
    try:
        size = library.decompress_into(joined[:used], arena)
    except cramjam.DecompressionError:
        return 0
    return count if _split(arena, size, batches, packed[:count], cap_bytes) else 0


@compiled
def _join(source: Any, batch_rows: Any, packed: Any, joined_bytes: Any, sealed_frame: Any) -> tuple[int, int]:
    """Put frames and seals into `joined_bytes`, up to the first batch that is not exactly one frame or does not fit.

    Returns (batches, bytes).
    """
    data, batches = pointer(source), batches_of(batch_rows)
    joined, sealed = pointer(joined_bytes), pointer(sealed_frame)
    used = 0
    for number in range(len(packed)):
        row = packed[number]
        start, end = batches[row, L.B_BODY], batches[row, L.B_BODY_END]
        size = end - start
        if size + len(sealed_frame) > len(joined_bytes) - used or batches[row, L.B_ATTRIBUTES] & CODEC_MASK != _ZSTD:
            return number, used
        if not _is_one_frame(data, start, end):
            return number, used
        copy_bytes(joined, used, data, start, size)
        copy_bytes(joined, used + size, sealed, 0, len(sealed_frame))
        used += size + len(sealed_frame)
    return len(packed), used


@compiled
def _is_one_frame(data: Any, pos: int, end: int) -> bool:
    """Whether [pos, end) is exactly one frame without a dictionary and with a small window."""
    if end - pos < 6 or little(data, pos, 4) != _FRAME_MAGIC:
        return False
    flags = np.int64(data[pos + 4])
    content_size_bytes = _CONTENT_SIZE_BYTES[flags >> 6]
    pos += 5
    if flags & _UNKNOWN_FLAGS:
        return False
    if flags & _IS_SINGLE_SEGMENT:
        content_size_bytes = max(content_size_bytes, 1)
        if end - pos < content_size_bytes or not 0 <= little(data, pos, content_size_bytes) < MAX_WINDOW_BYTES:
            return False
    else:
        base = 1 << (10 + (np.int64(data[pos]) >> 3))
        if base + base // 8 * (np.int64(data[pos]) & 7) > MAX_WINDOW_BYTES:
            return False
        pos += 1
    pos = _after_blocks(data, pos + content_size_bytes, end)
    return pos + (4 if flags & _HAS_CHECKSUM else 0) == end


@compiled
def _after_blocks(data: Any, pos: int, end: int) -> int:
    """Where the blocks from `pos` on end; past `end` if they are truncated or malformed."""
    while end - pos >= 3:
        header = little(data, pos, 3)
        kind, size = header >> 1 & 3, header >> 3
        if kind == _RESERVED_BLOCK or size > _BLOCK_BYTES:
            return end + 5
        pos += 3 + (1 if kind == _RLE_BLOCK else size)
        if header & 1:
            return pos
    return end + 5


@compiled
def _split(contents: Any, size: int, batch_rows: Any, packed: Any, cap_bytes: int) -> bool:
    """Set in each row where its records lie in `contents`; False, with no row changed, if that is ambiguous."""
    data, batches = pointer(contents), batches_of(batch_rows)
    seal = pointer(_SEAL)
    low, high = word64(seal, 0), word64(seal, 8)
    ends = np.empty(len(packed), np.int64)
    found = start = at = 0
    while at + SEAL_BYTES <= size:
        if word64(data, at) != low or word64(data, at + 8) != high:
            at += 1
            continue
        if found == len(packed) or at - start > cap_bytes:
            return False
        ends[found] = at
        found += 1
        at += SEAL_BYTES
        start = at
    if found != len(packed) or start != size:
        return False
    start = 0
    for number in range(len(packed)):
        row = packed[number]
        batches[row, L.B_SOURCE] = L.IN_ARENA
        batches[row, L.B_BODY] = start
        batches[row, L.B_BODY_END] = ends[number]
        start = ends[number] + SEAL_BYTES
    return True
