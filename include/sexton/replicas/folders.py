"""Replicas on brokers' disks, or in copies of these: one folder for each broker.

A broker's folder has `__consumer_offsets-N` folders with segments and `leader-epoch-checkpoint`, and the files
`replication-offset-checkpoint` (high watermarks), `log-start-offset-checkpoint` and `meta.properties`. What a missing
checkpoint file would say is taken from the batches: the high watermark is then the end of the log.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyarrow import fs as pafs

from sexton.archive.broker_disk import broker_id, disk_log, offset_checkpoint
from sexton.archive.folder import filesystem
from sexton.errors import UsageError
from sexton.log.segment import Segment, list_segments, partition_folders
from sexton.uris import uri_without_login


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFolder:
    """The log directories of one broker, or copies of them. Can be pickled."""

    name: str
    """The name of the broker in results."""
    fs: pafs.FileSystem
    roots: Sequence[str]

    @classmethod
    def open(cls, uri: str, name: str | None = None) -> "ReplicaFolder":
        """The folder at a path or URI, or several folders separated by commas as in log.dirs. The default name is the
        node id in its meta.properties, else the folder's name."""
        fs, path = filesystem(uri)
        is_one = fs.get_file_info(path).type == pafs.FileType.Directory
        roots = [path] if is_one else [filesystem(each)[1] for each in uri.split(",")]
        if name is None:
            number = broker_id(fs, roots[0])
            name = roots[0].rstrip("/").rpartition("/")[2] if number is None else f"broker-{number}"
        return cls(name=name, fs=fs, roots=roots)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """One log partition of one replica, [start, end) without a torn tail. Can be pickled.

    `high_watermark` is the recorded high watermark, at most `end`. `epochs` are (leader epoch, its first log_offset).
    """

    replica: str
    log_partition: int
    fs: pafs.FileSystem
    root: str
    segments: Sequence[Segment] = ()
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    epochs: Sequence[tuple[int, int]] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether its folder has no segment."""
        return not self.segments

    @property
    def folder(self) -> str:
        return uri_without_login(f"{self.root}/__consumer_offsets-{self.log_partition}")

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch; -1 where none is known."""
        return max((epoch for epoch, _ in self.epochs), default=-1)

    def diverges_from(self, leader: "ReplicaLog") -> int:
        """The log_offset to which this replica would truncate its log as a follower of `leader`; at most the end of the
        shorter log.

        As in Kafka (KIP-101, KIP-279): a follower asks where its last leader epoch ends, and truncates there. Replicas
        that agree may still report different starts of an epoch: its first records may have been cleaned away.
        """
        kept = min(self.end, leader.end)
        if not self.epochs or not leader.epochs:
            return kept
        epoch = self.last_epoch
        while True:
            epoch, end = _end_of_epoch(leader.epochs, epoch, leader.end)
            known, own_end = _end_of_epoch(self.epochs, epoch, self.end)
            kept = min(kept, own_end)
            if known == epoch:
                return min(kept, end)
            epoch = known  # unknown to the follower: it truncates newer records, and asks again


def _end_of_epoch(epochs: Sequence[tuple[int, int]], wanted: int, end: int) -> tuple[int, int]:
    """The newest known epoch up to `wanted`, and its end: where the next epoch begins, else where the log ends.

    If `wanted` is older than all known epochs, Kafka answers that it ends where the known epochs begin.
    """
    known = max((epoch for epoch, _ in epochs if epoch <= wanted), default=wanted)
    return known, min((at for epoch, at in epochs if epoch > wanted), default=end)


def open_replicas(uris: Sequence[str], names: Sequence[str]) -> list[ReplicaFolder]:
    """The folders of the replicas; UsageError unless there are at least two, with different names."""
    if len(uris) < 2:
        raise UsageError("there is nothing to compare with", where="--segments", fix="give a folder for each broker")
    if names and len(names) != len(uris):
        raise UsageError(
            f"{len(names)} names for {len(uris)} folders", where="--name", fix="name every folder, in the same order"
        )
    folders = [ReplicaFolder.open(uri, name) for uri, name in itertools.zip_longest(uris, names)]
    found = [folder.name for folder in folders]
    if len(set(found)) < len(found):
        raise UsageError(f"two replicas have the same name: {', '.join(found)}", where="--name", fix="name each")
    return folders


def log_partitions(folder: ReplicaFolder) -> dict[int, ReplicaLog]:
    """Every log partition that has a folder, even one without segments; UsageError if no folder has a segment."""
    segments = list_segments(folder.fs, folder.roots)
    starts, watermarks = (
        {part: at for root in folder.roots for part, at in offset_checkpoint(folder.fs, f"{root}/{name}").items()}
        for name in ("log-start-offset-checkpoint", "replication-offset-checkpoint")
    )
    roots = {part: root for root in folder.roots for part in partition_folders(folder.fs, root)}
    logs = {}
    for log_partition, root in sorted(roots.items()):
        common = {"replica": folder.name, "log_partition": log_partition, "fs": folder.fs, "root": root}
        if log_partition not in segments:
            logs[log_partition] = ReplicaLog(**common)
            continue
        disk = disk_log(folder.fs, segments[log_partition], start=starts.get(log_partition, 0))
        logs[log_partition] = ReplicaLog(
            **common,
            segments=disk.segments,
            start=disk.start,
            end=disk.end,
            high_watermark=min(watermarks.get(log_partition, disk.end), disk.end),
            epochs=disk.epochs,
        )
    return logs


def leader_of(logs: Sequence[ReplicaLog]) -> ReplicaLog:
    """The replica that the others would follow: of those with the newest leader epoch, one with the highest high
    watermark.

    Disks do not name the leader. Any replica with this epoch and high watermark has the committed records.
    """
    return max(logs, key=lambda log: (log.last_epoch, log.high_watermark))
