"""All record types by number, and the four functions that decode and encode them.

Follows CoordinatorRecordSerde and GroupCoordinatorRecordSerde: a key is an INT16 type and the key message, a value an
INT16 version and the value message of that version. coordinator/decoding.py decides how a coordinator handles an
unreadable record.
"""

import struct
from collections.abc import Mapping
from types import MappingProxyType

from sexton.errors import LogError
from sexton.records import wire
from sexton.records.classic import GROUP_METADATA, GroupMetadataKey, GroupMetadataValue, read_subscription
from sexton.records.consumer import (
    CONSUMER_GROUP_TYPES,
    ConsumerGroupValue,
    GroupKey,
    MemberKey,
    RegularExpressionKey,
)
from sexton.records.offsets import LEGACY_OFFSET_COMMIT, OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from sexton.records.record_type import RecordType
from sexton.records.schema import Release
from sexton.records.share import SHARE_GROUP_TYPES, ShareGroupValue
from sexton.records.streams import STREAMS_GROUP_TYPES, StreamsGroupValue

Key = OffsetCommitKey | GroupMetadataKey | GroupKey | MemberKey | RegularExpressionKey
Value = OffsetCommitValue | GroupMetadataValue | ConsumerGroupValue | ShareGroupValue | StreamsGroupValue

_DECLARED = (
    *(LEGACY_OFFSET_COMMIT, OFFSET_COMMIT, GROUP_METADATA),
    *CONSUMER_GROUP_TYPES,
    *SHARE_GROUP_TYPES,
    *STREAMS_GROUP_TYPES,
)

RECORD_TYPES: Mapping[int, RecordType] = MappingProxyType(
    {record_type.number: record_type for record_type in sorted(_DECLARED, key=lambda declared: declared.number)}
)


class UnknownRecordType(LogError):
    """A key of a type that is not declared; `number` is the type, which may be negative."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__("unknown_record_type", f"Unknown record type {number}")


class MalformedRecord(LogError):
    """A key, value or subscription that cannot be read; `reason` is a reason code of undecodable_records."""


def decode_key(key: bytes, *, release: Release | None = None) -> tuple[int, Key]:
    """Decode a record's key to its type and its fields.

    With a `release`, such as (4, 3) or (4, 0, 1), a type that this release's coordinator does not read is unknown,
    whatever bytes follow. Raises UnknownRecordType, or MalformedRecord with reason short_key or malformed_key.
    """
    try:
        number, pos = wire.read_i16(key, 0)
    except wire.Unreadable as error:
        raise MalformedRecord("short_key", f"Could not read version from key's buffer: {error}") from error
    record_type = _record_type(number)
    if release is not None and not record_type.is_read_by(release):
        raise UnknownRecordType(number)
    try:
        found: Key
        found, _ = record_type.key.reader(0)(key, pos)
    except wire.Unreadable as error:
        raise MalformedRecord("malformed_key", _could_not_read(number, "key", error)) from error
    return number, found


def decode_value(record_type: int, value: bytes, *, release: Release | None = None) -> tuple[int, Value]:
    """Decode the value of a record of `record_type` to its version and its fields.

    With a `release`, the value is read in the layout of that release's coordinator, else in the newest layout. A field
    that was added later has its absent value, and its bytes are an unknown tag or not part of the message. Coordinators
    up to 4.0 read values of type 0 as values of type 1: to do the same, decode such a value as type 1. Raises
    UnknownRecordType, or MalformedRecord with reason malformed_value, unknown_value_version or too_many_items.
    """
    declared = _record_type(record_type)
    try:
        version, pos = wire.read_i16(value, 0)
    except wire.Unreadable as error:
        raise MalformedRecord("malformed_value", f"Could not read version from value's buffer: {error}") from error
    if version not in declared.versions:
        raise MalformedRecord(
            "unknown_value_version", f"Found an unknown record version {version} for {record_type} type"
        )
    try:
        found: Value
        found, _ = declared.value.reader(version, release)(wire.measured(value), pos)
    except wire.Unreadable as error:
        raise MalformedRecord("malformed_value", _could_not_read(version, "value", error)) from error
    except wire.TooManyItems as error:
        raise MalformedRecord("too_many_items", str(error)) from error
    return version, found


def encode_key(record_type: int, key: Key) -> bytes:
    """Encode the key of a record; raises UnknownRecordType, or ValueError for the key of another type."""
    return _encode(record_type, _record_type(record_type).key.writer(0), key)


def encode_value(record_type: int, version: int, value: Value, *, release: Release | None = None) -> bytes:
    """Encode the value of a record at `version`.

    With a `release`, fields that were added later are left out. Raises UnknownRecordType, or ValueError for an unknown
    version, the value of another type, or a field that does not fit.
    """
    declared = _record_type(record_type)
    if version not in declared.versions:
        raise ValueError(f"version {version} of {declared.name}: only {list(declared.versions)} are known")
    return _encode(version, declared.value.writer(version, release), value)


def decode_subscription(data: bytes, *, may_be_short: bool = False) -> list[str] | None:
    """Decode the topics of a classic consumer member's `subscription`, in the order of the subscription, whatever
    version it claims.

    None where the bytes end inside a number (the version, a length, a count), with `may_be_short` also where they end
    inside a topic or before the last one: the coordinator then treats the subscription as unknown. Raises
    MalformedRecord (malformed_subscription) for other bad bytes, on which the coordinator's load fails; from 4.2.2,
    4.3.2 and 4.4.0 on, it treats these as unknown, too (KAFKA-20570).
    """
    try:
        return read_subscription(wire.measured(data))
    except wire.Unreadable as error:
        if may_be_short and isinstance(error, wire.TooShort):
            return None
        raise MalformedRecord("malformed_subscription", str(error)) from error
    except wire.TooManyItems as error:
        raise MalformedRecord("too_many_items", str(error)) from error


def _record_type(number: int) -> RecordType:
    try:
        return RECORD_TYPES[number]
    except KeyError:
        raise UnknownRecordType(number) from None


def _could_not_read(version: int, which: str, error: wire.Unreadable) -> str:
    return f"Could not read record with version {version} from {which}'s buffer due to: {error}."


def _encode(prefix: int, write: wire.Writer, message: Key | Value) -> bytes:
    out = bytearray()
    wire.write_i16(prefix, out)
    try:
        write(message, out)
    except struct.error as error:
        raise ValueError(str(error)) from error
    return bytes(out)
