"""The snapshots of an archive: the instant and topic of each, and how far it archived each log partition."""

from dataclasses import dataclass

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import metadata_at, snapshot_instants
from sexton.archive.lineages import list_lineages, topics_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedEnd:
    """A log partition at a snapshot: its lineage, and the log_offset up to which the lineage was archived."""

    lineage: str
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A finished snapshot: its topic, and the end of each log partition that it archived."""

    taken_at_ms: int
    topic_id: str
    partition_count: int | None
    ends: dict[int, ArchivedEnd]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWindow:
    """The snapshots around an instant (None where there is none), and the instant of the newest snapshot."""

    before: Snapshot | None
    settling: Snapshot | None
    newest_ms: int | None


def snapshot_window(
    fs: pafs.FileSystem, root: str, *, cluster_id: str, as_of_ms: int | None, settle_ms: int
) -> SnapshotWindow:
    """The newest snapshot at or before an instant, and the first that settles it; for None, `settling` is the newest.

    An archive without cluster metadata (from an import without topics) counts as one snapshot, taken at the instant of
    its newest manifest.
    """
    instants = snapshot_instants(fs, root, cluster_id)
    if not instants:
        only = _from_manifests(fs, root, cluster_id)
        settles = only is not None and (as_of_ms is None or only.taken_at_ms >= as_of_ms + settle_ms)
        newest_ms = only.taken_at_ms if only else None
        return SnapshotWindow(before=None, settling=only if settles else None, newest_ms=newest_ms)

    def snapshot(taken_at_ms: int | None) -> Snapshot | None:
        if taken_at_ms is None:
            return None
        metadata = metadata_at(fs, root, cluster_id, taken_at_ms)
        return Snapshot(
            taken_at_ms=metadata.taken_at_ms,
            topic_id=metadata.topic_id,
            partition_count=metadata.partition_count,
            ends={
                part: ArchivedEnd(lineage=one.lineage, end=one.high_watermark)
                for part, one in sorted(metadata.log_partitions.items())
            },
        )

    if as_of_ms is None:
        return SnapshotWindow(before=None, settling=snapshot(instants[-1]), newest_ms=instants[-1])
    before = max((at for at in instants if at <= as_of_ms), default=None)
    settling = min((at for at in instants if at >= as_of_ms + settle_ms), default=None)
    return SnapshotWindow(before=snapshot(before), settling=snapshot(settling), newest_ms=instants[-1])


def _from_manifests(fs: pafs.FileSystem, root: str, cluster_id: str) -> Snapshot | None:
    """A snapshot made from manifests: the newest lineage with segments of each log partition, for the topic id that was
    archived last."""
    newest: Snapshot | None = None
    for topic_id in topics_of(fs, root, cluster_id):
        ends: dict[int, ArchivedEnd] = {}
        taken_at_ms = -1
        for part, lineages in list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic_id).items():
            for one in lineages:
                taken_at_ms = max([taken_at_ms, *(manifest.taken_at_ms for manifest in one.manifests(fs))])
                if one.segments:
                    ends[part] = ArchivedEnd(lineage=one.lineage.name, end=one.next_log_offset)
        if ends and (newest is None or (taken_at_ms, topic_id) > (newest.taken_at_ms, newest.topic_id)):
            newest = Snapshot(taken_at_ms=taken_at_ms, topic_id=topic_id, partition_count=None, ends=ends)
    return newest
