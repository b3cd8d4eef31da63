"""Zigzag variable-length integers of record format v2, as Kafka's ByteUtils reads and writes them."""

from functools import lru_cache


class BadVarint(ValueError):
    """A varint that is truncated or longer than its type allows."""


def read_varint(data: memoryview, pos: int, end: int) -> tuple[int, int]:
    """Decode a 32-bit zigzag varint at byte `pos`; return it and the next position."""
    return _read(data, pos, end, bits=32)


def read_varlong(data: memoryview, pos: int, end: int) -> tuple[int, int]:
    """Decode a 64-bit zigzag varint at byte `pos`; return it and the next position."""
    return _read(data, pos, end, bits=64)


def _read(data: memoryview, pos: int, end: int, *, bits: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        if pos >= end:
            raise BadVarint(f"varint at byte {pos} is cut off")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise BadVarint(f"varint of more than {bits} bits before byte {pos}")
    value &= (1 << bits) - 1  # the last byte may carry bits that Java shifts out
    return (value >> 1) ^ -(value & 1), pos


@lru_cache(maxsize=1 << 15)
def write_varint(value: int) -> bytes:
    """Encode a signed integer of up to 64 bits. Cached, because sizes and deltas repeat."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
