"""Reads the batch headers of whole segments into columns.

`framing` finds where batches begin and end; this module reads the headers in place, without an object for each. `batch`
reads a single header as a `Batch`. Fields follow Kafka's DefaultRecordBatch (v2) and LegacyRecord (v0, v1).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sexton.log.crc import U8Array
from sexton.log.entry import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    COUNT_AT,
    LAST_DELTA_AT,
    LEADER_EPOCH_AT,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_TIMESTAMP_AT,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    NONE,
)
from sexton.log.framing import BAD_CRC, KIND, POSITION, SIZE, FramePosition, FrameRows, frames

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BatchHeaders:
    """Batch headers of a segment, one row per batch, in log order.

    Batches with a wrong CRC are included, because a coordinator reads them. Damage is not.
    """

    data: U8Array
    rows: FrameRows

    @property
    def position(self) -> Int64s:
        return self.rows[:, POSITION]

    @property
    def size_bytes(self) -> Int64s:
        return self.rows[:, SIZE]

    @property
    def magic(self) -> U8Array:
        return self.data[self.position + MAGIC_AT]

    @property
    def base_offset(self) -> Int64s:
        """For an entry of format v0 or v1, the offset of its last record."""
        return _read(self.data, self.position, ">i8")

    @property
    def next_offset(self) -> Int64s:
        """The log_offset after each batch."""
        return self.base_offset + self._modern(LAST_DELTA_AT, ">i4", legacy=0) + 1

    @property
    def leader_epoch(self) -> Int64s:
        """-1 before format v2."""
        return self._modern(LEADER_EPOCH_AT, ">i4", legacy=-1)

    @property
    def max_timestamp_ms(self) -> Int64s:
        """-1 in format v0."""
        stamps = self._modern(MAX_TIMESTAMP_AT, ">i8", legacy=-1)
        is_v1 = self.magic == 1
        stamps[is_v1] = _read(self.data, self.position[is_v1] + LEGACY_TIMESTAMP_AT, ">i8")
        return stamps

    @property
    def codec(self) -> Int64s:
        """Numbers of `entry.CODECS`."""
        attributes_at = np.where(self.magic == 2, ATTRIBUTES_AT + 1, LEGACY_ATTRIBUTES_AT)
        return self.data[self.position + attributes_at].astype(np.int64) & CODEC_MASK

    @property
    def record_count(self) -> Int64s:
        """-1 for a compressed entry of format v0 or v1, whose header does not have it."""
        return self._modern(COUNT_AT, ">i4", legacy=np.where(self.codec == NONE, 1, -1))

    def _modern(self, at: int, dtype: str, *, legacy: int | Int64s) -> Int64s:
        """A field of format v2; `legacy` for batches of older formats."""
        values = np.empty(len(self.rows), np.int64)
        values[:] = legacy
        is_v2 = self.magic == 2
        values[is_v2] = _read(self.data, self.position[is_v2] + at, dtype)
        return values


def is_batch(rows: FrameRows) -> npt.NDArray[np.bool_]:
    """Which of the `rows` of `framing.scan` are batches."""
    found: npt.NDArray[np.bool_] = rows[:, KIND] <= BAD_CRC
    return found


def batch_headers(data: U8Array, rows: FrameRows) -> BatchHeaders:
    """The headers of the batches among the `rows` of `framing.scan`."""
    return BatchHeaders(data, rows[is_batch(rows)])


def headers_of(
    data: U8Array, *, start: FramePosition | None = None, end: int | None = None, floor_offset: int = 0
) -> Iterator[BatchHeaders]:
    """Headers of all batches that begin in bytes [start, end) of a segment, a block at a time; see `framing.frames`."""
    for rows in frames(data, start=start, end=end, floor_offset=floor_offset):
        yield batch_headers(data, rows)


def _read(data: U8Array, at: Int64s, dtype: str) -> Int64s:
    """The big-endian number at each position."""
    raw = data[at[:, None] + np.arange(np.dtype(dtype).itemsize)]
    return np.ascontiguousarray(raw).view(dtype).reshape(-1).astype(np.int64)
