"""Lineages: the unbroken stretches of a log partition in the archive, and why each began.

    <archive>/<cluster_id>/<topic_id>/<log_partition>/<lineage>/origin.json

A lineage begins where the log does not continue the archived bytes: with the first snapshot, after a gap, after a
truncation, with another number of log partitions. Its origin is written before its first segment, so that no break is
overlooked. File names describe the segments: listing opens no manifest.

Not here: how a break is detected (pipeline/continuation.py, pipeline/import_log.py), and the content of a manifest
(manifest.py).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyarrow import fs as pafs

from sexton.archive.create import create_whole
from sexton.archive.file_names import MANIFEST_FILE, manifest_path, segment_path
from sexton.archive.files import child_folders, cluster_folder, list_folder, read_record, record_json, safe_name
from sexton.archive.manifest import Lineage, Manifest
from sexton.errors import UsageError
from sexton.failpoints import failpoint

ORIGIN_FILE = "origin.json"
MAINTENANCE_FOLDER = "maintenance"
PLANS_FOLDER = "plans"
LEDGER_FOLDER = "ledger"
RESTORES_FOLDER = "restores"
APPROVALS_FOLDER = "approvals"
TRANSACTIONS_FOLDER = "transaction_state"
TIME_POINTS_FOLDER = "time_points"
ADMIN_SNAPSHOTS_FOLDER = "admin_snapshots"
OWN_FOLDERS = frozenset(
    {
        *("cluster_metadata", "cuts", "checkpoints", MAINTENANCE_FOLDER),
        *(PLANS_FOLDER, LEDGER_FOLDER, RESTORES_FOLDER, TRANSACTIONS_FOLDER, TIME_POINTS_FOLDER),
        *(ADMIN_SNAPSHOTS_FOLDER, APPROVALS_FOLDER),
    }
)
"""Folders of a cluster that do not hold a topic."""

FIRST, IMPORTED = "first", "imported"
GAP, TRUNCATED, EPOCH_DIVERGED = "gap", "truncated", "epoch_diverged"
UNOBSERVED, PARTITION_COUNT, RECREATED = "unobserved", "partition_count", "recreated"
BREAKS = frozenset({GAP, TRUNCATED, EPOCH_DIVERGED, UNOBSERVED, PARTITION_COUNT, RECREATED})

_LINEAGE_FOLDER = re.compile(r"(\d{6})-(\d{20})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Why a lineage begins. `reason` is one of

        first, imported     nothing of this log partition was archived before (from a broker; from a disk)
        gap                 the log begins above the archive's end: `missing` log_offsets [a, b) are lost
        truncated           the log ended below the archive's end
        epoch_diverged      the last archived leader epoch ends in the log below the archive's end (an unclean election)
        unobserved          the log was not read for longer than the topic's delete.retention.ms: tombstones and
                            markers may be missing from the archive, which would keep the records that they deleted
        partition_count     the topic has another number of log partitions: groups hash to other log partitions now
        recreated           the topic was deleted and created again; the old topic had the id `previous_topic_id`

    `previous` is the name of the previous lineage, and `previous_end` the log_offset where it ended. `diverged_at` is
    the log_offset where the two logs begin to differ, if known. `partition_count` is the number of log partitions when
    the lineage began.
    """

    reason: str
    found_at_ms: int
    previous: str | None = None
    previous_end: int | None = None
    missing: tuple[int, int] | None = None
    diverged_at: int | None = None
    partition_count: int | None = None
    previous_topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedSegment:
    """A segment with a manifest, as the manifest's file name describes it: [first_log_offset, next_log_offset)."""

    folder: str
    first_log_offset: int
    next_log_offset: int
    size_bytes: int

    @property
    def segment_path(self) -> str:
        return segment_path(self.folder, self.first_log_offset)

    @property
    def manifest_path(self) -> str:
        return manifest_path(self.folder, self.first_log_offset, self.next_log_offset, self.size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedLineage:
    """One lineage of a log partition.

    `segments` follow each other without a gap from the lineage's start on. `detached` segments are never read: they
    begin after a gap or inside another segment. `twins` are further manifests that concurrent snapshots wrote for one
    of the `segments`, with the same size; the manifest with the lowest end counts. `origin` is None where its file is
    missing.
    """

    cluster_id: str
    topic_id: str
    log_partition: int
    lineage: Lineage
    folder: str
    origin: Origin | None
    segments: tuple[ArchivedSegment, ...]
    detached: tuple[ArchivedSegment, ...] = ()
    twins: tuple[ArchivedSegment, ...] = ()

    @property
    def next_log_offset(self) -> int:
        """Where the segments end; the lineage's start when nothing is archived yet."""
        return self.segments[-1].next_log_offset if self.segments else self.lineage.start_log_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    def manifests(self, fs: pafs.FileSystem) -> Iterator[Manifest]:
        """The manifests of its segments, in order, each read on demand; UsageError for a bad one."""
        return (read_segment_manifest(fs, segment) for segment in self.segments)


def list_lineages(
    fs: pafs.FileSystem, root: str, *, cluster_id: str, topic_id: str
) -> dict[int, list[ArchivedLineage]]:
    """The lineages of each log partition of a topic, oldest first, for log partitions that have any.

    A lineage exists once it has an origin or a segment at its start. The newest lineage may come from a killed
    snapshot: ClusterMetadata.log_partitions has the lineages of a finished snapshot.
    """
    files: dict[tuple[int, Lineage], list[pafs.FileInfo]] = {}
    topic = topic_folder(root, cluster_id, topic_id)
    for file in list_folder(fs, topic, recursive=True):
        log_partition, lineage, _ = ["", "", "", *file.path.split("/")][-3:]
        if log_partition.isdecimal() and (name := _LINEAGE_FOLDER.fullmatch(lineage)):
            key = int(log_partition), Lineage(ordinal=int(name[1]), start_log_offset=int(name[2]))
            files.setdefault(key, []).append(file)
    found: dict[int, list[ArchivedLineage]] = {}
    for (part, one), listed in sorted(files.items(), key=lambda item: item[0]):
        folder = f"{topic}/{part}/{one.name}"
        known = _segments(folder, listed)
        segments: list[ArchivedSegment] = []
        reached = one.start_log_offset
        for segment in known:
            if segment.first_log_offset == reached and segment.next_log_offset > reached:
                segments.append(segment)
                reached = segment.next_log_offset
        kept = {(segment.first_log_offset, segment.size_bytes) for segment in segments}
        rest = sorted({*known} - {*segments}, key=_order)
        origin_path = f"{folder}/{ORIGIN_FILE}"
        has_origin = any(file.base_name == ORIGIN_FILE for file in listed)
        origin = read_record(fs, origin_path, Origin, what="an origin") if has_origin else None
        if segments or origin:
            found.setdefault(part, []).append(
                ArchivedLineage(
                    cluster_id=cluster_id,
                    topic_id=topic_id,
                    log_partition=part,
                    lineage=one,
                    folder=folder,
                    origin=origin,
                    segments=tuple(segments),
                    detached=tuple(other for other in rest if (other.first_log_offset, other.size_bytes) not in kept),
                    twins=tuple(other for other in rest if (other.first_log_offset, other.size_bytes) in kept),
                )
            )
    return found


def every_lineage(fs: pafs.FileSystem, root: str, cluster_id: str) -> Iterator[ArchivedLineage]:
    """The lineages of all topics of a cluster, in order of topic, log partition and age."""
    for topic_id in topics_of(fs, root, cluster_id):
        for lineages in list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic_id).values():
            yield from lineages


def write_origin(fs: pafs.FileSystem, folder: str, origin: Origin) -> None:
    """Begin a lineage in its folder: write its origin atomically. An existing origin stays as it is."""
    path = f"{folder}/{ORIGIN_FILE}"
    if fs.get_file_info(path).type == pafs.FileType.NotFound:
        failpoint("origin.before")
        create_whole(fs, path, record_json(origin), what="origin")


def clusters_of(fs: pafs.FileSystem, root: str, cluster_id: str | None = None) -> list[str]:
    """Ids of the clusters in the archive, in order, or only the requested one; UsageError when it does not exist."""
    found = child_folders(fs, root)
    if cluster_id is None:
        return found
    if cluster_id not in found:
        raise UsageError(f"no cluster {cluster_id}", where=root, fix=f"there is {', '.join(found) or 'none'}")
    return [cluster_id]


def topics_of(fs: pafs.FileSystem, root: str, cluster_id: str) -> list[str]:
    """Ids of the topics that may have archived segments, in order."""
    return [name for name in child_folders(fs, cluster_folder(root, cluster_id)) if name not in OWN_FOLDERS]


def topic_folder(root: str, cluster_id: str, topic_id: str) -> str:
    """Where a topic is archived; UsageError when an id cannot name a folder, or names one of OWN_FOLDERS."""
    topic = safe_name(topic_id, what="topic id")
    if topic.casefold() in OWN_FOLDERS:
        raise UsageError(f"topic id {topic!r} is a folder name that the archive reserves")
    return cluster_folder(root, cluster_id, topic)


def lineage_folder(root: str, cluster_id: str, topic_id: str, log_partition: int, lineage: str) -> str:
    """The folder of a lineage's segments, from the lineage's name; raises UsageError like `topic_folder`."""
    return f"{topic_folder(root, cluster_id, topic_id)}/{log_partition}/{lineage}"


def read_segment_manifest(fs: pafs.FileSystem, segment: ArchivedSegment) -> Manifest:
    """The manifest of a segment; UsageError when the file has no manifest, or the manifest of another segment."""
    manifest = read_record(fs, segment.manifest_path, Manifest, what="a manifest")
    found = (manifest.first_log_offset, manifest.next_log_offset, manifest.size_bytes)
    if found != (segment.first_log_offset, segment.next_log_offset, segment.size_bytes):
        raise UsageError(f"the manifest of another segment: {found}", where=segment.manifest_path)
    return manifest


def segments_in(fs: pafs.FileSystem, folder: str) -> list[ArchivedSegment]:
    """Every segment in a lineage's folder that has a manifest, in order of log_offset."""
    return _segments(folder, list_folder(fs, folder))


def _segments(folder: str, files: Iterable[pafs.FileInfo]) -> list[ArchivedSegment]:
    found = [
        ArchivedSegment(
            folder=folder, first_log_offset=int(name[1]), next_log_offset=int(name[2]), size_bytes=int(name[3])
        )
        for file in files
        if (name := MANIFEST_FILE.fullmatch(file.base_name))
    ]
    return sorted(found, key=_order)


def _order(segment: ArchivedSegment) -> tuple[int, int, int]:
    return segment.first_log_offset, segment.next_log_offset, segment.size_bytes


def misfits(fs: pafs.FileSystem, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Segments whose file is missing or has another size than its manifest says, by path, with the reason."""
    for (path, size_bytes), info in zip(sizes.items(), fs.get_file_info([*sizes]), strict=True):
        if info.type != pafs.FileType.File:
            yield path, "the manifest exists, but its segment is missing"
        elif info.size != size_bytes:  # a shorter one would pass for a torn tail
            yield path, f"{info.size} bytes, its manifest says {size_bytes}"
