"""The archive: immutable segments in Kafka's own format, each with a manifest that is written after it.

    <archive>/<cluster_id>/<topic_id>/<log_partition>/<lineage>/<first log_offset %020d>.log
                                                               /<first %020d>-<next %020d>-<size_bytes>.json
                                                               /origin.json          (archive.lineages)
    <archive>/<cluster_id>/cluster_metadata/<taken_at_ms>.json                      (archive.cluster_metadata)

A segment answers for the log_offsets [first, next): all batches with a base offset in that range, also where
compaction left none. A lineage is one unbroken history, named `<ordinal %06d>-<start log_offset %020d>`: the chain of
segments from its start on, each beginning where the one before ends. What lies behind a gap (a manifest got lost) is
not read until the gap is closed. A segment without a manifest does not exist: nothing reads it. Whoever comes to it
next makes a manifest for its bytes where the log still has them, else keeps them aside. Both files are made once
(create.py), so that two snapshots at a time do not write over each other. Names tell all that a listing needs, so that
no manifest is opened to plan a run.

What a finished snapshot had is told by the facts, which it writes last.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import (
    ClusterMetadata,
    LogPartitionMetadata,
    newest_metadata,
    oldest_metadata_after,
    the_cluster,
    topics_from_file,
    write_metadata,
)
from sexton.archive.create import create_whole
from sexton.archive.files import make_folder
from sexton.archive.lineages import (
    ArchivedLineage,
    ArchivedSegment,
    Origin,
    lineage_folder,
    list_lineages,
    read_segment_manifest,
    segments_in,
    topics_of,
    write_origin,
)
from sexton.archive.manifest import Lineage, Manifest, ManifestBuilder
from sexton.errors import UsageError
from sexton.failpoints import failpoint
from sexton.log.batch import Batch, read_batches
from sexton.log.segment import Segment

__all__ = [
    "ArchiveEnd",
    "ArchivedLineage",
    "ClusterMetadata",
    "Lineage",
    "LogPartitionMetadata",
    "Manifest",
    "Origin",
    "archive_ends",
    "checked_segments",
    "list_archived",
    "list_lineages",
    "newest_metadata",
    "oldest_metadata_after",
    "read_manifest",
    "topics_from_file",
    "verify_segment",
    "write_batches",
    "write_manifest",
    "write_metadata",
    "write_origin",
    "write_segment",
]

ASIDE_FOLDER = "aside"
"""In the folder of a lineage: what was in the way there. Nothing reads it."""
_READ_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEnd:
    """Where the newest lineage of a log partition ends: the next snapshot goes on at `next_log_offset`.

    `leader_epoch` is that of the last archived batch, -1 when unknown; `taken_at_ms` when the last segment was taken,
    None when there is none yet; `origin` None where an early release wrote it. `next_segment` is the log_offset of the
    first segment behind a gap, None when there is none: up to there it goes on, and then it may end elsewhere.
    """

    log_partition: int
    lineage: Lineage
    next_log_offset: int
    leader_epoch: int
    taken_at_ms: int | None = None
    origin: Origin | None = None
    next_segment: int | None = None


def write_segment(
    fs: pafs.FileSystem,
    root: str,
    chunks: Iterable[bytes],
    *,
    cluster_id: str,
    topic_id: str,
    log_partition: int,
    lineage: Lineage,
    first_log_offset: int,
    end_log_offset: int,
    taken_at_ms: int,
    high_watermark: int,
    last_stable_offset: int,
) -> Manifest:
    """Archive the batches with a base offset in [first_log_offset, end_log_offset), then their manifest.

    Arguments as of `write_batches`. Where a segment with a manifest begins at `first_log_offset` already, it stays as
    it is, `chunks` are not read and its manifest is returned: its end may be another one.
    """
    folder = lineage_folder(root, cluster_id, topic_id, log_partition, lineage.name)
    present = [link for link in segments_in(fs, folder) if link.first_log_offset == first_log_offset]
    if present:
        return read_segment_manifest(fs, present[0])
    manifest = write_batches(
        fs,
        root,
        chunks,
        cluster_id=cluster_id,
        topic_id=topic_id,
        log_partition=log_partition,
        lineage=lineage,
        first_log_offset=first_log_offset,
        end_log_offset=end_log_offset,
        taken_at_ms=taken_at_ms,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
    )
    write_manifest(fs, root, manifest)
    return manifest


def write_batches(
    fs: pafs.FileSystem,
    root: str,
    chunks: Iterable[bytes],
    *,
    cluster_id: str,
    topic_id: str,
    log_partition: int,
    lineage: Lineage,
    first_log_offset: int,
    end_log_offset: int,
    taken_at_ms: int,
    high_watermark: int,
    last_stable_offset: int,
) -> Manifest:
    """Write a segment that does not exist until `write_manifest` has written the manifest returned.

    `chunks` are whole raw batches in log order, taken as they are; none make an empty segment, which still answers for
    its range. Where another process has written a segment that begins there, the manifest is that of its bytes: its
    end, or even its content, may be another one than that of `chunks`.
    """
    if not 0 <= first_log_offset < end_log_offset:
        raise ValueError(f"not a range of log_offsets: [{first_log_offset}, {end_log_offset})")
    folder = lineage_folder(root, cluster_id, topic_id, log_partition, lineage.name)
    path = f"{folder}/{first_log_offset:020d}.log"
    data, contents = b"".join(chunks), ManifestBuilder()
    make_folder(fs, folder)
    failpoint("segment.before")
    while not create_whole(fs, path, data, what="segment"):
        if present := [link for link in segments_in(fs, folder) if link.first_log_offset == first_log_offset]:
            return read_segment_manifest(fs, present[0])
        with fs.open_input_stream(path) as file:
            theirs = file.read()
        if theirs == data:
            break
        end = _end_in_common(theirs, data, first_log_offset)
        if end is not None:
            data, end_log_offset = theirs, end
            break
        put_aside(fs, path, theirs)
    contents.add(data)
    return Manifest(
        cluster_id=cluster_id,
        topic_id=topic_id,
        log_partition=log_partition,
        lineage=lineage.name,
        first_log_offset=first_log_offset,
        next_log_offset=end_log_offset,
        batch_count=contents.batch_count,
        first_timestamp_ms=contents.timestamps_ms[0] if contents.timestamps_ms else None,
        last_timestamp_ms=contents.timestamps_ms[1] if contents.timestamps_ms else None,
        leader_epochs=contents.leader_epochs,
        size_bytes=contents.size_bytes,
        sha256=contents.digest.hexdigest(),
        taken_at_ms=taken_at_ms,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
    )


def _end_in_common(theirs: bytes, ours: bytes, first_log_offset: int) -> int | None:
    """The log_offset up to which a segment without a manifest answers, when the log still has its bytes; else None."""
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


def put_aside(fs: pafs.FileSystem, path: str, data: bytes) -> None:
    """Free the name of a file in a lineage's folder; its bytes are kept."""
    folder, _, name = path.rpartition("/")
    make_folder(fs, f"{folder}/{ASIDE_FOLDER}")
    try:
        fs.move(path, f"{folder}/{ASIDE_FOLDER}/{name}.{hashlib.sha256(data).hexdigest()[:16]}")
    except OSError:
        if fs.get_file_info(path).type != pafs.FileType.NotFound:  # else somebody has done the same
            raise


def write_manifest(fs: pafs.FileSystem, root: str, manifest: Manifest) -> None:
    """Make a segment exist; one that has this manifest already stays as it is.

    Of one lineage they are written in the order of the log: what follows a gap is not read.
    """
    link = ArchivedSegment(
        folder=lineage_folder(root, manifest.cluster_id, manifest.topic_id, manifest.log_partition, manifest.lineage),
        first_log_offset=manifest.first_log_offset,
        next_log_offset=manifest.next_log_offset,
        size_bytes=manifest.size_bytes,
    )
    create_whole(fs, link.manifest_path, manifest.to_json(), what="manifest")


def list_archived(
    fs: pafs.FileSystem, root: str, *, cluster_id: str | None = None, topic_id: str | None = None
) -> dict[int, list[Segment]]:
    """The segments of the newest lineage of every log partition, as `segment.list_segments` gives a broker's.

    Without `cluster_id` the archive must hold one cluster only, else UsageError; without `topic_id` it is the topic
    that was archived last. Nothing archived is an empty answer. Raises UsageError when a segment is not of the size its
    manifest says.
    """
    cluster = the_cluster(fs, root, cluster_id)
    topic = topic_id if topic_id is not None or cluster is None else _newest_topic(fs, root, cluster)
    if cluster is None or topic is None:
        return {}
    found = list_lineages(fs, root, cluster_id=cluster, topic_id=topic)
    return {
        log_partition: checked_segments(fs, newest)
        for log_partition, histories in found.items()
        if (newest := _newest_with_segments(histories))
    }


def checked_segments(fs: pafs.FileSystem, lineage: ArchivedLineage) -> list[Segment]:
    """The segments of a lineage; UsageError unless each is there and of the size that its manifest says."""
    infos = fs.get_file_info([link.segment_path for link in lineage.segments])
    for link, info in zip(lineage.segments, infos, strict=True):
        if info.type != pafs.FileType.File:
            raise UsageError("the manifest is here, its segment is not", where=link.segment_path)
        if info.size != link.size_bytes:  # a shorter one would pass for a torn tail
            raise UsageError(f"{info.size} bytes, its manifest says {link.size_bytes}", where=link.segment_path)
    return lineage.log_segments()


def archive_ends(fs: pafs.FileSystem, root: str, *, cluster_id: str, topic_id: str) -> dict[int, ArchiveEnd]:
    """Where the archive of each log partition ends; log partitions that were never archived are left out."""
    found = list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic_id)
    return {log_partition: _end_of(fs, histories[-1]) for log_partition, histories in found.items()}


def _end_of(fs: pafs.FileSystem, newest: ArchivedLineage) -> ArchiveEnd:
    leader_epoch, taken_at_ms = -1, None
    for link in reversed(newest.segments):
        manifest = read_segment_manifest(fs, link)
        taken_at_ms = manifest.taken_at_ms if taken_at_ms is None else taken_at_ms
        if manifest.batch_count:
            leader_epoch = manifest.leader_epochs[-1][0] if manifest.leader_epochs else -1
            break
    return ArchiveEnd(
        log_partition=newest.log_partition,
        lineage=newest.lineage,
        next_log_offset=newest.next_log_offset,
        leader_epoch=leader_epoch,
        taken_at_ms=taken_at_ms,
        origin=newest.origin,
        next_segment=min(
            (link.first_log_offset for link in newest.detached if link.first_log_offset >= newest.next_log_offset),
            default=None,
        ),
    )


def _newest_with_segments(histories: Sequence[ArchivedLineage]) -> ArchivedLineage | None:
    return next((history for history in reversed(histories) if history.segments), None)


def read_manifest(fs: pafs.FileSystem, segment: Segment) -> Manifest:
    """The manifest of an archived segment; UsageError when there is none or it is of another segment."""
    folder = segment.path.rpartition("/")[0]
    for link in segments_in(fs, folder):
        if link.first_log_offset == segment.base_offset:
            return read_segment_manifest(fs, link)
    raise UsageError("this segment has no manifest", where=segment.path)


def verify_segment(fs: pafs.FileSystem, segment: Segment) -> list[str]:
    """What is wrong with an archived segment's bytes, by its manifest; an empty list when nothing is."""
    manifest = read_manifest(fs, segment)
    digest, size_bytes = hashlib.sha256(), 0
    with fs.open_input_stream(segment.path) as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
            size_bytes += len(chunk)
    wrong = []
    if size_bytes != manifest.size_bytes:
        wrong.append(f"{segment.path}: {size_bytes} bytes, the manifest says {manifest.size_bytes}")
    if digest.hexdigest() != manifest.sha256:
        wrong.append(f"{segment.path}: SHA-256 {digest.hexdigest()}, the manifest says {manifest.sha256}")
    return wrong


def _newest_topic(fs: pafs.FileSystem, root: str, cluster_id: str) -> str | None:
    taken: list[tuple[int, str]] = []
    for topic in topics_of(fs, root, cluster_id):
        for histories in list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic).values():
            if newest := _newest_with_segments(histories):
                taken.append((read_segment_manifest(fs, newest.segments[-1]).taken_at_ms, topic))
    return max(taken)[1] if taken else None
