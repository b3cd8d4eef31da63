"""Imports a broker's disk, or a backup of one, into the archive: the bytes that are not archived yet, unchanged.

A log partition is imported only if it continues the archive. Its leader epochs decide that, as on a broker (KIP-320);
in old record formats, the bytes of the last archived batch. Otherwise the import is refused before a byte is copied,
unless the request allows new lineages. Importing the same disk again adds nothing.

Not here: whether the records are valid (a replay shows that; damage on the disk stays damage in the archive).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.broker_disk import DiskLog, batch_at, disk_logs, import_slices, last_batch_below, read_slice
from sexton.archive.cluster_metadata import (
    ClusterMetadata,
    LogPartitionMetadata,
    newest_metadata,
    topics_from_file,
    write_metadata,
)
from sexton.archive.cut_search import end_of, segments_between
from sexton.archive.folder import filesystem
from sexton.archive.lineages import (
    GAP,
    IMPORTED,
    ArchivedLineage,
    Origin,
    lineage_folder,
    list_lineages,
    write_origin,
)
from sexton.archive.manifest import Lineage, Manifest, SegmentRange
from sexton.archive.writer import ArchiveEnd, archive_ends, write_segment
from sexton.errors import Refused, UsageError
from sexton.failpoints import failpoint
from sexton.log.segment import disk_identity, odd_files
from sexton.pipeline.continuation import KAFKAS_DELETE_RETENTION_MS
from sexton.pipeline.fetch_log import SEGMENT_BYTES
from sexton.runs.disk_evidence import DiskEvidence, disk_evidence
from sexton.runs.source import zero_tails_text
from sexton.topics import OFFSETS_TOPIC

UNKNOWN = "unknown"
NOT_KNOWN = -1
_SHOWN = 3
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """What to import: `source` has `__consumer_offsets-N/` folders, as they were at `taken_at_ms`.

    The ids default to the ids on the disk. The cluster's topics at that instant come from `topics_file`, else from the
    disk's `__cluster_metadata`; `partition_count` overrides what they say of the offsets topic. With `new_lineage` a
    log partition that does not continue its archive begins another lineage.
    """

    source: str
    archive: str
    taken_at_ms: int
    topics_file: str | None = None
    partition_count: int | None = None
    cluster_id: str | None = None
    topic_id: str | None = None
    new_lineage: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What one import added; `lineages` counts new lineages."""

    cluster_id: str
    topic_id: str
    log_partitions: int
    segments: int
    batches: int
    size_bytes: int
    log_offsets: int
    lineages: int
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The destination of an import: archive, cluster and topic. `count` is the topic's number of partitions."""

    fs: pafs.FileSystem
    root: str
    cluster_id: str
    topic_id: str
    count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """The import of a log partition, from log_offset `start`, into `lineage`. A new lineage has an `origin`; `doubt`
    is why the log does not continue the archived lineage."""

    log: DiskLog
    lineage: Lineage
    start: int
    origin: Origin | None = None
    doubt: str | None = None


def run(request: ImportRequest, *, progress: Callable[[int, int], None] | None = None) -> Imported:
    """Import the disk. `progress` is called with the number of log partitions done and the total. Refused before
    anything is written if a log partition does not continue its archive; UsageError if there is nothing to import or
    the topics file contradicts the disk."""
    disk, folder = filesystem(request.source)
    fs, root = filesystem(request.archive)
    logs = disk_logs(disk, folder)
    found_cluster, found_topic = disk_identity(disk, folder)
    if request.topic_id is not None and not _TOPIC_ID.fullmatch(request.topic_id):
        fix = "as Kafka writes it: letters, digits, - and _"
        raise UsageError(f"not a topic id: {request.topic_id!r}", where="--topic-id", fix=fix)
    shown = disk_evidence(disk, [folder], as_of_ms=request.taken_at_ms, topic_id=found_topic, highest=max(logs))
    topics = topics_from_file(request.topics_file) if request.topics_file else shown.topics
    own = next((topic for topic in topics or [] if topic["topic"] == OFFSETS_TOPIC), None)
    if topics is not None and own is None:
        raise UsageError(f"no line for {OFFSETS_TOPIC}", where=request.topics_file)
    to = _Target(
        fs=fs,
        root=root,
        cluster_id=request.cluster_id or found_cluster or UNKNOWN,
        topic_id=request.topic_id or found_topic or (own or {}).get("id") or UNKNOWN,
        count=request.partition_count or (len(own["partitions"]) if own else None),
    )
    if to.count is not None and max(logs) >= to.count:
        wrong = f"{to.count} log partitions here, on the disk there is a folder for {max(logs)}"
        raise UsageError(wrong, where="--partition-count" if request.partition_count else request.topics_file)
    work = _plan(disk, to, request, logs)
    failpoint("import.checked")
    manifests: list[Manifest] = []
    for number, item in enumerate(work):
        if number:
            failpoint("import.between")
        manifests += _copy(disk, to, item, request.taken_at_ms)
        if progress:
            progress(number + 1, len(work))
    failpoint("import.copied")
    if to.count is not None:
        _record(to, request, work, shown, topics=topics, count=to.count)
    return Imported(
        cluster_id=to.cluster_id,
        topic_id=to.topic_id,
        log_partitions=len(work),
        segments=len(manifests),
        batches=sum(manifest.batch_count for manifest in manifests),
        size_bytes=sum(manifest.size_bytes for manifest in manifests),
        log_offsets=sum(manifest.next_log_offset - manifest.first_log_offset for manifest in manifests),
        lineages=sum(item.origin is not None for item in work),
        warnings=[
            *(f"skipped, no log_offset is that high: {name}" for name in odd_files(disk, folder)),
            *shown.notes,
            *_warnings(logs.values(), topics, to),
            *zero_tails_text(disk, {part: log.segments for part, log in logs.items()}),
        ],
    )


def _plan(disk: pafs.FileSystem, to: _Target, request: ImportRequest, logs: Mapping[int, DiskLog]) -> list[_Work]:
    ends = archive_ends(to.fs, to.root, cluster_id=to.cluster_id, topic_id=to.topic_id)
    lineages = list_lineages(to.fs, to.root, cluster_id=to.cluster_id, topic_id=to.topic_id)
    metadata = newest_metadata(to.fs, to.root, cluster_id=to.cluster_id)
    recorded_ms = metadata.delete_retention_ms if metadata else None
    retention_ms = KAFKAS_DELETE_RETENTION_MS if recorded_ms is None else recorded_ms
    counted = metadata.partition_count if metadata and metadata.topic_id == to.topic_id else None
    work = []
    for log_partition, log in logs.items():
        end = ends.get(log_partition)
        doubt = None
        if end is not None:
            doubt = (
                _differs(disk, to.fs, log, end, lineages[log_partition][-1])
                or _counts_differ(end, counted, to.count)
                or _is_unobserved(log, end, request.taken_at_ms, retention_ms)
            )
        work.append(_work(log, end, doubt, request.taken_at_ms, to.count))
    refused = [f"log partition {item.log.log_partition}: {item.doubt}" for item in work if item.doubt]
    if refused and not request.new_lineage:
        more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        fix = "--new-lineage imports it as a history of its own"
        raise Refused(f"not the same log: {'; '.join(refused[:_SHOWN])}{more}", where=request.source, fix=fix)
    return work


def _work(log: DiskLog, end: ArchiveEnd | None, doubt: str | None, found_at_ms: int, count: int | None) -> _Work:
    if end is not None and doubt is None:
        return _Work(log=log, lineage=end.lineage, start=end.next_log_offset)
    missing = (end.next_log_offset, log.start) if end and log.start > end.next_log_offset else None
    origin = Origin(
        reason=GAP if missing else IMPORTED,
        found_at_ms=found_at_ms,
        previous=end.lineage.name if end else None,
        previous_end=end.next_log_offset if end else None,
        missing=missing,
        partition_count=count,
    )
    lineage = Lineage(ordinal=end.lineage.ordinal + 1 if end else 0, start_log_offset=log.start)
    return _Work(log=log, lineage=lineage, start=log.start, origin=origin, doubt=doubt)


def _differs(
    disk: pafs.FileSystem, fs: pafs.FileSystem, log: DiskLog, end: ArchiveEnd, lineage: ArchivedLineage
) -> str | None:
    """Why the disk's log is not the archived one; None if it may be. A log that ends below the archive's end may be a
    prefix of the archived one."""
    reached = end.next_log_offset
    if log.start > reached:
        return f"it begins at {log.start}, the archive ends at {reached}"
    if end.taken_at_ms is None:  # a lineage without a segment fits any log that begins there
        return None
    if log.end < reached:
        return None if _is_archived(disk, fs, log, lineage) else f"it ends at {log.end}, the archive at {reached}"
    if end.leader_epoch < 0:
        return None if _is_archived(disk, fs, log, lineage) else "its log does not have the last archived batch"
    epoch, epoch_end = log.end_of_epoch(end.leader_epoch)
    if epoch != end.leader_epoch:
        return f"it does not know the archived leader epoch {end.leader_epoch}"
    if epoch_end < reached:
        return f"it left leader epoch {epoch} at {epoch_end}, the archive ends at {reached}"
    return None


def _is_archived(disk: pafs.FileSystem, fs: pafs.FileSystem, log: DiskLog, lineage: ArchivedLineage) -> bool:
    """Whether the last batch below the archive's end is the same on the disk and in the archive, byte for byte."""
    archived = segments_between(lineage, end_of(fs, lineage, lineage.next_log_offset))
    on_disk = last_batch_below(disk, log.segments, lineage.next_log_offset)
    if on_disk is None:  # perhaps neither has a batch: only bad bytes, or all compacted away
        return last_batch_below(fs, archived, lineage.next_log_offset) is None
    return batch_at(fs, archived, int.from_bytes(on_disk[:8], "big")) == on_disk


def _counts_differ(end: ArchiveEnd, counted: int | None, count: int | None) -> str | None:
    """Why the number of log partitions differs; `counted`, from the last metadata, is for origins without a count."""
    known = end.origin.partition_count if end.origin else None
    known = counted if known is None else known
    if count is None or known is None or count == known:
        return None
    return f"the topic had {known} log partitions and has {count}"


def _is_unobserved(log: DiskLog, end: ArchiveEnd, taken_at_ms: int, retention_ms: int) -> str | None:
    if log.end <= end.next_log_offset or end.taken_at_ms is None or taken_at_ms - end.taken_at_ms <= retention_ms:
        return None
    return "it was copied so long after the archive ends that tombstones may be missing from it"


def _copy(disk: pafs.FileSystem, to: _Target, work: _Work, taken_at_ms: int) -> list[Manifest]:
    part = work.log.log_partition
    if work.origin:
        folder = lineage_folder(to.root, to.cluster_id, to.topic_id, part, work.lineage.name)
        write_origin(to.fs, folder, work.origin)
    return [
        write_segment(
            to.fs,
            to.root,
            (read_slice(disk, one),),
            SegmentRange(
                cluster_id=to.cluster_id,
                topic_id=to.topic_id,
                log_partition=part,
                lineage=work.lineage.name,
                first_log_offset=one.first_log_offset,
                next_log_offset=one.next_log_offset,
                taken_at_ms=taken_at_ms,
                high_watermark=work.log.end,
                last_stable_offset=NOT_KNOWN,
            ),
        )
        for one in import_slices(disk, work.log, work.start, target_bytes=SEGMENT_BYTES)
    ]


def _record(
    to: _Target,
    request: ImportRequest,
    work: Sequence[_Work],
    shown: DiskEvidence,
    *,
    topics: list[dict[str, Any]] | None,
    count: int,
) -> None:
    """Write the metadata of the import, unless the newest metadata, or that of the same instant, is already the same.

    Values that the disk does not show, above all the brokers' settings, are copied from the last metadata at or before
    that instant; the topic's values only if the topic id is the same. `sees_all_topics` is not copied: nobody checked.
    """
    imported = {
        item.log.log_partition: LogPartitionMetadata(
            lineage=item.lineage.name,
            log_start_offset=item.log.start,
            high_watermark=max(item.log.end, item.start),
            last_stable_offset=NOT_KNOWN,
            leader=NOT_KNOWN,
            leader_epoch=item.log.epochs[-1][0] if item.log.epochs else NOT_KNOWN,
        )
        for item in work
    }
    before = newest_metadata(to.fs, to.root, cluster_id=to.cluster_id, at_ms=request.taken_at_ms)
    of_topic = before if before and before.topic_id == to.topic_id else None
    metadata = ClusterMetadata(
        taken_at_ms=request.taken_at_ms,
        cluster_id=to.cluster_id,
        broker_version=shown.broker_version or (before.broker_version if before else None),
        settings=before.settings if before else {},
        topic_id=to.topic_id,
        partition_count=count,
        topics=topics,
        log_partitions=imported,
        delete_retention_ms=of_topic.delete_retention_ms if of_topic else None,
        max_message_bytes=shown.max_message_bytes or (of_topic.max_message_bytes if of_topic else None),
        topic_settings=dict(shown.topic_settings) or (of_topic.topic_settings if of_topic else {}),
        brokers_differ=before.brokers_differ if before else {},
    )
    newest = newest_metadata(to.fs, to.root, cluster_id=to.cluster_id)
    if newest and replace(newest, taken_at_ms=metadata.taken_at_ms) == metadata:
        return
    if before and before.taken_at_ms == request.taken_at_ms:  # another disk of the same cluster
        metadata = replace(metadata, log_partitions=dict(sorted({**before.log_partitions, **imported}.items())))
        if metadata == before:
            return
    write_metadata(to.fs, to.root, metadata)


def _warnings(logs: Iterable[DiskLog], topics: list[dict[str, Any]] | None, to: _Target) -> list[str]:
    found = [
        f"log partition {log.log_partition}: its last file ends in bytes that are not a batch: their content is unknown"
        for log in logs
        if log.has_bad_tail
    ]
    if UNKNOWN in (to.cluster_id, to.topic_id):
        found.append("neither the disk nor the options have the ids of cluster and topic: they are stored as `unknown`")
    if topics is None:
        found.append("nothing is known of the cluster's topics: give --topics for lag, orphans and coverage")
    return found
