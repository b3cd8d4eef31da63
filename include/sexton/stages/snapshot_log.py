"""snapshot_log: copy what is new in `__consumer_offsets` from the brokers into the archive, byte for byte.

Every log partition goes on where its archive ends and goes up to the high watermark of this instant. Small deltas are
fetched by the driver; larger ones as ranges of log_offsets by Spark tasks side by side, each with a connection of its
own, a segment of at most 64 MB in memory. What the log cannot tell is archived every time, after the segments.

A log that does not go on from the archived bytes starts a new lineage, with a warning: it begins above them (compacted
or deleted before it was archived), ends below them, or left their leader epoch earlier (an unclean election, KIP-320).
A topic that was made anew has another id, and so another folder.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pyarrow import fs as pafs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from sexton.errors import UsageError
from sexton.kafka.client import ClientConfig
from sexton.kafka.facts import OFFSETS_TOPIC, LogEnds, collect_facts, log_ends
from sexton.kafka.fetch import fetch_range
from sexton.kafka.session import ClusterSession, TransientError
from sexton.kafka.topics import Topic, describe_topic, end_of_epoch
from sexton.log.archive import (
    ArchiveEnd,
    FactsRecord,
    Lineage,
    Manifest,
    archive_ends,
    newest_facts,
    write_facts,
    write_segment,
)
from sexton.stages.source import filesystem
from sexton.stages.spark import Engine

SEGMENT_BYTES = 64 * 1024 * 1024
LOG_OFFSETS_A_TASK = 1_000_000
"""Ranges end at multiples of this, so that a run after a crash cuts the log as the crashed one did."""
TYPICAL_BYTES_A_LOG_OFFSET = 160
"""Of an uncompressed offset commit; only decides whether Spark is worth its start."""
DRIVER_BYTES = 512 * 1024 * 1024
"""Up to this the driver fetches: one connection brings some 75 MB/s, and Spark needs as long to start."""
LONGEST_WAIT_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """What to copy, and where to. With `as_of_ms` the snapshot is taken at or after as_of_ms + settle_ms."""

    config: ClientConfig
    archive: str
    topic: str = OFFSETS_TOPIC
    as_of_ms: int | None = None
    settle_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What one snapshot added. `log_offsets` counts the log_offsets that the archive now answers for and did not."""

    cluster_id: str
    topic_id: str
    taken_at_ms: int
    log_partitions: int
    segments: int
    batches: int
    size_bytes: int
    log_offsets: int
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchWork:
    """A range [start, end) of one log partition for one task."""

    request: SnapshotRequest
    facts: FactsRecord
    ends: LogEnds
    lineage: Lineage
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The cluster and the archive at the instant of the snapshot, the last two by log partition."""

    facts: FactsRecord
    ends: list[LogEnds]
    warnings: list[str]
    archived: dict[int, ArchiveEnd]
    left_epochs: dict[int, int]


def run(
    engine: Engine,
    request: SnapshotRequest,
    *,
    now_ms: Callable[[], int],
    sleep: Callable[[float], None] = time.sleep,
) -> Snapshot:
    """Take one snapshot. Running it again after a crash completes it; with nothing new it fetches nothing."""
    if request.as_of_ms is not None:
        _wait_until(request.as_of_ms + request.settle_ms, now_ms, sleep)
    fs, root = filesystem(request.archive)
    seen = _look(fs, root, request, taken_at_ms=now_ms())
    warnings = list(seen.warnings)
    work: list[FetchWork] = []
    for log in seen.ends:
        archived, left_epoch_at = seen.archived.get(log.log_partition), seen.left_epochs.get(log.log_partition)
        lineage, start, warning = continuation(log, archived, left_epoch_at)
        warnings += [warning] if warning else []
        work += [
            FetchWork(request=request, facts=seen.facts, ends=log, lineage=lineage, start=part_start, end=part_end)
            for part_start, part_end in ranges(start, log.high_watermark)
        ]
    if sum(item.end - item.start for item in work) * TYPICAL_BYTES_A_LOG_OFFSET <= DRIVER_BYTES:
        written = _fetch_here(work)
    else:
        written = engine.map("Fetching the log", work, fetch_segments)
    write_facts(fs, root, seen.facts)
    manifests = [manifest for some in written for manifest in some]
    return Snapshot(
        cluster_id=seen.facts.cluster_id,
        topic_id=seen.facts.offsets_topic["topic_id"],
        taken_at_ms=seen.facts.taken_at_ms,
        log_partitions=len(seen.ends),
        segments=len(manifests),
        batches=sum(manifest.batch_count for manifest in manifests),
        size_bytes=sum(manifest.size_bytes for manifest in manifests),
        log_offsets=sum(manifest.next_log_offset - manifest.first_log_offset for manifest in manifests),
        warnings=warnings,
    )


def continuation(
    log: LogEnds, archived: ArchiveEnd | None, left_epoch_at: int | None
) -> tuple[Lineage, int, str | None]:
    """(lineage, first log_offset to fetch, warning) of a log partition.

    `left_epoch_at` is where the broker's log leaves the leader epoch of the last archived batch, None when unknown.
    """
    if archived is None:
        return Lineage(ordinal=0, start_log_offset=log.log_start_offset), log.log_start_offset, None
    reached = archived.next_log_offset
    if log.log_start_offset > reached:
        reason = f"log_offsets [{reached}, {log.log_start_offset}) were deleted before they were archived"
    elif log.high_watermark < reached:
        reason = f"the log ends at {log.high_watermark}, below the archived {reached}"
    elif left_epoch_at is not None and left_epoch_at < reached:
        reason = f"the log left leader epoch {archived.leader_epoch} at {left_epoch_at}, below the archived {reached}"
    else:
        return archived.lineage, reached, None
    lineage = Lineage(ordinal=archived.lineage.ordinal + 1, start_log_offset=log.log_start_offset)
    return lineage, log.log_start_offset, f"log partition {log.log_partition}: {reason}; a new lineage starts"


def ranges(start: int, end: int) -> Iterator[tuple[int, int]]:
    """[start, end) cut at the multiples of LOG_OFFSETS_A_TASK."""
    while start < end:
        stop = min(end, (start // LOG_OFFSETS_A_TASK + 1) * LOG_OFFSETS_A_TASK)
        yield start, stop
        start = stop


def fetch_segments(work: FetchWork) -> list[Manifest]:
    """Fetch one range and archive it as segments of at most SEGMENT_BYTES and one response more."""
    fs, root = filesystem(work.request.archive)
    manifests: list[Manifest] = []
    position = work.start
    with ClusterSession(work.request.config) as session:
        while position < work.end:
            chunks, stop = _next_segment(session, work, position)
            manifest = write_segment(
                fs,
                root,
                chunks,
                cluster_id=work.facts.cluster_id,
                topic_id=work.facts.offsets_topic["topic_id"],
                log_partition=work.ends.log_partition,
                lineage=work.lineage,
                first_log_offset=position,
                end_log_offset=stop,
                taken_at_ms=work.facts.taken_at_ms,
                high_watermark=work.ends.high_watermark,
                last_stable_offset=work.ends.last_stable_offset,
            )
            manifests.append(manifest)
            # Where that segment really ends: one that a crashed run has finished may be longer.
            position = manifest.next_log_offset
    return manifests


def _fetch_here(work: list[FetchWork]) -> list[list[Manifest]]:
    """Fetch one range after the other, shown on a terminal."""
    columns = (TextColumn("fetching the log"), BarColumn(), MofNCompleteColumn(), TextColumn("log_offsets"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=sum(item.end - item.start for item in work))
        written = []
        for item in work:
            written.append(fetch_segments(item))
            progress.advance(task, item.end - item.start)
    return written


def _next_segment(session: ClusterSession, work: FetchWork, position: int) -> tuple[list[bytes], int]:
    """Chunks of raw batches from `position` on, and the log_offset up to which they answer."""
    chunks: list[bytes] = []
    size_bytes = 0
    for batches in fetch_range(session, work.request.topic, work.ends.log_partition, start=position, end=work.end):
        chunks.append(batches.data)
        size_bytes += len(batches.data)
        if size_bytes >= SEGMENT_BYTES:
            return chunks, min(batches.next_offset, work.end)
    return chunks, work.end


def _look(fs: pafs.FileSystem, root: str, request: SnapshotRequest, *, taken_at_ms: int) -> _Seen:
    with ClusterSession(request.config) as session:
        topic, ends = _all_log_ends(session, request.topic)
        facts, warnings = collect_facts(session, offsets_topic=topic, taken_at_ms=taken_at_ms)
        topic_id = facts.offsets_topic["topic_id"]
        archived = archive_ends(fs, root, cluster_id=facts.cluster_id, topic_id=topic_id)
        left_epochs = _left_epochs(session, topic, archived)
    before = None if archived else newest_facts(fs, root, cluster_id=facts.cluster_id)
    if before and before.offsets_topic["topic_id"] != topic_id:
        warnings.append(f"the topic was made anew: its id was {before.offsets_topic['topic_id']} and is {topic_id}")
    return _Seen(facts=facts, ends=ends, warnings=warnings, archived=archived, left_epochs=left_epochs)


def _all_log_ends(session: ClusterSession, name: str) -> tuple[Topic, list[LogEnds]]:
    """Where every log partition ends; waits for leaders: a log that is left out would look like an empty one."""

    def ask() -> tuple[Topic, list[LogEnds]]:
        topic = describe_topic(session, name)
        ends = log_ends(session, topic)
        if missing := sorted(set(topic.leaders) - {log.log_partition for log in ends}):
            raise TransientError(f"log partitions {missing} have no leader", place=session.config.bootstrap_servers)
        return topic, ends

    return session.retrying(ask)


def _left_epochs(session: ClusterSession, topic: Topic, archived: dict[int, ArchiveEnd]) -> dict[int, int]:
    """Where the broker's log leaves the leader epoch of each log partition's last archived batch, where it can tell."""
    epochs = {end.log_partition: end.leader_epoch for end in archived.values() if end.leader_epoch >= 0}
    return {
        log_partition: end_log_offset
        for log_partition, (epoch, end_log_offset) in end_of_epoch(session, topic, epochs).items()
        if epoch >= 0
    }


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
