"""Writes big logs of offset commits as a broker would hold them, in seconds: for `make bench` and the large tests.

    python -m tests.bench.generate OUT --records 3000000 --keys 60000 --codec lz4 --records-per-batch 20

makes OUT/__consumer_offsets-N/00000000000000000000.log for every log partition. Groups lie where their ids hash to;
commits pick keys at random; a share of the batches is transactional, each followed by its marker (one in ten aborts);
a share of the records are tombstones. CRCs are valid, so kafka-dump-log and a broker read the files too.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cramjam
import numpy as np

from sexton.kernels.compiled import compiled
from sexton.kernels.text import group_hash
from sexton.log.crc import crc32c_range

HEADER_BYTES = 61
LZ4 = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a generated log is like; the same shape and seed give the same bytes."""

    records: int = 3_000_000
    keys: int = 60_000
    partitions_of_group: int = 20
    log_partitions: int = 1
    records_per_batch: int = 20
    transactional_share: float = 0.0
    tombstone_share: float = 0.0
    metadata_bytes: int = 0
    codec: str = "none"
    first_timestamp_ms: int = 1_700_000_000_000
    seed: int = 1


def generate(shape: Shape) -> dict[int, np.ndarray]:
    """The bytes of every log partition, uint8."""
    arena, starts, homes = _keys(shape)
    logs = {}
    for log_partition in range(shape.log_partitions):
        own = np.flatnonzero(homes == log_partition)
        share = round(shape.records * len(own) / max(len(homes), 1))
        if share == 0:
            logs[log_partition] = np.empty(0, np.uint8)
            continue
        rng = np.random.default_rng([shape.seed, log_partition])
        picks = own[rng.integers(0, len(own), share)]
        batches = -(-share // shape.records_per_batch)
        is_transactional = rng.random(batches) < shape.transactional_share
        is_aborted = rng.random(batches) < 0.1
        is_tombstone = rng.random(share) < shape.tombstone_share
        longest = int((starts[1:] - starts[:-1]).max()) if len(starts) > 1 else 0
        room = share * (longest + shape.metadata_bytes + 60) + batches * (2 * HEADER_BYTES + 40)
        out = np.empty(room, np.uint8)
        marks = np.empty((2 * batches, 2), np.int64)
        used, count = _write(
            out, marks, arena, starts, picks, is_tombstone, is_transactional, is_aborted,
            shape.records_per_batch, shape.metadata_bytes, shape.first_timestamp_ms,
        )  # fmt: skip
        logs[log_partition] = _compressed(out, marks[:count]) if shape.codec == "lz4" else out[:used].copy()
    return logs


def write(shape: Shape, root: Path) -> list[Path]:
    """Write every log partition as a broker's folder below `root`; return the segment files."""
    files = []
    for log_partition, data in generate(shape).items():
        path = root / f"__consumer_offsets-{log_partition}" / f"{0:020d}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.data)
        files.append(path)
    return files


def _keys(shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Key bytes of type 1 side by side, where each begins (one more at the end), and each key's log partition."""
    pieces, homes = [], []
    for number in range(shape.keys):
        group_number, partition = divmod(number, shape.partitions_of_group)
        group = f"orders-service-{group_number:06d}".encode()
        topic = f"topic-{group_number % 97:03d}".encode()
        if partition == 0:
            span = np.frombuffer(group, np.uint8)
            home = abs(int(group_hash(span))) % shape.log_partitions
        pieces.append(
            b"\0\1" + len(group).to_bytes(2, "big") + group + len(topic).to_bytes(2, "big") + topic
            + partition.to_bytes(4, "big")
        )  # fmt: skip
        homes.append(home)
    starts = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum([len(piece) for piece in pieces], out=starts[1:])
    return np.frombuffer(b"".join(pieces), np.uint8), starts, np.array(homes)


@compiled
def _put(out: Any, at: int, value: int, size: int) -> int:
    for i in range(size):
        out[at + i] = (value >> (8 * (size - 1 - i))) & 0xFF
    return at + size


@compiled
def _varint(out: Any, at: int, value: int) -> int:
    left = (value << 1) ^ (value >> 63)
    while left & ~0x7F:
        out[at] = (left & 0x7F) | 0x80
        left >>= 7
        at += 1
    out[at] = left
    return at + 1


@compiled
def _seal(out: Any, start: int, end: int, offset: int, count: int, attributes: int, now_ms: int, pid: int) -> None:
    """Fill in the header of the batch that lies in [start, end)."""
    _put(out, start, offset, 8)
    _put(out, start + 8, end - start - 12, 4)
    _put(out, start + 12, 0, 4)
    out[start + 16] = 2
    _put(out, start + 21, attributes, 2)
    _put(out, start + 23, count - 1, 4)
    _put(out, start + 27, now_ms, 8)
    _put(out, start + 35, now_ms, 8)
    _put(out, start + 43, pid, 8)
    _put(out, start + 51, 0 if pid >= 0 else -1, 2)
    _put(out, start + 53, -1, 4)
    _put(out, start + 57, count, 4)
    _put(out, start + 17, np.int64(crc32c_range(out, start + 21, end)), 4)


@compiled
def _write(
    out: Any, marks: Any, arena: Any, starts: Any, picks: Any, is_tombstone: Any, is_transactional: Any,
    is_aborted: Any, per_batch: int, metadata_bytes: int, now_ms: int,
) -> tuple[int, int]:  # fmt: skip
    at, offset, record, batch, marked = 0, 0, 0, 0, 0
    while record < len(picks):
        start = at
        at += 61
        count = min(per_batch, len(picks) - record)
        pid = batch % 1000 if is_transactional[batch] else -1
        for delta in range(count):
            key = picks[record]
            key_size = starts[key + 1] - starts[key]
            value_size = -1 if is_tombstone[record] else 24 + metadata_bytes
            # attributes, timestamp delta, offset delta, the two lengths (both below 2^13), header count
            size = 2 + (1 if delta < 64 else 2 if delta < 8192 else 3) + 1
            size += (1 if key_size < 64 else 2) + (1 if value_size < 64 else 2) + key_size + max(value_size, 0)
            at = _varint(out, at, size)
            out[at] = 0
            out[at + 1] = 0
            at = _varint(out, at + 2, delta)
            at = _varint(out, at, key_size)
            for i in range(key_size):
                out[at + i] = arena[starts[key] + i]
            at = _varint(out, at + key_size, value_size)
            if value_size > 0:
                at = _put(out, at, 3, 2)
                at = _put(out, at, record, 8)
                at = _put(out, at, 0, 4)
                at = _put(out, at, metadata_bytes, 2)
                for i in range(metadata_bytes):
                    out[at + i] = 97 + (record + i) % 26
                at = _put(out, at + metadata_bytes, now_ms, 8)
            out[at] = 0
            at += 1
            record += 1
        _seal(out, start, at, offset, count, 0x10 if pid >= 0 else 0, now_ms, pid)
        marks[marked, 0], marks[marked, 1] = start, at
        marked += 1
        offset += count
        if pid >= 0:
            start = at
            at = _varint(out, at + 61, 16)
            out[at : at + 16] = 0
            out[at + 3] = 8  # key: 4 bytes, version 0, type
            out[at + 7] = 0 if is_aborted[batch] else 1
            out[at + 8] = 12  # value: 6 bytes, version 0, coordinator epoch 0
            at += 16
            _seal(out, start, at, offset, 1, 0x30, now_ms, pid)
            marks[marked, 0], marks[marked, 1] = start, at
            marked += 1
            offset += 1
        batch += 1
        now_ms += 1
    return at, marked


def _compressed(data: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """The same batches with the records of data batches in lz4 frames."""
    pieces = []
    for start, end in marks.tolist():
        batch = data[start:end]
        if batch[22] & 0x20:
            pieces.append(batch.tobytes())
            continue
        body = bytes(cramjam.lz4.compress(batch[HEADER_BYTES:].tobytes()))
        sealed = np.frombuffer(bytearray(batch[:HEADER_BYTES].tobytes() + body), np.uint8)
        sealed[8:12] = np.frombuffer((len(sealed) - 12).to_bytes(4, "big"), np.uint8)
        sealed[22] |= LZ4
        crc = int(crc32c_range(sealed, 21, len(sealed)))
        sealed[17:21] = np.frombuffer(crc.to_bytes(4, "big"), np.uint8)
        pieces.append(sealed.tobytes())
    return np.frombuffer(b"".join(pieces), np.uint8)


def main() -> None:
    """Command line: one option for each field of `Shape`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    defaults = Shape()
    for name in Shape.__slots__:
        value = getattr(defaults, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    options = vars(parser.parse_args())
    out = options.pop("out")
    began = time.perf_counter()
    files = write(Shape(**options), out)
    size = sum(path.stat().st_size for path in files)
    print(f"{size:,} bytes in {len(files)} log partitions below {out}, {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
