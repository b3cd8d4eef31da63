"""Writes the archive: immutable segments in Kafka's own format, each with a manifest that is written after it.

    <archive>/<cluster_id>/<topic_id>/<log_partition>/<lineage>/<first log_offset %020d>.log
                                                               /<first %020d>-<next %020d>-<size_bytes>.json
                                                               /origin.json          (archive.lineages)
    <archive>/<cluster_id>/cluster_metadata/<taken_at_ms>.json                       (archive.cluster_metadata)

A segment covers the log_offsets [first, next): all batches with a base offset in that range, possibly none after
compaction. A lineage, named `<ordinal %06d>-<start log_offset %020d>`, consists of the segments from its start on, each
beginning where the previous one ends. Segments after a gap (a manifest was lost) are not read until the gap is closed.

A segment without a manifest does not exist: nothing reads it. The next writer creates a manifest for such a file if the
log still has its bytes, else moves the file aside. Neither file is ever overwritten (create.py), which makes concurrent
snapshots safe. File names have all that a listing needs, so that planning a run opens no manifest.

A snapshot writes its cluster metadata last, which records how far it archived each log partition.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyarrow import fs as pafs

from sexton.archive.create import create_whole
from sexton.archive.file_names import manifest_path, segment_path
from sexton.archive.files import make_folder, read_file, record_json
from sexton.archive.lineages import (
    ArchivedLineage,
    ArchivedSegment,
    Origin,
    lineage_folder,
    list_lineages,
    read_segment_manifest,
    segments_in,
)
from sexton.archive.manifest import Lineage, Manifest, SegmentRange, describe
from sexton.failpoints import failpoint
from sexton.log.batch import Batch, read_batches

ASIDE_FOLDER = "aside"
"""Folder of a lineage for files that were moved aside. It is never read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEnd:
    """Where the newest lineage of a log partition ends: the next snapshot continues at `next_log_offset`.

    `leader_epoch` is that of the last archived batch, -1 when unknown; `taken_at_ms` is the instant of the last
    segment, None without one. `next_segment` is the log_offset of the first segment after a gap, None without a gap:
    the gap ends there, and the segments after it may be from another log.
    """

    log_partition: int
    lineage: Lineage
    next_log_offset: int
    leader_epoch: int
    taken_at_ms: int | None = None
    origin: Origin | None = None
    next_segment: int | None = None


def write_segment(fs: pafs.FileSystem, root: str, chunks: Iterable[bytes], where: SegmentRange) -> Manifest:
    """Archive whole raw batches with a base offset in the range `where`, then their manifest.

    If a segment with a manifest begins at the same log_offset already, it stays unchanged: `chunks` are not read, and
    the existing manifest, which may have another end, is returned.
    """
    present = _present(fs, where, root)
    if present is not None:
        return read_segment_manifest(fs, present)
    manifest = write_batches(fs, root, chunks, where)
    write_manifest(fs, root, manifest)
    return manifest


def write_batches(fs: pafs.FileSystem, root: str, chunks: Iterable[bytes], where: SegmentRange) -> Manifest:
    """Write a segment and return its manifest. The segment does not exist until `write_manifest` has written the
    manifest.

    `chunks` are whole raw batches in log order, stored unchanged; without any, the segment is empty but still covers
    its range. If another process has written a segment that begins at the same log_offset, the manifest describes that
    segment: its end, or even its content, may differ from `chunks`.
    """
    if not 0 <= where.first_log_offset < where.next_log_offset:
        raise ValueError(f"not a range of log_offsets: [{where.first_log_offset}, {where.next_log_offset})")
    folder = lineage_folder(root, where.cluster_id, where.topic_id, where.log_partition, where.lineage)
    path = segment_path(folder, where.first_log_offset)
    data = b"".join(chunks)
    make_folder(fs, folder)
    failpoint("segment.before")
    while not create_whole(fs, path, data, what="segment"):
        if present := _present(fs, where, root):
            return read_segment_manifest(fs, present)
        theirs = read_file(fs, path)
        if theirs == data:
            break
        end = _end_in_common(theirs, data, where.first_log_offset)
        if end is not None:
            data, where = theirs, replace(where, next_log_offset=end)
            break
        put_aside(fs, path, theirs)
    return describe(where, data)


def write_manifest(fs: pafs.FileSystem, root: str, manifest: Manifest) -> None:
    """Write the manifest, which makes a segment exist; a segment that has this manifest already stays unchanged.

    Manifests of one lineage are written in log order: segments after a gap are not read.
    """
    folder = lineage_folder(root, manifest.cluster_id, manifest.topic_id, manifest.log_partition, manifest.lineage)
    path = manifest_path(folder, manifest.first_log_offset, manifest.next_log_offset, manifest.size_bytes)
    create_whole(fs, path, record_json(manifest), what="manifest")


def put_aside(fs: pafs.FileSystem, path: str, data: bytes) -> None:
    """Move a file out of the way, to the aside folder of its lineage."""
    folder, _, name = path.rpartition("/")
    make_folder(fs, f"{folder}/{ASIDE_FOLDER}")
    try:
        fs.move(path, f"{folder}/{ASIDE_FOLDER}/{name}.{hashlib.sha256(data).hexdigest()}")
    except OSError:
        if fs.get_file_info(path).type != pafs.FileType.NotFound:  # else another process has moved it
            raise


def archive_ends(fs: pafs.FileSystem, root: str, *, cluster_id: str, topic_id: str) -> dict[int, ArchiveEnd]:
    """Where the archive of each log partition ends; without log partitions that were never archived."""
    found = list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic_id)
    return {log_partition: _end_of(fs, lineages[-1]) for log_partition, lineages in found.items()}


def _end_of(fs: pafs.FileSystem, newest: ArchivedLineage) -> ArchiveEnd:
    leader_epoch, taken_at_ms = -1, None
    for segment in reversed(newest.segments):
        manifest = read_segment_manifest(fs, segment)
        taken_at_ms = manifest.taken_at_ms if taken_at_ms is None else taken_at_ms
        if manifest.batch_count:
            leader_epoch = manifest.leader_epochs[-1][0] if manifest.leader_epochs else -1
            break
    after_gap = [one.first_log_offset for one in newest.detached if one.first_log_offset >= newest.next_log_offset]
    return ArchiveEnd(
        log_partition=newest.log_partition,
        lineage=newest.lineage,
        next_log_offset=newest.next_log_offset,
        leader_epoch=leader_epoch,
        taken_at_ms=taken_at_ms,
        origin=newest.origin,
        next_segment=min(after_gap, default=None),
    )


def _present(fs: pafs.FileSystem, where: SegmentRange, root: str) -> ArchivedSegment | None:
    """The segment with a manifest that begins where the range begins, if any."""
    folder = lineage_folder(root, where.cluster_id, where.topic_id, where.log_partition, where.lineage)
    return next((one for one in segments_in(fs, folder) if one.first_log_offset == where.first_log_offset), None)


def _end_in_common(theirs: bytes, ours: bytes, first_log_offset: int) -> int | None:
    """The log_offset up to which a segment without a manifest is valid, or None if it differs from the log's bytes."""
    if not (theirs.startswith(ours) or ours.startswith(theirs)):
        return None
    if not theirs:
        first = next((batch.base_offset for batch in read_batches(ours) if isinstance(batch, Batch)), first_log_offset)
        return first if first > first_log_offset else None
    found = list(read_batches(theirs))
    last = found[-1]
    if not isinstance(last, Batch) or not all(isinstance(one, Batch) for one in found):
        return None
    return last.last_offset + 1
