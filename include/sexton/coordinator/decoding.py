"""Decodes the bytes of a record to the coordinator's input, or to the reason why it cannot be replayed.

Decides what is undecodable. Compiled: kernels.decoding, which calls this module for records that it does not accept.
Follows GroupCoordinatorRecordSerde and CoordinatorRecordSerde of Kafka 4.3.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sexton.coordinator.profile import PendingRule, Profile
from sexton.errors import LogError
from sexton.log import codec
from sexton.log.batch import OUT_OF_ORDER_BATCH, SKIPPED_BYTES, BadRecord, Batch, Damage, Record
from sexton.log.entry import BATCH_HEAD_BYTES, MAX_BAD_RECORDS, MAX_RAW_BYTES
from sexton.records import (
    OFFSET_TYPES,
    GroupMetadataValue,
    Key,
    MalformedRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    Value,
    decode_key,
    decode_value,
)

BAD_CRC, TORN_SEGMENT, UNREAD_RECORD, ZEROS = "bad_crc", "torn_segment", "unread_record", "zeros"
NEGATIVE_END = "negative_end"
TOO_MANY_ITEMS = "too_many_items"
UNKNOWN_TYPE = "unknown_record_type"
_LOST_TIMESTAMP_VERSION = 3
_HARMLESS = (BAD_CRC, TORN_SEGMENT, UNREAD_RECORD, TOO_MANY_ITEMS, OUT_OF_ORDER_BATCH, SKIPPED_BYTES, NEGATIVE_END)

MAX_UNDECODABLE = 10_000
"""Rows of undecodable_records of a log partition; the records after them are only counted."""
_MAX_WHOLE, _MAX_SHORTENED_BYTES = 16, 1 << 12
"""The first rows keep up to MAX_RAW_BYTES of a key and of a value, the other rows 4 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedOffset:
    """A record of type 0 or 1 that the coordinator replays; a `value` of None is a tombstone."""

    record_type: int
    key: OffsetCommitKey
    version: int | None
    value: OffsetCommitValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedGroup:
    """A record about a group that the coordinator replays; a `value` of None is a tombstone."""

    record_type: int
    key: Key
    value: Value | None


Decoded = DecodedOffset | DecodedGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownType:
    """A record of a type that the coordinator skips with a warning, for example after an aborted upgrade."""

    record_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecodable:
    """Bytes that could not be decoded: a row of undecodable_records. Undetermined fields are None."""

    base_offset: int | None = None
    log_offset: int | None = None
    record_type: int | None = None
    reason: str
    detail: str
    key: bytes | None = None
    value: bytes | None = None

    @property
    def fails_load(self) -> bool:
        """Whether a coordinator would fail its load here.

        A coordinator checks neither the CRC nor the order of batches. If a segment ends within a batch, it continues
        with the next segment. It accepts any number of items that fits its heap, and up to 3.9 it reads only the first
        record of a control batch.
        """
        return self.reason not in _HARMLESS

    @property
    def is_offset_value(self) -> bool:
        return self.record_type in OFFSET_TYPES and self.value is not None

    def __str__(self) -> str:
        place = "" if self.log_offset is None else f"log_offset {self.log_offset}: "
        batch = f"batch {self.base_offset}: " if self.log_offset is None and self.base_offset is not None else ""
        return f"{place}{batch}{self.reason}: {self.detail}"


def is_kept(row: Undecodable, kept: Iterable[Undecodable], *, count: int) -> bool:
    """Whether `row` is kept after the `count` rows of `kept`: one of the first MAX_UNDECODABLE rows, or after these the
    first row that fails the load."""
    if count < MAX_UNDECODABLE:
        return True
    return count == MAX_UNDECODABLE and row.fails_load and not any(other.fails_load for other in kept)


def shortened(row: Undecodable, index: int) -> Undecodable:
    """The row as it is kept after `index` other rows."""
    most = MAX_RAW_BYTES if index < _MAX_WHOLE else _MAX_SHORTENED_BYTES
    if max(len(row.key or b""), len(row.value or b"")) <= most:
        return row
    return replace(
        row,
        key=None if row.key is None else row.key[:most],
        value=None if row.value is None else row.value[:most],
    )


def counts_in_batch(row: Undecodable, profile: Profile) -> bool:
    """Whether a row counts towards the MAX_BAD_RECORDS of its batch: every row except those of records about a
    group."""
    kind = row.record_type
    return kind is None or kind in OFFSET_TYPES or not profile.reads(kind)


def rest_of_batch(batch: Batch, *, index: int, profile: Profile) -> Undecodable:
    """The row for the records of a batch from `index` on, which are not read after MAX_BAD_RECORDS bad records."""
    count = batch.record_count
    known = f" ({count - index:,} records by its header)" if count > index else ""
    return Undecodable(
        base_offset=batch.base_offset,
        reason=UNREAD_RECORD if _is_unread(batch, index, profile) else "malformed_record",
        detail=f"the rest of the batch{known} is not decoded after {MAX_BAD_RECORDS} bad records",
    )


def decode(record: Record, *, base_offset: int, profile: Profile) -> Decoded | UnknownType | Undecodable:
    """Decode a record of a data batch; as in Kafka, the type is checked first."""
    if record.key is None:
        return undecodable(record, "null_key", "expected a key, got none", base_offset=base_offset)
    if len(record.key) < 2:
        detail = f"expected a record type of 2 bytes, got {len(record.key)}"
        return undecodable(record, "short_key", detail, base_offset=base_offset)
    (record_type,) = struct.unpack_from(">h", record.key)
    if not profile.reads(record_type):
        if profile.skips_unknown_types:
            return UnknownType(record_type=record_type)
        detail = profile.unknown_type_text(record_type)
        return undecodable(record, UNKNOWN_TYPE, detail, base_offset=base_offset, record_type=record_type)
    try:
        _, key = decode_key(record.key)
        version, value = (None, None) if record.value is None else _value(record_type, record.value, profile)
    except LogError as error:
        return undecodable(record, error.reason, error.detail, base_offset=base_offset, record_type=record_type)
    if isinstance(key, OffsetCommitKey):
        assert value is None or isinstance(value, OffsetCommitValue), "keys and values of a type come together"
        return DecodedOffset(record_type=record_type, key=key, version=version, value=value)
    return DecodedGroup(record_type=record_type, key=key, value=value)


def _value(record_type: int, value: bytes, profile: Profile) -> tuple[int, Value]:
    """The version and the content of a value; MalformedRecord for a version that the coordinator does not read."""
    highest = profile.value_versions[record_type]
    version = int.from_bytes(value[:2], signed=True)
    if len(value) >= 2 and not 0 <= version <= highest:
        raise MalformedRecord("unknown_value_version", profile.unknown_version_text(record_type, version))
    # up to 4.0 the values of type 0 are decoded like those of type 1
    version, found = decode_value(1 if record_type == 0 else record_type, value, release=profile.release)
    if isinstance(found, GroupMetadataValue):
        if profile.forgets_state_timestamp and version == _LOST_TIMESTAMP_VERSION:
            found = replace(found, current_state_timestamp_ms=-1)
        if profile.refuses_null_protocol and (found.protocol is None or found.leader is None):
            raise MalformedRecord("malformed_value", "a group without a protocol or a leader")
    return version, found


def undecodable(
    record: Record, reason: str, detail: str, *, base_offset: int, record_type: int | None = None
) -> Undecodable:
    """The row for a record with a good frame and bad content."""
    return Undecodable(
        base_offset=base_offset,
        log_offset=record.log_offset,
        record_type=record_type,
        reason=reason,
        detail=detail,
        key=record.key,
        value=record.value,
    )


def _is_unread(batch: Batch, index: int, profile: Profile) -> bool:
    """Whether a coordinator never reads the record at that index in `batch`.

    Up to 3.9 a coordinator reads only the first record of a control batch. A compressed batch is first inflated and
    parsed as a whole (DefaultRecordBatch.iterator); bytes after the only record of a batch are parsed, too.
    """
    takes_first = batch.is_control and profile.pending_rule is PendingRule.IF_TRANSACTIONAL
    return takes_first and index > 0 and batch.record_count > 1 and batch.codec == codec.NONE


def bad_record(batch: Batch, record: BadRecord, *, index: int, profile: Profile) -> Undecodable:
    """The row for bytes in a batch that should be the record at `index`, but are not a record."""
    return Undecodable(
        base_offset=batch.base_offset,
        log_offset=record.log_offset,
        reason=UNREAD_RECORD if _is_unread(batch, index, profile) else record.reason,
        detail=record.detail,
        value=record.raw or None,
    )


def bad_crc(batch: Batch) -> Undecodable:
    """The row for a batch that does not match its CRC but could still be read."""
    detail = f"the CRC of the batch of {batch.size_bytes} bytes does not match; its records were read as they are"
    return Undecodable(base_offset=batch.base_offset, reason=BAD_CRC, detail=detail)


def unread_format(batch: Batch) -> Undecodable:
    """The row for a batch of a record format that is newer than the coordinator's release."""
    detail = f"a batch of record format {batch.magic}, which this release cannot read"
    return Undecodable(base_offset=batch.base_offset, reason="unknown_magic", detail=detail)


def empty_control_batch(batch: Batch) -> Undecodable:
    """The row for a control batch without its marker."""
    detail = "a control batch without a record, which this release cannot read"
    return Undecodable(base_offset=batch.base_offset, reason="empty_control_batch", detail=detail)


def negative_end(next_log_offset: int) -> Undecodable:
    """The row for a log whose last batch ends below log_offset 0 according to its header; a broker keeps nothing of it.

    A broker takes the end of that batch for the log end offset. When the broker starts, it deletes all segments of a
    log whose end is below the log start offset (LogLoader).
    """
    detail = f"the last batch ends the log at log_offset {next_log_offset}: a broker deletes the log when it starts"
    return Undecodable(reason=NEGATIVE_END, detail=detail)


def torn_bytes(size_bytes: int, *, is_zeros: bool) -> int:
    """The argument of `torn_segment` for a tail that is not a whole batch; 0 where a broker ignores the tail."""
    if not is_zeros:
        return size_bytes
    return -size_bytes if size_bytes >= BATCH_HEAD_BYTES else 0


def torn_segment(size_bytes: int) -> Undecodable:
    """The row for a truncated batch at the end of a segment that another segment follows; no broker writes this.

    A negative `size_bytes` is a number of zeros: a broker takes them for a batch of size 0 and fails.
    """
    if size_bytes < 0:
        zeros = f"the segment ends with {-size_bytes} zeros, and another segment follows"
        return Undecodable(reason=ZEROS, detail=zeros)
    detail = f"the segment ends {size_bytes} bytes into a batch, and another segment follows"
    return Undecodable(reason=TORN_SEGMENT, detail=detail)


def damage(found: Damage) -> Undecodable:
    """The row for bytes between batches."""
    return Undecodable(reason=found.reason, detail=found.detail)
