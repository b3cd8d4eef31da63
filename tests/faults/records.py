"""Keys, values and subscriptions: random ones of every type and version, and ways to spoil them."""

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

from sexton.log.batch import Record, read_records
from sexton.records import RECORD_TYPES, Schema
from sexton.records.schema import Array, Blob, Field, Fixed, Kind, Struct, Text
from tests.faults.logs import batches_in, recordings
from tests.log_builder import subscription
from tests.record_fields import encode_key, encode_value

ALL_VERSIONS = [(number, version) for number, declared in RECORD_TYPES.items() for version in declared.versions]
_TEXTS = ("", "t", "consumer", "группа", "日本😀", "x" * 200, "\0")
_BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}


def random_key(number: int, random: Random) -> bytes:
    return encode_key(number, _fields(RECORD_TYPES[number].key, 0, random))


def random_value(number: int, version: int, random: Random) -> bytes:
    return encode_value(number, version, _fields(RECORD_TYPES[number].value, version, random))


def _fields(schema: Schema, version: int, random: Random) -> dict[str, Any]:
    return {field.name: _field(field, version, random) for field in schema.fields}


def _field(field: Field, version: int, random: Random) -> Any:
    if not field.is_in(version) or (field.tag is not None and random.random() < 0.5):
        return field.absent
    return _any(field.kind, version, random)


def _any(kind: Kind, version: int, random: Random) -> Any:
    if not isinstance(kind, Fixed) and kind.nullable and random.random() < 0.2:
        return None
    match kind:
        case Fixed(what="uuid"):
            return UUID(int=random.choice([0, 7, random.getrandbits(128)]))
        case Fixed(what=what):
            value = random.choice([0, 1, random.getrandbits(_BITS[what]), (1 << _BITS[what]) - 1])
            return value if what == "uint16" or value < 1 << _BITS[what] - 1 else value - (1 << _BITS[what])
        case Text():
            return random.choice(_TEXTS)
        case Blob():
            return random.choice([b"", subscription("t", "u"), random.randbytes(9)])
        case Array(item=item):
            return [_any(item, version, random) for _ in range(random.choice([0, 1, 1, 2, 5]))]
        case Struct(fields=fields):
            return {field.name: _field(field, version, random) for field in fields}


@cache
def recorded_pairs() -> list[tuple[bytes, bytes | None]]:
    """Key and value of every record that a recorded broker wrote, in no order, each pair once."""
    found = {
        (record.key, record.value)
        for log in recordings().values()
        for batch in batches_in(log)
        if not batch.is_control
        for record in read_records(batch, cap_bytes=1 << 20)
        if isinstance(record, Record) and record.key is not None
    }
    return sorted(found, key=repr)


# --- what can happen to a field

INTERESTING = (
    b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\x7f\xff", b"\x80\0", b"\xff" * 4, b"\x7f\xff\xff\xff",
    b"\x80\0\0\0", b"\xff" * 8, b"\x80\x80\x80\x80\x08", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80" * 11, b"\xed\xa0\x80",
)  # fmt: skip


def spoiled(data: bytes, random: Random) -> bytes:
    """`data` after a few changes of the kinds that fuzzers make."""
    for _ in range(random.choice([1, 1, 1, 2, 3, 8])):
        data = random.choice(_CHANGES)(data, random)
    return data


def _overwritten(data: bytes, random: Random) -> bytes:
    at, piece = random.randrange(len(data) + 1), random.choice(INTERESTING)
    return data[:at] + piece + data[at + len(piece) :]


def _inserted(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice([random.choice(INTERESTING), random.randbytes(3)]) + data[at:]


def _flipped(data: bytes, random: Random) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _without_a_piece(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + data[at + random.randrange(1, 9) :]


def _repeated(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + data[at : at + 16] * 2 + data[at + 16 :]


def _other(data: bytes, random: Random) -> bytes:
    return random.randbytes(random.randrange(64))


_CHANGES: tuple[Callable[[bytes, Random], bytes], ...] = (
    _flipped, _flipped, _overwritten, _overwritten, _inserted, _without_a_piece, _repeated, _cut, _other,
)  # fmt: skip
