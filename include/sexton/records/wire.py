"""Kafka's primitive encodings: readers `(buf, pos) -> (value, next pos)` and writers `(value, out)`.

Follows ByteBufferAccessor, ByteUtils and the readers that Kafka's MessageDataGenerator generates (KIP-482 for the
compact ones), down to which lengths they refuse and how a varint wraps. A length is compared with the remaining bytes
before anything is allocated for it. schema.py combines these encodings into records.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from sexton.records.utf8 import REPLACE_LIKE_JAVA

Reader = Callable[[bytes, int], tuple[Any, int]]
LengthReader = Callable[[bytes, int], tuple[int, int]]
Writer = Callable[[Any, bytearray], None]

MAX_STRING_BYTES = 0x7FFF


MAX_ITEMS = 1_000_000
"""Limit of decoded array items per record, in all its arrays together: a compressed batch of a few kilobytes may
contain tens of millions of items of one to three bytes, and each becomes an object of a hundred bytes or more."""


class Measured(bytes):
    """The bytes of a record that is large enough to contain more than MAX_ITEMS."""

    items = 0


def measured(buf: bytes) -> bytes:
    """`buf`, as Measured if it could contain more than MAX_ITEMS items: each has at least one byte."""
    return Measured(buf) if len(buf) > MAX_ITEMS else buf


class TooManyItems(Exception):
    """A record with more than MAX_ITEMS items, which a coordinator would read if its heap is large enough."""


class Unreadable(Exception):
    """Bytes that do not match the schema; the text has the expected value, the position and the actual value.

    Private to this package: decode_key, decode_value and decode_subscription turn it into a MalformedRecord.
    """


class Underflow(Unreadable):
    """The bytes end inside a value of fixed size: Java's BufferUnderflowException, which some callers handle."""


class TooShort(Unreadable):
    """The bytes end inside a string or before the last item of a list: before the checks of Kafka 2.8.2 an Underflow,
    too."""


def fixed_reader(layout: str, what: str) -> Reader:
    """Make the reader of a number of fixed size; `layout` is a struct format."""
    packed = struct.Struct(layout)
    unpack, size = packed.unpack_from, packed.size

    def read_fixed(buf: bytes, pos: int) -> tuple[Any, int]:
        try:
            return unpack(buf, pos)[0], pos + size
        except struct.error:
            raise Underflow(f"{what} at byte {pos}, where {max(len(buf) - pos, 0)} bytes are left") from None

    return read_fixed


def fixed_writer(layout: str) -> Writer:
    """Make the writer of a number of fixed size; it raises struct.error for a number that does not fit."""
    pack = struct.Struct(layout).pack

    def write_fixed(value: Any, out: bytearray) -> None:
        out += pack(value)

    return write_fixed


read_i8: LengthReader = fixed_reader(">b", "int8")
read_i16: LengthReader = fixed_reader(">h", "int16")
read_i32: LengthReader = fixed_reader(">i", "int32")
write_i8 = fixed_writer(">b")
write_i16 = fixed_writer(">h")
write_i32 = fixed_writer(">i")


def read_uvarint(buf: bytes, pos: int) -> tuple[int, int]:
    """Decode an unsigned varint of at most 5 bytes into a Java int, which wraps to negative from 2**31 on."""
    value = 0
    for index in range(5):
        if pos + index >= len(buf):
            raise Underflow(f"varint at byte {pos}, where {max(len(buf) - pos, 0)} bytes are left")
        byte = buf[pos + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return _as_java_int(value), pos + index + 1
    raise Unreadable(
        f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {value & 0xFFFFFFFF:x}"
    )


def write_uvarint(value: int, out: bytearray) -> None:
    """Encode a number from 0 to 2**32 - 1 in as few bytes as possible."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_compact_length(buf: bytes, pos: int) -> tuple[int, int]:
    """Decode a KIP-482 length, which is stored plus one; negative means null."""
    stored, pos = read_uvarint(buf, pos)
    return _as_java_int(stored - 1), pos


def read_slice(buf: bytes, pos: int, size: int, error: type[Unreadable] = Unreadable) -> tuple[bytes, int]:
    """Take `size` bytes at `pos`; refuse a size that is negative or beyond the end."""
    end = pos + size
    if size < 0 or end > len(buf):
        raise error(f"Error reading byte array of {size} byte(s): only {len(buf) - pos} byte(s) available")
    return buf[pos:end], end


def read_uuid(buf: bytes, pos: int) -> tuple[UUID, int]:
    """Decode 16 bytes, most significant first; all zero is Kafka's ZERO_UUID and stays as it is."""
    if pos + 16 > len(buf):
        raise Underflow(f"uuid at byte {pos}, where {max(len(buf) - pos, 0)} bytes are left")
    return UUID(bytes=buf[pos : pos + 16]), pos + 16


def write_uuid(value: UUID, out: bytearray) -> None:
    """Encode a UUID in 16 bytes, most significant first."""
    out += value.bytes


def string_reader(wire_name: str, *, compact: bool, nullable: bool) -> Reader:
    """Make the reader of a string; `wire_name` is Kafka's name of the field, for error texts."""
    read_length = read_compact_length if compact else read_i16

    def read_string(buf: bytes, pos: int) -> tuple[str | None, int]:
        size, pos = read_length(buf, pos)
        if size < 0:
            _check_null(wire_name, nullable=nullable)
            return None, pos
        if size > MAX_STRING_BYTES:
            raise Unreadable(f"string field {wire_name} had invalid length {size}")
        end = pos + size
        if end > len(buf):
            read_slice(buf, pos, size, TooShort)  # raises
        return str(buf[pos:end], "utf-8", REPLACE_LIKE_JAVA), end

    return read_string


def bytes_reader(wire_name: str, *, compact: bool, nullable: bool) -> Reader:
    """Make the reader of a byte string."""
    read_length = read_compact_length if compact else read_i32

    def read_bytes(buf: bytes, pos: int) -> tuple[bytes | None, int]:
        size, pos = read_length(buf, pos)
        if size < 0:
            _check_null(wire_name, nullable=nullable)
            return None, pos
        return read_slice(buf, pos, size)

    return read_bytes


def array_reader(wire_name: str, read_item: Reader, *, compact: bool, nullable: bool) -> Reader:
    """Make the reader of a list; as in Kafka, more items than bytes left are refused before the first is read."""
    read_length = read_compact_length if compact else read_i32

    def read_array(buf: bytes, pos: int) -> tuple[tuple[Any, ...] | None, int]:
        count, pos = read_length(buf, pos)
        if count < 0:
            _check_null(wire_name, nullable=nullable)
            return None, pos
        if count > len(buf) - pos:
            raise TooShort(
                f"Tried to allocate a collection of size {count}, but there are only {len(buf) - pos} bytes remaining."
            )
        if isinstance(buf, Measured):
            buf.items += count
            if buf.items > MAX_ITEMS:
                raise TooManyItems(f"{buf.items:,} items in {len(buf):,} bytes: at most {MAX_ITEMS:,} can be decoded")
        items = []
        for _ in range(count):
            item, pos = read_item(buf, pos)
            items.append(item)
        return tuple(items), pos

    return read_array


def sized_writer(*, compact: bool, nullable: bool, write_classic_length: Writer) -> Writer:
    """Make the writer of a length, or of None as null where the field may be null."""

    def write_size(size: int | None, out: bytearray) -> None:
        if size is None and not nullable:
            raise ValueError("null in a field that cannot be null")
        if compact:
            write_uvarint(0 if size is None else size + 1, out)
        else:
            write_classic_length(-1 if size is None else size, out)

    return write_size


def string_writer(*, compact: bool, nullable: bool) -> Writer:
    """Make the writer of a string; it raises ValueError for a string longer than Kafka can read."""
    write_size = sized_writer(compact=compact, nullable=nullable, write_classic_length=write_i16)

    def write_string(value: str | None, out: bytearray) -> None:
        data = None if value is None else value.encode()
        if data is not None and len(data) > MAX_STRING_BYTES:
            raise ValueError(f"string of {len(data)} bytes: at most {MAX_STRING_BYTES} can be encoded")
        write_size(None if data is None else len(data), out)
        out += data or b""

    return write_string


def bytes_writer(*, compact: bool, nullable: bool) -> Writer:
    """Make the writer of a byte string."""
    write_size = sized_writer(compact=compact, nullable=nullable, write_classic_length=write_i32)

    def write_bytes(value: bytes | None, out: bytearray) -> None:
        write_size(None if value is None else len(value), out)
        out += value or b""

    return write_bytes


def array_writer(write_item: Writer, *, compact: bool, nullable: bool) -> Writer:
    """Make the writer of a list."""
    write_size = sized_writer(compact=compact, nullable=nullable, write_classic_length=write_i32)

    def write_array(items: Sequence[Any] | None, out: bytearray) -> None:
        write_size(None if items is None else len(items), out)
        for item in items or ():
            write_item(item, out)

    return write_array


def _check_null(wire_name: str, *, nullable: bool) -> None:
    if not nullable:
        raise Unreadable(f"non-nullable field {wire_name} was serialized as null")


def _as_java_int(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
