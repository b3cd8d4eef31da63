"""Declare a record layout once; the readers and writers of every version are derived from the declaration.

A decoded record is a dict with every declared field in the declared order, whatever the version: a field that the
version does not have, and a tagged field that was not written, has its `absent` value. Wire values stay as they are
(-1, "", the zero UUID). Kafka 4.x gave values fields that their version does not tell of, most of them tagged: with a
release, records are read and written as its coordinator does, to which the tag of a later field is an unknown one.

Follows Kafka's MessageDataGenerator: unknown tags are skipped by their size; the size of a known tag is not looked
at, because Kafka does not look either; a tag that comes twice counts once, the last; bytes behind the message are
ignored. Encoding leaves out a tagged field that equals its `absent` value, and drops a field that the version cannot
hold, as Kafka does with fields marked ignorable, which all of those here are.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any
from uuid import UUID

from sexton.records import wire
from sexton.records.wire import Reader, Writer

ZERO_UUID = UUID(int=0)

Release = tuple[int, ...]  # (4, 1) or (4, 1, 2)


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()  # the `absent` of a field that every version has: there is nothing to put in its place


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
    """A string; None where it may be null and is."""

    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Blob:
    """A byte string."""

    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Array:
    """A list of `item`; the items themselves are never null."""

    item: "Kind"
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields within a field, decoded to a dict."""

    fields: tuple["Field", ...]
    nullable: bool = False


Kind = Fixed | Text | Blob | Array | Struct


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a layout: our `name`, how it looks on the wire, and in which versions it is there.

    `since` is the first version that has it, `only` the single one. With a `tag` it is a tagged field (KIP-482).
    `new_in` is the first Kafka release that has it, (major, minor), of a field that came without a new version.
    `absent` is its value where it is not on the wire. `note` says which KIP or release brought it.
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
    note: str = ""

    @property
    def kafka_name(self) -> str:
        """Kafka's own name of the field, as kafka-dump-log and error texts show it."""
        head, *rest = self.name.split("_")
        return self.renamed_from or head + "".join(map(str.capitalize, rest))

    def is_in(self, version: int, release: Release | None = None) -> bool:
        """Say whether records of `version` have this field, as `release` knows them; None is the newest."""
        if release is not None and self.new_in is not None and release[:2] < self.new_in:
            return False
        return version >= self.since if self.only is None else version == self.only


@dataclass(frozen=True, slots=True)
class _Format:
    """What decides how a field lies on the wire."""

    version: int
    is_flexible: bool
    release: Release | None

    def has(self, field: Field) -> bool:
        return field.is_in(self.version, self.release)


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity, so that readers are cached by schema
class Schema:
    """The layout of a key or of a value in all its versions; flexible (KIP-482) from `flexible_since` on."""

    fields: tuple[Field, ...]
    flexible_since: int | None = None

    def reader(self, version: int, release: Release | None = None) -> Reader:
        """Give the reader of `version`: it takes (buf, pos) behind the version number and raises wire.Unreadable."""
        return _schema_reader(self, version, release)

    def writer(self, version: int, release: Release | None = None) -> Writer:
        """Give the writer of `version`: it appends behind the version number; ValueError for a misfit."""
        return _schema_writer(self, version, release)

    def is_flexible(self, version: int) -> bool:
        """Say whether `version` uses compact lengths and tagged fields."""
        return self.flexible_since is not None and version >= self.flexible_since


@cache
def _schema_reader(schema: Schema, version: int, release: Release | None) -> Reader:
    return _struct_reader(schema.fields, _Format(version, schema.is_flexible(version), release))


@cache
def _schema_writer(schema: Schema, version: int, release: Release | None) -> Writer:
    return _struct_writer(schema.fields, _Format(version, schema.is_flexible(version), release))


def _struct_reader(fields: tuple[Field, ...], form: _Format) -> Reader:
    absent = {field.name: field.absent for field in fields}
    absent_containers = [(name, value) for name, value in absent.items() if isinstance(value, list | dict)]
    readers = [(field, _field_reader(field, form)) for field in fields if form.has(field)]
    in_order = [(field.name, read) for field, read in readers if field.tag is None]
    by_tag = {field.tag: (field.name, read) for field, read in readers if field.tag is not None}

    def read_struct(buf: bytes, pos: int) -> tuple[dict[str, Any], int]:
        values = absent.copy()
        for name, value in absent_containers:
            values[name] = deepcopy(value)  # who gets a record may change it
        for name, read in in_order:
            values[name], pos = read(buf, pos)
        return values, _read_tags(buf, pos, by_tag, values) if form.is_flexible else pos

    return read_struct


def _read_tags(buf: bytes, pos: int, by_tag: Mapping[int, tuple[str, Reader]], values: dict[str, Any]) -> int:
    count, pos = wire.read_uvarint(buf, pos)
    for _ in range(count):
        tag, pos = wire.read_uvarint(buf, pos)
        size, pos = wire.read_uvarint(buf, pos)
        if tag in by_tag:
            name, read = by_tag[tag]
            values[name], pos = read(buf, pos)
        else:
            _, pos = wire.read_slice(buf, pos, size)
    return pos


def _field_reader(field: Field, form: _Format) -> Reader:
    if isinstance(field.kind, Struct) and field.kind.nullable:
        read_mark = wire.read_i8 if field.tag is None else wire.read_uvarint
        null_mark = -1 if field.tag is None else 0
        read_present = _struct_reader(field.kind.fields, form)

        def read_nullable(buf: bytes, pos: int) -> tuple[dict[str, Any] | None, int]:
            mark, pos = read_mark(buf, pos)
            return (None, pos) if mark <= null_mark else read_present(buf, pos)

        return read_nullable
    return _reader(field.kind, field.kafka_name, form)


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
            return _struct_reader(kind.fields, form)


def _struct_writer(fields: tuple[Field, ...], form: _Format) -> Writer:
    names = {field.name for field in fields}
    writers = [(field, _field_writer(field, form)) for field in fields if form.has(field)]
    in_order = [(field, write) for field, write in writers if field.tag is None]
    tagged = [(field.tag, field, write) for field, write in writers if field.tag is not None]

    def write_struct(values: Mapping[str, Any], out: bytearray) -> None:
        if not values.keys() <= names:
            raise ValueError(f"no such field: {', '.join(sorted(values.keys() - names))}")
        for field, write in in_order:
            write(_value_of(field, values), out)
        if form.is_flexible:
            _write_tags(tagged, values, out)

    return write_struct


def _value_of(field: Field, values: Mapping[str, Any]) -> Any:
    value = values.get(field.name, field.absent)
    if value is REQUIRED:
        raise ValueError(f"field {field.name} is missing")
    return value


def _write_tags(tagged: list[tuple[int, Field, Writer]], values: Mapping[str, Any], out: bytearray) -> None:
    payloads: dict[int, bytearray] = {}
    for tag, field, write in tagged:
        value = _value_of(field, values)
        if value != field.absent:
            write(value, payloads.setdefault(tag, bytearray()))
    wire.write_uvarint(len(payloads), out)
    for tag, payload in sorted(payloads.items()):
        wire.write_uvarint(tag, out)
        wire.write_uvarint(len(payload), out)
        out += payload


def _field_writer(field: Field, form: _Format) -> Writer:
    if isinstance(field.kind, Struct) and field.kind.nullable:
        write_mark = wire.write_i8 if field.tag is None else wire.write_uvarint
        null_mark = -1 if field.tag is None else 0
        write_present = _struct_writer(field.kind.fields, form)

        def write_nullable(value: Mapping[str, Any] | None, out: bytearray) -> None:
            write_mark(null_mark if value is None else 1, out)
            if value is not None:
                write_present(value, out)

        return write_nullable
    return _writer(field.kind, form)


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
            return _struct_writer(kind.fields, form)
