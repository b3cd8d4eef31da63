"""Records by their fields, as tests like to write and compare them: dicts and lists instead of typed records."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from sexton import records
from sexton.records import RECORD_TYPES
from sexton.records.schema import Array, Kind, Release, Struct, fields_of


def as_fields(value: Any) -> Any:
    """A record, or a value within one, as a dict by field, in the declared order."""
    if isinstance(value, tuple):
        return [as_fields(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {field.name: as_fields(getattr(value, field.name)) for field in fields_of(type(value))}
    return value


def from_fields(cls: type[Any], fields: Mapping[str, Any]) -> Any:
    """The record that has these fields; ValueError where one is unknown or missing."""
    kinds = {field.name: field.kind for field in fields_of(cls)}
    if not fields.keys() <= kinds.keys():
        raise ValueError(f"no such field: {', '.join(sorted(fields.keys() - kinds.keys()))}")
    try:
        return cls(**{name: _from(kinds[name], value) for name, value in fields.items()})
    except TypeError as error:
        raise ValueError(str(error)) from error


def _from(kind: Kind, value: Any) -> Any:
    match kind:
        case Array(item=item) if value is not None:
            return tuple(_from(item, one) for one in value)
        case Struct(record=cls) if isinstance(value, Mapping):
            return from_fields(cls, value)
    return value


def decode_key(key: bytes, *, release: Release | None = None) -> tuple[int, dict[str, Any]]:
    number, found = records.decode_key(key, release=release)
    return number, as_fields(found)


def decode_value(record_type: int, value: bytes, *, release: Release | None = None) -> tuple[int, dict[str, Any]]:
    version, found = records.decode_value(record_type, value, release=release)
    return version, as_fields(found)


def encode_key(record_type: int, fields: Mapping[str, Any]) -> bytes:
    return records.encode_key(record_type, from_fields(_declared(record_type).key.record, fields))


def encode_value(record_type: int, version: int, fields: Mapping[str, Any], *, release: Release | None = None) -> bytes:
    made = from_fields(_declared(record_type).value.record, fields)
    return records.encode_value(record_type, version, made, release=release)


def _declared(record_type: int) -> records.RecordType:
    if record_type not in RECORD_TYPES:
        raise records.UnknownRecordType(record_type)
    return RECORD_TYPES[record_type]
