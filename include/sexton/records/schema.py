"""Derives the reader and the writer of a record from its declaration, a dataclass whose fields give their wire format.

A decoded record has every declared field, whatever the version: a field that the version does not have, and a tagged
field that was not written, has its default. Wire values stay as they are (-1, "", the zero UUID). Kafka 4.x added
fields to values without a new version, most of them tagged. Given a release, a record is read and written as that
release's coordinator does: the tag of a later field is unknown to it.

Follows Kafka's MessageDataGenerator: unknown tags are skipped by their size; the size of a known tag is ignored, as in
Kafka; of a repeated tag the last one counts; bytes after the message are ignored. Encoding leaves out a tagged field
that equals its default, and drops a field that the version does not have, as Kafka does with fields marked ignorable:
all such fields here are ignorable.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any, TypeVar, dataclass_transform
from uuid import UUID

from sexton.records import wire
from sexton.records.wire import Reader, Writer

ZERO_UUID = UUID(int=0)

Release = tuple[int, ...]  # (4, 1) or (4, 1, 2)

REQUIRED = dataclasses.MISSING  # the `absent` of a field that every version has


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of fixed size; `what` is Kafka's name of the type."""

    what: str
    read: Reader
    write: Writer


def _number(what: str, layout: str) -> Fixed:
    return Fixed(what, wire.fixed_reader(layout, what), wire.fixed_writer(layout))


INT8 = _number("int8", ">b")
INT16 = _number("int16", ">h")
INT32 = _number("int32", ">i")
INT64 = _number("int64", ">q")
UINT16 = _number("uint16", ">H")
ID = Fixed("uuid", wire.read_uuid, wire.write_uuid)


@dataclass(frozen=True, slots=True)
class Text:
    """A string; None for null, which only a nullable one may be."""

    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Blob:
    """A byte string."""

    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Array:
    """A tuple of `item`; the items themselves are never null."""

    item: "Kind"
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Struct:
    """A record within a record, an instance of `record`."""

    record: type[object]
    nullable: bool = False

    @property
    def fields(self) -> tuple["Field", ...]:
        return fields_of(self.record)


Kind = Fixed | Text | Blob | Array | Struct


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a layout: our `name`, its wire format, and the versions that have it.

    `since` is the first version that has it, `only` the one version that has it. With a `tag` it is a tagged field
    (KIP-482). `new_in` is the first Kafka release, (major, minor), with a field that was added without a new version.
    `absent` is its value where it is not on the wire.
    """

    name: str
    kind: Kind
    _: KW_ONLY
    since: int = 0
    only: int | None = None
    tag: int | None = None
    new_in: tuple[int, int] | None = None
    absent: Any = REQUIRED
    renamed_from: str | None = None

    @property
    def kafka_name(self) -> str:
        """Kafka's own name of the field, as kafka-dump-log and error texts show it."""
        head, *rest = self.name.split("_")
        return self.renamed_from or head + "".join(map(str.capitalize, rest))

    def is_in(self, version: int, release: Release | None = None) -> bool:
        """Whether records of `version` have this field in `release`; None is the newest."""
        if release is not None and self.new_in is not None and release[:2] < self.new_in:
            return False
        return version >= self.since if self.only is None else version == self.only


def wire_field(
    kind: Kind,
    *,
    since: int = 0,
    only: int | None = None,
    tag: int | None = None,
    new_in: tuple[int, int] | None = None,
    default: Any = REQUIRED,
    renamed_from: str | None = None,
) -> Any:
    """A field of a `record` class; the arguments are those of Field, `default` is its `absent`."""
    declared = Field(
        "", kind, since=since, only=only, tag=tag, new_in=new_in, absent=default, renamed_from=renamed_from
    )
    return dataclasses.field(default=default, metadata={"declared": declared})


Record = TypeVar("Record")
_FIELDS: dict[type[object], tuple[Field, ...]] = {}


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(wire_field,))
def record(cls: type[Record]) -> type[Record]:
    """A frozen dataclass with slots whose fields are declared by `wire_field`."""
    made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    _FIELDS[made] = tuple(
        dataclasses.replace(field.metadata["declared"], name=field.name)
        for field in dataclasses.fields(made)  # type: ignore[arg-type]  # mypy does not know that it is a dataclass now
    )
    return made


def fields_of(cls: type[object]) -> tuple[Field, ...]:
    """The declared fields of a `record` class, in the order of the wire."""
    return _FIELDS[cls]


@dataclass(frozen=True, slots=True)
class _Format:
    """Parameters of a field's wire format."""

    version: int
    is_flexible: bool
    release: Release | None

    def has(self, field: Field) -> bool:
        return field.is_in(self.version, self.release)


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity, so that readers are cached by schema
class Schema:
    """The layout of a key or of a value in all its versions; flexible (KIP-482) from `flexible_since` on."""

    record: type[object]
    flexible_since: int | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        return fields_of(self.record)

    def reader(self, version: int, release: Release | None = None) -> Reader:
        """The reader of `version`: it takes (buf, pos) after the version number and raises wire.Unreadable."""
        return _schema_reader(self, version, release)

    def writer(self, version: int, release: Release | None = None) -> Writer:
        """The writer of `version`: it appends after the version number; ValueError for a value that does not fit."""
        return _schema_writer(self, version, release)

    def is_flexible(self, version: int) -> bool:
        """Whether `version` uses compact lengths and tagged fields."""
        return self.flexible_since is not None and version >= self.flexible_since


@cache
def _schema_reader(schema: Schema, version: int, release: Release | None) -> Reader:
    return _struct_reader(schema.record, _Format(version, schema.is_flexible(version), release))


@cache
def _schema_writer(schema: Schema, version: int, release: Release | None) -> Writer:
    return _struct_writer(schema.record, _Format(version, schema.is_flexible(version), release))


_Put = Callable[[Any, Any], None]


def _struct_reader(cls: type[object], form: _Format) -> Reader:
    """The reader of a record: it fills the slots one by one, which takes a third of the time of a frozen __init__."""
    new = object.__new__
    put: dict[str, _Put] = {field.name: getattr(cls, field.name).__set__ for field in fields_of(cls)}
    readers = [(field, _field_reader(field, form)) for field in fields_of(cls) if form.has(field)]
    in_order = [(put[field.name], read) for field, read in readers if field.tag is None]
    by_tag = {field.tag: (put[field.name], read) for field, read in readers if field.tag is not None}
    is_read = {field.name for field, _ in readers if field.tag is None}
    absent = [(put[field.name], field.absent) for field in fields_of(cls) if field.name not in is_read]

    def read_struct(buf: bytes, pos: int) -> tuple[Any, int]:
        found = new(cls)
        for put_absent, value in absent:
            put_absent(found, value)
        for put_value, read in in_order:
            value, pos = read(buf, pos)
            put_value(found, value)
        return found, _read_tags(buf, pos, by_tag, found) if form.is_flexible else pos

    return read_struct


def _read_tags(buf: bytes, pos: int, by_tag: Mapping[int, tuple[_Put, Reader]], found: Any) -> int:
    count, pos = wire.read_uvarint(buf, pos)
    for _ in range(count):
        tag, pos = wire.read_uvarint(buf, pos)
        size, pos = wire.read_uvarint(buf, pos)
        if tag in by_tag:
            put_value, read = by_tag[tag]
            value, pos = read(buf, pos)
            put_value(found, value)
        else:
            _, pos = wire.read_slice(buf, pos, size)
    return pos


def _is_nullable_struct(field: Field) -> bool:
    return isinstance(field.kind, Struct) and field.kind.nullable


def _field_reader(field: Field, form: _Format) -> Reader:
    read_present = _reader(field.kind, field.kafka_name, form)
    if not _is_nullable_struct(field):
        return read_present
    read_mark = wire.read_i8 if field.tag is None else wire.read_uvarint
    null_mark = -1 if field.tag is None else 0

    def read_nullable(buf: bytes, pos: int) -> tuple[Any, int]:
        mark, pos = read_mark(buf, pos)
        return (None, pos) if mark <= null_mark else read_present(buf, pos)

    return read_nullable


def _reader(kind: Kind, kafka_name: str, form: _Format) -> Reader:
    match kind:
        case Fixed():
            return kind.read
        case Text():
            return wire.string_reader(kafka_name, compact=form.is_flexible, nullable=kind.nullable)
        case Blob():
            return wire.bytes_reader(kafka_name, compact=form.is_flexible, nullable=kind.nullable)
        case Array():
            read_item = _reader(kind.item, f"{kafka_name} element", form)
            return wire.array_reader(kafka_name, read_item, compact=form.is_flexible, nullable=kind.nullable)
        case Struct():
            return _struct_reader(kind.record, form)


def _struct_writer(cls: type[object], form: _Format) -> Writer:
    writers = [(field, _field_writer(field, form)) for field in fields_of(cls) if form.has(field)]
    in_order = [(field.name, write) for field, write in writers if field.tag is None]
    tagged = [(field.tag, field, write) for field, write in writers if field.tag is not None]

    def write_struct(value: Any, out: bytearray) -> None:
        if not isinstance(value, cls):
            raise ValueError(f"expected a {cls.__name__}, got a {type(value).__name__}")
        for name, write in in_order:
            write(getattr(value, name), out)
        if form.is_flexible:
            _write_tags(tagged, value, out)

    return write_struct


def _write_tags(tagged: list[tuple[int, Field, Writer]], record: Any, out: bytearray) -> None:
    payloads: dict[int, bytearray] = {}
    for tag, field, write in tagged:
        value = getattr(record, field.name)
        if value != field.absent:
            write(value, payloads.setdefault(tag, bytearray()))
    wire.write_uvarint(len(payloads), out)
    for tag, payload in sorted(payloads.items()):
        wire.write_uvarint(tag, out)
        wire.write_uvarint(len(payload), out)
        out += payload


def _field_writer(field: Field, form: _Format) -> Writer:
    write_present = _writer(field.kind, form)
    if not _is_nullable_struct(field):
        return write_present
    write_mark = wire.write_i8 if field.tag is None else wire.write_uvarint
    null_mark = -1 if field.tag is None else 0

    def write_nullable(value: Any, out: bytearray) -> None:
        write_mark(null_mark if value is None else 1, out)
        if value is not None:
            write_present(value, out)

    return write_nullable


def _writer(kind: Kind, form: _Format) -> Writer:
    match kind:
        case Fixed():
            return kind.write
        case Text():
            return wire.string_writer(compact=form.is_flexible, nullable=kind.nullable)
        case Blob():
            return wire.bytes_writer(compact=form.is_flexible, nullable=kind.nullable)
        case Array():
            return wire.array_writer(_writer(kind.item, form), compact=form.is_flexible, nullable=kind.nullable)
        case Struct():
            return _struct_writer(kind.record, form)
