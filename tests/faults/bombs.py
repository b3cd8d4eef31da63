"""Compressed bodies that hold far more than they are long, or say that they do: 25 for each codec.

`CAP` stands for the cap that they are inflated under: some stop just short of it, some lie about its like.
"""

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import islice

import cramjam
import pyarrow as pa
import zstandard

from sexton.log import codec as codecs

Bomb = tuple[str, bytes]
COUNT = 25
_MIB = 1 << 20
_HUGE = ((1 << 31) - 1, 1 << 31, (1 << 32) - 1)


def bombs(codec: int, cap_bytes: int) -> list[Bomb]:
    makers: dict[int, Callable[[int], Iterator[Bomb]]] = {
        codecs.GZIP: _gzip, codecs.SNAPPY: _snappy, codecs.LZ4: _lz4, codecs.ZSTD: _zstd,
    }  # fmt: skip
    found = list(islice(makers[codec](cap_bytes), COUNT))
    assert len({name for name, _ in found}) == COUNT
    return found


def _sizes(cap: int) -> Iterator[tuple[str, int]]:
    """Contents around the cap and far above it, in mebibytes of the name."""
    yield from (("half", cap // 2), ("a byte less", cap - 1), ("the cap", cap), ("a byte more", cap + 1))
    yield from (("twice", 2 * cap), ("tenfold", 10 * cap))


# --- gzip


def _gzip(cap: int) -> Iterator[Bomb]:
    for name, size in _sizes(cap):
        yield name, _deflated_zeros(size)
    member = gzip.compress(bytes(_MIB), mtime=0)
    yield "a thousand members", member * 1_000
    yield "a member after one that fills the cap", _deflated_zeros(cap) + member
    yield "members of nothing", gzip.compress(b"", mtime=0) * 50_000
    yield "gzip in gzip", gzip.compress(_deflated_zeros(10 * cap), mtime=0)
    yield "gzip in gzip in gzip", gzip.compress(gzip.compress(_deflated_zeros(10 * cap)), mtime=0)
    for claim in (0, *_HUGE):
        yield f"a trailer of {claim} bytes", _deflated_zeros(cap)[:-4] + struct.pack("<I", claim)
        yield (
            f"small, with a trailer of {claim} bytes",
            gzip.compress(b"x" * 99, mtime=0)[:-4] + struct.pack("<I", claim),
        )
    yield "cut off", _deflated_zeros(2 * cap)[:-9]
    yield "a bad checksum", _deflated_zeros(cap)[:-8] + bytes(8)
    yield "empty stored blocks", _gzip_head() + b"\0\0\0\xff\xff" * 200_000
    yield "a name without end", b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * _MIB
    yield "an extra field beyond the end", b"\x1f\x8b\x08\x04" + bytes(6) + b"\xff\xff"
    yield "nothing but a header", _gzip_head()


def _gzip_head() -> bytes:
    return b"\x1f\x8b\x08" + bytes(7)


def _deflated_zeros(size: int) -> bytes:
    deflater = zlib.compressobj(1, wbits=31)
    parts = [deflater.compress(bytes(min(_MIB, size - at))) for at in range(0, size, _MIB)]
    return b"".join([*parts, deflater.flush()])


# --- snappy, raw and as snappy-java frames it

_XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"


def _snappy(cap: int) -> Iterator[Bomb]:
    for name, size in _sizes(cap):
        yield name, _copies(size)
    for claim in (0, 1, cap, cap + 1, *_HUGE):
        yield f"says {claim} bytes", uvarint(claim) + _copies(1_000)[2:]
    yield "a size without end", b"\xff" * 10 + _copies(1_000)
    blocks = 2 * cap // 32_768
    yield "blocks of 32 KiB", _framed([_copies(32_768)] * blocks)
    yield "blocks that all say 2^31", _framed([uvarint(1 << 31) + b"\0x"] * 1_000)
    yield "blocks that say just the cap", _framed([uvarint(cap // 2) + b"\0x"] * 2)
    yield "framed in a frame", _framed([_stored(_framed([_copies(10 * cap)]))])
    yield "streams in a row", _framed([_copies(cap // 8)]) * 16
    yield "headers alone", _XERIAL * 10_000
    yield "blocks of nothing", _framed([b"\0"] * 50_000)
    yield "blocks of no bytes", _XERIAL + bytes(4) * 50_000
    yield "a block beyond the end", _XERIAL + struct.pack(">i", (1 << 31) - 1) + b"x"
    yield "a negative block", _XERIAL + struct.pack(">i", -1) + b"x"
    yield "a copy from before the beginning", uvarint(cap) + b"\0x" + b"\xfe\xff\xff"
    yield "a literal of 2^32", uvarint(cap) + b"\xfc\xff\xff\xff\xff"


def _copies(size: int) -> bytes:
    """A letter and copies of it, 64 at a time: the most that snappy can be made to hold."""
    whole, rest = divmod(size - 1, 64)
    tail = bytes([(rest - 1) << 2 | 2, 1, 0]) if rest else b""
    return uvarint(size) + b"\0x" + b"\xfe\1\0" * whole + tail


def _stored(data: bytes) -> bytes:
    """`data` as literals."""
    parts = [data[at : at + 60_000] for at in range(0, len(data), 60_000)]
    return uvarint(len(data)) + b"".join(b"\xf4" + struct.pack("<H", len(part) - 1) + part for part in parts)


def _framed(blocks: list[bytes]) -> bytes:
    return _XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


# --- lz4 frames

_LZ4_HEAD = b"\x04\x22\x4d\x18\x60\x70\x73"  # independent blocks of up to 4 MiB
_LZ4_END = bytes(4)


def _lz4(cap: int) -> Iterator[Bomb]:
    for name, size in _sizes(cap):
        yield name, _lz4_zeros(size)
    yield "a thousand frames", _lz4_zeros(_MIB) * 1_000
    yield "a frame after one that fills the cap", _lz4_zeros(cap) + _lz4_zeros(_MIB)
    yield "frames of nothing", (_LZ4_HEAD + _LZ4_END) * 50_000
    yield "lz4 in lz4", pa.Codec("lz4").compress(_lz4_zeros(10 * cap), asbytes=True)
    for claim in (0, cap, *_HUGE, 1 << 63, (1 << 64) - 1):
        yield f"says {claim} bytes", _lz4_sized(claim)
    yield "no end", _lz4_zeros(2 * cap)[:-4]
    for size in (0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 5 * _MIB):
        yield f"a block of {size:x}", _LZ4_HEAD + struct.pack("<I", size) + b"x" * 99
    yield "a skipped frame of 2^32", b"\x50\x2a\x4d\x18\xff\xff\xff\xff" + b"x"
    yield "skipped frames", b"\x50\x2a\x4d\x18\0\0\0\0" * 50_000
    yield (
        "a match from before the beginning",
        _LZ4_HEAD + struct.pack("<I", 8) + b"\x1f\0\xff\xff\xff\xff\xff\0" + _LZ4_END,
    )
    yield "nothing but a header", _LZ4_HEAD


def _lz4_zeros(size: int) -> bytes:
    out = [_LZ4_HEAD]
    for at in range(0, size, 4 * _MIB):
        block = pa.Codec("lz4_raw").compress(bytes(min(4 * _MIB, size - at)), asbytes=True)
        out += [struct.pack("<I", len(block)), block]
    return b"".join([*out, _LZ4_END])


def _lz4_sized(claim: int) -> bytes:
    """A frame whose header says how much it holds. Its checksum is the one of 256 that the decoder does not refuse."""
    for checksum in range(256):
        head = b"\x04\x22\x4d\x18\x68\x70" + struct.pack("<Q", claim) + bytes([checksum])
        try:
            cramjam.lz4.decompress(head + _LZ4_END)
        except cramjam.DecompressionError as error:
            if "headerChecksum" in str(error):
                continue
        return head + _lz4_zeros(_MIB)[len(_LZ4_HEAD) :]
    raise AssertionError("no checksum fits")


# --- zstd


def _zstd(cap: int) -> Iterator[Bomb]:
    for name, size in _sizes(cap):
        yield name, _zstd_runs(size)
    yield "a gibibyte", _zstd_runs(1 << 30)
    yield "a thousand frames", _zstd_runs(_MIB) * 1_000
    yield "a frame after one that fills the cap", _zstd_runs(cap) + _zstd_runs(_MIB)
    yield "frames of nothing", _zstd_runs(0) * 50_000
    yield "zstd in zstd", zstandard.compress(_zstd_runs(10 * cap))
    for window_log in (22, 26, 27, 30, 31, 41):
        yield f"a window of 2^{window_log}", _zstd_runs(cap // 4, window=(window_log - 10) << 3)
    for claim in (0, cap + 1, (1 << 31) - 1, 1 << 31, (1 << 63) - 1):
        yield f"says {claim} bytes", _zstd_sized(claim, cap)
    yield "no end", _zstd_runs(2 * cap)[:-4]
    yield "skipped frames", b"\x50\x2a\x4d\x18\0\0\0\0" * 50_000
    yield "a skipped frame of 2^32", b"\x50\x2a\x4d\x18\xff\xff\xff\xff" + b"x"


def _zstd_runs(size: int, *, window: int = 11 << 3) -> bytes:
    """A frame of runs, four bytes for 128 KiB, under a window descriptor (2 MiB unless told)."""
    whole, rest = divmod(size, 1 << 17)
    runs = [1 << 17] * whole + ([rest] if rest or not whole else [])
    blocks = [struct.pack("<I", run << 3 | 2 | (at == len(runs) - 1))[:3] + b"\0" for at, run in enumerate(runs)]
    return b"\x28\xb5\x2f\xfd\0" + bytes([window]) + b"".join(blocks)


def _zstd_sized(claim: int, cap: int) -> bytes:
    """A single segment, whose window is what it says to hold."""
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", claim) + _zstd_runs(cap // 4)[6:]
