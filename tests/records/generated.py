"""Records generated from their declarations: a Hypothesis strategy for the fields of any schema at any version."""

from typing import Any

from hypothesis import strategies as st

from sexton.records import RECORD_TYPES, RecordType, Schema
from sexton.records.schema import Array, Blob, Field, Fixed, Kind, Release, Struct, Text
from tests.record_fields import as_fields

ALL_VERSIONS = [(number, version) for number, declared in RECORD_TYPES.items() for version in declared.versions]

_BOUNDS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


def fields_of(schema: Schema, version: int, release: Release | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """Fields of a record at `version`; a field that version or release do not have is its `absent` value."""
    return _fields(schema.fields, version, release)


def values_of(declared: RecordType, version: int, release: Release | None = None) -> st.SearchStrategy[dict[str, Any]]:
    return fields_of(declared.value, version, release)


def _fields(fields: tuple[Field, ...], version: int, release: Release | None) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: _field(field, version, release) for field in fields})


def _field(field: Field, version: int, release: Release | None) -> st.SearchStrategy[Any]:
    if not field.is_in(version, release):
        return st.just(as_fields(field.absent))
    values = _values(field.kind, version, release)
    return values if field.tag is None else st.just(as_fields(field.absent)) | values


def _values(kind: Kind, version: int, release: Release | None) -> st.SearchStrategy[Any]:
    match kind:
        case Fixed(what="uuid"):
            return st.uuids(allow_nil=True)
        case Fixed(what=what):
            lowest, highest = _BOUNDS[what]
            return st.integers(lowest, highest)
        case Text(nullable=nullable):
            values: st.SearchStrategy[Any] = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
        case Blob(nullable=nullable):
            values = st.binary(max_size=12)
        case Array(item=item, nullable=nullable):
            values = st.lists(_values(item, version, release), max_size=3)
        case Struct(fields=fields, nullable=nullable):
            values = _fields(fields, version, release)
    return st.none() | values if nullable else values
