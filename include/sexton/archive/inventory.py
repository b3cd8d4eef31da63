"""What an archive holds, for people: clusters, their lineages, and which instants it answers for.

Only the first and the last manifest of a lineage are opened; the rest is told by names.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import newest_metadata
from sexton.archive.coverage import Span, spans
from sexton.archive.lineages import (
    ArchivedLineage,
    ArchivedSegment,
    clusters_of,
    list_lineages,
    read_segment_manifest,
    topics_of,
)
from sexton.archive.snapshots import snapshot_instants


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageLine:
    """A lineage of a log partition: log_offsets [start, end), the timestamps of its batches, when it was taken.

    `reason`, `previous` and `missing` are its origin's (archive.lineages.Origin), None where an early release wrote it.
    `detached` segments lie behind a gap that a dead snapshot left.
    """

    topic_id: str
    log_partition: int
    lineage: str
    reason: str | None
    previous: str | None
    missing: tuple[int, int] | None
    start: int
    end: int
    segments: int
    detached: int
    size_bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    first_taken_at_ms: int | None
    last_taken_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInventory:
    """A cluster of the archive: `lineages` by topic, log partition and age, `coverage` from the oldest instant on."""

    cluster_id: str
    broker_version: str | None
    snapshots: int
    first_snapshot_ms: int | None
    last_snapshot_ms: int | None
    segments: int
    size_bytes: int
    coverage: list[Span]
    lineages: list[LineageLine]


def inventory(
    fs: pafs.FileSystem, root: str, *, settle_ms: int, cluster_id: str | None = None
) -> list[ClusterInventory]:
    """Every cluster of the archive, or one; none when nothing is archived. UsageError for a manifest that is none."""
    return [_cluster(fs, root, name, settle_ms) for name in clusters_of(fs, root, cluster_id)]


def _cluster(fs: pafs.FileSystem, root: str, cluster_id: str, settle_ms: int) -> ClusterInventory:
    instants = snapshot_instants(fs, root, cluster_id)
    facts = newest_metadata(fs, root, cluster_id=cluster_id) if instants else None
    lines = [
        _line(fs, history)
        for topic_id in topics_of(fs, root, cluster_id)
        for histories in list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic_id).values()
        for history in histories
    ]
    return ClusterInventory(
        cluster_id=cluster_id,
        broker_version=facts.broker_version if facts else None,
        snapshots=len(instants),
        first_snapshot_ms=min(instants, default=None),
        last_snapshot_ms=max(instants, default=None),
        segments=sum(line.segments for line in lines),
        size_bytes=sum(line.size_bytes for line in lines),
        coverage=spans(fs, root, cluster_id=cluster_id, settle_ms=settle_ms),
        lineages=lines,
    )


def _line(fs: pafs.FileSystem, history: ArchivedLineage) -> LineageLine:
    origin = history.origin
    first = _first_stamped(fs, history.segments)
    last = _first_stamped(fs, reversed(history.segments))
    return LineageLine(
        topic_id=history.topic_id,
        log_partition=history.log_partition,
        lineage=history.lineage.name,
        reason=origin.reason if origin else None,
        previous=origin.previous if origin else None,
        missing=origin.missing if origin else None,
        start=history.lineage.start_log_offset,
        end=history.next_log_offset,
        segments=len(history.segments),
        detached=len(history.detached),
        size_bytes=history.size_bytes,
        first_timestamp_ms=first[0],
        last_timestamp_ms=last[1],
        first_taken_at_ms=read_segment_manifest(fs, history.segments[0]).taken_at_ms if history.segments else None,
        last_taken_at_ms=read_segment_manifest(fs, history.segments[-1]).taken_at_ms if history.segments else None,
    )


def _first_stamped(fs: pafs.FileSystem, chain: Iterable[ArchivedSegment]) -> tuple[int | None, int | None]:
    """First and last timestamp of the first segment that has any."""
    for link in chain:
        manifest = read_segment_manifest(fs, link)
        if manifest.last_timestamp_ms is not None:
            return manifest.first_timestamp_ms, manifest.last_timestamp_ms
    return None, None
