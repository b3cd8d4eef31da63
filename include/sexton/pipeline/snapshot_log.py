"""snapshot_log: copy new records of `__consumer_offsets` from the brokers into the archive, byte for byte.

Each log partition is fetched from the end of its archive to its current high watermark (pipeline.fetch_log). Cluster
metadata, which is not in the log, is archived after the segments, also if there are none: a snapshot with metadata is
finished. After a crash, another run completes the snapshot.

For a cluster that hides the log, an admin snapshot is taken instead (pipeline.snapshot_groups).

A log that does not continue the archived bytes is never joined to them: it starts a new lineage and raises an alert
(pipeline.continuation). If the log changes while it is read, the log ends are queried again, and the copy continues.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyarrow import fs as pafs

from sexton.archive.admin_snapshots import AdminSnapshot, AdminSnapshots
from sexton.archive.cluster_metadata import (
    ClusterMetadata,
    LogPartitionMetadata,
    newest_metadata,
    snapshot_instants,
    write_metadata,
)
from sexton.archive.files import child_folders
from sexton.archive.folder import filesystem
from sexton.archive.lineages import Origin, lineage_folder, write_origin
from sexton.archive.manifest import Lineage, Manifest, SegmentRange
from sexton.archive.snapshots import snapshot_window
from sexton.archive.writer import ArchiveEnd, archive_ends
from sexton.as_text import HOUR_MS, MINUTE_MS
from sexton.errors import UsageError
from sexton.failpoints import failpoint
from sexton.job_params import SnapshotRequest
from sexton.kafka.collect_metadata import LogEnds, collect_metadata, log_ends
from sexton.kafka.rights import may_read
from sexton.kafka.session import ClusterSession, Connect, TransientError
from sexton.kafka.topics import (
    NO_EPOCH,
    PartitionLeader,
    Topic,
    describe_cluster,
    describe_topic,
    end_of_epoch,
    require_cluster,
)
from sexton.pipeline import snapshot_groups
from sexton.pipeline.continuation import (
    KAFKAS_DELETE_RETENTION_MS,
    ClusterHistory,
    breaks_since,
    continuation,
    is_unobserved,
)
from sexton.pipeline.fetch_log import FetchWork, fetch
from sexton.runs.engine import Engine
from sexton.topics import OFFSETS_TOPIC

LONGEST_WAIT_MS = HOUR_MS
LOG = "log"
_NOT_AUTHORIZED = 29  # TOPIC_AUTHORIZATION_FAILED
ROUNDS = 8
"""Maximum number of times that a snapshot queries the log ends, again after each change of the log while it is read.
After the last it fails, and can be retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSnapshot:
    """What one snapshot added. `log_offsets` counts log_offsets that the archive covers now and did not before.

    For an admin snapshot, `coverage` is `admin`, `admin_because` the reason; `groups` and `offsets` are counts.
    `alerts` are the breaks in a log's history since the last finished snapshot; `warnings` include the alerts.
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
    coverage: str = LOG
    admin_because: str | None = None
    groups: int = 0
    offsets: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Survey:
    """The cluster and the archive at one instant; `archived` and `left_epochs` are by log partition. `before` is the
    metadata of the last finished snapshot of this cluster."""

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
) -> TakenSnapshot:
    """Take one snapshot. Another call after a crash completes it; if there is nothing new, nothing is fetched.

    `notify` is called with the alerts before the cluster metadata is written: a caller that stores them loses none in a
    crash, and may get one twice. If the log is hidden and no earlier snapshot read it, an admin snapshot is taken.
    """
    if request.as_of_ms is not None:
        # Only a snapshot of the log needs time to settle.
        _wait_until(request.as_of_ms + (0 if request.admin_only else request.settle_ms), now_ms, sleep)
    reason = snapshot_groups.ASKED_FOR
    if not request.admin_only:
        try:
            return _copy(engine, request, now_ms=now_ms, connect=connect, notify=notify)
        except UsageError:  # also NotAllowed: refused, or no such topic
            if request.topic != OFFSETS_TOPIC:
                raise
            with connect(request.config) as session:
                cluster_id = session.retrying(lambda: describe_cluster(session, ())).cluster_id
                hidden = snapshot_groups.why_hidden(session)
            # If the log was readable before, a permission was lost: the user has to notice that, so it is an error.
            if hidden is None or snapshot_instants(*filesystem(request.archive), cluster_id):
                raise
            reason = hidden
    return _of_snapshot(snapshot_groups.run(request, reason=reason, now_ms=now_ms, sleep=sleep, connect=connect))


def _of_snapshot(survey: AdminSnapshot) -> TakenSnapshot:
    return TakenSnapshot(
        cluster_id=survey.cluster_id,
        topic_id=survey.metadata.topic_id,
        taken_at_ms=survey.taken_at_ms,
        log_partitions=survey.metadata.partition_count,
        warnings=survey.warnings,
        coverage=AdminSnapshots.coverage,
        admin_because=survey.reason,
        groups=survey.rows["groups"],
        offsets=survey.rows["offsets"],
    )


def _copy(
    engine: Engine,
    request: SnapshotRequest,
    *,
    now_ms: Callable[[], int],
    connect: Connect,
    notify: Callable[[Sequence[str]], None] | None,
) -> TakenSnapshot:
    """Copy new records of the log."""
    fs, root = filesystem(request.archive)
    archived: list[Manifest] = []
    late: frozenset[int] = frozenset()
    for snapshots_left in reversed(range(ROUNDS)):
        survey = _survey(fs, root, request, taken_at_ms=now_ms(), connect=connect)
        failpoint("snapshot.compared")
        lineages, work = _plan(fs, root, request, survey, late)
        failpoint("snapshot.planned")
        is_first = snapshots_left == ROUNDS - 1
        fetched = fetch(engine, work, connect, bytes_per_second=request.bytes_per_second, is_first=is_first)
        archived += [manifest for some in fetched for manifest in some.manifests]
        ended_ms = now_ms()
        changed = [some.changed for some in fetched if some.changed]
        late = _read_late(survey, lineages, work, ended_ms)
        if not changed and not late:
            break
        if changed and not snapshots_left:
            raise TransientError(f"the log could not be read to its end: {changed[0]}", fix="take the snapshot again")
    failpoint("snapshot.fetched")
    metadata = survey.metadata
    alerts = breaks_since(survey.before, metadata.topic_id, lineages)
    if notify and alerts:
        notify(alerts)
    write_metadata(fs, root, replace(metadata, log_partitions=_log_partitions(survey, lineages)))
    failpoint("snapshot.done")
    return TakenSnapshot(
        cluster_id=metadata.cluster_id,
        topic_id=metadata.topic_id,
        taken_at_ms=metadata.taken_at_ms,
        log_partitions=len(survey.ends),
        segments=len(archived),
        batches=sum(manifest.batch_count for manifest in archived),
        size_bytes=sum(manifest.size_bytes for manifest in archived),
        log_offsets=sum(manifest.next_log_offset - manifest.first_log_offset for manifest in archived),
        warnings=[*alerts, *survey.warnings, *_slow(metadata, work, ended_ms)],
        alerts=alerts,
    )


def earlier(request: SnapshotRequest) -> TakenSnapshot | None:
    """The finished snapshot that already settles `as_of_ms`, so that a run at that instant needs no new one.

    None if there is none, or if the archive has several clusters and the request names none. No broker is queried: past
    intervals can be computed while the cluster is down, or after it is gone.
    """
    fs, root = filesystem(request.archive)
    clusters = [request.cluster_id] if request.cluster_id is not None else child_folders(fs, root)
    if request.as_of_ms is None or len(clusters) != 1:
        return None
    (cluster_id,) = clusters
    # A snapshot that died has no metadata. Without any metadata, snapshot_window would take its segments for a
    # snapshot.
    if not snapshot_instants(fs, root, cluster_id):
        survey = AdminSnapshots(fs, root, cluster_id).at(request.as_of_ms)
        return None if survey is None else _of_snapshot(survey)
    window = snapshot_window(fs, root, cluster_id=cluster_id, as_of_ms=request.as_of_ms, settle_ms=request.settle_ms)
    if (settling := window.settling) is None:
        return None
    return TakenSnapshot(
        cluster_id=cluster_id,
        topic_id=settling.topic_id,
        taken_at_ms=settling.taken_at_ms,
        log_partitions=len(settling.ends),
    )


def _plan(
    fs: pafs.FileSystem, root: str, request: SnapshotRequest, survey: _Survey, late: frozenset[int]
) -> tuple[dict[int, tuple[Lineage, Origin | None]], list[FetchWork]]:
    """(lineage of every log partition, what to fetch). Writes the origin of new lineages.

    `late` are log partitions whose archived bytes may not be continued.
    """
    history = _history(survey)
    ids = survey.metadata.cluster_id, survey.metadata.topic_id
    lineages: dict[int, tuple[Lineage, Origin | None]] = {}
    work: list[FetchWork] = []
    for log in survey.ends:
        part = log.log_partition
        archived = survey.archived.get(part)
        lineage, start, new = continuation(log, archived, survey.left_epochs.get(part), history, is_late=part in late)
        if new:
            write_origin(fs, lineage_folder(root, *ids, part, lineage.name), new)
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
                taken_at_ms=survey.metadata.taken_at_ms,
                high_watermark=log.high_watermark,
                last_stable_offset=log.last_stable_offset,
            )
            work.append(
                FetchWork(
                    request=request,
                    where=where,
                    leader=PartitionLeader(node_id=log.leader, epoch=log.leader_epoch),
                    after_epoch=archived.leader_epoch if archived and not new else NO_EPOCH,
                )
            )
    return lineages, work


def _history(survey: _Survey) -> ClusterHistory:
    metadata, before = survey.metadata, survey.before
    same = before if before and before.topic_id == metadata.topic_id else None
    # Delete horizons that the log cleaner has written into a batch stay when the setting is raised (KIP-534).
    retentions_ms = [one.delete_retention_ms for one in (metadata, same) if one and one.delete_retention_ms is not None]
    return ClusterHistory(
        found_at_ms=metadata.taken_at_ms,
        partition_count=metadata.partition_count,
        delete_retention_ms=min(retentions_ms, default=KAFKAS_DELETE_RETENTION_MS),
        before_ms=same.taken_at_ms if same else None,
        counted_before=same.partition_count if same else None,
        previous_topic_id=before.topic_id if before and not same else None,
    )


def _read_late(
    survey: _Survey, lineages: Mapping[int, tuple[Lineage, Origin | None]], work: Sequence[FetchWork], ended_ms: int
) -> frozenset[int]:
    """Log partitions whose archived end had been checked recently enough when the snapshot began, but no longer when
    the new bytes had been read."""
    history = replace(_history(survey), found_at_ms=ended_ms)
    return frozenset(
        part
        for part in (item.where.log_partition for item in work)
        if (archived := survey.archived.get(part)) is not None
        and lineages[part][0] == archived.lineage
        and is_unobserved(archived, history)
    )


def _slow(metadata: ClusterMetadata, work: Sequence[FetchWork], ended_ms: int) -> list[str]:
    """A warning if reading took longer than delete.retention.ms: it may have read a value but missed its tombstone."""
    took_ms, retention_ms = ended_ms - metadata.taken_at_ms, metadata.delete_retention_ms
    if not work or retention_ms is None or took_ms <= retention_ms:
        return []
    took, limit = f"{took_ms / 1000:.1f} s", f"{retention_ms / 1000:.1f} s"
    took = f"reading took {took}, longer than the topic's delete.retention.ms, {limit}"
    return [f"{took}: a tombstone or marker may be missing whose value was read before"]


def _log_partitions(
    survey: _Survey, lineages: Mapping[int, tuple[Lineage, Origin | None]]
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
        for log in survey.ends
    }


def _survey(
    fs: pafs.FileSystem, root: str, request: SnapshotRequest, *, taken_at_ms: int, connect: Connect = ClusterSession
) -> _Survey:
    with connect(request.config) as session:
        topic, ends = _all_log_ends(session, request.topic)
        metadata, warnings = session.retrying(
            lambda: collect_metadata(session, offsets_topic=topic, taken_at_ms=taken_at_ms)
        )
        cluster_id = metadata.cluster_id
        require_cluster(cluster_id, request.cluster_id, where=session.config.bootstrap_servers)
        before = newest_metadata(fs, root, cluster_id=cluster_id)
        archived = {
            log_partition: _with_epoch(end, before)
            for log_partition, end in archive_ends(fs, root, cluster_id=cluster_id, topic_id=metadata.topic_id).items()
        }
        if before is None and not archived and not may_read(session, request.topic):
            # Otherwise every lineage's origin would be written before the first fetch is refused.
            session.check(_NOT_AUTHORIZED, "Fetch", topic=request.topic)
        left_epochs = _left_epochs(session, request.topic, archived)
    others = [name for name in child_folders(fs, root) if name != cluster_id]
    if before is None and not archived and others and request.cluster_id is None:
        warnings.append(f"cluster {cluster_id} is new to this archive, which holds {', '.join(others)}")
    return _Survey(
        metadata=metadata, before=before, ends=ends, warnings=warnings, archived=archived, left_epochs=left_epochs
    )


def _all_log_ends(session: ClusterSession, name: str) -> tuple[Topic, list[LogEnds]]:
    """The topic and the log ends of its partitions. Waits for leaders: a missing log would look like an empty one."""

    def ask() -> tuple[Topic, list[LogEnds]]:
        topic = describe_topic(session, name)
        ends = log_ends(session, topic)
        if missing := sorted(set(topic.leaders) - {log.log_partition for log in ends}):
            raise TransientError(f"log partitions {missing} have no leader", where=session.config.bootstrap_servers)
        return topic, ends

    return session.retrying(ask)


def _with_epoch(end: ArchiveEnd, before: ClusterMetadata | None) -> ArchiveEnd:
    """`end` with the leader epoch of the last snapshot if no archived batch has one: a range without batches may be
    truncated and overwritten like any other."""
    known = before.log_partitions.get(end.log_partition) if before else None
    if end.leader_epoch != NO_EPOCH or known is None or known.lineage != end.lineage.name:
        return end
    return replace(end, leader_epoch=known.leader_epoch)


def _left_epochs(session: ClusterSession, name: str, archived: Mapping[int, ArchiveEnd]) -> dict[int, tuple[int, int]]:
    """The broker's (epoch, end offset) for the leader epoch of each log partition's last archived batch."""
    epochs = {end.log_partition: end.leader_epoch for end in archived.values() if end.leader_epoch != NO_EPOCH}

    def ask() -> dict[int, tuple[int, int]]:
        topic = describe_topic(session, name)
        return end_of_epoch(session, topic, {n: epoch for n, epoch in epochs.items() if n in topic.leaders})

    return session.retrying(ask) if epochs else {}


def _wait_until(instant_ms: int, now_ms: Callable[[], int], sleep: Callable[[float], None]) -> None:
    """Sleep until `instant_ms`; UsageError if that is more than LONGEST_WAIT_MS ahead."""
    left_ms = instant_ms - now_ms()
    if left_ms > LONGEST_WAIT_MS:
        raise UsageError(
            f"as_of with its settling time is {left_ms // MINUTE_MS} minutes ahead", fix="take the snapshot after as_of"
        )
    while left_ms > 0:
        sleep(left_ms / 1000)
        left_ms = instant_ms - now_ms()
