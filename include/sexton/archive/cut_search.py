"""Looks into archived segments for a place: where a cut lies, and whether anything is missing before it.

Only headers of batches are read. What is a batch is what a fold takes for one (framing), so that both stop at the same.
"""

import numpy as np
from pyarrow import fs as pafs

from sexton.archive.lineages import ArchivedLineage, ArchivedSegment, read_segment_manifest
from sexton.archive.log_position import LogPosition
from sexton.log.crc import U8Array
from sexton.log.headers import headers_of
from sexton.log.segment import Segment, file_bytes

FUTURE_MS = 3_600_000
"""How far after its snapshot a batch may be stamped and still be believed."""
_MAGIC_AT = 16


def start_of(history: ArchivedLineage) -> LogPosition:
    """Where a lineage begins."""
    start = history.lineage.start_log_offset
    return LogPosition(lineage=history.lineage.name, cut=start, segment=start, position=0)


def find_cut(
    fs: pafs.FileSystem, history: ArchivedLineage, start: LogPosition, *, end: int, as_of_ms: int
) -> LogPosition:
    """The first batch of the lineage, from `start` on and below log_offset `end`, that reaches the instant."""
    for link in history.segments:
        if link.next_log_offset <= start.segment or link.first_log_offset >= end:
            continue
        manifest = read_segment_manifest(fs, link)
        reaches = manifest.last_timestamp_ms is not None and manifest.last_timestamp_ms >= as_of_ms
        if not reaches:
            continue
        future_ms = manifest.taken_at_ms + FUTURE_MS
        from_byte = start.position if link.first_log_offset == start.segment else 0
        for batches in headers_of(_bytes(fs, link), floor_offset=link.first_log_offset):
            is_cut = (batches.max_timestamp_ms >= as_of_ms) & (batches.max_timestamp_ms <= future_ms)
            is_cut &= (batches.position >= from_byte) & (batches.base_offset < end)
            if len(hits := np.flatnonzero(is_cut)):
                return LogPosition(
                    lineage=history.lineage.name,
                    cut=int(batches.base_offset[hits[0]]),
                    segment=link.first_log_offset,
                    position=int(batches.position[hits[0]]),
                )
    return end_of(fs, history, end)


def end_of(fs: pafs.FileSystem, history: ArchivedLineage, end: int) -> LogPosition:
    """Behind the last batch below log_offset `end`: where a segment begins, but for snapshots that ran side by side."""
    lineage = history.lineage.name
    across = next((link for link in history.segments if link.first_log_offset < end < link.next_log_offset), None)
    if across is None:
        return LogPosition(lineage=lineage, cut=end, segment=end, position=0)
    position = across.size_bytes
    data = _bytes(fs, across)
    for batches in headers_of(data, floor_offset=across.first_log_offset):
        if len(behind := np.flatnonzero(batches.base_offset >= end)):
            position = int(batches.position[behind[0]])
            break
    return LogPosition(lineage=lineage, cut=end, segment=across.first_log_offset, position=position)


def is_whole(fs: pafs.FileSystem, history: ArchivedLineage, start: int, end: int) -> bool:
    """Whether every log_offset in [start, end) has its record, so that nothing was compacted before it was archived."""
    reached = start
    for link in history.segments:
        if link.next_log_offset <= start or link.first_log_offset >= end:
            continue
        for batches in headers_of(_bytes(fs, link), floor_offset=link.first_log_offset):
            inside = (batches.base_offset >= start) & (batches.base_offset < end)
            base, after = batches.base_offset[inside], batches.next_offset[inside]
            expected = np.concatenate([[reached], after])[: len(base)]
            if np.any(base != expected) or np.any(batches.record_count[inside] != after - base):
                return False
            reached = int(after[-1]) if len(after) else reached
    return reached == end


def segments_between(
    history: ArchivedLineage, before: LogPosition, *, after: LogPosition | None = None
) -> list[Segment]:
    """The segments of a lineage that hold [`after`, `before`), the first and the last of them in part."""
    begin = after.order if after is not None else (history.lineage.start_log_offset, 0)
    found = []
    for link in history.segments:
        if (link.next_log_offset, 0) <= begin or (link.first_log_offset, 0) >= before.order:
            continue
        found.append(
            Segment(
                log_partition=history.log_partition,
                path=link.segment_path,
                size_bytes=link.size_bytes,
                base_offset=link.first_log_offset,
                start_byte=begin[1] if link.first_log_offset == begin[0] else 0,
                end_byte=before.position if link.first_log_offset == before.segment else None,
                manifest_path=link.manifest_path,
            )
        )
    return found


def _bytes(fs: pafs.FileSystem, link: ArchivedSegment) -> U8Array:
    return file_bytes(fs, link.segment_path, link.size_bytes, is_archived=True)
