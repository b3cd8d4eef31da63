"""Take a broker's disk, or a backup of one, into the archive: what it holds beyond what is archived, byte for byte.

A log partition is taken in only where it goes on from the archive: by the leader epochs as a broker would judge it
(KIP-320), in old record formats by the bytes of the last archived batch. What does not go on is refused before a byte
is copied, unless it is wanted as a lineage of its own. Taking the same disk in again adds nothing.

Not here: whether the records are good (a replay tells; what was damaged on the disk is damaged in the archive).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.broker_disk import TOPIC, DiskLog, batch_at, disk_logs, import_slices, last_batch_below, read_slice
from sexton.archive.lineages import GAP, IMPORTED
from sexton.archive.writer import (
    ArchivedLineage,
    ArchiveEnd,
    ClusterMetadata,
    Lineage,
    LogPartitionMetadata,
    Manifest,
    Origin,
    archive_ends,
    list_lineages,
    newest_metadata,
    topics_from_file,
    write_metadata,
    write_origin,
    write_segment,
)
from sexton.errors import Refused, UsageError
from sexton.failpoints import failpoint
from sexton.log.segment import disk_identity, odd_files
from sexton.pipeline.continuation import KAFKAS_DELETE_RETENTION_MS
from sexton.pipeline.snapshot_log import SEGMENT_BYTES
from sexton.runs.source import filesystem

UNKNOWN = "unknown"
NOT_TOLD = -1
_SHOWN = 3
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """What to take in: `source` holds `__consumer_offsets-N/` folders, as they were at `taken_at_ms`.

    The ids default to those on the disk, `topics_file` tells the facts of that instant. With `new_lineage` a log
    partition that does not go on from its archive begins another lineage.
    """

    source: str
    archive: str
    taken_at_ms: int
    topics_file: str | None = None
    cluster_id: str | None = None
    topic_id: str | None = None
    new_lineage: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What one import added; `lineages` counts those that it began."""

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
class _Work:
    """Where a log partition goes on; `doubt` says why it does not, `origin` is that of the lineage it then begins."""

    log: DiskLog
    lineage: Lineage
    start: int
    origin: Origin | None = None
    doubt: str | None = None


def run(request: ImportRequest, *, progress: Callable[[int, int], None] | None = None) -> Imported:
    """Take it in. `progress` is told log partitions done and in all. Refused before anything is written when one does
    not go on from its archive; UsageError when there is nothing to take in or the topics file does not fit."""
    disk, folder = filesystem(request.source)
    fs, root = filesystem(request.archive)
    logs = disk_logs(disk, folder)
    found_cluster, found_topic = disk_identity(disk, folder)
    topics = topics_from_file(request.topics_file) if request.topics_file else None
    own = _own_row(topics, request.topics_file)
    cluster_id = request.cluster_id or found_cluster or UNKNOWN
    topic_id = _checked(request.topic_id) or found_topic or (own or {}).get("id") or UNKNOWN
    count = len(own["partitions"]) if own else None
    if count is not None and max(logs) >= count:
        wrong = f"{count} log partitions here, on the disk there is a folder for {max(logs)}"
        raise UsageError(wrong, where=request.topics_file)
    work = _plan(disk, fs, root, request, logs, cluster_id=cluster_id, topic_id=topic_id, count=count)
    failpoint("import.checked")
    manifests: list[Manifest] = []
    for number, item in enumerate(work):
        if number:
            failpoint("import.between")
        manifests += _copy(disk, fs, root, item, request.taken_at_ms, cluster_id=cluster_id, topic_id=topic_id)
        if progress:
            progress(number + 1, len(work))
    failpoint("import.copied")
    if topics is not None and count is not None:
        _note(fs, root, request, work, topics, count, cluster_id=cluster_id, topic_id=topic_id)
    return Imported(
        cluster_id=cluster_id,
        topic_id=topic_id,
        log_partitions=len(work),
        segments=len(manifests),
        batches=sum(manifest.batch_count for manifest in manifests),
        size_bytes=sum(manifest.size_bytes for manifest in manifests),
        log_offsets=sum(manifest.next_log_offset - manifest.first_log_offset for manifest in manifests),
        lineages=sum(item.origin is not None for item in work),
        warnings=[
            *(f"passed over, no log_offset is so high: {name}" for name in odd_files(disk, folder)),
            *_warnings(logs.values(), topics, cluster_id, topic_id),
        ],
    )


def _checked(topic_id: str | None) -> str | None:
    """The topic id that was asked for; UsageError when it is none as Kafka writes them."""
    if topic_id is not None and not _TOPIC_ID.fullmatch(topic_id):
        fix = "as Kafka writes it: letters, digits, - and _"
        raise UsageError(f"no topic id: {topic_id!r}", where="--topic-id", fix=fix)
    return topic_id


def _plan(
    disk: pafs.FileSystem,
    fs: pafs.FileSystem,
    root: str,
    request: ImportRequest,
    logs: Mapping[int, DiskLog],
    *,
    cluster_id: str,
    topic_id: str,
    count: int | None,
) -> list[_Work]:
    ends = archive_ends(fs, root, cluster_id=cluster_id, topic_id=topic_id)
    histories = list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic_id)
    facts = newest_metadata(fs, root, cluster_id=cluster_id)
    retention_ms = KAFKAS_DELETE_RETENTION_MS
    if facts and facts.delete_retention_ms is not None:
        retention_ms = facts.delete_retention_ms
    counted = facts.offsets_topic["partitions"] if facts and facts.offsets_topic["topic_id"] == topic_id else None
    work = []
    for log_partition, log in logs.items():
        end = ends.get(log_partition)
        doubt = None
        if end is not None:
            doubt = _doubt(disk, fs, log, end, histories[log_partition][-1])
            doubt = (
                doubt or _counted(end, counted, count) or _is_unobserved(log, end, request.taken_at_ms, retention_ms)
            )
        work.append(_work(log, end, doubt, request.taken_at_ms, count))
    refused = [f"log partition {item.log.log_partition}: {item.doubt}" for item in work if item.doubt]
    if refused and not request.new_lineage:
        more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        fix = "--new-lineage takes it in as a history of its own"
        raise Refused(f"not the same log: {'; '.join(refused[:_SHOWN])}{more}", where=request.source, fix=fix)
    return work


def _work(log: DiskLog, end: ArchiveEnd | None, doubt: str | None, found_at_ms: int, count: int | None) -> _Work:
    if end is None:
        lineage = Lineage(ordinal=0, start_log_offset=log.start)
        origin = Origin(reason=IMPORTED, found_at_ms=found_at_ms, partition_count=count)
        return _Work(log=log, lineage=lineage, start=log.start, origin=origin)
    if doubt is None:
        return _Work(log=log, lineage=end.lineage, start=end.next_log_offset)
    missing = (end.next_log_offset, log.start) if log.start > end.next_log_offset else None
    origin = Origin(
        reason=GAP if missing else IMPORTED,
        found_at_ms=found_at_ms,
        previous=end.lineage.name,
        previous_end=end.next_log_offset,
        missing=missing,
        partition_count=count,
    )
    lineage = Lineage(ordinal=end.lineage.ordinal + 1, start_log_offset=log.start)
    return _Work(log=log, lineage=lineage, start=log.start, origin=origin, doubt=doubt)


def _doubt(
    disk: pafs.FileSystem, fs: pafs.FileSystem, log: DiskLog, end: ArchiveEnd, history: ArchivedLineage
) -> str | None:
    """Why the disk's log is not the archived one, or None. A log that ends earlier may be a part of the archive."""
    reached = end.next_log_offset
    if log.start > reached:
        return f"it begins at {log.start}, the archive ends at {reached}"
    if end.taken_at_ms is None:  # a lineage without a segment goes with any log that begins there
        return None
    if log.end < reached:
        return None if _is_archived(disk, fs, log, history) else f"it ends at {log.end}, the archive at {reached}"
    if end.leader_epoch < 0:
        return None if _is_archived(disk, fs, log, history) else "the last archived batch is not on it"
    epoch, epoch_end = log.end_of_epoch(end.leader_epoch)
    if epoch != end.leader_epoch:
        return f"it does not know the archived leader epoch {end.leader_epoch}"
    if epoch_end < reached:
        return f"it left leader epoch {epoch} at {epoch_end}, the archive ends at {reached}"
    return None


def _is_archived(disk: pafs.FileSystem, fs: pafs.FileSystem, log: DiskLog, history: ArchivedLineage) -> bool:
    """Whether the last batch that both have is the same, byte for byte."""
    on_disk = last_batch_below(disk, log.segments, history.next_log_offset)
    if on_disk is None:  # neither may have any: nothing but bad bytes, or all was cleaned away
        return last_batch_below(fs, history.log_segments(), history.next_log_offset) is None
    return batch_at(fs, history.log_segments(), int.from_bytes(on_disk[:8], "big")) == on_disk


def _counted(end: ArchiveEnd, counted: int | None, count: int | None) -> str | None:
    """Why the number of log partitions speaks against it; `counted` is that of the last facts, for origins without."""
    known = end.origin.partition_count if end.origin else None
    known = counted if known is None else known
    if count is None or known is None or count == known:
        return None
    return f"the topic had {known} log partitions and has {count}"


def _is_unobserved(log: DiskLog, end: ArchiveEnd, taken_at_ms: int, retention_ms: int) -> str | None:
    if log.end <= end.next_log_offset or end.taken_at_ms is None or taken_at_ms - end.taken_at_ms <= retention_ms:
        return None
    return "it was copied so long after the archive ends that tombstones may be missing from it"


def _copy(
    disk: pafs.FileSystem,
    fs: pafs.FileSystem,
    root: str,
    work: _Work,
    taken_at_ms: int,
    *,
    cluster_id: str,
    topic_id: str,
) -> list[Manifest]:
    log_partition = work.log.log_partition
    if work.origin:
        write_origin(
            fs,
            root,
            work.origin,
            cluster_id=cluster_id,
            topic_id=topic_id,
            log_partition=log_partition,
            lineage=work.lineage,
        )
    return [
        write_segment(
            fs,
            root,
            (read_slice(disk, import_slice),),
            cluster_id=cluster_id,
            topic_id=topic_id,
            log_partition=log_partition,
            lineage=work.lineage,
            first_log_offset=import_slice.first_log_offset,
            end_log_offset=import_slice.next_log_offset,
            taken_at_ms=taken_at_ms,
            high_watermark=work.log.end,
            last_stable_offset=NOT_TOLD,
        )
        for import_slice in import_slices(disk, work.log, work.start, target_bytes=SEGMENT_BYTES)
    ]


def _note(
    fs: pafs.FileSystem,
    root: str,
    request: ImportRequest,
    work: Sequence[_Work],
    topics: list[dict[str, Any]],
    count: int,
    *,
    cluster_id: str,
    topic_id: str,
) -> None:
    """Write the facts of the import, unless those of the instant, or the newest, say the same already.

    A disk tells no settings: those of the last facts hold until somebody looks again, the topic's as long as it is that
    topic. Whether `topics` are all of them is not inherited: nobody looked.
    """
    told = {
        item.log.log_partition: LogPartitionMetadata(
            lineage=item.lineage.name,
            log_start_offset=item.log.start,
            high_watermark=max(item.log.end, item.start),
            last_stable_offset=NOT_TOLD,
            leader=NOT_TOLD,
            leader_epoch=item.log.epochs[-1][0] if item.log.epochs else NOT_TOLD,
        )
        for item in work
    }
    before = newest_metadata(fs, root, cluster_id=cluster_id, at_ms=request.taken_at_ms)
    of_topic = before if before and before.offsets_topic["topic_id"] == topic_id else None
    facts = ClusterMetadata(
        taken_at_ms=request.taken_at_ms,
        cluster_id=cluster_id,
        broker_version=before.broker_version if before else None,
        settings=before.settings if before else {},
        offsets_topic={"topic_id": topic_id, "partitions": count},
        topics=topics,
        log_partitions=told,
        delete_retention_ms=of_topic.delete_retention_ms if of_topic else None,
        max_message_bytes=of_topic.max_message_bytes if of_topic else None,
        topic_settings=of_topic.topic_settings if of_topic else {},
        brokers_differ=before.brokers_differ if before else {},
    )
    newest = newest_metadata(fs, root, cluster_id=cluster_id)
    if newest and replace(newest, taken_at_ms=facts.taken_at_ms) == facts:
        return
    if before and before.taken_at_ms == request.taken_at_ms:  # another disk of the same brokers
        facts = replace(facts, log_partitions=dict(sorted({**(before.log_partitions or {}), **told}.items())))
        if facts == before:
            return
    write_metadata(fs, root, facts)


def _own_row(topics: list[dict[str, Any]] | None, where: str | None) -> dict[str, Any] | None:
    if topics is None:
        return None
    own = next((topic for topic in topics if topic["topic"] == TOPIC), None)
    if own is None:
        raise UsageError(f"no line for {TOPIC}", where=where)
    return own


def _warnings(
    logs: Iterable[DiskLog], topics: list[dict[str, Any]] | None, cluster_id: str, topic_id: str
) -> list[str]:
    found = [
        f"log partition {log.log_partition}: its last file ends in bytes that are no batch: what came there is unknown"
        for log in logs
        if log.has_bad_tail
    ]
    if UNKNOWN in (cluster_id, topic_id):
        found.append("neither the disk nor the options tell the ids of cluster and topic: `unknown` stands for them")
    if topics is None:
        found.append("nothing is known of the cluster's topics: --topics tells, for lag, orphans and coverage")
    return found
