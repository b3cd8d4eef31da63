"""`consumer_offsets`: the records of `__consumer_offsets`, decoded, one row each; also bytes that are not records.

A task reads a segment: batches of offset commits and tombstones with the kernels, everything else with the plain
reader. Filters that Spark pushes down skip log partitions and records before rows are made: filters on `group_id`,
`record_type`, `record_name`, `log_partition` and `timestamp_ms`. Spark applies the filters again, so skipping too
little changes no result.
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as ds
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sexton.archive.folder import filesystem
from sexton.coordinator.partitioner import partition_of
from sexton.errors import LogError, UsageError
from sexton.kernels import columns as cols
from sexton.kernels import layout as L
from sexton.kernels.commit_rows import commit_rows
from sexton.kernels.fold import read_only
from sexton.kernels.layout import Bytes, Int64s
from sexton.log import framing
from sexton.log.batch import marker_of, read_frame, read_records
from sexton.log.entry import CODECS, COUNT_AT, MAGIC_AT, MAX_TIMESTAMP_AT, BadRecord, Batch, Record
from sexton.log.segment import Segment, slice_bytes
from sexton.records import RECORD_TYPES, decode_key, decode_value
from sexton.settings import settings
from sexton.spark.commits import columns_of, numbers_at
from sexton.spark.input import chosen_segments, instant_of, open_log, proven_count

SCHEMA = pa.schema(
    [
        pa.field("log_partition", pa.int32(), nullable=False),
        ("log_offset", pa.int64()),
        ("base_offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("record_type", pa.int16()),
        ("record_name", pa.string()),
        ("version", pa.int16()),
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("member_id", pa.string()),
        ("is_tombstone", pa.bool_()),
        ("committed_offset", pa.int64()),
        ("fields", pa.string()),
        ("is_transactional", pa.bool_()),
        ("control_type", pa.string()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("leader_epoch", pa.int32()),
        ("codec", pa.string()),
        ("crc_ok", pa.bool_()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("problem", pa.string()),
    ]
)
"""`record_name` is Kafka's name of the type, `version` the version of the value, `fields` its fields as JSON (bytes in
hex), `control_type` COMMIT or ABORT. `problem` says why a row is not a decoded record; unknown columns are NULL."""
_ROWS_A_BATCH, _BYTES_A_ROW = 10_000, 128
_OF_VALUES = {"version", "committed_offset", "fields", "problem"}
_FROM_NAMES = {kind.name: number for number, kind in RECORD_TYPES.items()}


class ConsumerOffsets(DataSource):
    """Options: `log_partitions` (0,3), `from` and `to` (instants, the second excluded), `as_of`, `cluster_id`,
    `columns` (group_id,log_offset), and `pushdown` (true).

    Only the `columns` are decoded, because Spark 4.1 does not prune columns of a Python source. `pushdown` is only for
    a DataFrame that a single query uses: a second query would also lack the rows that the first one's filters exclude.
    """

    @classmethod
    def name(cls) -> str:
        return "consumer_offsets"

    def schema(self) -> StructType:
        return from_arrow_schema(self._chosen())

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  # it is always that of the options
        return RecordReader(dict(self.options), self._chosen())

    def _chosen(self) -> pa.Schema:
        names = [name.strip() for name in self.options.get("columns", ",".join(SCHEMA.names)).split(",")]
        if unknown := [name for name in names if name not in SCHEMA.names]:
            raise UsageError(f"no column {unknown[0]!r}", where="option columns", fix=", ".join(SCHEMA.names))
        return pa.schema([SCHEMA.field(name) for name in names])


@dataclass
class SegmentPartition(InputPartition):
    """The segment that a task reads."""

    uri: str
    segment: Segment


class RecordReader(DataSourceReader):
    """Rows in log order within a segment."""

    def __init__(self, options: dict[str, str], schema: pa.Schema) -> None:
        self._options, self._schema = options, schema
        self._from_ms, self._to_ms = instant_of(options, "from"), instant_of(options, "to")
        self._wanted: dict[str, set[Any]] = {}
        self._group_bytes: tuple[bytes, ...] | None = None
        """Prefixes of the keys of the wanted groups, after the record type; None if all groups are wanted."""

    @property
    def pushFilters(self) -> Callable[[list[ds.Filter]], Iterable[ds.Filter]]:  # noqa: N802
        """Spark's method. While pushdown is off, Spark rejects a reader that overrides the inherited method."""
        push = partial(self._push)
        push.__func__ = DataSourceReader.pushFilters  # type: ignore[attr-defined]
        return push

    def _push(self, filters: list[ds.Filter]) -> list[ds.Filter]:
        # Spark 4.1 also applies the filters pushed by one query to the next query of the same DataFrame.
        for one in filters if self._options.get("pushdown", "").lower() == "true" else ():
            match one:
                case ds.EqualTo((name,), value):
                    self._want(name, {value})
                case ds.In((name,), values):
                    self._want(name, set(values))
                case ds.GreaterThan(("timestamp_ms",), ms) | ds.GreaterThanOrEqual(("timestamp_ms",), ms):
                    self._from_ms = ms if self._from_ms is None else max(self._from_ms, ms)
                case ds.LessThan(("timestamp_ms",), ms) | ds.LessThanOrEqual(("timestamp_ms",), ms):
                    self._to_ms = ms + 1 if self._to_ms is None else min(self._to_ms, ms + 1)
        groups = self._wanted.get("group_id")
        if groups is not None and not any("\ufffd" in group for group in groups):  # U+FFFD may stand for other bytes
            names = [group.encode() for group in groups]
            self._group_bytes = tuple(len(name).to_bytes(4, "big")[2:] + name for name in names)
        return filters

    def _want(self, name: str, values: set[Any]) -> None:
        if name == "record_name":
            name, values = "record_type", {_FROM_NAMES.get(value) for value in values}
        self._wanted[name] = self._wanted.get(name, values) & values

    def partitions(self) -> list[InputPartition]:
        source = open_log(self._options, ConsumerOffsets.name())
        segments, homes = chosen_segments(self._options, source), self._wanted.get("log_partition")
        groups = self._wanted.get("group_id")
        if groups is not None and (count := proven_count(source)) is not None:
            own = {partition_of(group, count) for group in groups}
            homes = own if homes is None else homes & own
        return [SegmentPartition(source.uri, one) for one in segments if homes is None or one.log_partition in homes]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SegmentPartition), "made by `partitions`"
        segment, (fs, _) = partition.segment, filesystem(partition.uri)
        data = read_only(slice_bytes(fs, segment))
        start = replace(framing.beginning(data, floor_offset=segment.base_offset), at=segment.start_byte)
        for frames in framing.frames(data, start=start, end=segment.stop_byte):
            for some, is_small in _runs(data, frames):
                if is_small:
                    yield from self._read_small(data, some, segment.log_partition)
                    continue
                found = (row for frame in some.tolist() for row in self._rows(data, frame, segment.log_partition))
                while rows := list(islice(found, _ROWS_A_BATCH)):
                    yield pa.RecordBatch.from_pylist(rows, self._schema)

    def _read_small(self, data: Bytes, frames: Int64s, log_partition: int) -> Iterator[pa.RecordBatch]:
        """The rows of good batches with few records, decoded by the kernels; the plain reader decodes what the kernels
        leave out."""
        if self._from_ms is not None:
            max_ms = numbers_at(data, frames[:, framing.POSITION] + MAX_TIMESTAMP_AT, "i8")
            frames = frames[(max_ms < 0) | (max_ms >= self._from_ms)]  # as in `_rows`
        for batches, left_out, rows, arena in commit_rows(data, frames, cap_bytes=settings().inflated_cap_bytes):
            tables, places, plain = [], [], []
            for where, source in ((L.IN_PLACE, data), (L.IN_ARENA, arena)):
                here = rows[batches[rows[:, L.Q_BATCH], L.B_SOURCE] == where]
                if len(here) and len(here := here[self._are_asked_for(source, here)]):
                    made = columns_of(data, source, batches, here, self._schema.names)
                    made["log_partition"] = pa.repeat(log_partition, len(here))
                    columns = [made.get(kind.name, pa.nulls(len(here))).cast(kind.type) for kind in self._schema]
                    tables.append(pa.Table.from_arrays(columns, schema=self._schema))
                    places.append(batches[here[:, L.Q_BATCH], L.B_POSITION])
            for at, size in left_out[:, [L.B_POSITION, L.B_SIZE]].tolist():
                plain += (found := list(self._rows(data, [framing.GOOD, at, size, 0], log_partition)))
                places.append(np.full(len(found), at))
            if tables or plain:
                tables.append(pa.Table.from_pylist(plain, self._schema))
                order = np.argsort(np.concatenate(places), kind="stable")
                yield from pa.concat_tables(tables).take(order).combine_chunks().to_batches()

    def _are_asked_for(self, source: Bytes, rows: Int64s) -> npt.NDArray[np.bool_]:
        """`_is_asked_for` for rows of the kernels."""
        at_ms, types, groups = rows[:, L.Q_TIMESTAMP], self._wanted.get("record_type"), self._wanted.get("group_id")
        kept = at_ms >= (-math.inf if self._from_ms is None else self._from_ms)
        kept &= at_ms < (math.inf if self._to_ms is None else self._to_ms)
        if types is not None:
            kept &= np.isin(numbers_at(source, rows[:, L.Q_KEY], "i2"), [kind for kind in types if kind is not None])
        if groups is not None:
            names = cols.strings(source, rows[:, L.Q_KEY] + 4, rows[:, L.Q_GROUP_SIZE])
            kept &= pc.is_in(names, pa.array(groups, names.type)).to_numpy(zero_copy_only=False)
        return kept

    def _rows(self, data: Bytes, frame: Sequence[int], log_partition: int) -> Iterator[dict[str, Any]]:
        entry = read_frame(data.data, frame)
        if not isinstance(entry, Batch):
            reason = getattr(entry, "reason", "torn_tail")
            yield {"log_partition": log_partition, "problem": f"{reason}: {entry.size_bytes} bytes"}
        elif self._from_ms is None or not 0 <= entry.max_timestamp_ms < self._from_ms:  # below 0: unknown
            yield from self._rows_of(entry, log_partition)

    def _rows_of(self, batch: Batch, log_partition: int) -> Iterator[dict[str, Any]]:
        common = {
            "log_partition": log_partition,
            "base_offset": batch.base_offset,
            "is_transactional": batch.is_transactional,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "leader_epoch": batch.leader_epoch,
            "codec": CODECS[batch.codec] if batch.codec < len(CODECS) else str(batch.codec),
            "crc_ok": batch.crc_ok,
        }
        for record in read_records(batch, cap_bytes=settings().inflated_cap_bytes):
            if isinstance(record, BadRecord):
                problem = f"{record.reason}: {record.detail}"
                yield {**common, "log_offset": record.log_offset, "value": record.raw, "problem": problem}
            elif self._is_asked_for(record):
                yield {**common, **_columns_of(record, is_control=batch.is_control, columns=self._schema.names)}

    def _is_asked_for(self, record: Record) -> bool:
        at_ms, key, types = record.timestamp_ms, record.key or b"", self._wanted.get("record_type")
        if types is not None and int.from_bytes(key[:2], "big", signed=True) not in types:
            return False
        if self._group_bytes is not None and not key.startswith(self._group_bytes, 2):
            return False
        return (self._from_ms is None or at_ms >= self._from_ms) and (self._to_ms is None or at_ms < self._to_ms)


def _runs(data: Bytes, frames: Int64s) -> Iterator[tuple[Int64s, bool]]:
    """Runs of neighbouring batches, and whether all are good magic 2 batches that together announce few records."""
    is_small, sizes = frames[:, framing.KIND] == framing.GOOD, frames[:, framing.SIZE] // _BYTES_A_ROW
    is_small[is_small] = data[frames[is_small, framing.POSITION] + MAGIC_AT] == 2
    counts = numbers_at(data, frames[is_small, framing.POSITION] + COUNT_AT, "i4")
    sizes[is_small] += np.clip(counts, 0, _ROWS_A_BATCH)
    is_small[is_small] = (counts >= 0) & (counts <= _ROWS_A_BATCH)
    block = sizes.cumsum() // _ROWS_A_BATCH
    edges = np.flatnonzero((np.diff(block) != 0) | (np.diff(is_small) != 0)) + 1
    for start, end in pairwise([0, *edges.tolist(), len(frames)]):
        yield frames[start:end], bool(is_small[start])


def _columns_of(record: Record, *, is_control: bool, columns: Collection[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "log_offset": record.log_offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
    }
    try:
        if is_control:
            return {**row, "control_type": marker_of(record)}
        if record.key is None:
            return {**row, "problem": "null_key: a record has a key"}
        number, key = decode_key(record.key)
        row |= {"record_type": number, "record_name": RECORD_TYPES[number].name, "is_tombstone": record.value is None}
        row |= {name: getattr(key, name, None) for name in ("group_id", "topic", "partition", "member_id")}
        if record.value is not None and not _OF_VALUES.isdisjoint(columns):
            version, value = decode_value(number, record.value)
            row |= {"version": version, "committed_offset": getattr(value, "committed_offset", None)}
            if "fields" in columns:
                row["fields"] = json.dumps(asdict(value), default=_as_text, ensure_ascii=False)
    except LogError as error:
        row["problem"] = f"{error.reason}: {error}"
    return row


def _as_text(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)
