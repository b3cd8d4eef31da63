"""Where the current leader epoch of a log partition begins, from the leader epochs of its batches."""

from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import newest_metadata, oldest_metadata_after
from sexton.archive.lineages import list_lineages, read_segment_manifest


def led_from(
    fs: pafs.FileSystem, root: str, cluster_id: str, topic_id: str, log_partition: int, *, as_of_ms: int, back_to: int
) -> tuple[int | None, int] | None:
    """The broker that led when the snapshot of an instant was taken, and the first log_offset of its leader epoch.

    The log_offset is the log end if that leader has written nothing. The search stops at the first log_offset at or
    below `back_to`, although the epoch may have begun even earlier. The broker is None where the snapshot has only the
    epoch. The result is None where the snapshot has no leader epoch.

    The snapshot is the first one after the instant, or the newest if there is none.
    """
    recorded = oldest_metadata_after(fs, root, cluster_id=cluster_id, at_ms=as_of_ms) or newest_metadata(
        fs, root, cluster_id=cluster_id
    )
    log = recorded.log_partitions.get(log_partition) if recorded and recorded.topic_id == topic_id else None
    if log is None or log.leader_epoch < 0:
        return None
    start, leader = log.high_watermark, log.leader if log.leader >= 0 else None
    lineages = list_lineages(fs, root, cluster_id=cluster_id, topic_id=topic_id).get(log_partition, [])
    for segment in reversed([each for lineage in lineages[-1:] for each in lineage.segments]):
        if start <= back_to:
            break
        for epoch, base_offset in reversed(read_segment_manifest(fs, segment).leader_epochs):
            if epoch < log.leader_epoch:
                return leader, start
            if epoch == log.leader_epoch:
                start = min(start, base_offset)
    return leader, start
