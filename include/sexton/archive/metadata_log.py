"""Reads the state of the cluster at an instant from `__cluster_metadata-0` on a KRaft broker's disk.

The state is read from the newest snapshot (`.checkpoint`) whose last record is older than the instant, then from the
segments up to the first record that is not older. A transaction is applied when it ends. Unreadable records, gaps
between batches and contradictions raise a LogError that names the file and the position: then nothing of the log is
used. Follows FileRawSnapshotReader, MetadataLoader and the deltas of Kafka's org.apache.kafka.image.

A disk does not show whether the quorum had committed the last records: a controller failover may truncate them.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from pyarrow import fs as pafs

from sexton.errors import LogError
from sexton.log.batch import read_batches, read_records
from sexton.log.entry import BadRecord, Batch, Damage, Record
from sexton.log.segment import file_bytes, partition_folders, segments_of
from sexton.records.cluster_metadata import (
    AbortTransaction,
    BeginTransaction,
    Config,
    EndTransaction,
    FeatureLevel,
    MetadataRecord,
    Partition,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnregisterBroker,
    decode_metadata,
)
from sexton.records.uuids import kafka_uuid
from sexton.topics import METADATA_TOPIC

METADATA_VERSION = "metadata.version"
_TOPIC_RESOURCE = 2
_CHECKPOINT = re.compile(r"(\d{20})-\d{10}\.checkpoint")
_SNAPSHOT_HEADER, _SNAPSHOT_FOOTER = 3, 4
_HEADER_FIELDS = struct.Struct(">hq")  # version, timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOfLog:
    """A topic: its id in Kafka's text form, and the partitions that were created."""

    topic_id: str
    partitions: set[int] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class MetadataLog:
    """The cluster's state in the log, read up to `next_offset`; `last_ms` is the newest timestamp.

    `is_cut`: there are later records, so this state is complete for the instant. `brokers` are the registered brokers
    with the highest metadata.version that each supports, None where the log does not have it. `deleted` has the names
    of topics that were deleted since the snapshot, by topic id.
    """

    topics: dict[str, TopicOfLog] = field(default_factory=dict)
    deleted: dict[str, str] = field(default_factory=dict)
    settings: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    """Settings by type and name of the resource."""
    features: dict[str, int] = field(default_factory=dict)
    levels: dict[str, set[int]] = field(default_factory=dict)
    """Every level that a feature was ever set to, including levels lowered since."""
    brokers: dict[int, int | None] = field(default_factory=dict)
    next_offset: int = 0
    last_ms: int = -1
    is_cut: bool = False
    _names: dict[UUID, str] = field(default_factory=dict)

    def settings_of_topic(self, name: str) -> Mapping[str, str]:
        """The topic's own settings."""
        return self.settings.get((_TOPIC_RESOURCE, name), {})

    def apply(self, record: MetadataRecord) -> None:
        """Apply the next record; LogError if it contradicts the records before it."""
        match record:
            case Topic():
                topic_id = kafka_uuid(record.topic_id)
                if topic_id is None or record.name in self.topics:
                    raise LogError("contradiction", f"topic {record.name!r} has no id, or exists already")
                self.topics[record.name], self._names[record.topic_id] = TopicOfLog(topic_id=topic_id), record.name
            case Partition():
                self.topics[self._name(record.topic_id)].partitions.add(record.partition_id)
            case RemoveTopic():
                name = self._name(record.topic_id)
                self.deleted[self.topics.pop(name).topic_id] = self._names.pop(record.topic_id)
                self.settings.pop((_TOPIC_RESOURCE, name), None)
            case Config():
                own = self.settings.setdefault((record.resource_type, record.resource_name), {})
                own.pop(record.name, None)
                if record.value is not None:
                    own[record.name] = record.value
            case FeatureLevel():
                self.features[record.name] = record.feature_level
                self.levels.setdefault(record.name, set()).add(record.feature_level)
            case RegisterBroker():
                levels = {one.name: one.max_supported_version for one in record.features}
                self.brokers[record.broker_id] = levels.get(METADATA_VERSION)
            case UnregisterBroker():
                self.brokers.pop(record.broker_id, None)

    def _name(self, topic_id: UUID) -> str:
        if topic_id not in self._names:
            raise LogError("contradiction", f"no topic has id {kafka_uuid(topic_id)}")
        return self._names[topic_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A record and its file; `control_type` is set for a control record."""

    path: str
    record: Record
    control_type: int | None


_Kept = list[MetadataRecord] | None
"""The records of the open transaction; None without a transaction."""


def read_metadata_log(fs: pafs.FileSystem, root: str, *, as_of_ms: int | None, cap_bytes: int) -> MetadataLog | None:
    """The state before an instant, or at the log end (None), from the metadata log in a log directory.

    None where the log has no records before the instant. No batch is inflated beyond `cap_bytes`. LogError, with the
    position, where the log cannot be read.
    """
    folder = partition_folders(fs, root, METADATA_TOPIC).get(0)
    if folder is None:
        return None
    found = _from_snapshot(fs, folder, as_of_ms, cap_bytes)
    segments = segments_of(fs, folder, 0)
    first = max((k for k, segment in enumerate(segments) if segment.base_offset <= found.next_offset), default=0)
    kept: _Kept = None
    for segment in segments[first:]:
        for place in _records(fs, segment.path, segment.size_bytes, found, cap_bytes, floor=segment.base_offset):
            record = place.record
            if as_of_ms is not None and record.timestamp_ms >= as_of_ms:
                found.is_cut = True
                break
            found.next_offset, found.last_ms = record.log_offset + 1, max(found.last_ms, record.timestamp_ms)
            kept = _take(found, place, kept)
        if found.is_cut:
            break
    for name, topic in found.topics.items():
        if not topic.partitions or topic.partitions != set(range(len(topic.partitions))):
            raise LogError("contradiction", f"{folder}: topic {name!r} lacks partitions")
    return found if found.next_offset else None


def read_bootstrap(fs: pafs.FileSystem, root: str, *, cap_bytes: int) -> MetadataLog | None:
    """The state in `bootstrap.checkpoint`, which `kafka-storage.sh format` wrote; None without that file, LogError
    where it cannot be read."""
    file = fs.get_file_info(f"{root}/bootstrap.checkpoint")
    return _snapshot(fs, file, None, cap_bytes) if file.type == pafs.FileType.File else None


def _from_snapshot(fs: pafs.FileSystem, folder: str, as_of_ms: int | None, cap_bytes: int) -> MetadataLog:
    """The state in the newest snapshot from before the instant; an empty state if there is none."""
    files = [
        (int(name[1]), file.base_name, file)
        for file in fs.get_file_info(pafs.FileSelector(folder))
        if file.type == pafs.FileType.File and (name := _CHECKPOINT.fullmatch(file.base_name))
    ]
    for end, _, file in sorted(files, key=lambda item: item[:2], reverse=True):
        found = _snapshot(fs, file, as_of_ms, cap_bytes)
        if found is not None:
            found.next_offset = end
            return found
    return MetadataLog()


def _snapshot(fs: pafs.FileSystem, file: pafs.FileInfo, as_of_ms: int | None, cap_bytes: int) -> MetadataLog | None:
    """The state in a snapshot; None if its last record is not older than the instant."""
    found, last_type, last_ms = MetadataLog(), None, None
    for place in _records(fs, file.path, file.size, found, cap_bytes, floor=0):
        if last_ms is None:  # from SnapshotHeaderRecord: the timestamp of the last record in the snapshot
            value = place.record.value or b""
            if place.control_type != _SNAPSHOT_HEADER or len(value) < _HEADER_FIELDS.size:
                raise LogError("malformed_batch", f"{place.path}: the snapshot has no header")
            last_ms = int(_HEADER_FIELDS.unpack_from(value)[1])
            if as_of_ms is not None and last_ms >= as_of_ms:
                return None
        last_type = place.control_type
        found.next_offset = place.record.log_offset + 1
        _take(found, place, None)
    if last_ms is None or last_type != _SNAPSHOT_FOOTER:
        raise LogError("malformed_batch", f"{file.path}: the snapshot has no end")
    found.last_ms = last_ms
    return found


def _records(
    fs: pafs.FileSystem, path: str, size_bytes: int, found: MetadataLog, cap_bytes: int, *, floor: int
) -> Iterator[_Place]:
    """The records of a file from `found.next_offset` on, which the caller advances; LogError for bad bytes and gaps."""
    for batch in read_batches(file_bytes(fs, path, size_bytes), floor_offset=floor):
        if isinstance(batch, Damage):
            raise LogError("malformed_batch", f"{path}: {batch.detail}")
        if not isinstance(batch, Batch) or batch.next_offset <= found.next_offset:
            continue
        if batch.base_offset > found.next_offset:
            raise LogError(
                "gap", f"{path}: expected offset {found.next_offset} at byte {batch.position}, got {batch.base_offset}"
            )
        if not batch.crc_ok:
            raise LogError("bad_crc", f"{path}: the batch at byte {batch.position} has a bad CRC")
        for record in read_records(batch, cap_bytes=cap_bytes):
            if isinstance(record, BadRecord):
                raise LogError(record.reason, f"{path}: in the batch at byte {batch.position}: {record.detail}")
            if record.log_offset >= found.next_offset:
                kind = int.from_bytes((record.key or b"")[2:4], "big") if batch.is_control else None
                yield _Place(path=path, record=record, control_type=kind)
        found.next_offset = batch.next_offset


def _take(found: MetadataLog, place: _Place, kept: _Kept) -> _Kept:
    """Apply a record, or buffer it while its transaction is open; returns the buffered records."""
    if place.control_type is not None:
        return kept
    try:
        record = decode_metadata(place.record.value or b"")
        match record:
            case BeginTransaction():
                return []
            case AbortTransaction():
                return None
            case EndTransaction():
                for one in kept or ():
                    found.apply(one)
                return None
        if record is not None and kept is not None:
            kept.append(record)
        elif record is not None:
            found.apply(record)
    except LogError as error:
        raise LogError(error.reason, f"{place.path}: offset {place.record.log_offset}: {error.detail}") from None
    return kept
