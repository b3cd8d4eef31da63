"""Message formats v0 and v1: messages of their own, compressed wrappers, and the offsets and timestamps inside."""

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.log import codec
from sexton.log.batch import BadRecord, Record, read_records
from sexton.log.message_set import encode_message
from tests.log.samples import CAP_BYTES, STAMP_MS, batches_of, pairs
from tests.log_encoding import encode_message_set


def read(log: bytes) -> list[Record | BadRecord]:
    return [record for batch in batches_of(log) for record in read_records(batch, cap_bytes=CAP_BYTES)]


def wrapper(
    inner: bytes, *, offset: int, magic: int, timestamp_ms: int = STAMP_MS, log_append_time: bool = False
) -> bytes:
    options = {"offset": offset, "magic": magic, "timestamp_ms": timestamp_ms, "log_append_time": log_append_time}
    return encode_message(None, codec.deflate(codec.GZIP, inner), codec=codec.GZIP, **options)


def inner(offset: int, *, magic: int = 1, key: bytes = b"k", stamp_ms: int = 5, number: int = 0) -> bytes:
    return encode_message(key, b"v", offset=offset, magic=magic, timestamp_ms=stamp_ms, codec=number)


@settings(max_examples=100)
@given(
    records=st.lists(
        st.tuples(st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=30)), min_size=1, max_size=6
    ),
    magic_and_codec=st.sampled_from([(m, c) for m in (0, 1) for c in (0, 1, 2, 3)]),
    base_offset=st.integers(0, 1 << 60),
    gaps=st.lists(st.integers(1, 9), min_size=6, max_size=6),
    log_append_time=st.booleans(),
)
def test_round_trip(records, magic_and_codec, base_offset, gaps, log_append_time):
    magic, number = magic_and_codec
    deltas = [sum(gaps[:n]) for n in range(len(records))]
    log = encode_message_set(
        records, base_offset=base_offset, magic=magic, timestamp_ms=STAMP_MS, codec=number,
        log_append_time=log_append_time, offset_deltas=deltas,
    )  # fmt: skip
    stamp_ms = STAMP_MS if magic else -1
    assert read(log) == [
        Record(log_offset=base_offset + delta, timestamp_ms=stamp_ms, key=key, value=value)
        for (key, value), delta in zip(records, deltas, strict=True)
    ]
    for batch in batches_of(log):
        assert (batch.magic, batch.codec, batch.max_timestamp_ms) == (magic, number, stamp_ms)
        assert (batch.producer_id, batch.leader_epoch) == (-1, -1)
        assert not batch.is_control
        assert not batch.is_transactional
        assert (batch.record_count, batch.is_log_append_time) == (-1 if number else 1, bool(magic) and log_append_time)
        assert batch.next_offset == batch.base_offset + 1


WRAPPERS = {
    "holes": (wrapper(inner(0) + inner(1) + inner(4), offset=14, magic=1), [(10, 5), (11, 5), (14, 5)]),
    "offset 0 as a producer sent it": (wrapper(inner(2) + inner(3), offset=0, magic=1), [None, None]),
    "one at 0": (wrapper(inner(0), offset=0, magic=1), [(0, 5)]),
    "v0 absolute": (wrapper(inner(7, magic=0) + inner(9, magic=0), offset=9, magic=0), [(7, -1), (9, -1)]),
    "LogAppendTime": (
        wrapper(inner(0) + inner(1), offset=11, magic=1, log_append_time=True),
        [(10, STAMP_MS), (11, STAMP_MS)],
    ),
    "offsets above the wrapper": (wrapper(inner(0) + inner(9), offset=3, magic=1), [None]),
    "nothing inside": (wrapper(b"", offset=3, magic=1), [None]),
    "no value": (encode_message(None, None, offset=3, magic=1, codec=codec.GZIP), [None]),
    "v0 in v1": (wrapper(inner(0, magic=0) + inner(1), offset=11, magic=1), [None, (11, 5)]),
    "wrapper in wrapper": (wrapper(inner(0, number=1) + inner(1), offset=11, magic=1), [None, (11, 5)]),
    "offset again": (wrapper(inner(1) + inner(1) + inner(2), offset=12, magic=1), [(11, 5), None, (12, 5)]),
    "inner torn": (wrapper(inner(0) + inner(1)[:-3], offset=12, magic=1), [(12, 5), None]),
    "inner loose bytes": (wrapper(inner(0) + b"torn", offset=12, magic=1), [(12, 5), None]),
}


@pytest.mark.parametrize("log, expected", WRAPPERS.values(), ids=WRAPPERS)
def test_wrappers(log: bytes, expected: list[tuple[int, int] | None]) -> None:
    found = [(entry.log_offset, entry.timestamp_ms) if isinstance(entry, Record) else None for entry in read(log)]
    assert found == expected


@pytest.mark.parametrize(
    "number, data, reason",
    [
        (codec.GZIP, b"junk", "bad_codec"),
        (codec.ZSTD, codec.deflate(codec.ZSTD, inner(0)), "bad_codec"),
        (codec.SNAPPY, codec.deflate(codec.SNAPPY, bytes(CAP_BYTES + 1)), "inflated_too_large"),
    ],
    ids=["not gzip", "zstd is younger", "bomb"],
)
def test_wrappers_that_cannot_be_inflated(number: int, data: bytes, reason: str) -> None:
    (bad,) = read(encode_message(None, data, offset=4, magic=1, codec=number))
    assert isinstance(bad, BadRecord)
    assert (bad.log_offset, bad.reason) == (None, reason)


@pytest.mark.parametrize("key_size, value_size", [(-1, 90), (90, 0), (3, -1), (0, 0)])
def test_a_message_whose_fields_do_not_fill_it(key_size: int, value_size: int) -> None:
    body = struct.pack(">bbi", 0, 0, key_size) + struct.pack(">i", value_size) + b"12345"
    (bad,) = read(struct.pack(">qiI", 5, len(body) + 4, zlib.crc32(body)) + body)
    assert isinstance(bad, BadRecord)
    assert (bad.log_offset, bad.reason) == (5, "malformed_record")


@settings(max_examples=100)
@given(st.binary(max_size=80), st.sampled_from([0, 1]), st.integers(0, 20))
def test_any_inner_bytes_are_read_without_an_error(data: bytes, magic: int, offset: int) -> None:
    good = encode_message_set(pairs(2), base_offset=0, magic=magic)
    for mixed in (data, good + data, data + good):
        for entry in read(wrapper(mixed, offset=offset, magic=magic)):
            assert isinstance(entry, Record | BadRecord)
