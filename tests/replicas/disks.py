"""Brokers' disks of one log partition, written from bytes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sexton.replicas import ReplicaComparison, ReplicaFolder, compare
from sexton.replicas.folders import ReplicaLog, log_partitions

LOG_PARTITION = 0


def write_replica(
    root: Path,
    segments: Mapping[int, bytes],
    *,
    high_watermark: int | None = None,
    epochs: Sequence[tuple[int, int]] = (),
    log_partition: int = LOG_PARTITION,
) -> Path:
    """A broker's log directory with one log partition; `segments` by base offset."""
    folder = root / f"__consumer_offsets-{log_partition}"
    folder.mkdir(parents=True)
    for base_offset, data in segments.items():
        (folder / f"{base_offset:020d}.log").write_bytes(data)
    if high_watermark is not None:
        line = f"__consumer_offsets {log_partition} {high_watermark}"
        (root / "replication-offset-checkpoint").write_text(f"0\n1\n{line}\n")
    if epochs:
        lines = "".join(f"{epoch} {at}\n" for epoch, at in epochs)
        (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    return root


def compared(root: Path, names: Sequence[str] = "ABC", *, archived: ReplicaLog | None = None) -> ReplicaComparison:
    """The comparison of the disks below `root`, each in the folder of its name."""
    folders = [ReplicaFolder.open(str(root / name), name) for name in names]
    return compare(folders, archived=None if archived is None else {LOG_PARTITION: archived})


def log_of(root: Path, name: str) -> ReplicaLog:
    return log_partitions(ReplicaFolder.open(str(root), name))[LOG_PARTITION]
