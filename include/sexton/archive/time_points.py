"""Archived timestamps of records of user topics, from ListOffsets; points never change once written.

    <archive>/<cluster_id>/time_points/<asked_at_ms>.parquet    the points of one lookup at a cluster's brokers
                                      /<asked_at_ms>.json       its manifest, written after it

A lookup requests the first record of a partition at or after an instant (kafka.time_points); every answer is a point.
Snapshots provide more points: where each log ended, and when (cluster_metadata). Points without a manifest do not
exist. Files are never overwritten: of two lookups at the same instant, the second gets the next free millisecond as its
name.

time_bounds derives bounds for offsets from points.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import ClusterMetadata, metadata_at, snapshot_instants
from sexton.archive.create import create_whole
from sexton.archive.files import cluster_folder, numbered_files, read_hashed, read_record, record_json
from sexton.archive.lineages import TIME_POINTS_FOLDER
from sexton.archive.partition_index import ABSENT, Flags, Int64s, PartitionIndex

Source = Literal["list_offsets", "log_end", "log_start", "last_stable", "epoch_end", "snapshot"]
Key: TypeAlias = tuple[str, int]
"""Topic and partition."""

LOOKUPS_READ = 4
"""How many lookups are read on each side of an instant: the nearest ones. More would hardly narrow the bounds."""
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("topic_id", pa.string()),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("source", pa.string(), nullable=False),
        pa.field("asked_ms", pa.int64()),
        pa.field("log_start_offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
    ]
)
_POINT = SCHEMA.names[3:]
"""The fields of a TimePoint; the columns before these are topic, topic_id and partition."""
POINTS = pa.schema([pa.field("number", pa.int64(), nullable=False), *(SCHEMA.field(name) for name in _POINT)])
"""Columns of points in memory, with the number of their partition (partition_index)."""
UNKNOWN_END = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePoint:
    """One fact about a partition.

    list_offsets   the answer for the requested timestamp `asked_ms`: the first record at or after it is at `offset` and
                   has the timestamp `timestamp_ms`. Without a timestamp there was no such record, and `offset` is the
                   log end. `log_start_offset` is the log start at the lookup; earlier records were not searched
    log_end        the log ended at `offset` right after `timestamp_ms` on the client's clock
    snapshot       the log ended at `offset` at `timestamp_ms`, as a snapshot recorded it

    In the other points `timestamp_ms` is not the time of the lookup, but the instant for which the lookup was made:

    log_start      the log began at `offset`
    last_stable    a transaction was open from `offset` on (the last stable offset)
    epoch_end      `offset` is the end of `leader_epoch`, or of the largest earlier epoch; -1: the log had no such epoch
    """

    offset: int
    timestamp_ms: int | None
    source: Source
    asked_ms: int | None = None
    log_start_offset: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLookup:
    """The manifest of a lookup, made for the committed offsets of `as_of_ms`.

    `topics` are the topics of its points by name, with their settings (message.timestamp.type, retention.ms); empty
    where the settings are not known.
    """

    cluster_id: str
    as_of_ms: int
    asked_at_ms: int
    points: int
    rounds: int
    sha256: str
    topics: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPoints:
    """Points of numbered partitions (POINTS), and their lookups, oldest first."""

    points: pa.Table
    lookups: Sequence[OffsetLookup]


def write_lookup(
    fs: pafs.FileSystem,
    root: str,
    *,
    cluster_id: str,
    as_of_ms: int,
    asked_at_ms: int,
    rounds: int,
    topic_ids: Mapping[str, str | None],
    points: Mapping[Key, Sequence[TimePoint]],
    topics: Mapping[str, Mapping[str, str]],
) -> OffsetLookup:
    """Store the points of one lookup; returns its manifest."""
    table = _table(points, topic_ids)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    while not create_whole(fs, _points_file(root, cluster_id, asked_at_ms), data, what="time_points"):
        asked_at_ms += 1  # another lookup has that name
    lookup = OffsetLookup(
        cluster_id=cluster_id,
        as_of_ms=as_of_ms,
        asked_at_ms=asked_at_ms,
        points=table.num_rows,
        rounds=rounds,
        sha256=hashlib.sha256(data).hexdigest(),
        topics={topic: dict(known) for topic, known in sorted(topics.items())},
    )
    create_whole(fs, lookup_manifest(root, cluster_id, asked_at_ms), record_json(lookup), what="time_points_manifest")
    return lookup


def lookup_manifest(root: str, cluster_id: str, asked_at_ms: int) -> str:
    """Path of the manifest of a lookup."""
    return f"{cluster_folder(root, cluster_id, TIME_POINTS_FOLDER)}/{asked_at_ms}.json"


def lookup_instants(fs: pafs.FileSystem, root: str, cluster_id: str) -> list[int]:
    """Instants of the finished lookups of a cluster, in order."""
    return numbered_files(fs, cluster_folder(root, cluster_id, TIME_POINTS_FOLDER))


def read_lookup(fs: pafs.FileSystem, root: str, cluster_id: str, asked_at_ms: int) -> tuple[OffsetLookup, pa.Table]:
    """A lookup and its points; UsageError when they do not match their manifest."""
    path = lookup_manifest(root, cluster_id, asked_at_ms)
    lookup = read_record(fs, path, OffsetLookup, what="a manifest of time points")
    data = read_hashed(fs, _points_file(root, cluster_id, asked_at_ms), lookup.sha256)
    return lookup, pq.read_table(pa.BufferReader(data), read_dictionary=["topic", "topic_id", "source"])


def known_points(
    fs: pafs.FileSystem,
    root: str,
    *,
    cluster_id: str,
    as_of_ms: int,
    partitions: PartitionIndex,
    number: Int64s,
    offset: Int64s,
) -> KnownPoints:
    """Archived points around an instant about the partitions in `number`: from the nearest lookups, and from the two
    snapshots between which each log passed its `offset`."""
    is_wanted = np.zeros(partitions.count + 1, bool)  # the last element is for ABSENT
    is_wanted[number] = True
    instants = lookup_instants(fs, root, cluster_id)
    before = [at for at in instants if at <= as_of_ms][-LOOKUPS_READ:]
    after = [at for at in instants if at > as_of_ms][:LOOKUPS_READ]
    lookups, found = [], []
    for at in [*before, *after]:
        lookup, table = read_lookup(fs, root, cluster_id, at)
        lookups.append(lookup)
        found.append(_wanted(table, partitions, is_wanted))
    snapshots = snapshot_instants(fs, root, cluster_id)
    first_after = next((n for n, at in enumerate(snapshots) if at >= as_of_ms), len(snapshots) - 1)
    read: dict[int, Int64s] = {}

    def ends(snapshot: int) -> Int64s:
        if snapshot not in read:
            read[snapshot] = snapshot_ends(metadata_at(fs, root, cluster_id, snapshots[snapshot]), partitions)
        return read[snapshot]

    if snapshots:
        for snapshot in {first_after, max(0, first_after - 1)}:
            ends(snapshot)
        _bisect(ends, -1, first_after, number, offset)
    found += [_snapshot_points(snapshots[snapshot], end, is_wanted) for snapshot, end in read.items()]
    return KnownPoints(points=pa.concat_tables([POINTS.empty_table(), *found]), lookups=lookups)


def _wanted(table: pa.Table, partitions: PartitionIndex, is_wanted: Flags) -> pa.Table:
    """The points of a lookup that are about wanted partitions."""
    number = partitions.numbers(table["topic"], table["partition"])
    keep = is_wanted[number] & ~partitions.is_another(number, table["topic_id"])
    columns = [pa.array(number, pa.int64()), *(table[name] for name in POINTS.names[1:])]
    return pa.table(columns, POINTS.names).filter(pa.array(keep)).cast(POINTS)


def snapshot_ends(metadata: ClusterMetadata, partitions: PartitionIndex) -> Int64s:
    """Where each log ended at a snapshot, by partition number; UNKNOWN_END where it is not recorded, or where the topic
    had another id."""
    rows = [row for row in metadata.topics or [] if row["partitions"]]
    counts = [len(row["partitions"]) for row in rows]
    ends = np.array([end for row in rows for _, end in row["partitions"]], np.int64)
    topic = np.repeat(np.arange(len(rows)), counts)
    names, ids = (pa.array([row[name] for row in rows], pa.string()) for name in ("topic", "id"))
    places = pa.array([place for count in counts for place in range(count)], pa.int32())
    number = partitions.numbers(pa.DictionaryArray.from_arrays(pa.array(topic, pa.int32()), names), places)
    is_known = (number != ABSENT) & ~partitions.is_another(number, ids.take(pa.array(topic))) & (ends >= 0)
    found = np.full(partitions.count, UNKNOWN_END, np.int64)
    found[number[is_known]] = ends[is_known]
    return found


def _snapshot_points(taken_at_ms: int, ends: Int64s, is_wanted: Flags) -> pa.Table:
    """The known log ends of a snapshot, by partition number, as points."""
    numbers = np.flatnonzero(is_wanted[:-1] & (ends != UNKNOWN_END))
    columns = {
        "number": pa.array(numbers, pa.int64()),
        "offset": pa.array(ends[numbers]),
        "timestamp_ms": pa.array(np.full(len(numbers), taken_at_ms)),
        "source": pa.array(["snapshot"]).take(pa.array(np.zeros(len(numbers), np.int32))),
        **{name: pa.nulls(len(numbers), POINTS.field(name).type) for name in POINTS.names[4:]},
    }
    return pa.table(columns).cast(POINTS)


def _bisect(ends: Callable[[int], Int64s], low: int, high: int, number: Int64s, offset: Int64s) -> None:
    """Read the last snapshot in (low, high) whose log ended at or below each offset, and the next one: logs only grow,
    so each snapshot halves the rest."""
    if not len(number) or high - low < 2:
        return
    middle = (low + high) // 2
    end = ends(middle)[number]
    # A partition that a snapshot does not know may have been created later.
    is_later = (end == UNKNOWN_END) | (end <= offset)
    _bisect(ends, middle, high, number[is_later], offset[is_later])
    _bisect(ends, low, middle, number[~is_later], offset[~is_later])


def _table(points: Mapping[Key, Iterable[TimePoint]], topic_ids: Mapping[str, str | None]) -> pa.Table:
    rows = [
        (topic, topic_ids.get(topic), number, *(getattr(p, name) for name in _POINT))
        for (topic, number), some in sorted(points.items())
        for p in dict.fromkeys(some)
    ]
    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def _points_file(root: str, cluster_id: str, asked_at_ms: int) -> str:
    return lookup_manifest(root, cluster_id, asked_at_ms).removesuffix("json") + "parquet"
