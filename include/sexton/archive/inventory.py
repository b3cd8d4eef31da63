"""The content of an archive, for people: clusters, their lineages, and the instants that each covers.

Only a few manifests of a lineage are opened, from both ends; everything else is in file names.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyarrow import fs as pafs

from sexton.archive.admin_snapshots import admin_snapshot_instants
from sexton.archive.cluster_metadata import newest_metadata, snapshot_instants
from sexton.archive.coverage import LogSpan, spans
from sexton.archive.lineages import (
    ArchivedLineage,
    ArchivedSegment,
    clusters_of,
    every_lineage,
    read_segment_manifest,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageLine:
    """A lineage of a log partition: log_offsets [start, end), the first and last timestamp of its batches, and when its
    first and last segment were archived.

    `reason`, `previous` and `missing` are from its origin (archive.lineages.Origin). `detached` counts segments after a
    gap that an interrupted snapshot left.
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
    """A cluster of the archive: `lineages` in order of topic, log partition and age, `coverage` from the oldest instant
    on."""

    cluster_id: str
    broker_version: str | None
    snapshots: int
    first_snapshot_ms: int | None
    last_snapshot_ms: int | None
    segments: int
    size_bytes: int
    coverage: list[LogSpan]
    lineages: list[LineageLine]
    admin_snapshots: int = 0
    """Number of admin snapshots; the next two fields are when the first and the last one began."""
    first_admin_snapshot_ms: int | None = None
    last_admin_snapshot_ms: int | None = None


def inventory(
    fs: pafs.FileSystem, root: str, *, settle_ms: int, cluster_id: str | None = None
) -> list[ClusterInventory]:
    """Every cluster of the archive, or one; empty when nothing is archived. UsageError for a bad manifest."""
    return [_cluster(fs, root, name, settle_ms) for name in clusters_of(fs, root, cluster_id)]


def _cluster(fs: pafs.FileSystem, root: str, cluster_id: str, settle_ms: int) -> ClusterInventory:
    instants = snapshot_instants(fs, root, cluster_id)
    metadata = newest_metadata(fs, root, cluster_id=cluster_id) if instants else None
    admin_snapshots = admin_snapshot_instants(fs, root, cluster_id)
    lines = [_line(fs, lineage) for lineage in every_lineage(fs, root, cluster_id)]
    return ClusterInventory(
        cluster_id=cluster_id,
        broker_version=metadata.broker_version if metadata else None,
        snapshots=len(instants),
        first_snapshot_ms=min(instants, default=None),
        last_snapshot_ms=max(instants, default=None),
        segments=sum(line.segments for line in lines),
        size_bytes=sum(line.size_bytes for line in lines),
        coverage=spans(fs, root, cluster_id=cluster_id, settle_ms=settle_ms),
        lineages=lines,
        admin_snapshots=len(admin_snapshots),
        first_admin_snapshot_ms=min(admin_snapshots, default=None),
        last_admin_snapshot_ms=max(admin_snapshots, default=None),
    )


def _line(fs: pafs.FileSystem, lineage: ArchivedLineage) -> LineageLine:
    origin, segments = lineage.origin, lineage.segments
    return LineageLine(
        topic_id=lineage.topic_id,
        log_partition=lineage.log_partition,
        lineage=lineage.lineage.name,
        reason=origin.reason if origin else None,
        previous=origin.previous if origin else None,
        missing=origin.missing if origin else None,
        start=lineage.lineage.start_log_offset,
        end=lineage.next_log_offset,
        segments=len(segments),
        detached=len(lineage.detached),
        size_bytes=lineage.size_bytes,
        first_timestamp_ms=_timestamps(fs, segments)[0],
        last_timestamp_ms=_timestamps(fs, reversed(segments))[1],
        first_taken_at_ms=read_segment_manifest(fs, segments[0]).taken_at_ms if segments else None,
        last_taken_at_ms=read_segment_manifest(fs, segments[-1]).taken_at_ms if segments else None,
    )


def _timestamps(fs: pafs.FileSystem, segments: Iterable[ArchivedSegment]) -> tuple[int | None, int | None]:
    """First and last timestamp of the first segment that has any."""
    for segment in segments:
        manifest = read_segment_manifest(fs, segment)
        if manifest.last_timestamp_ms is not None:
            return manifest.first_timestamp_ms, manifest.last_timestamp_ms
    return None, None
