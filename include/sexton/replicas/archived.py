"""The archive as an additional replica: no log cleaner runs there, so it has tombstones and markers that replicas may
lack."""

from sexton.archive.folder import filesystem
from sexton.replicas.folders import ReplicaLog
from sexton.runs.source import open_archive

ARCHIVE = "archive"
"""Name of the archive in evidence."""


def archived_logs(archive: str, cluster_id: str | None) -> dict[int, ReplicaLog]:
    """The log partitions of a cluster, up to the end of the archive; NoCoverage where the archive has none."""
    source = open_archive(archive, cluster_id=cluster_id)
    fs, root = filesystem(archive)
    return {
        number: ReplicaLog(
            replica=ARCHIVE,
            log_partition=number,
            fs=fs,
            root=root,
            segments=parts,
            start=parts[0].base_offset,
            end=source.positions[number].cut,
            high_watermark=source.positions[number].cut,
        )
        for number, parts in source.segments.items()
        if parts
    }
