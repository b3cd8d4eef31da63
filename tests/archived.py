"""Archives for tests, made snapshot by snapshot as snapshot_log makes them, without a broker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import ClusterMetadata, LogPartitionMetadata, the_cluster, write_metadata
from sexton.archive.cut_search import end_of, segments_between
from sexton.archive.lineages import (
    ArchivedLineage,
    Origin,
    lineage_folder,
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
        folder = lineage_folder(self.root, self.cluster_id, self.topic_id, log_partition, lineage.name)
        write_origin(self.fs, folder, origin)
        self.current[log_partition] = lineage, start

    def remake(self, topic_id: str) -> None:
        """From here on the topic has another id, and nothing of it is archived."""
        self.topic_id, self.current = topic_id, {}

    def snapshot(self, taken_at_ms: int, new: Mapping[int, bytes] | None = None, *, facts: bool = True) -> None:
        """Archive what came since the snapshot before; without `facts` it was not finished."""
        for log_partition, data in (new or {}).items():
            self.append(log_partition, data, next_offset(data), taken_at_ms=taken_at_ms)
        if facts:
            for log_partition in set(range(self.partitions)) - self.current.keys():  # of which it saw no record
                self.begin(log_partition, 0, taken_at_ms=taken_at_ms)
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
    """The segments of the newest lineage that has some, by log partition; of the only cluster and topic that there are,
    or of those that are named."""
    cluster = the_cluster(fs, root, cluster_id)
    topics = topics_of(fs, root, cluster) if cluster is not None and topic_id is None else [topic_id]
    found = [list_lineages(fs, root, cluster_id=cluster, topic_id=topic) for topic in topics if cluster and topic]
    return {
        log_partition: log_segments(fs, with_segments[-1])
        for of_topic in found
        for log_partition, histories in of_topic.items()
        if (with_segments := [history for history in histories if history.segments])
    }


def log_segments(fs: pafs.FileSystem, lineage: ArchivedLineage) -> list[Segment]:
    """The segments of a lineage as log segments, in order; the files may be missing."""
    return segments_between(lineage, end_of(fs, lineage, lineage.next_log_offset))


def read_manifest(fs: pafs.FileSystem, segment: Segment) -> Manifest:
    """The manifest of an archived segment; UsageError when there is none or it is of another segment."""
    folder = segment.path.rpartition("/")[0]
    for link in segments_in(fs, folder):
        if link.first_log_offset == segment.base_offset:
            return read_segment_manifest(fs, link)
    raise UsageError("this segment has no manifest", where=segment.path)
