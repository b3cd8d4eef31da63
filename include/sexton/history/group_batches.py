"""Finds the batches of a log partition that may have records of one group, without decoding all other batches.

A key contains its group id as bytes, so a batch without these bytes has no record of the group. Compressed batches are
decompressed first.
"""

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from pyarrow import fs as pafs

from sexton.coordinator.loading import FUTURE_MS
from sexton.errors import LogError
from sexton.log import codec as codecs
from sexton.log.batch import Batch, read_frame
from sexton.log.crc import U8Array
from sexton.log.entry import HEADER_BYTES
from sexton.log.framing import POSITION, SIZE, first_frame
from sexton.log.headers import BatchHeaders, headers_of
from sexton.log.segment import Segment, SegmentSlice, plan_fold_tasks, slice_bytes
from sexton.settings import settings

_REPLACED = "\ufffd"


def batches_about(
    data: U8Array, span: SegmentSlice, group_id: str, *, stop_offset: int | None = None
) -> Iterator[Batch]:
    """Batches that start in `span` and below `stop_offset`, in log order; a batch may have no record of the group.

    `data` is the entire file. A batch that cannot be decompressed is left out.
    """
    name = group_id.encode()
    needle = None if _REPLACED in group_id else struct.pack(">H", len(name) & 0xFFFF) + name  # bytes in keys may differ
    place = first_frame(data, span.start_byte, floor_offset=span.base_offset)
    for headers in headers_of(data, start=place, end=span.end_byte):
        if stop_offset is not None:
            headers = BatchHeaders(data, headers.rows[headers.base_offset < stop_offset])
        rows, codec, magic = headers.rows, headers.codec.tolist(), headers.magic.tolist()
        hits = None if needle is None else _rows_with(data, rows, needle)
        for index, row in enumerate(rows.tolist()):
            is_hit = hits is None or hits[index]
            if is_hit or (
                needle is not None and _inflated_has(data, row, needle, codec=codec[index], magic=magic[index])
            ):
                batch = read_frame(data.data, row)
                if isinstance(batch, Batch):
                    yield batch


def whole_log(fs: pafs.FileSystem, segments: Sequence[Segment]) -> Iterator[tuple[U8Array, SegmentSlice]]:
    """Every segment's bytes and slice, in log order."""
    for task in plan_fold_tasks(segments):
        for span in task.slices:
            yield slice_bytes(fs, span), span


def stop_offset_of(
    fs: pafs.FileSystem, segments: Sequence[Segment], *, as_of_ms: int | None, taken_at_ms: int
) -> int | None:
    """The log_offset at which reading a broker's disk as of `as_of_ms` stops; None: it is read to its end."""
    if as_of_ms is None:
        return None
    cuts = (
        _cut_in(data, span, as_of_ms=as_of_ms, future_ms=taken_at_ms + FUTURE_MS)
        for data, span in whole_log(fs, segments)
    )
    return next((cut for cut in cuts if cut is not None), None)


def _cut_in(data: U8Array, span: SegmentSlice, *, as_of_ms: int, future_ms: int) -> int | None:
    """Base offset of the first batch in `span` whose largest timestamp is at or after `as_of_ms`; None without one.

    Batches with a timestamp after `future_ms` are skipped, as in `coordinator.loading`.
    """
    place = first_frame(data, span.start_byte, floor_offset=span.base_offset)
    for headers in headers_of(data, start=place, end=span.end_byte):
        stamps = headers.max_timestamp_ms
        reached = np.flatnonzero((stamps >= as_of_ms) & (stamps <= future_ms))
        if len(reached):
            return int(headers.base_offset[reached[0]])
    return None


def _rows_with(data: U8Array, rows: npt.NDArray[np.int64], needle: bytes) -> Sequence[bool]:
    """Whether each batch contains the bytes, without decompressing it."""
    found = np.zeros(len(rows), bool)
    if len(rows):
        start, end = int(rows[0, POSITION]), int(rows[-1, POSITION] + rows[-1, SIZE])
        block = data[start:end].tobytes()
        at = block.find(needle)
        while at >= 0:
            row = int(np.searchsorted(rows[:, POSITION], start + at, side="right")) - 1
            found[row] = True
            at = block.find(needle, int(rows[row, POSITION] + rows[row, SIZE]) - start)
    hits: list[bool] = found.tolist()
    return hits


def _inflated_has(data: U8Array, row: Sequence[int], needle: bytes, *, codec: int, magic: int) -> bool:
    position, size = row[POSITION], row[SIZE]
    if codec == codecs.NONE:
        return False
    if magic < 2:
        return True
    body = data.data[position + HEADER_BYTES : position + size]
    try:
        return needle in codecs.inflate(codec, body, magic=magic, cap_bytes=settings().inflated_cap_bytes)
    except LogError:
        return False
