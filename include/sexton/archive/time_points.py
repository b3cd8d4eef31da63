"""When the records of user topics were written, as far as it was asked: facts that are kept and never change.

    <archive>/<cluster_id>/time_points/<asked_at_ms>.parquet    the points of one look at a cluster
                                      /<asked_at_ms>.json       its manifest, written after it

A look asks brokers where the log of a partition has reached an instant (kafka.time_points); every answer is a point.
Snapshots give points for nothing: where each log ended, and when (cluster_metadata). Points without a manifest do not
exist. Both files are created once, so two looks at the same instant have two names.

What points say about an offset is in time_bounds.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from sexton.archive.cluster_metadata import ClusterMetadata, metadata_at, snapshot_instants
from sexton.archive.create import create_whole
from sexton.archive.files import cluster_folder, is_file, numbered_files, read_file, read_record, record_json
from sexton.archive.lineages import TIME_POINTS_FOLDER
from sexton.errors import UsageError

Source = Literal["list_offsets", "log_end", "log_start", "last_stable", "snapshot"]
Key: TypeAlias = tuple[str, int]
"""Topic and partition."""

LOOKS_READ = 4
"""How many looks before an instant, and after it, are read for it: the nearest ones. More would hardly narrow it."""
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
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePoint:
    """One fact about a partition.

    list_offsets   asked for `asked_ms`: the record at `offset` is the first that is at least so new; its timestamp
                   is `timestamp_ms`. Without a timestamp no record was so new, and `offset` is where the log ended.
                   `log_start_offset`: where the log began when it was asked; earlier records were not looked at
    log_end        a log ended at `offset` right after `timestamp_ms`, an instant of the clock of who asked
    snapshot       the same, as a snapshot recorded it
    log_start      when it was asked for the committed offsets of the instant `timestamp_ms`, the log began at `offset`
    last_stable    then a transaction was open from `offset` on
    """

    offset: int
    timestamp_ms: int | None
    source: Source
    asked_ms: int | None = None
    log_start_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The manifest of a look: made for the committed offsets of `as_of_ms`. `topics` are those of its points by name,
    with the settings of them that were read (message.timestamp.type, retention.ms); none where they are not known."""

    cluster_id: str
    as_of_ms: int
    asked_at_ms: int
    points: int
    rounds: int
    sha256: str
    topics: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPoints:
    """Points by partition, and the looks that they are from, oldest first."""

    points: Mapping[Key, Sequence[TimePoint]]
    looks: Sequence[Look]


def write_look(
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
) -> Look:
    """Keep the points of one look; what it returns is its manifest."""
    table = _table(points, topic_ids)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    while not create_whole(fs, _path(root, cluster_id, asked_at_ms, "parquet"), data, what="time_points"):
        asked_at_ms += 1  # another look has that name
    look = Look(
        cluster_id=cluster_id,
        as_of_ms=as_of_ms,
        asked_at_ms=asked_at_ms,
        points=table.num_rows,
        rounds=rounds,
        sha256=hashlib.sha256(data).hexdigest(),
        topics={topic: dict(known) for topic, known in sorted(topics.items())},
    )
    create_whole(fs, _path(root, cluster_id, asked_at_ms, "json"), record_json(look), what="time_points_manifest")
    return look


def look_manifest(root: str, cluster_id: str, asked_at_ms: int) -> str:
    """Where the manifest of a look is."""
    return _path(root, cluster_id, asked_at_ms, "json")


def look_instants(fs: pafs.FileSystem, root: str, cluster_id: str) -> list[int]:
    """When the finished looks of a cluster asked, in order."""
    return numbered_files(fs, cluster_folder(root, cluster_id, TIME_POINTS_FOLDER))


def read_look(fs: pafs.FileSystem, root: str, cluster_id: str, asked_at_ms: int) -> tuple[Look, pa.Table]:
    """A look and its points; UsageError when they are not those that its manifest describes."""
    look = read_record(fs, _path(root, cluster_id, asked_at_ms, "json"), Look, what="a manifest of time points")
    path = _path(root, cluster_id, asked_at_ms, "parquet")
    if not is_file(fs, path):
        raise UsageError("the manifest is here, its points are not", where=path)
    data = read_file(fs, path)
    if hashlib.sha256(data).hexdigest() != look.sha256:
        raise UsageError("its SHA-256 is not the one in its manifest", where=path)
    return look, pq.read_table(pa.BufferReader(data))


def known_points(
    fs: pafs.FileSystem,
    root: str,
    *,
    cluster_id: str,
    as_of_ms: int,
    offsets: Mapping[Key, Collection[int]],
    topic_ids: Mapping[str, str | None],
) -> KnownPoints:
    """What is archived about these partitions around an instant: the points of the looks nearest to it, and those
    snapshots between which the logs passed `offsets`. Only of topics with the id that they have in `topic_ids`."""
    found: dict[Key, list[TimePoint]] = {key: [] for key in offsets}
    instants = look_instants(fs, root, cluster_id)
    before = [at for at in instants if at <= as_of_ms][-LOOKS_READ:]
    after = [at for at in instants if at > as_of_ms][:LOOKS_READ]
    looks = []
    for at in [*before, *after]:
        look, table = read_look(fs, root, cluster_id, at)
        looks.append(look)
        _add(found, table, topic_ids)
    for key, points in _of_snapshots(fs, root, cluster_id, as_of_ms, offsets, topic_ids).items():
        found[key] += points
    return KnownPoints(points=found, looks=looks)


def snapshot_points(metadata: ClusterMetadata, topic_ids: Mapping[str, str | None]) -> dict[Key, TimePoint]:
    """Where each log ended at a snapshot; without topics whose id is another one, and without unknown ends."""
    return {
        (row["topic"], number): TimePoint(offset=end, timestamp_ms=metadata.taken_at_ms, source="snapshot")
        for row in metadata.topics
        if row["topic"] in topic_ids and _is_same(row["id"], topic_ids[row["topic"]])
        for number, (_, end) in enumerate(row["partitions"])
        if end >= 0
    }


def _of_snapshots(
    fs: pafs.FileSystem,
    root: str,
    cluster_id: str,
    as_of_ms: int,
    offsets: Mapping[Key, Collection[int]],
    topic_ids: Mapping[str, str | None],
) -> dict[Key, list[TimePoint]]:
    """The snapshots around each offset's passing, by bisection: logs only grow, so a snapshot halves what is left."""
    instants = snapshot_instants(fs, root, cluster_id)
    first_after = next((n for n, at in enumerate(instants) if at >= as_of_ms), len(instants) - 1)
    read: dict[int, dict[Key, TimePoint]] = {}

    def ends(number: int) -> dict[Key, TimePoint]:
        if number not in read:
            read[number] = snapshot_points(metadata_at(fs, root, cluster_id, instants[number]), topic_ids)
        return read[number]

    if instants:
        for number in {first_after, max(0, first_after - 1)}:
            ends(number)
        wanted = [(key, offset) for key, some in offsets.items() for offset in some]
        _bisect(ends, -1, first_after, wanted)
    return {key: [ends_at[key] for ends_at in read.values() if key in ends_at] for key in offsets}


def _bisect(
    ends: Callable[[int], Mapping[Key, TimePoint]], low: int, high: int, wanted: Sequence[tuple[Key, int]]
) -> None:
    """Read the last snapshot in (low, high) whose log ended at or below each offset, and the next one."""
    if not wanted or high - low < 2:
        return
    middle = (low + high) // 2
    at = ends(middle)
    later = [(key, offset) for key, offset in wanted if key in at and at[key].offset <= offset]
    known = set(later)
    _bisect(ends, middle, high, later)
    _bisect(ends, low, middle, [each for each in wanted if each not in known and each[0] in at])
    # a partition that a snapshot does not know may have been made later
    _bisect(ends, middle, high, [each for each in wanted if each[0] not in at])


def _table(points: Mapping[Key, Iterable[TimePoint]], topic_ids: Mapping[str, str | None]) -> pa.Table:
    rows = [
        (topic, topic_ids.get(topic), number, p.offset, p.timestamp_ms, p.source, p.asked_ms, p.log_start_offset)
        for (topic, number), some in sorted(points.items())
        for p in dict.fromkeys(some)
    ]
    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def _add(found: Mapping[Key, list[TimePoint]], table: pa.Table, topic_ids: Mapping[str, str | None]) -> None:
    names = pa.array(sorted({topic for topic, _ in found}), pa.string())
    for row in table.filter(pc.is_in(table.column("topic"), names)).to_pylist():
        points = found.get((row["topic"], row["partition"]))
        if points is None or not _is_same(row["topic_id"], topic_ids.get(row["topic"])):
            continue
        points.append(
            TimePoint(
                offset=row["offset"],
                timestamp_ms=row["timestamp_ms"],
                source=row["source"],
                asked_ms=row["asked_ms"],
                log_start_offset=row["log_start_offset"],
            )
        )


def _is_same(one: str | None, other: str | None) -> bool:
    """Whether two topics of one name are one: also where an id is not known (brokers before Kafka 2.8)."""
    return one is None or other is None or one == other


def _path(root: str, cluster_id: str, asked_at_ms: int, suffix: str) -> str:
    return f"{cluster_folder(root, cluster_id, TIME_POINTS_FOLDER)}/{asked_at_ms}.{suffix}"
