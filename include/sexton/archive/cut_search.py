"""Searches archived segments: for the position of a cut, and for log_offsets whose records are missing.

Only headers are read. The batches are found as in a fold (log.headers), so that both stop at the same batch.
"""

import numpy as np
from pyarrow import fs as pafs

from sexton.archive.lineages import ArchivedLineage, ArchivedSegment, read_segment_manifest
from sexton.archive.log_position import LogPosition
from sexton.as_text import HOUR_MS
from sexton.log.crc import U8Array
from sexton.log.headers import headers_of
from sexton.log.segment import Segment, file_bytes

FUTURE_MS = HOUR_MS
"""A batch stamped more than this long after its snapshot is skipped in the search for a cut."""


def start_of(lineage: ArchivedLineage) -> LogPosition:
    """The position of a lineage's start."""
    start = lineage.lineage.start_log_offset
    return LogPosition(lineage=lineage.lineage.name, cut=start, segment=start, position=0)


def find_cut(
    fs: pafs.FileSystem, lineage: ArchivedLineage, start: LogPosition, *, end: int, as_of_ms: int
) -> LogPosition:
    """The position of the first batch in [`start`, `end`) whose max timestamp is at or after the instant, else of
    `end`."""
    for segment in lineage.segments:
        if segment.next_log_offset <= start.segment or segment.first_log_offset >= end:
            continue
        manifest = read_segment_manifest(fs, segment)
        if manifest.last_timestamp_ms is None or manifest.last_timestamp_ms < as_of_ms:
            continue
        future_ms = manifest.taken_at_ms + FUTURE_MS
        from_byte = start.position if segment.first_log_offset == start.segment else 0
        for batches in headers_of(_bytes(fs, segment), floor_offset=segment.first_log_offset):
            is_cut = (batches.max_timestamp_ms >= as_of_ms) & (batches.max_timestamp_ms <= future_ms)
            is_cut &= (batches.position >= from_byte) & (batches.base_offset < end)
            if len(hits := np.flatnonzero(is_cut)):
                return LogPosition(
                    lineage=lineage.lineage.name,
                    cut=int(batches.base_offset[hits[0]]),
                    segment=segment.first_log_offset,
                    position=int(batches.position[hits[0]]),
                )
    return end_of(fs, lineage, end)


def end_of(fs: pafs.FileSystem, lineage: ArchivedLineage, end: int) -> LogPosition:
    """The position after the last batch below log_offset `end`: the start of a segment, unless a concurrent snapshot
    wrote a longer segment."""
    name = lineage.lineage.name
    across = next((one for one in lineage.segments if one.first_log_offset < end < one.next_log_offset), None)
    if across is None:
        return LogPosition(lineage=name, cut=end, segment=end, position=0)
    position = across.size_bytes
    for batches in headers_of(_bytes(fs, across), floor_offset=across.first_log_offset):
        if len(after := np.flatnonzero(batches.base_offset >= end)):
            position = int(batches.position[after[0]])
            break
    return LogPosition(lineage=name, cut=end, segment=across.first_log_offset, position=position)


def is_whole(fs: pafs.FileSystem, lineage: ArchivedLineage, start: int, end: int) -> bool:
    """Whether every log_offset in [start, end) has its record: nothing was compacted before it was archived."""
    reached = start
    for segment in lineage.segments:
        if segment.next_log_offset <= start or segment.first_log_offset >= end:
            continue
        for batches in headers_of(_bytes(fs, segment), floor_offset=segment.first_log_offset):
            inside = (batches.base_offset >= start) & (batches.base_offset < end)
            base, after = batches.base_offset[inside], batches.next_offset[inside]
            expected = np.concatenate([[reached], after])[: len(base)]
            if np.any(base != expected) or np.any(batches.record_count[inside] != after - base):
                return False
            reached = int(after[-1]) if len(after) else reached
    return reached == end


def segments_between(
    lineage: ArchivedLineage, position: LogPosition, *, after: LogPosition | None = None
) -> list[Segment]:
    """The segments of a lineage that cover [`after`, `position`), the first and the last possibly in part."""
    begin = after.order if after is not None else (lineage.lineage.start_log_offset, 0)
    return [
        Segment(
            log_partition=lineage.log_partition,
            path=segment.segment_path,
            size_bytes=segment.size_bytes,
            base_offset=segment.first_log_offset,
            start_byte=begin[1] if segment.first_log_offset == begin[0] else 0,
            end_byte=position.position if segment.first_log_offset == position.segment else None,
            manifest_path=segment.manifest_path,
        )
        for segment in lineage.segments
        if (segment.next_log_offset, 0) > begin and (segment.first_log_offset, 0) < position.order
    ]


def _bytes(fs: pafs.FileSystem, segment: ArchivedSegment) -> U8Array:
    return file_bytes(fs, segment.segment_path, segment.size_bytes, is_archived=True)
