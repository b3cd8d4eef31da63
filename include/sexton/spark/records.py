"""`consumer_offsets`: the records of `__consumer_offsets`, one row each, decoded; also what is no record.

A task reads a segment. Batches from before the time asked for are not decompressed.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sexton.archive.folder import filesystem
from sexton.errors import LogError
from sexton.log.batch import marker_of, read_batches, read_records
from sexton.log.entry import CODECS, BadRecord, Batch, Record
from sexton.log.segment import Segment, file_bytes
from sexton.records import RECORD_TYPES, decode_key, decode_value
from sexton.settings import settings
from sexton.spark.input import chosen_segments, instant_of, open_log

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
"""`record_name` is Kafka's name of the type, `version` that of the value, `fields` its fields as JSON (bytes in hex),
`control_type` COMMIT or ABORT. `problem` says why a row is no decoded record; columns that are not known are NULL."""
_ROWS_A_BATCH = 10_000


class ConsumerOffsets(DataSource):
    """Options: `log_partitions` (0,3), `from` and `to` (instants, the second excluded), `as_of` and `cluster_id`."""

    @classmethod
    def name(cls) -> str:
        return "consumer_offsets"

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  # it is always the whole
        return RecordReader(dict(self.options))


@dataclass
class SegmentPartition(InputPartition):
    """What a task reads."""

    uri: str
    segment: Segment


class RecordReader(DataSourceReader):
    """Rows in the order of the log, within a segment."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._from_ms, self._to_ms = instant_of(options, "from"), instant_of(options, "to")

    def partitions(self) -> list[InputPartition]:
        source = open_log(self._options, ConsumerOffsets.name())
        return [SegmentPartition(source.uri, segment) for segment in chosen_segments(self._options, source)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SegmentPartition), "made by `partitions`"
        found = self._rows(partition)
        while rows := list(islice(found, _ROWS_A_BATCH)):
            yield pa.RecordBatch.from_pylist(rows, SCHEMA)

    def _rows(self, partition: SegmentPartition) -> Iterator[dict[str, Any]]:
        segment, (fs, _) = partition.segment, filesystem(partition.uri)
        data = file_bytes(fs, segment.path, segment.size_bytes, is_archived=segment.manifest_path is not None)
        found = read_batches(data, start=segment.start_byte, end=segment.stop_byte, floor_offset=segment.base_offset)
        for entry in found:
            if isinstance(entry, Batch):
                if self._may_be_asked_for(entry):
                    yield from self._rows_of(entry, segment.log_partition)
            else:
                reason = getattr(entry, "reason", "torn_tail")
                yield {"log_partition": segment.log_partition, "problem": f"{reason}: {entry.size_bytes} bytes"}

    def _may_be_asked_for(self, batch: Batch) -> bool:
        """Whether the batch may have a record from `from` on; a format without timestamps does not say."""
        return batch.max_timestamp_ms < 0 or self._from_ms is None or batch.max_timestamp_ms >= self._from_ms

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
                yield {**common, **_columns_of(record, is_control=batch.is_control)}

    def _is_asked_for(self, record: Record) -> bool:
        at_ms = record.timestamp_ms
        return (self._from_ms is None or at_ms >= self._from_ms) and (self._to_ms is None or at_ms < self._to_ms)


def _columns_of(record: Record, *, is_control: bool) -> dict[str, Any]:
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
        if record.value is not None:
            version, value = decode_value(number, record.value)
            row |= {"version": version, "committed_offset": getattr(value, "committed_offset", None)}
            row["fields"] = json.dumps(asdict(value), default=_as_text, ensure_ascii=False)
    except LogError as error:
        row["problem"] = f"{error.reason}: {error}"
    return row


def _as_text(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)
