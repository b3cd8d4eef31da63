"""Damaged segments: nothing raises, nothing is dropped in silence, good batches around the damage are still read."""

import itertools
import struct
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.log import framing
from sexton.log.batch import Batch, Damage, TornTail, encode_batch, read_batches, read_frame, read_records
from sexton.log.crc import as_u8
from tests.log.samples import CAP_BYTES, STAMP_MS, batches_of, new_log, old_log, pairs

quick = settings(max_examples=150)

BASE_OFFSET = 1000
LOG = new_log(BASE_OFFSET)
BATCHES = batches_of(LOG)
ENDS = [batch.position + batch.size_bytes for batch in BATCHES]
LEADER_EPOCH = range(12, 16)


def read(log: bytes, *, floor_offset: int = 0) -> list[Batch | Damage | TornTail]:
    """All entries; they must follow each other without a gap, and so must not raise, nor their records."""
    found = list(read_batches(log, floor_offset=floor_offset))
    at = 0
    for entry in found:
        assert entry.position == at
        at += entry.size_bytes
        if isinstance(entry, Batch):
            assert bytes(entry.data) == log[entry.position : at]
            for _ in read_records(entry, cap_bytes=CAP_BYTES):
                pass
    assert at == len(log)
    return found


def good(found: list[Batch | Damage | TornTail]) -> list[bytes]:
    return [bytes(entry.data) for entry in found if isinstance(entry, Batch) and entry.crc_ok]


def told(found: list[Batch | Damage | TornTail]) -> list[str]:
    """What is not plain good, in order."""
    return [
        entry.reason if isinstance(entry, Damage) else "torn" if isinstance(entry, TornTail) else "bad_crc"
        for entry in found
        if not (isinstance(entry, Batch) and entry.crc_ok)
    ]


@pytest.mark.parametrize("log", [LOG, old_log()], ids=["v2", "v0 and v1"])
def test_cut_at_every_byte(log: bytes) -> None:
    whole = batches_of(log)
    for cut in range(len(log) + 1):
        found = read(log[:cut])
        kept = [bytes(batch.data) for batch in whole if batch.position + batch.size_bytes <= cut]
        assert good(found) == kept
        assert told(found) == ([] if cut in (0, *(batch.position + batch.size_bytes for batch in whole)) else ["torn"])


def test_bits_flipped_one_at_a_time() -> None:
    whole = [bytes(batch.data) for batch in BATCHES]
    for number, batch in enumerate(BATCHES):
        others = whole[:number] + whole[number + 1 :]
        for at in range(batch.size_bytes):
            for bit in range(8) if at < 61 else (at % 8,):
                log = bytearray(LOG)
                log[batch.position + at] ^= 1 << bit
                found = read(bytes(log), floor_offset=BASE_OFFSET)
                kept = good(found)
                assert [data for data in kept if data in others] == others, (number, at, bit)
                if at not in LEADER_EPOCH and not is_raised_last(number, at, found):
                    assert told(found), (number, at, bit)
                    assert len(kept) == len(others)


def is_raised_last(number: int, at: int, found: list[Batch | Damage | TornTail]) -> bool:
    """Only the next segment can tell that the base offset of a segment's last batch is too high."""
    last = found[-1]
    return (
        number == len(BATCHES) - 1 and at < 8 and isinstance(last, Batch) and last.base_offset > BATCHES[-1].base_offset
    )


def test_bits_of_old_formats_flipped_one_at_a_time() -> None:
    log, batches = old_log(), batches_of(old_log())
    whole = [bytes(batch.data) for batch in batches]
    for number, batch in enumerate(batches):
        others = whole[:number] + whole[number + 1 :]
        for at in range(8, batch.size_bytes):
            flipped = bytearray(log)
            flipped[batch.position + at] ^= 1 << at % 8
            found = read(bytes(flipped))
            assert good(found) == others, (number, at)
            assert told(found), (number, at)


@quick
@given(st.binary(max_size=400), st.integers(0, len(BATCHES)), st.booleans())
def test_any_bytes_between_batches(junk: bytes, number: int, zeros: bool) -> None:
    junk = bytes(len(junk)) if zeros else junk
    at = (0, *ENDS)[number]
    found = read(LOG[:at] + junk + LOG[at:])
    assert good(found) == [bytes(batch.data) for batch in BATCHES]
    assert bool(told(found)) == bool(junk)


def moved(base_offset: int) -> Callable[[bytes], bytes]:
    return lambda data: struct.pack(">q", base_offset) + data[8:]


def logs_out_of_order() -> Iterator[tuple[str, list[bytes], list[int]]]:
    """(case, batches as written, numbers of those that must be read) for a log of five."""
    five = [encode_batch(pairs(2), base_offset=10 * n, timestamp_ms=STAMP_MS) for n in range(1, 6)]
    a, b, c, d, e = five
    yield "second twice", [a, b, b, c, d, e], [0, 1, 3, 4, 5]
    yield "first twice", [a, a, b, c, d, e], [0, 2, 3, 4, 5]
    yield "last twice", [a, b, c, d, e, e], [0, 1, 2, 3, 4]
    yield "two swapped", [a, c, b, d, e], [0, 1, 3, 4]
    yield "an old one again", [a, b, c, d, a, e], [0, 1, 2, 3, 5]
    yield "raised", [a, moved(1 << 40)(b), c, d, e], [0, 2, 3, 4]
    yield "lowered", [a, b, moved(3)(c), d, e], [0, 1, 3, 4]
    yield "first raised", [moved(1 << 40)(a), b, c, d, e], [1, 2, 3, 4]
    yield "into the one before", [a, moved(11)(b), c, d, e], [0, 2, 3, 4]
    yield "negative", [a, moved(-5)(b), c, d, e], [0, 2, 3, 4]


@pytest.mark.parametrize("case, batches, kept", logs_out_of_order(), ids=[case for case, _, _ in logs_out_of_order()])
def test_batches_out_of_order(case: str, batches: list[bytes], kept: list[int]) -> None:
    found = read(b"".join(batches), floor_offset=10)
    assert [number for number, entry in enumerate(found) if isinstance(entry, Batch)] == kept
    reason = "malformed_batch" if case == "negative" else "out_of_order"
    assert told(found) == [reason] * (len(batches) - len(kept))


def test_a_bad_batch_with_a_wild_offset_takes_no_other_along() -> None:
    wild = bytearray(moved(1 << 50)(TWO))
    wild[-1] ^= 1
    found = read(LATER + bytes(wild) + LAST)
    assert (good(found), told(found)) == ([LATER, LAST], ["malformed_batch"])


TWO = encode_batch(pairs(2), base_offset=5, timestamp_ms=STAMP_MS)
LATER = encode_batch(pairs(2), base_offset=7, timestamp_ms=STAMP_MS)
LAST = encode_batch(pairs(2), base_offset=9, timestamp_ms=STAMP_MS)


TAILS = {
    "empty": (b"", []),
    "zeros": (TWO + bytes(4096), ["torn"]),
    "few zeros": (TWO + bytes(5), ["torn"]),
    "a page of zeros": (TWO + bytes(4096) + LATER, ["malformed_batch"]),
    "last byte lost": (TWO + LATER[:-1] + b"\1", ["bad_crc"]),
    "torn, then zeros": (TWO + LATER[:20] + bytes(4096), ["bad_crc", "torn"]),
    "ones": (TWO + b"\xff" * 100, ["malformed_batch"]),
    "one byte": (TWO + b"\x01", ["torn"]),
    "what follows is older": (LATER + b"\xff\xff" + TWO, ["skipped_bytes"]),
}


@pytest.mark.parametrize("log, expected", TAILS.values(), ids=TAILS)
def test_tails(log: bytes, expected: list[str]) -> None:
    assert told(read(log)) == expected


def test_a_size_that_swallows_the_next_batch_does_not() -> None:
    swallowing = bytearray(TWO + LATER)
    struct.pack_into(">i", swallowing, 8, len(TWO) + len(LATER) - 12)
    found = read(bytes(swallowing))
    assert (good(found), told(found)) == ([LATER], ["malformed_batch"])


def test_false_beginnings_do_not_make_the_search_quadratic() -> None:
    # Headers of believable shape at every 61 bytes, each claiming the rest of 4 MiB: 70,000 sums of 2 MiB on average.
    size, step = 4 << 20, 61
    log = np.zeros(size, dtype=np.uint8)
    starts = np.arange(0, size - 100, step)
    head = np.frombuffer(TWO[:61], dtype=np.uint8)
    for k in range(61):
        log[starts + k] = head[k]
    for k, shift in enumerate((24, 16, 8, 0)):
        log[starts + 8 + k] = (size - starts - 12) >> shift & 0xFF
    log[60::step] = 2
    found = list(read_batches(log))
    assert len(found) == 1
    assert isinstance(found[0], Damage)
    assert "too many false beginnings" in found[0].detail


def rows(log: bytes, start: int, end: int) -> list[tuple[int, ...]]:
    """What `first_frame` and `scan` find of a piece."""
    data = as_u8(log)
    place = framing.first_frame(data, start, floor_offset=BASE_OFFSET)
    return [tuple(row) for block in framing.frames(data, start=place, end=end) for row in block.tolist()]


@quick
@given(
    damaged=st.none() | st.tuples(st.integers(0, len(LOG) - 1), st.integers(1, 255), st.integers(1, 90)),
    borders=st.lists(st.integers(0, len(LOG)), max_size=6),
)
def test_pieces_together_find_what_the_whole_finds(damaged: tuple[int, int, int] | None, borders: list[int]) -> None:
    log = bytearray(LOG)
    if damaged:
        at, mask, size = damaged
        for k in range(at, min(at + size, len(log))):
            log[k] ^= mask
    whole = rows(bytes(log), 0, len(log))
    edges = [0, *sorted(borders), len(log)]
    pieces = [row for start, end in itertools.pairwise(edges) for row in rows(bytes(log), start, end)]
    assert pieces == whole


def test_a_row_is_read_as_the_reader_reads_it() -> None:
    log = TWO + TWO + LATER + b"torn"
    view = memoryview(log)
    assert [read_frame(view, row) for row in rows(log, 0, len(log))] == list(
        read_batches(log, floor_offset=BASE_OFFSET)
    )
