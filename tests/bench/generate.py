"""Writes big logs of offset commits as a broker would leave them on disk: for the bench and the large tests.

`write` makes __consumer_offsets-N/ for every log partition, with segments of 100 MB and their indexes. Memory is
bounded: a log partition is made some MB at a time, and several of them side by side.

The shape is that of a busy cluster as recorded from real 4.3.1 brokers: a batch is one group's commit and holds 1 to 5
records, 3 on the average, of neighbouring partitions of a topic; batches of different groups follow each other at
random. The log covers 30 days, and one group in ten has been idle since the first third of them, so that something has
expired. A share of the batches may be transactional, each followed by its marker (one in ten aborts), and a share of
the records may be tombstones. Groups lie where their ids hash to. CRCs are valid: kafka-dump-log and a broker read the
files too.
"""

import itertools
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import pointer
from sexton.kernels.layout import Bytes
from sexton.kernels.text import partition_of
from sexton.log import codec
from tests.bench.batches import (
    CONTROL,
    END,
    HEADER_BYTES,
    MARK_COLUMNS,
    RANDOM,
    RECORD,
    START,
    repack,
    write_batches,
)
from tests.bench.segments import SEGMENT_BYTES, Block, LogWriter, Written

BLOCK_BYTES = 8 << 20
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a generated log is like; the same shape and seed give the same bytes.

    `records` counts offset commits and tombstones: markers come on top. `records_per_batch` is the average of 1 to
    2n - 1. `hot_share` of the records lie in log partition 0; without it, as many as its groups stand for. The ids of
    `hot_keys_share` of the groups hash to log partition 0; without it, those of as many as chance gives it.
    """

    records: int = 3_000_000
    keys: int = 60_000
    partitions_of_group: int = 20
    log_partitions: int = 1
    records_per_batch: int = 3
    transactional_share: float = 0.0
    tombstone_share: float = 0.0
    retired_share: float = 0.1
    hot_share: float = 0.0
    hot_keys_share: float = 0.0
    metadata_bytes: int = 0
    codec: str = "none"
    first_timestamp_ms: int = 1_700_000_000_000
    span_ms: int = 30 * DAY_MS
    segment_bytes: int = SEGMENT_BYTES
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Every group's part of its keys (type, group id, topic) side by side, where each begins, and its log partition."""

    names: np.ndarray
    starts: np.ndarray
    homes: np.ndarray


def groups_of(shape: Shape) -> Groups:
    """The groups of a shape, in order of their numbers; all have the same count of partitions."""
    pieces, homes = [], []
    for number, group, home in _group_ids(shape):
        topic = f"topic-{number % 97:03d}".encode()
        pieces.append(
            b"\0\1" + len(group).to_bytes(2, "big") + group + len(topic).to_bytes(2, "big") + topic
        )  # fmt: skip
        homes.append(home)
    starts = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum([len(piece) for piece in pieces], out=starts[1:])
    return Groups(names=np.frombuffer(b"".join(pieces), np.uint8), starts=starts, homes=np.array(homes))


def _group_ids(shape: Shape) -> Iterator[tuple[int, bytes, int]]:
    """Number, id and log partition of every group; numbers are left out where log partition 0 has its share."""
    count = -(-shape.keys // shape.partitions_of_group)
    hot = round(shape.hot_keys_share * count) if shape.log_partitions > 1 else 0
    room = [hot, count - hot] if hot else [count, count]
    numbers = itertools.count()
    while count:
        number = next(numbers)
        group = f"orders-service-{number:06d}".encode()
        home = int(_home(np.frombuffer(group, np.uint8), shape.log_partitions))
        if room[home > 0]:
            room[home > 0] -= 1
            count -= 1
            yield number, group, home


@compiled
def _home(group_id: Bytes, log_partitions: int) -> int:
    return partition_of(pointer(group_id), 0, len(group_id), log_partitions)


def blocks(shape: Shape, groups: Groups, log_partition: int) -> Iterator[Block]:
    """The batches of a log partition in order, some MB at a time."""
    own = np.flatnonzero(groups.homes == log_partition)
    records = _share(shape, groups, log_partition)
    if not len(own) or not records:
        return
    longest = int(np.diff(groups.starts).max())
    numbers = np.array(
        [
            records, shape.records_per_batch, shape.partitions_of_group, shape.metadata_bytes,
            shape.first_timestamp_ms, shape.span_ms, longest, round(1000 * shape.transactional_share),
            round(1000 * shape.tombstone_share), round(1000 * shape.retired_share),
        ]
    )  # fmt: skip
    at = np.zeros(4, np.int64)
    at[RANDOM] = np.random.default_rng([shape.seed, log_partition]).integers(1, 1 << 62)
    out = np.empty(BLOCK_BYTES, np.uint8)
    marks = np.empty((BLOCK_BYTES // (HEADER_BYTES + 8), MARK_COLUMNS), np.int64)
    while at[RECORD] < records:
        used, count = write_batches(out, marks, at, numbers, groups.names, groups.starts, own)
        block = Block(data=out[:used], marks=marks[:count])
        yield block if shape.codec == "none" else _compressed(block, shape.codec)


def _share(shape: Shape, groups: Groups, log_partition: int) -> int:
    """The records of a log partition; together they are those of the shape."""
    weights = np.bincount(groups.homes, minlength=shape.log_partitions).astype(np.float64)
    weights /= weights.sum()
    if shape.hot_share:
        weights[1:] *= (1 - shape.hot_share) / max(weights[1:].sum(), 1e-9)
        weights[0] = shape.hot_share
    borders = np.rint(np.concatenate([[0], np.cumsum(weights)]) * shape.records).astype(np.int64)
    return int(borders[log_partition + 1] - borders[log_partition])


def _compressed(block: Block, name: str) -> Block:
    """The same batches with the records of data batches compressed as a broker compresses them."""
    number = codec.CODECS.index(name)
    marks, view = block.marks.copy(), block.data.data
    bodies = [
        None if view[start + 22] & CONTROL else codec.deflate(number, bytes(view[start + HEADER_BYTES : end]))
        for start, end in marks[:, [START, END]].tolist()
    ]
    sizes = np.array([-1 if body is None else len(body) for body in bodies])
    joined = np.frombuffer(b"".join(body for body in bodies if body), np.uint8)
    out = np.empty(len(block.data) + len(joined), np.uint8)
    repack(out, block.data, marks, joined, sizes, number)
    return Block(data=out[: int(marks[-1, END])], marks=marks)


def generate(shape: Shape) -> dict[int, np.ndarray]:
    """The bytes of every log partition, uint8, in memory."""
    groups = groups_of(shape)
    empty = [np.empty(0, np.uint8)]
    return {
        number: np.concatenate(empty + [block.data.copy() for block in blocks(shape, groups, number)])
        for number in range(shape.log_partitions)
    }


def write(shape: Shape, root: Path) -> Written:
    """Write every log partition as a broker's folder below `root`, side by side."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(partial(_write_one, shape, root, groups_of(shape)), range(shape.log_partitions)))
    return sum(parts[1:], parts[0])


def _write_one(shape: Shape, root: Path, groups: Groups, log_partition: int) -> Written:
    folder = root / f"__consumer_offsets-{log_partition}"
    with LogWriter(folder, segment_bytes=shape.segment_bytes) as writer:
        for block in blocks(shape, groups, log_partition):
            writer.append(block)
    return writer.written
