"""Inflates and deflates the codecs of Kafka's log, in bounded memory whatever sizes a batch claims.

Snappy comes raw or in the framing of xerial's snappy-java, which Java clients write. In message formats v0 and v1 the
header checksum of lz4 frames is not checked, because Kafka once computed it wrongly (KAFKA-3160).
Follows Kafka's Compression classes (GzipCompression, SnappyCompression, Lz4Compression, ZstdCompression).
"""

import zlib
from typing import Any

import cramjam
import numpy as np

from sexton.errors import LogError
from sexton.log.entry import CODECS, GZIP, LZ4, NONE, SNAPPY, ZSTD
from sexton.log.zstd_frame import largest_window_bytes

__all__ = ["CODECS", "GZIP", "LZ4", "NONE", "SNAPPY", "ZSTD", "BadCodec", "InflatedTooLarge", "deflate", "inflate"]


_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16  # magic, version, compatible version
_XERIAL_BLOCK_BYTES = 32 * 1024
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"  # independent blocks of up to 64 KB, no checksum except the header's
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_RAW_BLOCK = 1 << 31
_GZIP_WBITS = 31
_GZIP_HEADER_BYTES, _GZIP_FLAGS_AT = 10, 3
_GZIP_HEADER_CRC, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT, _GZIP_RESERVED = 2, 4, 8, 16, 0xE0
_FIRST_GUESS_BYTES = 64 * 1024
_GROWTH = 8
_SMALL_WINDOW_BYTES = 4 * 1024 * 1024
_BUFFER_IS_FULL = "failed to write whole buffer"  # what cramjam says when the output does not fit


class BadCodec(LogError):
    """Compressed bytes that cannot be inflated, or a codec that the format does not have."""

    def __init__(self, detail: str) -> None:
        super().__init__("bad_codec", detail)


class InflatedTooLarge(LogError):
    """Compressed bytes that inflate to more than the cap."""

    def __init__(self, codec: int, cap_bytes: int) -> None:
        super().__init__("inflated_too_large", f"{CODECS[codec]} of more than {cap_bytes} bytes once inflated")


def inflate(codec: int, data: bytes | memoryview, *, magic: int, cap_bytes: int) -> bytes:
    """Inflate `data` of a batch of format `magic` into at most `cap_bytes`.

    Raises BadCodec or InflatedTooLarge; no buffer is ever larger than the cap, whatever the bytes claim. Output of zstd
    with a window above 4 MiB (compression levels far above Kafka's default) must fit in half of the cap.
    """
    if codec == NONE:
        return bytes(data)
    if not NONE < codec < len(CODECS) or (codec == ZSTD and magic < 2):
        raise BadCodec(f"codec {codec} in format v{magic}")
    if codec == SNAPPY:
        return _inflate_snappy(memoryview(data), cap_bytes)
    if codec == GZIP:
        data = _without_reserved_flags(data)
        if (member := _inflate_small_member(data, cap_bytes)) is not None:
            return member
    if codec == LZ4 and magic < 2:
        data = _with_lz4_header_checksum(bytes(data))
    if codec == ZSTD and largest_window_bytes(data) > _SMALL_WINDOW_BYTES:
        cap_bytes //= 2  # the decoder's window fills up as the output does: together they stay within the cap
    return _inflate_growing(codec, data, cap_bytes)


def _without_reserved_flags(data: bytes | memoryview) -> bytes | memoryview:
    """Gzip with reserved header flags, rewritten with a plain header.

    Java ignores these flags (java.util.zip.GZIPInputStream.readHeader); the libraries here refuse them. As in Java, a
    header checksum must be right. The libraries refuse all other errors in a header.
    """
    if len(data) < _GZIP_HEADER_BYTES or not data[_GZIP_FLAGS_AT] & _GZIP_RESERVED:
        return data
    whole, flags, at = bytes(data), data[_GZIP_FLAGS_AT], _GZIP_HEADER_BYTES
    if flags & _GZIP_EXTRA:
        at += 2 + int.from_bytes(whole[at : at + 2], "little")
    for flag in (_GZIP_NAME, _GZIP_COMMENT):
        if flags & flag:
            end = whole.find(0, at)
            at = len(whole) if end < 0 else end + 1
    if flags & _GZIP_HEADER_CRC:
        if int.from_bytes(whole[at : at + 2], "little") != zlib.crc32(whole[:at]) & 0xFFFF:
            raise BadCodec("gzip: Corrupt GZIP header")
        at += 2
    return whole[:_GZIP_FLAGS_AT] + b"\0" + whole[_GZIP_FLAGS_AT + 1 : _GZIP_HEADER_BYTES] + whole[at:]


def _inflate_small_member(data: bytes | memoryview, cap_bytes: int) -> bytes | None:
    """The contents of a single small gzip member, None for anything else.

    zlib sets up its decoder ten times as fast as cramjam.
    """
    decoder = zlib.decompressobj(wbits=_GZIP_WBITS)
    try:
        body = decoder.decompress(data, min(cap_bytes, _FIRST_GUESS_BYTES) + 1)
    except zlib.error:
        return None
    is_whole = decoder.eof and not decoder.unused_data and len(body) <= cap_bytes
    return body if is_whole else None


def _inflate_growing(codec: int, data: bytes | memoryview, cap_bytes: int) -> bytes:
    """Inflate into buffers that grow up to the cap: most batches are small, and sizes in headers may be wrong."""
    module: Any = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}[codec]
    source = np.frombuffer(data, dtype=np.uint8)
    size = min(cap_bytes, max(_FIRST_GUESS_BYTES, 4 * len(source)))
    while True:
        out = np.empty(size, dtype=np.uint8)
        try:
            return out[: module.decompress_into(source, out)].tobytes()
        except cramjam.DecompressionError as error:
            if _BUFFER_IS_FULL not in str(error):
                raise BadCodec(f"{CODECS[codec]}: {error}") from None
            if size == cap_bytes:
                raise InflatedTooLarge(codec, cap_bytes) from None
        del out
        size = min(cap_bytes, size * _GROWTH)


def _inflate_snappy(data: memoryview, cap_bytes: int) -> bytes:
    blocks = _xerial_blocks(data) if bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC else [data]
    try:
        sizes = [int(cramjam.snappy.decompress_raw_len(block)) for block in blocks]
        if sum(sizes) > cap_bytes:
            raise InflatedTooLarge(SNAPPY, cap_bytes)
        out = np.empty(sum(sizes), dtype=np.uint8)
        at = 0
        for block, size in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, out.data[at : at + size])
            at += size
    except cramjam.DecompressionError as error:
        raise BadCodec(f"snappy: {error}") from None
    return out.tobytes()


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    """The raw snappy blocks of xerial's framing; consecutive streams are read as one, as in snappy-java."""
    blocks: list[memoryview] = []
    at = 0
    while at < len(data):
        if bytes(data[at : at + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            at += _XERIAL_HEADER_BYTES
            continue
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if not 0 <= size <= len(data) - at:
            raise BadCodec(f"snappy: a block of {size} bytes where {max(len(data) - at, 0)} are left")
        blocks.append(data[at : at + size])
        at += size
    return blocks


def deflate(codec: int, data: bytes, *, magic: int = 2) -> bytes:
    """Compress in the framing that Java clients use for format `magic`; deterministic."""
    if codec == NONE:
        return data
    if codec == GZIP:
        deflater = zlib.compressobj(wbits=_GZIP_WBITS)  # unlike gzip.compress, stamps no time
        return deflater.compress(data) + deflater.flush()
    if codec == SNAPPY:
        parts = [_XERIAL_MAGIC, (1).to_bytes(4, "big"), (1).to_bytes(4, "big")]
        for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
            parts += [len(block).to_bytes(4, "big"), block]
        return b"".join(parts)
    if codec == LZ4:
        frame = _lz4_frame(data)
        return frame if magic > 0 else _with_lz4_header_checksum(frame, is_wrong=True)
    if codec == ZSTD:
        stream = cramjam.zstd.Compressor()  # its frames do not state their content size, like those of Java's stream
        stream.compress(data)
        return bytes(stream.finish())
    raise BadCodec(f"codec {codec}")


def _lz4_frame(data: bytes) -> bytes:
    parts = [_LZ4_HEADER]
    for at in range(0, len(data), _LZ4_BLOCK_BYTES):
        raw = data[at : at + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        if len(block) < len(raw):
            parts += [len(block).to_bytes(4, "little"), block]
        else:
            parts += [(len(raw) | _LZ4_RAW_BLOCK).to_bytes(4, "little"), raw]
    return b"".join([*parts, bytes(4)])


def _with_lz4_header_checksum(frame: bytes, *, is_wrong: bool = False) -> bytes:
    """`frame` with the right header checksum, or with the wrong one of KAFKA-3160, which included the frame's magic."""
    if len(frame) < 7 or frame[:4] != _LZ4_MAGIC:
        return frame
    flags = frame[4]
    at = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
    if at >= len(frame):
        return frame
    checksum = _short_xxh32(frame[0 if is_wrong else 4 : at]) >> 8 & 0xFF
    return frame[:at] + bytes([checksum]) + frame[at + 1 :]


def _short_xxh32(data: bytes) -> int:
    """xxHash32 with seed 0 without its loop over 16-byte stripes: the headers here are shorter."""
    mask = 0xFFFFFFFF
    state = 374761393 + len(data)
    words = len(data) // 4
    for word in range(words):
        state = (state + int.from_bytes(data[4 * word : 4 * word + 4], "little") * 3266489917) & mask
        state = ((state << 17 | state >> 15) & mask) * 668265263 & mask
    for byte in data[4 * words :]:
        state = (state + byte * 374761393) & mask
        state = ((state << 11 | state >> 21) & mask) * 2654435761 & mask
    state = (state ^ state >> 15) * 2246822519 & mask
    state = (state ^ state >> 13) * 3266489917 & mask
    return state ^ state >> 16
