"""Batches inflated side by side are what `log.codec` makes of each: whatever they hold, however they are broken.

Nothing may be read outside of the input or written outside of the arena: that is tried at the edge of a page that may
not be touched.
"""

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.errors import LogError
from sexton.kernels import inflate as module
from sexton.kernels import layout as L
from sexton.kernels.codecs import zstd
from sexton.kernels.inflate import inflate_blocks
from sexton.log.codec import CODECS, GZIP, LZ4, NONE, SNAPPY, ZSTD, deflate, inflate
from tests.log.test_codec import COMPRESSORS, XERIAL, raw_snappy, xerial_block

ROOT = Path(__file__).parents[2]
CAP_BYTES = 1 << 20
SOME = settings(max_examples=150)
SEAL = bytes(range(16))
LZ4_HEADER = bytes.fromhex("04224d18604082")

Batch = tuple[int, bytes]
"""Codec and body."""


def inflated(batches: Sequence[Batch], *, cap_bytes: int = CAP_BYTES) -> list[bytes | None]:
    """The records of each batch where the rows say that they lie, None where they are left to the reader."""
    rows = np.zeros((len(batches), L.BATCH_COLUMNS), np.int64)
    at = 1  # not aligned
    for row, (codec, body) in zip(rows, batches, strict=True):
        row[[L.B_SOURCE, L.B_ATTRIBUTES, L.B_COUNT, L.B_BODY, L.B_BODY_END]] = L.IN_PLACE, codec, 1, at, at + len(body)
        at += len(body)
    data = np.frombuffer(b"x" + b"".join(body for _, body in batches), np.uint8)
    found: list[bytes | None] = []
    for run, arena in inflate_blocks(data, rows, cap_bytes=cap_bytes):
        for row in run:
            where = {L.IN_PLACE: data, L.IN_ARENA: arena}.get(int(row[L.B_SOURCE]))
            found.append(None if where is None else where[row[L.B_BODY] : row[L.B_BODY_END]].tobytes())
            assert where is not None or row[L.B_SOURCE] == L.BY_READER
    return found


def expected(batches: Sequence[Batch], *, cap_bytes: int = CAP_BYTES) -> list[bytes | None]:
    """What the plain reader makes of each batch, None where it finds an error."""
    results: list[bytes | None] = []
    for codec, body in batches:
        try:
            results.append(inflate(codec, body, magic=2, cap_bytes=cap_bytes))
        except LogError:
            results.append(None)
    return results


def assert_same(batches: Sequence[Batch], *, cap_bytes: int = CAP_BYTES) -> None:
    assert inflated(batches, cap_bytes=cap_bytes) == expected(batches, cap_bytes=cap_bytes)


def payload(seed: int, size: int) -> bytes:
    """Bytes that repeat each other near and far, in short and long runs."""
    rng = random.Random(seed)
    out = bytearray()
    while len(out) < size:
        if out and rng.random() < 0.6:
            start = rng.randrange(max(0, len(out) - rng.choice([4, 20, 300, 70_000])), len(out))
            count = rng.choice([3, 4, 7, 15, 18, 19, 60, 64, 70, 300])
            out += (out[start:] * (count // (len(out) - start) + 1))[:count]
        else:
            out += rng.randbytes(rng.choice([1, 4, 14, 15, 16, 17, 60, 61, 256, 300]))
    return bytes(out[:size])


payloads = st.builds(
    payload, st.integers(0, 1 << 30), st.one_of(st.integers(1, 300), st.sampled_from([65_535, 65_536, 65_537, 200_000]))
) | st.binary(min_size=1, max_size=40)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    codec = draw(st.sampled_from([NONE, *COMPRESSORS]))
    return codec, deflate(codec, draw(payloads))


@SOME
@given(st.lists(batches(), max_size=12))
def test_equals_the_plain_reader(many: list[Batch]) -> None:
    assert_same(many)


@pytest.mark.parametrize("codec", COMPRESSORS, ids=CODECS[1:])
def test_every_flip_of_a_bit(codec: int) -> None:
    body = deflate(codec, payload(7, 90))
    flipped = [body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :] for at in range(len(body)) for bit in range(8)]
    assert_same([(codec, one) for one in flipped])


@pytest.mark.parametrize("codec", COMPRESSORS, ids=CODECS[1:])
def test_every_cut(codec: int) -> None:
    body = deflate(codec, payload(8, 200))
    assert_same([(codec, body[:size]) for size in range(len(body) + 1)])


@pytest.mark.parametrize("codec", COMPRESSORS, ids=CODECS[1:])
@pytest.mark.parametrize("size", [1, 1000, 65_536, 65_537, 400_000])
def test_the_cap_itself_fits_and_one_byte_less_does_not(codec: int, size: int) -> None:
    raw = payload(size, size)
    batch = codec, deflate(codec, raw)
    assert inflated([batch], cap_bytes=size) == [raw]
    assert inflated([batch], cap_bytes=size - 1) == [None]


@pytest.mark.parametrize("codec", [SNAPPY, LZ4, ZSTD], ids=CODECS[2:])
def test_what_brokers_write_needs_no_call_for_each_batch(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raws = [payload(size, size) for size in (1, 12, 13, 200, 5000, 65_536, 100_000)]
    monkeypatch.setattr(module._Inflater, "_one_by_library", None)
    assert inflated([(codec, deflate(codec, raw)) for raw in raws]) == raws


@pytest.mark.parametrize("codec", [NONE, *COMPRESSORS], ids=CODECS)
def test_many_runs(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An arena that holds few batches, and batches that are larger than it."""
    monkeypatch.setattr(module, "BLOCK_BYTES", 3000)
    raws = [payload(size, size) for size in (900, 1200, 1500, 2999, 3000, 3001, 20_000, 5, 500, 100_000, 700)]
    assert inflated([(codec, deflate(codec, raw)) for raw in raws]) == raws


def test_codecs_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 10_000)
    raws = [payload(size, 1 + size * 37 % 4000) for size in range(200)]
    codecs = [NONE, LZ4, ZSTD, ZSTD, GZIP, SNAPPY, LZ4, ZSTD, GZIP, GZIP]
    packed = [(codecs[number % 10], deflate(codecs[number % 10], raw)) for number, raw in enumerate(raws)]
    assert inflated(packed) == raws


def lz4_frame(*blocks: bytes, end: bytes = bytes(4)) -> bytes:
    return LZ4_HEADER + b"".join(len(block).to_bytes(4, "little") + block for block in blocks) + end


@pytest.mark.parametrize(
    "body",
    [
        bytes(cramjam.lz4.compress(payload(1, 500))),  # linked blocks and a checksum of the content
        lz4_frame(b"\x50hello") * 2,
        lz4_frame(b"\x50hello") + b"x",
        lz4_frame(b"\x50hello", end=b""),
        lz4_frame(b"\x50hello", b"\x00"),
        lz4_frame(b"\x00"),
        lz4_frame(),
        lz4_frame(b"\x50hell"),
        lz4_frame(b"\x15a\x00\x00\x50hello"),
        lz4_frame(b"\x15a\x02\x00\x50hello"),
        lz4_frame(b"\x18a\x01\x00\x50hello"),
        lz4_frame(b"\x11a\x01\x00\x50hello"),
        lz4_frame(b"\x1fa\x01\x00\xff\xff\xff\x00\x50hello"),
        lz4_frame(b"\x1fa\x01\x00" + b"\xff" * 300 + b"\x00\x50hello"),
        lz4_frame(b"\x1fa\x01\x00\xff\xff"),
        lz4_frame(b"\xf0" + b"\xff" * 10),
        lz4_frame(b"\x50hello", b"\x05\x05\x00\x50world"),
        lz4_frame(b"\x18a\x01\x00\x40hell"),
        lz4_frame(b"\x1aa\x01\x00"),
        LZ4_HEADER + ((1 << 31) | 5).to_bytes(4, "little") + b"hello" + bytes(4),
        LZ4_HEADER + (1 << 31).to_bytes(4, "little") + bytes(4),
        LZ4_HEADER + ((1 << 31) | 70_000).to_bytes(4, "little") + bytes(70_004),
    ],
)
def test_odd_lz4(body: bytes) -> None:
    assert_same([(LZ4, body), (LZ4, deflate(LZ4, b"next"))])


@pytest.mark.parametrize(
    "body",
    [
        raw_snappy(b"raw"), XERIAL, XERIAL + xerial_block(b""),
        XERIAL + xerial_block(b"one") + XERIAL + xerial_block(b"two"),
        XERIAL[:-1] + b"\x02" + xerial_block(b"version"), XERIAL + b"\0\0\0\0", XERIAL + b"\0\0\0\x03\x03\x08ab",
        XERIAL + b"\0\0\0\x04\x02\x08abc", XERIAL + b"\0\0\0\x05\x83\x00\x08abc",
        XERIAL + b"\0\0\0\x06\x83\x80\x00\x08abc", XERIAL + b"\0\0\0\x06\x05\x00a\x0e\x01\x00",
        XERIAL + b"\0\0\0\x06\x05\x00a\x0e\x02\x00", XERIAL + b"\0\0\0\x06\x05\x00a\x0e\x00\x00",
        XERIAL + b"\0\0\0\x08\x05\x00a\x0f\x01\x00\x00\x00", XERIAL + b"\0\0\0\x08\x05\x00a\x0f\x01\x00\x00\x80",
        XERIAL + b"\0\0\0\x05\x05\x00a\x01\x01", XERIAL + b"\0\0\0\x09\x03\xfc\x02\x00\x00\x00abc",
        XERIAL + b"\0\0\0\x09\x03\xfc\xff\xff\xff\xffabc",
    ],
)  # fmt: skip
def test_odd_snappy(body: bytes) -> None:
    assert_same([(SNAPPY, body), (SNAPPY, deflate(SNAPPY, b"next"))])


def zstd_frame(*blocks: bytes, flags: int = 0, window: bytes = b"\x58", sizes: bytes = b"") -> bytes:
    return b"\x28\xb5\x2f\xfd" + bytes([flags]) + window + sizes + b"".join(blocks)


def zstd_block(content: bytes, *, kind: int = 0, is_last: bool = True, size: int | None = None) -> bytes:
    header = is_last | kind << 1 | (len(content) if size is None else size) << 3
    return header.to_bytes(3, "little") + content


@pytest.mark.parametrize(
    "body",
    [
        zstd_frame(zstd_block(b"hello")),
        zstd_frame(zstd_block(b"hello", is_last=False), zstd_block(b"world")),
        zstd_frame(zstd_block(b"x", kind=1, size=5000)),
        zstd_frame(zstd_block(b"")),
        zstd_frame(zstd_block(b"")) + zstd_frame(zstd_block(b"two frames")),
        zstd_frame(zstd_block(b"hello")) + b"x",
        zstd_frame(zstd_block(b"hello", is_last=False)),
        zstd_frame(zstd_block(b"hello", kind=3)),
        zstd_frame(zstd_block(b"hello", size=500)),
        zstd_frame(zstd_block(b"hello", kind=2)),
        zstd_frame(zstd_block(SEAL)),
        zstd_frame(zstd_block(SEAL[:8])),
        zstd_frame(zstd_block(b"a" + SEAL + b"b")),
        zstd_frame(zstd_block(SEAL[8:] + SEAL + SEAL[:8])),
        zstd_frame(zstd_block(b"window of 128 MiB"), window=b"\x88"),
        zstd_frame(zstd_block(b"window of 8 MiB"), window=b"\x68"),
        zstd_frame(zstd_block(b"hello"), flags=0x20, window=b"", sizes=b"\x05"),
        zstd_frame(zstd_block(b"hello"), flags=0x20, window=b"", sizes=b"\x06"),
        zstd_frame(zstd_block(b"hello"), flags=0xE0, window=b"", sizes=b"\xff" * 8),
        zstd_frame(zstd_block(b"a dictionary"), flags=1, sizes=b"\x01"),
        zstd_frame(zstd_block(b"a reserved bit"), flags=8),
        zstd_frame(zstd_block(b"a bit not in use"), flags=0x10),
        zstd_frame(zstd_block(b"a wrong checksum"), flags=4) + b"1234",
        zstd_frame(zstd_block(b"no checksum"), flags=4),
        b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstd_frame(zstd_block(b"skippable")),
        b"\x28\xb5\x2f\xfd",
        deflate(ZSTD, bytes(600_000)),
    ],
)
def test_odd_zstd(body: bytes) -> None:
    plain = [(ZSTD, deflate(ZSTD, b"frame %d" % number)) for number in range(4)]
    assert_same([*plain, (ZSTD, body), *plain])


def test_zstd_that_lies_only_together() -> None:
    """Bodies that are no frames each, and that make one where they lie side by side."""
    whole = zstd_frame(zstd_block(b"hello" * 20))
    assert_same([(ZSTD, whole[:50]), (ZSTD, whole[50:])])
    inner = zstd_frame(zstd_block(SEAL + b"abc"))
    assert_same([(ZSTD, zstd_frame(zstd_block(inner))), (ZSTD, inner), (ZSTD, zstd_frame(zstd_block(b"end")))])


def test_batches_of_zstd_that_hold_much_more_than_they_seem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1 << 20)
    raws = [bytes(200_000 + number) for number in range(40)]
    assert inflated([(ZSTD, deflate(ZSTD, raw)) for raw in raws]) == raws


def test_zstd_beyond_the_room_for_joining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zstd, "JOINED_BYTES", 2000)
    raws = [payload(number, 100 * number) for number in range(1, 60)]
    assert inflated([(ZSTD, deflate(ZSTD, raw)) for raw in raws]) == raws


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_touched_outside(seed: int) -> None:
    command = [sys.executable, "-m", "tests.kernels.edges", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "some taken\n", "")
