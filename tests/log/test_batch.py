"""Batches of format v2: what is written is read, and what is wrong inside a batch is told and passed over."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.errors import LogError
from sexton.log import codec
from sexton.log.batch import BadRecord, Batch, Record, marker_of, read_batches, read_records
from sexton.log.varint import write_varint
from tests.log.samples import CAP_BYTES, STAMP_MS, batches_of, pairs
from tests.log_builder import sealed
from tests.log_encoding import DELETE_HORIZON_BIT, encode_batch, encode_marker

RECORDS_AT = 61
maybe_bytes = st.none() | st.binary(max_size=40)
timestamps = st.integers(-(1 << 63), (1 << 63) - 1)


def only(log: bytes) -> Batch:
    (batch,) = batches_of(log)
    return batch


def records_of(batch: Batch) -> list[Record | BadRecord]:
    return list(read_records(batch, cap_bytes=CAP_BYTES))


def with_body(body: bytes, *, count: int, codec_number: int = 0, last_offset_delta: int | None = None) -> Batch:
    """A batch with a good CRC around any bytes."""
    head = bytearray(encode_batch(pairs(1), base_offset=100, timestamp_ms=STAMP_MS)[:RECORDS_AT])
    last_delta = max(count - 1, 0) if last_offset_delta is None else last_offset_delta
    struct.pack_into(">hi", head, 21, codec_number, last_delta)
    struct.pack_into(">i", head, 57, count)
    return only(sealed(head + body))


def record(*, delta: int = 0, key: bytes = b"k", value: bytes = b"v", tail: bytes = b"\0", extra: bytes = b"") -> bytes:
    body = b"\0" + write_varint(0) + write_varint(delta) + write_varint(len(key)) + key
    body += write_varint(len(value)) + value + tail + extra
    return write_varint(len(body)) + body


@settings(max_examples=150)
@given(
    records=st.lists(st.tuples(maybe_bytes, maybe_bytes), min_size=1, max_size=8),
    base_offset=st.integers(0, 1 << 61),
    timestamp_ms=st.integers(-1, 1 << 45),
    producer_id=st.integers(-1, 1 << 50),
    epochs=st.tuples(st.integers(-1, 32767), st.integers(0, 1000)),
    codec_number=st.integers(0, 4),
    bits=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    horizon=st.none() | st.integers(0, 1 << 45),
    gaps=st.lists(st.integers(1, 1000), min_size=8, max_size=8),
    stamps=st.lists(st.integers(-1000, 1000), min_size=8, max_size=8),
)
def test_round_trip(records, base_offset, timestamp_ms, producer_id, epochs, codec_number, bits, horizon, gaps, stamps):
    transactional, control, log_append_time = bits
    deltas = [sum(gaps[: n + 1]) for n in range(len(records))]
    written = encode_batch(
        records, base_offset=base_offset, timestamp_ms=timestamp_ms, producer_id=producer_id,
        producer_epoch=epochs[0], leader_epoch=epochs[1], codec=codec_number, transactional=transactional,
        control=control, log_append_time=log_append_time, delete_horizon_ms=horizon, offset_deltas=deltas,
        timestamp_deltas=stamps[: len(records)], last_offset_delta=deltas[-1] + 3,
    )  # fmt: skip
    batch = only(written)
    newest_ms = timestamp_ms + max(stamps[: len(records)])
    assert (batch.base_offset, batch.next_offset) == (base_offset, base_offset + deltas[-1] + 4)
    assert batch.record_count == len(records)
    assert (batch.producer_id, batch.producer_epoch, batch.leader_epoch) == (producer_id, *epochs)
    assert (batch.is_transactional, batch.is_control, batch.is_log_append_time) == bits
    assert (batch.codec, bool(batch.attributes & DELETE_HORIZON_BIT)) == (codec_number, horizon is not None)
    assert batch.base_timestamp_ms == (timestamp_ms if horizon is None else horizon)
    assert (batch.max_timestamp_ms, bytes(batch.data), batch.size_bytes) == (newest_ms, written, len(written))
    assert records_of(batch) == [
        Record(
            log_offset=base_offset + delta,
            timestamp_ms=newest_ms if log_append_time else timestamp_ms + stamp,
            key=key,
            value=value,
        )
        for (key, value), delta, stamp in zip(records, deltas, stamps, strict=False)
    ]


def test_an_empty_batch_has_no_record_but_advances_the_offset() -> None:
    batch = only(encode_batch([], base_offset=40, timestamp_ms=STAMP_MS, producer_id=3, last_offset_delta=5))
    assert (batch.next_offset, batch.base_timestamp_ms, batch.max_timestamp_ms) == (46, -1, STAMP_MS)
    assert records_of(batch) == []


@pytest.mark.parametrize(
    "key, said",
    [
        pytest.param(b"\0\0\0\0", "ABORT", id="abort"),
        pytest.param(b"\0\0\0\1", "COMMIT", id="commit"),
        pytest.param(b"\0\5\0\1more", "COMMIT", id="later version"),
        pytest.param(b"\0\0\0\2", None, id="leader change"),
        pytest.param(b"\0\0\0\6", None, id="voters"),
        pytest.param(b"\0\0\xff\xff", None, id="unknown"),
    ],
)
def test_control_records(key: bytes, said: str | None) -> None:
    assert marker_of(Record(log_offset=0, timestamp_ms=0, key=key, value=None)) == said


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\1"], ids=["none", "empty", "short", "version -1"])
def test_control_records_that_kafka_would_not_take(key: bytes | None) -> None:
    with pytest.raises(LogError, match="malformed_control"):
        marker_of(Record(log_offset=0, timestamp_ms=0, key=key, value=None))


@pytest.mark.parametrize("committed", [True, False])
def test_markers(committed: bool) -> None:
    batch = only(encode_marker(committed, base_offset=9, timestamp_ms=STAMP_MS, producer_id=5, producer_epoch=2))
    (marker,) = records_of(batch)
    assert isinstance(marker, Record)
    assert (batch.is_control, batch.is_transactional, batch.size_bytes) == (True, True, 78)
    assert (marker_of(marker), marker.value) == ("COMMIT" if committed else "ABORT", bytes(6))


GOOD, NEXT, THIRD = record(delta=0), record(delta=1), record(delta=2)
HEADER_TAIL = write_varint(1) + write_varint(1) + b"h" + write_varint(-1)
NAMELESS = write_varint(1) + write_varint(-1) + b"\0"
TOO_LONG = record(delta=1, key=b"")[:-4] + b"\x7e\0\0\0"


WRONG = {
    "headers": (GOOD + record(delta=1, tail=HEADER_TAIL), 2, [100, 101]),
    "left over in record": (GOOD + record(delta=1, extra=b"?") + THIRD, 3, [100, (101, "1 bytes are left"), 102]),
    "header count cut": (GOOD + record(delta=1, tail=b"\x01"), 2, [100, (101, "-1 headers announced")]),
    "too many headers": (GOOD + record(delta=1, tail=write_varint(70)), 2, [100, (101, "70 headers")]),
    "header without name": (GOOD + record(delta=1, tail=NAMELESS), 2, [100, (101, "without a name")]),
    "offset again": (GOOD + record(delta=0) + THIRD, 3, [100, (None, "offset delta 0"), 102]),
    "offset beyond batch": (GOOD + record(delta=3) + THIRD, 3, [100, (None, "offset delta 3"), 102]),
    "value too long": (GOOD + TOO_LONG + THIRD, 3, [100, (101, "63 bytes"), 102]),
    "record of one byte": (GOOD + b"\x02\0" + THIRD, 3, [100, (None, "cut off"), 102]),
    "record of none": (GOOD + b"\0" + THIRD, 3, [100, (None, "cut off"), 102]),
    "length past the end": (GOOD + b"\xc8\x01rest", 2, [100, (None, "record 1 of 2 has no length: 100 bytes")]),
    "length too long": (GOOD + b"\xff\xff\xff\xff\xff\xff\x01rest", 2, [100, (None, "more than 32 bits")]),
    "negative length": (GOOD + b"\x01rest", 2, [100, (None, "-1 bytes")]),
    "too few": (GOOD, 2, [100, (None, "record 1 of 2 has no length: varint at byte 9 is cut off")]),
    "too many": (GOOD + NEXT, 1, [100, (None, "9 bytes are left after 1 records")]),
    "negative count": (GOOD, -1, [(None, "a batch of -1 records")]),
    "no bytes": (b"", 1, [(None, "record 0 of 1")]),
    "empty with bytes": (GOOD, 0, []),
}


@pytest.mark.parametrize("body, count, expected", WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_a_batch_is_told_and_passed_over(body, count, expected):
    for number in (codec.NONE, codec.GZIP):
        batch = with_body(codec.deflate(number, body), count=count, codec_number=number)
        found = records_of(batch)
        assert len(found) == len(expected)
        for entry, wanted in zip(found, expected, strict=True):
            if isinstance(wanted, int):
                assert isinstance(entry, Record)
                assert entry.log_offset == wanted
            else:
                assert isinstance(entry, BadRecord)
                assert (entry.log_offset, entry.reason) == (wanted[0], "malformed_record")
                assert wanted[1] in entry.detail


@pytest.mark.parametrize(
    "body, number, reason",
    [
        (b"junk", codec.GZIP, "bad_codec"),
        (b"junk", 6, "bad_codec"),
        (codec.deflate(codec.ZSTD, bytes(CAP_BYTES + 1)), codec.ZSTD, "inflated_too_large"),
    ],
    ids=["not gzip", "no such codec", "bomb"],
)
def test_a_batch_that_cannot_be_inflated_is_one_bad_record(body: bytes, number: int, reason: str) -> None:
    (bad,) = records_of(with_body(body, count=5, codec_number=number))
    assert isinstance(bad, BadRecord)
    assert (bad.log_offset, bad.reason, bad.raw) == (None, reason, b"")


@settings(max_examples=50)
@given(timestamps, timestamps)
def test_timestamps_wrap_around_as_javas_long_does(base_ms: int, other_ms: int) -> None:
    body = b"\0" + write_varint(other_ms) + b"\0\1\1\0"
    log = bytearray(with_body(write_varint(len(body)) + body, count=1).data)
    struct.pack_into(">q", log, 27, base_ms)
    (found,) = records_of(only(sealed(log)))
    assert isinstance(found, Record)
    assert (found.timestamp_ms - base_ms - other_ms) % (1 << 64) == 0
    assert -(1 << 63) <= found.timestamp_ms < 1 << 63


def test_a_bad_crc_is_told_and_the_batch_still_read() -> None:
    log = bytearray(encode_batch(pairs(3), base_offset=7, timestamp_ms=STAMP_MS))
    log[17] ^= 1
    (batch,) = list(read_batches(bytes(log)))
    assert isinstance(batch, Batch)
    assert not batch.crc_ok
    assert len(records_of(batch)) == 3
