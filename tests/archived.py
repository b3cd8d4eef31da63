"""Archives for tests, made snapshot by snapshot as snapshot_log makes them, without a broker."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import LogPartitionMetadata
from sexton.archive.lineages import ArchivedLineage, Origin, list_lineages, write_origin
from sexton.archive.manifest import Lineage
from sexton.archive.writer import ClusterMetadata, write_metadata, write_segment
from sexton.log.batch import Batch, read_batches

CLUSTER, TOPIC = "cluster", "topic"


def next_offset(log: bytes) -> int:
    """The log_offset after the last batch of some bytes."""
    return max(batch.last_offset + 1 for batch in read_batches(log) if isinstance(batch, Batch))


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
            if log_partition not in self.current:
                self.begin(log_partition, 0, taken_at_ms=taken_at_ms)
            lineage, reached = self.current[log_partition]
            end = next_offset(data)
            self._segment(log_partition, lineage, [data], reached, end, taken_at_ms)
            self.current[log_partition] = lineage, end
        if facts:
            write_metadata(self.fs, self.root, self._facts(taken_at_ms))

    def _segment(
        self, log_partition: int, lineage: Lineage, chunks: Iterable[bytes], first: int, end: int, taken_at_ms: int
    ) -> None:
        write_segment(
            self.fs,
            self.root,
            chunks,
            cluster_id=self.cluster_id,
            topic_id=self.topic_id,
            log_partition=log_partition,
            lineage=lineage,
            first_log_offset=first,
            end_log_offset=end,
            taken_at_ms=taken_at_ms,
            high_watermark=end,
            last_stable_offset=end,
        )

    def _facts(self, taken_at_ms: int) -> ClusterMetadata:
        return ClusterMetadata(
            taken_at_ms=taken_at_ms,
            cluster_id=self.cluster_id,
            broker_version=self.broker_version,
            settings=dict(self.settings),
            offsets_topic={"topic_id": self.topic_id, "partitions": self.partitions},
            topics=list(self.topics),
            log_partitions={
                part: LogPartitionMetadata(
                    lineage=lineage.name,
                    log_start_offset=lineage.start_log_offset,
                    high_watermark=end,
                    last_stable_offset=end,
                    leader=1,
                    leader_epoch=0,
                )
                for part, (lineage, end) in self.current.items()
            },
        )

    def history(self, log_partition: int = 0) -> ArchivedLineage:
        """The lineage that the last snapshot went on with."""
        found = list_lineages(self.fs, self.root, cluster_id=self.cluster_id, topic_id=self.topic_id)
        return found[log_partition][-1]
