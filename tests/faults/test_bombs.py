"""Compressed bodies that hold far more than they are long: a row for each, and no more memory than the cap.

Measured in a process that does nothing else, by the peak of its resident memory over what it had before. Bodies that
just fit under the cap are no bombs, but take the most: they are inflated, copied into the arena of the fold, and where
something is wrong with them inflated and copied again by the reader that says what.
"""

from typing import Any

import pytest

from sexton.coordinator.loading import load
from sexton.kernels.fold import fold_task
from sexton.log import codec as codecs
from sexton.log.batch import encode_batch
from sexton.log.entry import MAX_RAW_BYTES
from sexton.log.segment import FoldTask
from sexton.log.varint import write_varint
from sexton.settings import Settings
from tests.faults.bombs import COUNT, bombs
from tests.faults.memory import PeakMemory, needs_proc, run_alone
from tests.kernels.compare import slice_of
from tests.log_builder import BASE_MS, commit, offset_key, offset_value, sealed

CAP_BYTES = {False: 16 << 20, True: Settings.model_fields["inflated_cap_bytes"].default}
OVER_THE_CAP = 1.10
FITTING_OVER_THE_CAP = 3.5
LZ4_BLOCK_BYTES = 4 << 20  # what its decoder holds besides: 6% of the default cap
CODECS = (codecs.GZIP, codecs.SNAPPY, codecs.LZ4, codecs.ZSTD)
COUNTS = (1, (1 << 31) - 1)
FLOOD = 250_000
FITTING = ("half", "a byte less", "the cap")


def batch_of(codec: int, body: bytes, *, count: int) -> bytes:
    """A batch with a good CRC around `body`, which claims `count` records, and one behind it that can be read."""
    plain = encode_batch([commit("g")], base_offset=0, timestamp_ms=BASE_MS)
    first = sealed(plain[:21] + bytes([0, codec]) + plain[23:57] + count.to_bytes(4) + body)
    return first + encode_batch([commit("g", 7)], base_offset=1, timestamp_ms=BASE_MS)


def explode(cap_bytes: int, reader: str) -> list[dict[str, Any]]:
    """What each bomb came to: reasons, offset values that were still read, and the peak of memory."""
    return [
        {"codec": codec, "name": name, **_explode(batch_of(codec, body, count=COUNTS[number % 2]), cap_bytes, reader)}
        for codec in CODECS
        for number, (name, body) in enumerate([("warm up", b""), *bombs(codec, cap_bytes)])
    ]


def _explode(log: bytes, cap_bytes: int, reader: str) -> dict[str, Any]:
    with PeakMemory() as memory:
        if reader == "fold":
            task = FoldTask(log_partition=0, index=0, slices=(slice_of(log),), is_last=True)
            fold = fold_task([log], task=task, cap_bytes=cap_bytes, as_of_ms=None, taken_at_ms=None)
            reasons, read = [row.reason for _, row in fold.undecodable], fold.counters["offset_values"]
        else:
            plain = load([log], cap_bytes=cap_bytes)
            reasons, read = [row.reason for row in plain.undecodable], len(plain.offsets)
    return {"reasons": reasons, "read": read, "growth_bytes": memory.growth_bytes}


@needs_proc
@pytest.mark.parametrize("reader", ["fold", "plain"])
def test_bombs(reader: str, full: bool, tell) -> None:
    cap_bytes = CAP_BYTES[full]
    found = [bomb for bomb in run_alone(explode, cap_bytes, reader) if bomb["name"] != "warm up"]
    assert len(found) == COUNT * len(CODECS)
    assert [bomb for bomb in found if not bomb["reasons"] or bomb["read"] < 1] == []
    peaks = {(codecs.CODECS[bomb["codec"]], bomb["name"]): bomb["growth_bytes"] for bomb in found}
    for kind, share in (("bombs", OVER_THE_CAP), ("fitting", FITTING_OVER_THE_CAP)):
        own = {bomb: peak for bomb, peak in peaks.items() if (bomb[1] in FITTING) == (kind == "fitting")}
        tell(f"{len(own)} {kind}, at most {max(own.values()) / cap_bytes:.0%} of a cap of {cap_bytes >> 20} MiB")
        assert {bomb: peak for bomb, peak in own.items() if peak > share * cap_bytes + LZ4_BLOCK_BYTES} == {}


def test_what_is_kept_of_a_body_of_garbage_has_an_end() -> None:
    log = batch_of(codecs.ZSTD, codecs.deflate(codecs.ZSTD, b"\1" + bytes(4 * MAX_RAW_BYTES)), count=1)
    assert sum(len(row.value or b"") for row in load([log], cap_bytes=1 << 30).undecodable) <= 2 * MAX_RAW_BYTES


@pytest.mark.thorough
@needs_proc
def test_a_flood_of_small_records_stays_within_the_cap() -> None:
    """Behind one without a key the compiled loop leaves the rest to the reader, which hands the good ones back."""
    found = run_alone(flood)
    assert (len(found["reasons"]), found["read"]) == (1, FLOOD - 1)
    assert found["growth_bytes"] <= FITTING_OVER_THE_CAP * CAP_BYTES[False]


def flood() -> dict[str, Any]:
    key, value = offset_key("g"), offset_value(5)
    tail = write_varint(len(key)) + key + write_varint(len(value)) + value + b"\0"
    body = bytearray()
    for delta in range(FLOOD):
        record = b"\0\0" + write_varint(delta) + (tail if delta else b"\1\1\0")
        body += write_varint(len(record)) + record
    assert len(body) < CAP_BYTES[False]
    plain = encode_batch([commit("g")], base_offset=0, timestamp_ms=BASE_MS)
    counts = [(FLOOD - 1).to_bytes(4, "big"), plain[27:57], FLOOD.to_bytes(4, "big")]
    head = plain[:21] + bytes([0, codecs.ZSTD]) + b"".join(counts)
    log = sealed(head + codecs.deflate(codecs.ZSTD, bytes(body)))
    _explode(plain, CAP_BYTES[False], "fold")  # warm up
    return _explode(log, CAP_BYTES[False], "fold")
