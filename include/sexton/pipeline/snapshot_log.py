"""snapshot_log: copy what is new in `__consumer_offsets` from the brokers into the archive, byte for byte.

Each log partition is fetched from the end of its archive to the high watermark of this instant (pipeline.fetch_log).
What the log does not hold is archived every time, after the segments: this cluster metadata says what a finished
snapshot had. Running it again after a crash completes it.

A log that does not continue the archived bytes is never joined to them: it starts a new lineage and raises an alert
(pipeline.continuation). When the log changes while it is read, the snapshot looks again and continues from what it has.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import (
    ClusterMetadata,
    LogPartitionMetadata,
    newest_metadata,
    snapshot_instants,
    write_metadata,
)
from sexton.archive.files import child_folders
from sexton.archive.folder import filesystem
from sexton.archive.lineages import Origin, write_origin
from sexton.archive.manifest import Lineage, Manifest, SegmentRange
from sexton.archive.snapshots import snapshot_window
from sexton.archive.writer import ArchiveEnd, archive_ends
from sexton.errors import Refused, UsageError
from sexton.failpoints import failpoint
from sexton.kafka.client import ClientConfig
from sexton.kafka.collect_metadata import LogEnds, collect_metadata, log_ends
from sexton.kafka.fetch import NO_EPOCH
from sexton.kafka.session import ClusterSession, Connect, TransientError
from sexton.kafka.topics import OFFSETS_TOPIC, PartitionLeader, Topic, describe_topic, end_of_epoch
from sexton.pipeline.continuation import KAFKAS_DELETE_RETENTION_MS, ClusterHistory, breaks_since, continuation
from sexton.pipeline.fetch_log import FetchWork, fetch
from sexton.runs.engine import Engine

LONGEST_WAIT_MS = 3_600_000
LOOKS = 8
"""How often a snapshot looks again when the log changes while it is read; then it fails, and may be run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """What to copy, and where to. With `as_of_ms` the snapshot is taken at or after as_of_ms + settle_ms.

    `bytes_per_second` bounds the bytes read in all; None: as fast as the brokers allow. Any cluster but `cluster_id` is
    refused before anything of it is archived.
    """

    config: ClientConfig
    archive: str
    topic: str = OFFSETS_TOPIC
    as_of_ms: int | None = None
    settle_ms: int = 60_000
    bytes_per_second: int | None = None
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What one snapshot added. `log_offsets` counts the log_offsets that the archive now answers for and did not.

    `alerts` are the breaks in a log's history since the last finished snapshot, `warnings` these and all others.
    """

    cluster_id: str
    topic_id: str
    taken_at_ms: int
    log_partitions: int
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0
    log_offsets: int = 0
    warnings: list[str] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The cluster and the archive at one instant, the last two by log partition; `before` is the metadata of the last
    finished snapshot of this cluster."""

    metadata: ClusterMetadata
    before: ClusterMetadata | None
    ends: list[LogEnds]
    warnings: list[str]
    archived: dict[int, ArchiveEnd]
    left_epochs: dict[int, tuple[int, int]]


def run(
    engine: Engine,
    request: SnapshotRequest,
    *,
    now_ms: Callable[[], int],
    sleep: Callable[[float], None] = time.sleep,
    connect: Connect = ClusterSession,
    notify: Callable[[Sequence[str]], None] | None = None,
) -> Snapshot:
    """Take one snapshot. Running it again after a crash completes it; with nothing new it fetches nothing.

    `notify` is called with the alerts before the cluster metadata is written: whoever stores them loses none to a
    crash, and may get one twice.
    """
    if request.as_of_ms is not None:
        _wait_until(request.as_of_ms + request.settle_ms, now_ms, sleep)
    fs, root = filesystem(request.archive)
    archived: list[Manifest] = []
    for looks_left in reversed(range(LOOKS)):
        look = _look(fs, root, request, taken_at_ms=now_ms(), connect=connect)
        failpoint("snapshot.looked")
        lineages, work = _plan(fs, root, request, look)
        failpoint("snapshot.planned")
        is_first = looks_left == LOOKS - 1
        fetched = fetch(engine, work, connect, bytes_per_second=request.bytes_per_second, is_first=is_first)
        archived += [manifest for some in fetched for manifest in some.manifests]
        changed = [some.changed for some in fetched if some.changed]
        if not changed:
            break
        if not looks_left:
            raise TransientError(f"the log keeps changing: {changed[0]}", fix="take the snapshot again")
    failpoint("snapshot.fetched")
    metadata = look.metadata
    alerts = breaks_since(look.before, metadata.topic_id, lineages)
    if notify and alerts:
        notify(alerts)
    write_metadata(fs, root, replace(metadata, log_partitions=_log_partitions(look, lineages)))
    failpoint("snapshot.done")
    return Snapshot(
        cluster_id=metadata.cluster_id,
        topic_id=metadata.topic_id,
        taken_at_ms=metadata.taken_at_ms,
        log_partitions=len(look.ends),
        segments=len(archived),
        batches=sum(manifest.batch_count for manifest in archived),
        size_bytes=sum(manifest.size_bytes for manifest in archived),
        log_offsets=sum(manifest.next_log_offset - manifest.first_log_offset for manifest in archived),
        warnings=[*alerts, *look.warnings],
        alerts=alerts,
    )


def earlier(request: SnapshotRequest) -> Snapshot | None:
    """The finished snapshot that settles `as_of_ms` already, so that a run of that instant needs no other.

    None without one, and where several clusters of the archive might be meant. No broker is asked: past intervals can
    be computed while the cluster is down, or no longer exists.
    """
    fs, root = filesystem(request.archive)
    clusters = [request.cluster_id] if request.cluster_id is not None else child_folders(fs, root)
    # A snapshot that died has no metadata; without any, snapshot_window would take its segments for a whole snapshot.
    if request.as_of_ms is None or len(clusters) != 1 or not snapshot_instants(fs, root, clusters[0]):
        return None
    (cluster_id,) = clusters
    window = snapshot_window(fs, root, cluster_id=cluster_id, as_of_ms=request.as_of_ms, settle_ms=request.settle_ms)
    if (settling := window.settling) is None:
        return None
    return Snapshot(
        cluster_id=cluster_id,
        topic_id=settling.topic_id,
        taken_at_ms=settling.taken_at_ms,
        log_partitions=len(settling.ends),
    )


def _plan(
    fs: pafs.FileSystem, root: str, request: SnapshotRequest, look: _Look
) -> tuple[dict[int, tuple[Lineage, Origin | None]], list[FetchWork]]:
    """The lineage of every log partition, the new ones with their origin written, and what to fetch."""
    history = _history(look)
    ids = look.metadata.cluster_id, look.metadata.topic_id
    lineages: dict[int, tuple[Lineage, Origin | None]] = {}
    work: list[FetchWork] = []
    for log in look.ends:
        part = log.log_partition
        archived = look.archived.get(part)
        lineage, start, new = continuation(log, archived, look.left_epochs.get(part), history)
        if new:
            write_origin(fs, root, new, cluster_id=ids[0], topic_id=ids[1], log_partition=part, lineage=lineage)
        lineages[part] = lineage, new or (archived.origin if archived else None)
        gap_end = archived.next_segment if archived and not new else None
        if start < log.high_watermark:
            where = SegmentRange(
                cluster_id=ids[0],
                topic_id=ids[1],
                log_partition=part,
                lineage=lineage.name,
                first_log_offset=start,
                next_log_offset=log.high_watermark if gap_end is None else min(gap_end, log.high_watermark),
                taken_at_ms=look.metadata.taken_at_ms,
                high_watermark=log.high_watermark,
                last_stable_offset=log.last_stable_offset,
            )
            work.append(
                FetchWork(
                    config=request.config,
                    archive=request.archive,
                    topic=request.topic,
                    where=where,
                    leader=PartitionLeader(node_id=log.leader, epoch=log.leader_epoch),
                    after_epoch=archived.leader_epoch if archived and not new else NO_EPOCH,
                )
            )
    return lineages, work


def _history(look: _Look) -> ClusterHistory:
    metadata, before = look.metadata, look.before
    retention_ms = metadata.delete_retention_ms
    same = before if before and before.topic_id == metadata.topic_id else None
    return ClusterHistory(
        found_at_ms=metadata.taken_at_ms,
        partition_count=metadata.partition_count,
        delete_retention_ms=KAFKAS_DELETE_RETENTION_MS if retention_ms is None else retention_ms,
        before_ms=same.taken_at_ms if same else None,
        counted_before=same.partition_count if same else None,
        previous_topic_id=before.topic_id if before and not same else None,
    )


def _log_partitions(
    look: _Look, lineages: Mapping[int, tuple[Lineage, Origin | None]]
) -> dict[int, LogPartitionMetadata]:
    return {
        log.log_partition: LogPartitionMetadata(
            lineage=lineages[log.log_partition][0].name,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            leader=log.leader,
            leader_epoch=log.leader_epoch,
        )
        for log in look.ends
    }


def _look(
    fs: pafs.FileSystem, root: str, request: SnapshotRequest, *, taken_at_ms: int, connect: Connect = ClusterSession
) -> _Look:
    with connect(request.config) as session:
        topic, ends = _all_log_ends(session, request.topic)
        metadata, warnings = session.retrying(
            lambda: collect_metadata(session, offsets_topic=topic, taken_at_ms=taken_at_ms)
        )
        cluster_id = metadata.cluster_id
        if request.cluster_id not in (None, cluster_id):
            raise Refused(
                f"this is cluster {cluster_id}, expected {request.cluster_id}",
                where=session.config.bootstrap_servers,
                fix="check the connection, and cluster_id in SEXTON_CLUSTERS",
            )
        before = newest_metadata(fs, root, cluster_id=cluster_id)
        archived = {
            log_partition: _with_epoch(end, before)
            for log_partition, end in archive_ends(fs, root, cluster_id=cluster_id, topic_id=metadata.topic_id).items()
        }
        left_epochs = _left_epochs(session, request.topic, archived)
    others = [name for name in child_folders(fs, root) if name != cluster_id]
    if before is None and not archived and others and request.cluster_id is None:
        warnings.append(f"cluster {cluster_id} is new to this archive, which holds {', '.join(others)}")
    return _Look(
        metadata=metadata, before=before, ends=ends, warnings=warnings, archived=archived, left_epochs=left_epochs
    )


def _all_log_ends(session: ClusterSession, name: str) -> tuple[Topic, list[LogEnds]]:
    """Where every log partition ends; waits for leaders: a missing log would look like an empty one."""

    def ask() -> tuple[Topic, list[LogEnds]]:
        topic = describe_topic(session, name)
        ends = log_ends(session, topic)
        if missing := sorted(set(topic.leaders) - {log.log_partition for log in ends}):
            raise TransientError(f"log partitions {missing} have no leader", where=session.config.bootstrap_servers)
        return topic, ends

    return session.retrying(ask)


def _with_epoch(end: ArchiveEnd, before: ClusterMetadata | None) -> ArchiveEnd:
    """`end` with the leader epoch of the last snapshot, where no archived batch has one: an empty range may be cut off
    and written over like any other."""
    known = before.log_partitions.get(end.log_partition) if before else None
    if end.leader_epoch != NO_EPOCH or known is None or known.lineage != end.lineage.name:
        return end
    return replace(end, leader_epoch=known.leader_epoch)


def _left_epochs(session: ClusterSession, name: str, archived: Mapping[int, ArchiveEnd]) -> dict[int, tuple[int, int]]:
    """Where the broker's log leaves the leader epoch of each log partition's last archived batch."""
    epochs = {end.log_partition: end.leader_epoch for end in archived.values() if end.leader_epoch != NO_EPOCH}

    def ask() -> dict[int, tuple[int, int]]:
        topic = describe_topic(session, name)
        return end_of_epoch(session, topic, {n: epoch for n, epoch in epochs.items() if n in topic.leaders})

    return session.retrying(ask) if epochs else {}


def _wait_until(instant_ms: int, now_ms: Callable[[], int], sleep: Callable[[float], None]) -> None:
    """Sleep until `instant_ms`; an instant far ahead is a mistake, not a wait."""
    left_ms = instant_ms - now_ms()
    if left_ms > LONGEST_WAIT_MS:
        raise UsageError(
            f"as_of with its settling time is {left_ms // 60_000} minutes ahead", fix="take the snapshot after as_of"
        )
    while left_ms > 0:
        sleep(left_ms / 1000)
        left_ms = instant_ms - now_ms()
