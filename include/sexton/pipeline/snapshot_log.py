"""snapshot_log: copy what is new in `__consumer_offsets` from the brokers into the archive, byte for byte.

Every log partition goes on where its archive ends and goes up to the high watermark of this instant. Small deltas are
fetched by the driver; larger ones as ranges of log_offsets by Spark tasks side by side, each with a connection of its
own, a segment of at most 64 MB in memory. What the log cannot tell is archived every time, after the segments: these
facts say what a finished snapshot had. Running it again after a crash completes it.

A log that does not go on from the archived bytes is never joined to them: it starts a new lineage and raises an alert
(pipeline.continuation). The same is looked for in every single fetch (kafka.fetch): when the log changes while it is
read, the snapshot looks again and goes on from what it has.

The leader of a log partition is the coordinator of its groups, so it is asked for as little as can be: three requests
of metadata for each broker, then only bytes that are not archived yet, one answer of 8 MB at a time on one connection,
as they lie on its disk (nothing is converted, so it can send files without reading them). No consumer group, no commit
and no fetch session: reading leaves nothing behind in the topic that is read. Quotas of the brokers are waited for, and
`bytes_per_second` keeps to less.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyarrow import fs as pafs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from sexton.archive.files import child_folders
from sexton.archive.lineages import lineage_folder, segments_in
from sexton.archive.snapshots import around, snapshot_instants
from sexton.archive.writer import (
    ArchiveEnd,
    ClusterMetadata,
    Lineage,
    LogPartitionMetadata,
    Manifest,
    Origin,
    archive_ends,
    newest_metadata,
    write_batches,
    write_manifest,
    write_metadata,
    write_origin,
)
from sexton.errors import Refused, UsageError
from sexton.failpoints import failpoint
from sexton.kafka.client import ClientConfig
from sexton.kafka.collect_metadata import LogEnds, collect_metadata, log_ends
from sexton.kafka.fetch import NO_EPOCH, LogChangedError, LogReader, Pace
from sexton.kafka.session import ClusterSession, TransientError
from sexton.kafka.topics import OFFSETS_TOPIC, UNKNOWN_ID, PartitionLeader, Topic, describe_topic, end_of_epoch
from sexton.pipeline.continuation import KAFKAS_DELETE_RETENTION_MS, Known, breaks_since, continuation
from sexton.runs.engine import Engine
from sexton.runs.source import filesystem

SEGMENT_BYTES = 64 * 1024 * 1024
LOG_OFFSETS_A_TASK = 1_000_000
"""Ranges end at multiples of this, so that a run after a crash cuts the log as the crashed one did."""
TYPICAL_BYTES_A_LOG_OFFSET = 160
"""Of an uncompressed offset commit; only decides whether Spark is worth its start."""
DRIVER_BYTES = 512 * 1024 * 1024
"""Up to this the driver fetches: one connection brings some 75 MB/s, and Spark needs as long to start."""
RANGES_A_WAVE = 64
"""Ranges that are fetched before their manifests are written: what a crash can cost."""
LONGEST_WAIT_MS = 3_600_000
LOOKS = 8
"""How often a snapshot looks again when the log changes while it is read; then it fails, and may be run again."""

Connect = Callable[[ClientConfig], ClusterSession]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """What to copy, and where to. With `as_of_ms` the snapshot is taken at or after as_of_ms + settle_ms.

    `bytes_per_second` bounds what is read in all, None: as fast as the brokers allow. Any cluster but `cluster_id` is
    refused, before anything of it is archived.
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

    `alerts` tell of every break in a log's history since the last finished snapshot, `warnings` of these and the rest.
    """

    cluster_id: str
    topic_id: str
    taken_at_ms: int
    log_partitions: int
    segments: int
    batches: int
    size_bytes: int
    log_offsets: int
    warnings: list[str] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchWork:
    """A range [start, end) of one log partition for one task; `after_epoch` as kafka.fetch.LogReader has it."""

    request: SnapshotRequest
    facts: ClusterMetadata
    ends: LogEnds
    lineage: Lineage
    start: int
    end: int
    after_epoch: int | None

    @property
    def unfinished(self) -> str | None:
        """What to say when all of it is fetched and there is more: it ends at segments whose manifests were cut off."""
        return "a gap in the archive is closed" if self.end < self.ends.high_watermark else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What became of one piece of work; `changed` says why it was left before its end."""

    manifests: list[Manifest]
    changed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The cluster and the archive at the instant of the snapshot, the last two by log partition.

    `before` are the facts of the last finished snapshot of this cluster.
    """

    facts: ClusterMetadata
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
    tell: Callable[[Sequence[str]], None] | None = None,
) -> Snapshot:
    """Take one snapshot. Running it again after a crash completes it; with nothing new it fetches nothing.

    `tell` is given the alerts before the facts are written, which are the mark that they were told: who keeps them
    loses none to a crash, and may get one twice.
    """
    if request.as_of_ms is not None:
        _wait_until(request.as_of_ms + request.settle_ms, now_ms, sleep)
    fs, root = filesystem(request.archive)
    archived: list[Manifest] = []
    for looks_left in reversed(range(LOOKS)):
        seen = _look(fs, root, request, taken_at_ms=now_ms(), connect=connect)
        failpoint("snapshot.looked")
        lineages, work = _plan(fs, root, request, seen)
        failpoint("snapshot.planned")
        fetched = _fetch(engine, request, work, connect, is_first=looks_left == LOOKS - 1)
        archived += [manifest for some in fetched for manifest in some.manifests]
        changed = [some.changed for some in fetched if some.changed]
        if not changed:
            break
        if not looks_left:
            raise TransientError(f"the log changes again and again: {changed[0]}", fix="take the snapshot again")
    failpoint("snapshot.fetched")
    alerts = breaks_since(seen.before, seen.facts.offsets_topic["topic_id"], lineages)
    if tell and alerts:
        tell(alerts)
    write_metadata(fs, root, replace(seen.facts, log_partitions=_noted(seen, lineages)))
    failpoint("snapshot.done")
    return Snapshot(
        cluster_id=seen.facts.cluster_id,
        topic_id=seen.facts.offsets_topic["topic_id"],
        taken_at_ms=seen.facts.taken_at_ms,
        log_partitions=len(seen.ends),
        segments=len(archived),
        batches=sum(manifest.batch_count for manifest in archived),
        size_bytes=sum(manifest.size_bytes for manifest in archived),
        log_offsets=sum(manifest.next_log_offset - manifest.first_log_offset for manifest in archived),
        warnings=[*alerts, *seen.warnings],
        alerts=alerts,
    )


def earlier(request: SnapshotRequest) -> Snapshot | None:
    """The finished snapshot that has settled `as_of_ms` before, so that a run of that instant needs no other.

    None without one, and where several clusters of the archive might be meant. Nobody is asked: past intervals can be
    told while the cluster is away, or no longer there.
    """
    fs, root = filesystem(request.archive)
    clusters = [request.cluster_id] if request.cluster_id is not None else child_folders(fs, root)
    # One that died has no facts; without any, `around` would take its segments for a whole snapshot.
    if request.as_of_ms is None or len(clusters) != 1 or not snapshot_instants(fs, root, clusters[0]):
        return None
    found = around(fs, root, cluster_id=clusters[0], as_of_ms=request.as_of_ms, settle_ms=request.settle_ms)
    if (settling := found.settling) is None:
        return None
    return Snapshot(
        cluster_id=clusters[0],
        topic_id=settling.topic_id,
        taken_at_ms=settling.taken_at_ms,
        log_partitions=len(settling.ends),
        segments=0,
        batches=0,
        size_bytes=0,
        log_offsets=0,
    )


def ranges(start: int, end: int) -> Iterator[tuple[int, int]]:
    """[start, end) cut at the multiples of LOG_OFFSETS_A_TASK."""
    while start < end:
        stop = min(end, (start // LOG_OFFSETS_A_TASK + 1) * LOG_OFFSETS_A_TASK)
        yield start, stop
        start = stop


def fetch_in_order(work: FetchWork, session: ClusterSession, pace: Pace | None = None) -> Fetched:
    """Archive the work of one log partition, segment after segment."""
    fs, root = filesystem(work.request.archive)
    manifests = []
    try:
        for manifest in _segments(work, session, pace):
            write_manifest(fs, root, manifest)
            manifests.append(manifest)
    except LogChangedError as change:
        return Fetched(manifests=manifests, changed=str(change))
    return Fetched(manifests=manifests, changed=work.unfinished)


def fetch_range(work: FetchWork, session: ClusterSession) -> Fetched:
    """Fetch one range of several that are read side by side: its segments are written, and do not exist yet."""
    try:
        return Fetched(manifests=list(_segments(work, session)))
    except LogChangedError as change:
        return Fetched(manifests=[], changed=str(change))


def _connected(
    fetch: Callable[[FetchWork, ClusterSession], Fetched], connect: Connect
) -> Callable[[FetchWork], Fetched]:
    """`fetch` as a task, with a connection of its own."""

    def work_on(work: FetchWork) -> Fetched:
        with connect(work.request.config) as session:
            return fetch(work, session)

    return work_on


def _segments(work: FetchWork, session: ClusterSession, pace: Pace | None = None) -> Iterator[Manifest]:
    """Write a range as segments of at most SEGMENT_BYTES and one response more; their manifests are the caller's."""
    fs, root = filesystem(work.request.archive)
    topic_id, part = work.facts.offsets_topic["topic_id"], work.ends.log_partition
    folder = lineage_folder(root, work.facts.cluster_id, topic_id, part, work.lineage.name)
    reader = LogReader(
        session,
        work.request.topic,
        part,
        topic_id=None if topic_id == UNKNOWN_ID else topic_id,
        leader=PartitionLeader(node_id=work.ends.leader, epoch=work.ends.leader_epoch),
        after_epoch=work.after_epoch,
        pace=pace,
    )
    position = work.start
    while position < work.end:
        chunks, stop = _next_segment(reader, position, next(ranges(position, work.end))[1])
        # What has a manifest is never written again: a task that was given up for dead may still be at work.
        if any(link.first_log_offset == position for link in segments_in(fs, folder)):
            raise LogChangedError(f"another snapshot has archived log partition {part} from {position} on")
        manifest = write_batches(
            fs,
            root,
            chunks,
            cluster_id=work.facts.cluster_id,
            topic_id=topic_id,
            log_partition=part,
            lineage=work.lineage,
            first_log_offset=position,
            end_log_offset=stop,
            taken_at_ms=work.facts.taken_at_ms,
            high_watermark=work.ends.high_watermark,
            last_stable_offset=work.ends.last_stable_offset,
        )
        yield manifest
        if manifest.next_log_offset != stop:
            raise LogChangedError(f"another snapshot has archived log partition {part} from {position} on")
        position = stop


def _plan(
    fs: pafs.FileSystem, root: str, request: SnapshotRequest, seen: _Seen
) -> tuple[dict[int, tuple[Lineage, Origin | None]], list[FetchWork]]:
    """The lineage of every log partition, the new ones with their origin written, and what there is to fetch."""
    known = _known(seen)
    lineages: dict[int, tuple[Lineage, Origin | None]] = {}
    work: list[FetchWork] = []
    for log in seen.ends:
        archived = seen.archived.get(log.log_partition)
        lineage, start, new = continuation(log, archived, seen.left_epochs.get(log.log_partition), known)
        if new:
            write_origin(
                fs,
                root,
                new,
                cluster_id=seen.facts.cluster_id,
                topic_id=seen.facts.offsets_topic["topic_id"],
                log_partition=log.log_partition,
                lineage=lineage,
            )
        lineages[log.log_partition] = lineage, new or (archived.origin if archived else None)
        gap_end = archived.next_segment if archived and not new else None
        if start < log.high_watermark:
            work.append(
                FetchWork(
                    request=request,
                    facts=seen.facts,
                    ends=log,
                    lineage=lineage,
                    start=start,
                    end=log.high_watermark if gap_end is None else min(gap_end, log.high_watermark),
                    after_epoch=archived.leader_epoch if archived and not new else NO_EPOCH,
                )
            )
    return lineages, work


def _known(seen: _Seen) -> Known:
    topic_id, before = seen.facts.offsets_topic["topic_id"], seen.before
    retention_ms = seen.facts.delete_retention_ms
    is_same = before is not None and before.offsets_topic["topic_id"] == topic_id
    return Known(
        found_at_ms=seen.facts.taken_at_ms,
        partition_count=seen.facts.offsets_topic["partitions"],
        delete_retention_ms=KAFKAS_DELETE_RETENTION_MS if retention_ms is None else retention_ms,
        before_ms=before.taken_at_ms if before and is_same else None,
        counted_before=before.offsets_topic["partitions"] if before and is_same else None,
        previous_topic_id=before.offsets_topic["topic_id"] if before and not is_same else None,
    )


def _noted(seen: _Seen, lineages: Mapping[int, tuple[Lineage, Origin | None]]) -> dict[int, LogPartitionMetadata]:
    return {
        log.log_partition: LogPartitionMetadata(
            lineage=lineages[log.log_partition][0].name,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            leader=log.leader,
            leader_epoch=log.leader_epoch,
        )
        for log in seen.ends
    }


def _fetch(
    engine: Engine, request: SnapshotRequest, work: list[FetchWork], connect: Connect, *, is_first: bool
) -> list[Fetched]:
    """Fetch everything: by Spark tasks when it is much, unless it is to be slow.

    After elections have stopped ranges that were read side by side, a log partition is read by one task.
    """
    log_offsets = sum(item.end - item.start for item in work)
    if log_offsets * TYPICAL_BYTES_A_LOG_OFFSET <= DRIVER_BYTES or request.bytes_per_second is not None:
        return _fetch_here(request, work, connect)
    if is_first:
        return _fetch_side_by_side(engine, request, work, connect)
    return engine.map("Fetching the log", work, _connected(fetch_in_order, connect))


def _fetch_side_by_side(
    engine: Engine, request: SnapshotRequest, work: Sequence[FetchWork], connect: Connect
) -> list[Fetched]:
    """Fetch ranges by many tasks at a time, some ranges of each log partition in turn.

    Manifests are written here, in the order of the log: so no segment ever lies behind a gap, where one that an
    election has cut off since could be taken for the continuation of another log.
    """
    fs, root = filesystem(request.archive)
    items = side_by_side(work)
    fetched = [Fetched(manifests=[], changed=item.unfinished) for item in work if item.unfinished]
    stopped: dict[int, str] = {}
    for begin in range(0, len(items), RANGES_A_WAVE):
        wave = [item for item in items[begin : begin + RANGES_A_WAVE] if item.ends.log_partition not in stopped]
        if begin:
            failpoint("snapshot.between")
        results = engine.map("Fetching the log", wave, _connected(fetch_range, connect))
        for item, result in zip(wave, results, strict=True):
            log_partition = item.ends.log_partition
            if result.changed:
                stopped.setdefault(log_partition, result.changed)
            if log_partition in stopped:
                continue
            for manifest in result.manifests:
                write_manifest(fs, root, manifest)
            fetched.append(result)
    return [*fetched, *(Fetched(manifests=[], changed=change) for change in stopped.values())]


def side_by_side(work: Iterable[FetchWork]) -> list[FetchWork]:
    """The work in ranges of LOG_OFFSETS_A_TASK, the first of every log partition, then the second ones, and so on.

    All of them hold under the leaders of the look only: after an election nobody knows what the others have read.
    """
    numbered = [
        (number, replace(item, start=start, end=end, after_epoch=None))
        for item in work
        for number, (start, end) in enumerate(ranges(item.start, item.end))
    ]
    return [item for _, item in sorted(numbered, key=lambda pair: pair[0])]


def _fetch_here(request: SnapshotRequest, work: Sequence[FetchWork], connect: Connect) -> list[Fetched]:
    """Fetch one log partition after the other over one connection, shown on a terminal."""
    if not work:
        return []
    columns = (TextColumn("fetching the log"), BarColumn(), MofNCompleteColumn(), TextColumn("log_offsets"))
    console = Console(stderr=True)
    pace = Pace(request.bytes_per_second) if request.bytes_per_second is not None else None
    fetched: list[Fetched] = []
    with (
        connect(request.config) as session,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("", total=sum(item.end - item.start for item in work))
        for item in work:
            if fetched:
                failpoint("snapshot.between")
            fetched.append(fetch_in_order(item, session, pace))
            progress.advance(task, item.end - item.start)
    return fetched


def _next_segment(reader: LogReader, position: int, end: int) -> tuple[list[bytes], int]:
    """Chunks of raw batches from `position` on, and the log_offset up to which they answer."""
    chunks: list[bytes] = []
    size_bytes = 0
    for batches in reader.read(start=position, end=end):
        chunks.append(batches.data)
        size_bytes += len(batches.data)
        if size_bytes >= SEGMENT_BYTES:
            return chunks, min(batches.next_offset, end)
    return chunks, end


def _look(
    fs: pafs.FileSystem, root: str, request: SnapshotRequest, *, taken_at_ms: int, connect: Connect = ClusterSession
) -> _Seen:
    with connect(request.config) as session:
        topic, ends = _all_log_ends(session, request.topic)
        facts, warnings = session.retrying(
            lambda: collect_metadata(session, offsets_topic=topic, taken_at_ms=taken_at_ms)
        )
        if request.cluster_id not in (None, facts.cluster_id):
            raise Refused(
                f"this is cluster {facts.cluster_id}, wanted is {request.cluster_id}",
                where=session.config.bootstrap_servers,
                fix="look at the connection, and at cluster_id in SEXTON_CLUSTERS",
            )
        topic_id = facts.offsets_topic["topic_id"]
        before = newest_metadata(fs, root, cluster_id=facts.cluster_id)
        archived = {
            log_partition: _with_epoch(end, before)
            for log_partition, end in archive_ends(fs, root, cluster_id=facts.cluster_id, topic_id=topic_id).items()
        }
        left_epochs = _left_epochs(session, request.topic, archived)
    others = [name for name in child_folders(fs, root) if name != facts.cluster_id]
    if before is None and not archived and others and request.cluster_id is None:
        warnings.append(f"cluster {facts.cluster_id} is new to this archive, which holds {', '.join(others)}")
    return _Seen(facts=facts, before=before, ends=ends, warnings=warnings, archived=archived, left_epochs=left_epochs)


def _all_log_ends(session: ClusterSession, name: str) -> tuple[Topic, list[LogEnds]]:
    """Where every log partition ends; waits for leaders: a log that is left out would look like an empty one."""

    def ask() -> tuple[Topic, list[LogEnds]]:
        topic = describe_topic(session, name)
        ends = log_ends(session, topic)
        if missing := sorted(set(topic.leaders) - {log.log_partition for log in ends}):
            raise TransientError(f"log partitions {missing} have no leader", where=session.config.bootstrap_servers)
        return topic, ends

    return session.retrying(ask)


def _with_epoch(end: ArchiveEnd, before: ClusterMetadata | None) -> ArchiveEnd:
    """`end` with the epoch of who led when it was last looked at, where no archived batch tells one: an empty range may
    be cut off and written over like any other."""
    told = (before.log_partitions or {}).get(end.log_partition) if before else None
    if end.leader_epoch != NO_EPOCH or told is None or told.lineage != end.lineage.name:
        return end
    return replace(end, leader_epoch=told.leader_epoch)


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
