"""Archives for tests, made snapshot by snapshot as snapshot_log makes them, without a broker."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import ClusterMetadata, LogPartitionMetadata, the_cluster, write_metadata
from sexton.archive.lineages import (
    ArchivedLineage,
    Origin,
    list_lineages,
    read_segment_manifest,
    segments_in,
    topics_of,
    write_origin,
)
from sexton.archive.manifest import Lineage, Manifest, SegmentRange
from sexton.archive.writer import write_segment
from sexton.errors import UsageError
from sexton.log.batch import Batch, read_batches
from sexton.log.segment import Segment

CLUSTER, TOPIC = "cluster", "topic"
_READ_BYTES = 8 * 1024 * 1024


def next_offset(log: bytes) -> int:
    """The log_offset after the last batch of some bytes."""
    return max(batch.last_offset + 1 for batch in read_batches(log) if isinstance(batch, Batch))


def segment_range(*, lineage: Lineage, end_log_offset: int, **rest: Any) -> SegmentRange:
    return SegmentRange(lineage=lineage.name, next_log_offset=end_log_offset, **rest)


@dataclass
class Archive:
    """An archive in a local folder, and how far each log partition has come."""

    folder: Path
    cluster_id: str = CLUSTER
    topic_id: str = TOPIC
    partitions: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    topics: Sequence[dict[str, Any]] = ()
    broker_version: str | None = "4.3"
    current: dict[int, tuple[Lineage, int]] = field(default_factory=dict)

    @property
    def fs(self) -> pafs.FileSystem:
        return pafs.LocalFileSystem()

    @property
    def root(self) -> str:
        return str(self.folder)

    def begin(self, log_partition: int, start: int, reason: str = "first", *, taken_at_ms: int, **told: Any) -> None:
        """Begin a lineage."""
        before = self.current.get(log_partition)
        lineage = Lineage(ordinal=before[0].ordinal + 1 if before else 0, start_log_offset=start)
        origin = Origin(
            reason=reason,
            found_at_ms=taken_at_ms,
            previous=before[0].name if before else None,
            previous_end=before[1] if before else None,
            **told,
        )
        where = {"cluster_id": self.cluster_id, "topic_id": self.topic_id, "log_partition": log_partition}
        write_origin(self.fs, self.root, origin, **where, lineage=lineage)
        self.current[log_partition] = lineage, start

    def remake(self, topic_id: str) -> None:
        """From here on the topic has another id, and nothing of it is archived."""
        self.topic_id, self.current = topic_id, {}

    def snapshot(self, taken_at_ms: int, new: Mapping[int, bytes] | None = None, *, facts: bool = True) -> None:
        """Archive what came since the snapshot before; without `facts` it was not finished."""
        for log_partition, data in (new or {}).items():
            self.append(log_partition, data, next_offset(data), taken_at_ms=taken_at_ms)
        if facts:
            write_metadata(self.fs, self.root, self._facts(taken_at_ms))

    def append(self, log_partition: int, data: bytes, end: int, *, taken_at_ms: int) -> None:
        """Archive a segment that reaches to log_offset `end`."""
        if log_partition not in self.current:
            self.begin(log_partition, 0, taken_at_ms=taken_at_ms)
        lineage, reached = self.current[log_partition]
        write_segment(
            self.fs,
            self.root,
            [data],
            SegmentRange(
                cluster_id=self.cluster_id, topic_id=self.topic_id, log_partition=log_partition,
                lineage=lineage.name, first_log_offset=reached, next_log_offset=end, taken_at_ms=taken_at_ms,
                high_watermark=end, last_stable_offset=end,
            ),
        )  # fmt: skip
        self.current[log_partition] = lineage, end

    def _facts(self, taken_at_ms: int) -> ClusterMetadata:
        return ClusterMetadata(
            taken_at_ms=taken_at_ms,
            cluster_id=self.cluster_id,
            broker_version=self.broker_version,
            settings=dict(self.settings),
            topic_id=self.topic_id,
            partition_count=self.partitions,
            topics=list(self.topics),
            log_partitions={
                part: LogPartitionMetadata(
                    lineage=lineage.name, log_start_offset=lineage.start_log_offset, high_watermark=end,
                    last_stable_offset=end, leader=1, leader_epoch=0,
                )
                for part, (lineage, end) in self.current.items()
            },
        )  # fmt: skip

    def history(self, log_partition: int = 0) -> ArchivedLineage:
        """The lineage that the last snapshot went on with."""
        found = list_lineages(self.fs, self.root, cluster_id=self.cluster_id, topic_id=self.topic_id)
        return found[log_partition][-1]


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


def _newest_with_segments(histories: Sequence[ArchivedLineage]) -> ArchivedLineage | None:
    return next((history for history in reversed(histories) if history.segments), None)


def _newest_topic(fs: pafs.FileSystem, root: str, cluster_id: str) -> str | None:
    taken: list[tuple[int, str]] = []
    for topic in topics_of(fs, root, cluster_id):
        for histories in list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic).values():
            if newest := _newest_with_segments(histories):
                taken.append((read_segment_manifest(fs, newest.segments[-1]).taken_at_ms, topic))
    return max(taken)[1] if taken else None
