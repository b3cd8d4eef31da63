"""Codecs: round trips, framings of old clients, and bytes of none; spoiled and lying ones are in tests/faults."""

import zlib

import cramjam
import pytest

from sexton.log.codec import CODECS, GZIP, LZ4, NONE, SNAPPY, ZSTD, BadCodec, InflatedTooLarge, deflate, inflate

CAP_BYTES = 1 << 20
COMPRESSORS = (GZIP, SNAPPY, LZ4, ZSTD)
XERIAL = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def xerial_block(data: bytes) -> bytes:
    block = raw_snappy(data)
    return len(block).to_bytes(4, "big") + block


@pytest.mark.parametrize("codec", [NONE, *COMPRESSORS], ids=CODECS)
@pytest.mark.parametrize("size", [0, 1, 500, 70_000, 400_000])
def test_round_trip(codec: int, size: int) -> None:
    data = (b"group-%d/" * 9 % tuple(range(9)) * (size // 60 + 1))[:size]
    assert inflate(codec, deflate(codec, data), magic=2, cap_bytes=CAP_BYTES) == data


@pytest.mark.parametrize("codec", COMPRESSORS, ids=CODECS[1:])
def test_the_cap_itself_fits_and_one_byte_less_does_not(codec: int) -> None:
    data = bytes(200_000)
    packed = deflate(codec, data)
    assert inflate(codec, packed, magic=2, cap_bytes=len(data)) == data
    with pytest.raises(InflatedTooLarge, match=f"inflated_too_large: {CODECS[codec]} of more than 199999 bytes"):
        inflate(codec, packed, magic=2, cap_bytes=len(data) - 1)


@pytest.mark.parametrize(
    "packed, expected",
    [
        (raw_snappy(b"plain"), b"plain"),
        (XERIAL, b""),
        (XERIAL + xerial_block(b"one") + xerial_block(b"two"), b"onetwo"),
        (XERIAL + xerial_block(b"one") + XERIAL + xerial_block(b"two"), b"onetwo"),
    ],
    ids=["raw", "no block", "two blocks", "two streams"],
)
def test_framings_of_snappy(packed: bytes, expected: bytes) -> None:
    assert inflate(SNAPPY, packed, magic=2, cap_bytes=100) == expected


def test_members_of_gzip_are_one() -> None:
    packed = deflate(GZIP, b"one") + deflate(GZIP, b"two")
    assert inflate(GZIP, packed, magic=2, cap_bytes=100) == b"onetwo"


def test_wrong_lz4_header_checksum_of_the_first_clients() -> None:
    wrong, right = deflate(LZ4, b"offsets" * 50, magic=0), deflate(LZ4, b"offsets" * 50, magic=2)
    assert [at for at in range(len(right)) if wrong[at] != right[at]] == [right.index(b"\x04\x22\x4d\x18") + 6]
    for magic in (0, 1):
        assert inflate(LZ4, wrong, magic=magic, cap_bytes=1000) == b"offsets" * 50
        assert inflate(LZ4, right, magic=magic, cap_bytes=1000) == b"offsets" * 50
    with pytest.raises(BadCodec):
        inflate(LZ4, wrong, magic=2, cap_bytes=1000)


@pytest.mark.parametrize(
    "codec, data, magic",
    [
        (5, b"", 2),
        (7, b"", 2),
        (ZSTD, deflate(ZSTD, b"x"), 1),
        (GZIP, b"", 2),
        (GZIP, b"junk", 2),
        (GZIP, deflate(GZIP, b"cut off")[:-3], 2),
        (SNAPPY, b"", 2),
        (SNAPPY, b"\xff\xff\xff\xff\xff\xff", 2),
        (SNAPPY, XERIAL + b"\x7f\xff\xff\xff", 2),
        (SNAPPY, XERIAL + b"\xff\xff\xff\xff", 2),
        (SNAPPY, XERIAL + b"\x00", 2),
        (LZ4, b"", 0),
        (LZ4, b"\x04\x22\x4d\x18\xff", 0),
        (LZ4, deflate(LZ4, b"cut off")[:-6], 2),
        (ZSTD, b"", 2),
        (ZSTD, deflate(ZSTD, b"cut off")[:-3], 2),
    ],
)
def test_bytes_of_no_codec(codec: int, data: bytes, magic: int) -> None:
    with pytest.raises(BadCodec):
        inflate(codec, data, magic=magic, cap_bytes=CAP_BYTES)


def test_gzip_is_the_same_bytes_every_time() -> None:
    assert deflate(GZIP, b"x") == deflate(GZIP, b"x")
    assert zlib.decompress(deflate(GZIP, b"x"), wbits=31) == b"x"


def gzip_with(flags: int, *, header_crc: int | None = None) -> bytes:
    """A gzip member with these flags in its header and what they call for."""
    member = deflate(GZIP, b"plain" * 100)
    header = member[:3] + bytes([flags]) + member[4:10]
    header += b"\x03\x00abc" if flags & 4 else b""
    header += b"name\0" if flags & 8 else b""
    header += b"comment\0" if flags & 16 else b""
    if flags & 2:
        header += (zlib.crc32(header) & 0xFFFF if header_crc is None else header_crc).to_bytes(2, "little")
    return header + member[10:]


@pytest.mark.parametrize("flags", [0, 0x02, 0x1E, 0x20, 0x40, 0x80, 0xE0, 0xE2, 0xFF])
def test_reserved_flags_of_gzip_are_passed_over_as_java_does(flags: int) -> None:
    assert inflate(GZIP, gzip_with(flags), magic=2, cap_bytes=CAP_BYTES) == b"plain" * 100


@pytest.mark.parametrize("flags", [0x02, 0xE2])
def test_a_gzip_header_has_to_match_its_checksum(flags: int) -> None:
    with pytest.raises(BadCodec):
        inflate(GZIP, gzip_with(flags, header_crc=0), magic=2, cap_bytes=CAP_BYTES)


def test_a_gzip_header_with_reserved_flags_that_never_ends() -> None:
    with pytest.raises(BadCodec):
        inflate(GZIP, gzip_with(0x88)[:10] + b"abc", magic=2, cap_bytes=CAP_BYTES)
