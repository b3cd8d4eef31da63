"""Finds the bytes of `__transaction_state`: next to the offsets log on a broker's disk, or in the archive.

The archive stores the topic like the offsets log, in a folder of the cluster that is itself an archive:
<archive>/<cluster_id>/transaction_state. Commands that verify or list an archive also work with that folder.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyarrow import fs as pafs

from sexton.archive.folder import filesystem
from sexton.archive.lineages import TRANSACTIONS_FOLDER
from sexton.coordinator.partitioner import proven_partition_count
from sexton.coordinator.profile import Release
from sexton.errors import NoCoverage
from sexton.log.headers import Int64s, headers_of
from sexton.log.segment import Segment, list_segments, partition_folders, slice_bytes
from sexton.runs.source import open_archive
from sexton.settings import settings
from sexton.topics import TRANSACTIONS_TOPIC
from sexton.transactions.states import LoadedStates, load_states, rules_of
from sexton.transactions.verdicts import KnownStates
from sexton.uris import below

Spread = Callable[[Callable[["PartitionBytes"], LoadedStates], list["PartitionBytes"]], Iterable[LoadedStates]]
"""Runs a function for every partition; yields the results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBytes:
    """The segments of one partition, and how to read them. Can be pickled."""

    uri: str
    log_partition: int
    segments: Sequence[Segment]
    cap_bytes: int
    as_of_ms: int | None
    release: Release

    @property
    def size_bytes(self) -> int:
        return sum(segment.stop_byte - segment.start_byte for segment in self.segments)

    def load(self) -> LoadedStates:
        """Load the partition as its coordinator would."""
        fs, _ = filesystem(self.uri)
        return load_states(
            (slice_bytes(fs, each, each.stop_byte)[each.start_byte :].tobytes() for each in self.segments),
            log_partition=self.log_partition,
            cap_bytes=self.cap_bytes,
            as_of_ms=self.as_of_ms,
            rules=rules_of(self.release),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLog:
    """The topic's partitions, and when they were read. `partition_count` is None where it is not recorded."""

    partitions: Sequence[PartitionBytes]
    partition_count: int | None
    read_at_ms: int

    def load(self, spread: Spread) -> KnownStates:
        """The states of all partitions. Where the partition count is not recorded, it is inferred from the ids if they
        determine it."""
        loaded = list(spread(PartitionBytes.load, list(self.partitions)))
        count = self.partition_count
        if count is None:
            ids = {part.log_partition: part.ids for part in loaded}
            count = proven_partition_count(ids, max(ids, default=0), all_agree=True)
        return KnownStates(partitions=loaded, partition_count=count, read_at_ms=self.read_at_ms)


def transactions_archive(archive: str, cluster_id: str) -> str:
    """The path of a cluster's transaction state in an archive."""
    return below(archive, cluster_id, TRANSACTIONS_FOLDER)


def state_log(
    uris: Sequence[str],
    cluster_id: str | None,
    *,
    as_of_ms: int | None,
    taken_at_ms: int,
    release: Release,
) -> StateLog | None:
    """The topic next to the offsets log: in an archive if `cluster_id` is set, else on a disk that was copied at
    `taken_at_ms`.

    None where the topic does not exist at `as_of_ms`.
    """
    if cluster_id is not None:
        return in_archive(uris[0], cluster_id, as_of_ms=as_of_ms, release=release)
    return on_disk(uris, taken_at_ms=taken_at_ms, as_of_ms=as_of_ms, release=release)


def on_disk(uris: Sequence[str], *, taken_at_ms: int, as_of_ms: int | None, release: Release) -> StateLog | None:
    """The topic in a broker's log directories; None where it is missing.

    Folders do not show which partitions are missing: a broker's disk has only the partitions of its replicas, a copy
    only the partitions that were copied.
    """
    (fs, _), *_ = opened = [filesystem(uri) for uri in uris]
    folders = {number for _, path in opened for number in partition_folders(fs, path, TRANSACTIONS_TOPIC)}
    if not folders:
        return None
    found = list_segments(fs, [path for _, path in opened], TRANSACTIONS_TOPIC)
    return StateLog(
        partitions=_partitions(uris[0], folders, found, as_of_ms, release),
        partition_count=None,
        read_at_ms=taken_at_ms if as_of_ms is None else as_of_ms,
    )


def in_archive(archive: str, cluster_id: str, *, as_of_ms: int | None, release: Release) -> StateLog | None:
    """The topic in an archive, up to `as_of_ms` or the end; None where the archive does not have it at that instant."""
    root = transactions_archive(archive, cluster_id)
    try:
        source = open_archive(root, as_of_ms=as_of_ms, cluster_id=cluster_id)
    except NoCoverage:
        return None
    numbers = {*source.segments, *range(source.partition_count or 0)}
    return StateLog(
        partitions=_partitions(root, numbers, source.segments, None, release),
        partition_count=source.partition_count,
        read_at_ms=as_of_ms or source.taken_at_ms or 0,
    )


def _partitions(
    uri: str, numbers: Iterable[int], segments: Mapping[int, Sequence[Segment]], as_of_ms: int | None, release: Release
) -> list[PartitionBytes]:
    common: dict[str, Any] = {
        "uri": uri,
        "cap_bytes": settings().inflated_cap_bytes,
        "as_of_ms": as_of_ms,
        "release": release,
    }
    return [PartitionBytes(log_partition=n, segments=segments.get(n, ()), **common) for n in sorted(numbers)]


def held_bytes(fs: pafs.FileSystem, segments: Sequence[Segment], log_offsets: Iterable[int]) -> dict[int, int]:
    """For each log_offset the number of bytes from its batch to the end of the log, which the log cleaner leaves alone
    while a transaction that begins at it is open."""
    left, found, after = sorted(log_offsets), dict[int, int](), 0
    for segment in reversed(segments):
        begins = segment == segments[0]
        here = [one for one in left if begins or one >= segment.base_offset]
        left = left[: len(left) - len(here)]
        if here:
            ends, starts = _batches(fs, segment)
            for one, row in zip(here, np.searchsorted(ends, here, side="right").tolist(), strict=True):
                found[one] = after + (
                    segment.stop_byte - max(int(starts[row]), segment.start_byte) if row < len(starts) else 0
                )
        after += segment.stop_byte - segment.start_byte
        if not left:
            break
    return found


def _batches(fs: pafs.FileSystem, segment: Segment) -> tuple[Int64s, Int64s]:
    """For each batch of a segment, the log_offset after it and the byte at which it begins."""
    blocks = list(headers_of(slice_bytes(fs, segment, segment.stop_byte), floor_offset=segment.base_offset))
    ends = [np.zeros(0, np.int64), *(each.next_offset for each in blocks)]
    return np.concatenate(ends), np.concatenate([ends[0], *(each.position for each in blocks)])
