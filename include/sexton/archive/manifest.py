"""The manifest of an archived segment: its range of the log, and its content."""

import hashlib
from dataclasses import dataclass, fields

import numpy as np

from sexton.log.crc import as_u8
from sexton.log.headers import headers_of

_NO_TIMESTAMP_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Lineage:
    """One unbroken stretch of a log partition: its number, from 0, and the log_offset where it starts."""

    ordinal: int
    start_log_offset: int

    @property
    def name(self) -> str:
        return f"{self.ordinal:06d}-{self.start_log_offset:020d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """The range of a log that a segment covers: all batches with a base offset in [first, next log_offset).

    `high_watermark` and `last_stable_offset` are from the broker's answer to the fetch.
    """

    cluster_id: str
    topic_id: str
    log_partition: int
    lineage: str
    first_log_offset: int
    next_log_offset: int
    taken_at_ms: int
    high_watermark: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(SegmentRange):
    """A segment and its range.

    The timestamps are the smallest and the largest max timestamp of the batches, None when no batch has one.
    `leader_epochs` are [epoch, base offset of its first batch here], in log order. `size_bytes` and `sha256` are of the
    file.
    """

    batch_count: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    leader_epochs: list[list[int]]
    size_bytes: int
    sha256: str


def describe(where: SegmentRange, data: bytes) -> Manifest:
    """The manifest of a segment that holds the batches in `data`."""
    count = 0
    stamps: list[int] = []
    epochs: list[list[int]] = []
    for batches in headers_of(as_u8(data)):
        count += len(batches.rows)
        known = batches.max_timestamp_ms[batches.max_timestamp_ms != _NO_TIMESTAMP_MS]
        stamps += [int(known.min()), int(known.max())] if len(known) else []
        is_modern = batches.magic == 2
        found, base_offsets = batches.leader_epoch[is_modern], batches.base_offset[is_modern]
        for k in np.flatnonzero(np.diff(found, prepend=found[:1] - 1)):
            if not epochs or int(found[k]) != epochs[-1][0]:
                epochs.append([int(found[k]), int(base_offsets[k])])
    return Manifest(
        **{field.name: getattr(where, field.name) for field in fields(SegmentRange)},
        batch_count=count,
        first_timestamp_ms=min(stamps, default=None),
        last_timestamp_ms=max(stamps, default=None),
        leader_epochs=epochs,
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )
