"""A short log that holds one batch of every kind, and what its batches are, for the tests of damage; printed logs."""

import gzip
from collections.abc import Iterator
from pathlib import Path

from sexton.log import codec
from sexton.log.batch import Batch, read_batches
from tests.log_encoding import encode_batch, encode_marker, encode_message_set

STAMP_MS = 1_700_000_000_000
CAP_BYTES = 1 << 20


def pairs(count: int, *, salt: str = "") -> list[tuple[bytes, bytes | None]]:
    """Records with a key each, every third a tombstone."""
    return [
        (f"key-{salt}{n}".encode(), None if n % 3 == 2 else f"value-{salt}{n}".encode() * (n + 1)) for n in range(count)
    ]


def old_log() -> bytes:
    """Formats v0 and v1: messages of their own and wrappers, log_offsets 0 to 10."""
    return (
        encode_message_set(pairs(2), base_offset=0, magic=0)
        + encode_message_set(pairs(3), base_offset=2, magic=0, codec=codec.SNAPPY)
        + encode_message_set(pairs(2), base_offset=5, magic=1, timestamp_ms=STAMP_MS)
        + encode_message_set(pairs(4), base_offset=7, magic=1, timestamp_ms=STAMP_MS, codec=codec.GZIP)
    )


def new_log(base_offset: int = 0) -> bytes:
    """Format v2: every codec, transactions, a marker, holes and an empty batch, without a gap between batches."""
    log, at = b"", base_offset
    for number in range(5):
        own = {"producer_id": 7, "producer_epoch": 0, "transactional": True} if number == 3 else {}
        records = pairs(number + 1, salt=str(number))
        log += encode_batch(records, base_offset=at, timestamp_ms=STAMP_MS + number, codec=number, **own)
        at += number + 1
    log += encode_marker(True, base_offset=at, timestamp_ms=STAMP_MS + 9, producer_id=7, producer_epoch=0)
    log += encode_batch([], base_offset=at + 1, timestamp_ms=STAMP_MS, producer_id=7, last_offset_delta=3)
    log += encode_batch(pairs(2), base_offset=at + 5, timestamp_ms=STAMP_MS, offset_deltas=[1, 4], last_offset_delta=6)
    return log + encode_batch(pairs(1), base_offset=at + 12, timestamp_ms=STAMP_MS)


def dumped(recording: Path) -> Iterator[tuple[str, str]]:
    """(segment, line) of what kafka-dump-log printed of the batches and records of a recording."""
    segment = ""
    for line in gzip.decompress((recording / "dump-log.txt.gz").read_bytes()).decode().split("\n"):
        if line.startswith("Dumping "):
            segment = "/".join(line.split("/")[-2:])
        elif line.startswith(("baseOffset:", "| offset:")):
            yield segment, line


def batches_of(log: bytes) -> list[Batch]:
    """All of a log that is whole and good."""
    found = list(read_batches(log))
    assert all(isinstance(entry, Batch) and entry.crc_ok for entry in found)
    return [entry for entry in found if isinstance(entry, Batch)]
