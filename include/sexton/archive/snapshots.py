"""Snapshots as an archive remembers them: when each was taken, of which topic, and how far each log partition reached.

A snapshot is finished once its facts are written; those of early releases do not say how far it reached, their
manifests do.
"""

import re
from dataclasses import dataclass

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import METADATA_FOLDER, ClusterMetadata, newest_metadata
from sexton.archive.files import safe_name
from sexton.archive.lineages import ArchivedLineage, list_lineages, topics_of

_METADATA_FILE = re.compile(r"(\d{1,19})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedEnd:
    """A log partition at a snapshot: its lineage, and the log_offset up to which that was archived."""

    lineage: str
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a finished snapshot found: of which topic, and each log partition that it has something of."""

    taken_at_ms: int
    topic_id: str
    partition_count: int | None
    ends: dict[int, ArchivedEnd]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWindow:
    """The snapshots around an instant, None where there is none, and when the newest of all was taken."""

    before: Snapshot | None
    settling: Snapshot | None
    newest_ms: int | None


def around(fs: pafs.FileSystem, root: str, *, cluster_id: str, as_of_ms: int | None, settle_ms: int) -> SnapshotWindow:
    """The snapshots that speak for an instant; for None the newest, as if it settled everything.

    An archive without any facts is taken for the work of one snapshot, at the instant of its newest manifest.
    """
    instants = snapshot_instants(fs, root, cluster_id)
    if not instants:
        only = _without_metadata(fs, root, cluster_id)
        settles = only is not None and (as_of_ms is None or only.taken_at_ms >= as_of_ms + settle_ms)
        return SnapshotWindow(
            before=None, settling=only if settles else None, newest_ms=only.taken_at_ms if only else None
        )

    def snapshot(taken_at_ms: int | None) -> Snapshot | None:
        if taken_at_ms is None:
            return None
        facts = newest_metadata(fs, root, cluster_id=cluster_id, at_ms=taken_at_ms)
        return None if facts is None else _snapshot_of(fs, root, facts)

    if as_of_ms is None:
        return SnapshotWindow(before=None, settling=snapshot(instants[-1]), newest_ms=instants[-1])
    before = max((at for at in instants if at <= as_of_ms), default=None)
    settling = min((at for at in instants if at >= as_of_ms + settle_ms), default=None)
    return SnapshotWindow(before=snapshot(before), settling=snapshot(settling), newest_ms=instants[-1])


def snapshot_instants(fs: pafs.FileSystem, root: str, cluster_id: str) -> list[int]:
    """When the finished snapshots of a cluster were taken, in order."""
    folder = f"{root.rstrip('/')}/{safe_name(cluster_id, what='cluster id')}/{METADATA_FOLDER}"
    files = fs.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    return sorted(int(name[1]) for file in files if (name := _METADATA_FILE.fullmatch(file.base_name)))


def _snapshot_of(fs: pafs.FileSystem, root: str, facts: ClusterMetadata) -> Snapshot:
    topic_id = facts.offsets_topic["topic_id"]
    if facts.log_partitions is not None:
        ends = {
            log_partition: ArchivedEnd(lineage=one.lineage, end=one.high_watermark)
            for log_partition, one in facts.log_partitions.items()
        }
    else:
        found = list_lineages(fs, root, cluster_id=facts.cluster_id, topic_id=topic_id)
        ends = _ends(fs, found, until_ms=facts.taken_at_ms)
    return Snapshot(
        taken_at_ms=facts.taken_at_ms,
        topic_id=topic_id,
        partition_count=facts.offsets_topic["partitions"],
        ends=ends,
    )


def _ends(fs: pafs.FileSystem, found: dict[int, list[ArchivedLineage]], *, until_ms: int) -> dict[int, ArchivedEnd]:
    """How far each log partition was archived at an instant, by the manifests: for archives of early releases."""
    ends = {}
    for log_partition, histories in found.items():
        for history in reversed(histories):
            taken = [manifest for manifest in history.manifests(fs) if manifest.taken_at_ms <= until_ms]
            if taken:
                ends[log_partition] = ArchivedEnd(lineage=history.lineage.name, end=taken[-1].next_log_offset)
                break
    return ends


def _without_metadata(fs: pafs.FileSystem, root: str, cluster_id: str) -> Snapshot | None:
    newest: tuple[int, str] | None = None
    for topic_id in topics_of(fs, root, cluster_id):
        found = list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic_id)
        taken = [m.taken_at_ms for histories in found.values() for history in histories for m in history.manifests(fs)]
        if taken:
            newest = max(newest or (max(taken), topic_id), (max(taken), topic_id))
    if newest is None:
        return None
    found = list_lineages(fs, root, cluster_id=cluster_id, topic_id=newest[1])
    return Snapshot(
        taken_at_ms=newest[0],
        topic_id=newest[1],
        partition_count=None,
        ends=_ends(fs, found, until_ms=newest[0]),
    )
