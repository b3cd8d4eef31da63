"""The two checksums of Kafka's log: CRC-32C (Castagnoli) over a v2 batch, CRC-32 (IEEE) over a v0 or v1 message.

Compiled: neither the standard library nor the other dependencies have CRC-32C, and compiled code needs both checksums
in its loops. CRC-32C uses the processor's own instruction where it has one (x86-64 with SSE 4.2, ARMv8 with CRC), which
is five times as fast. Otherwise, and for CRC-32, tables process eight bytes per step ("slicing by 8").
"""

# Functions for numba have no type annotations that mypy could check.
# mypy: disable-error-code="no-untyped-def"

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sexton.jit.compiled import compiled
from sexton.jit.memory import CRC32C_INSTRUCTION, crc32c_of_8, pointer

U8Array: TypeAlias = npt.NDArray[np.uint8]

_ONES = np.uint32(0xFFFFFFFF)
_LOW = np.uint32(0xFF)


def _tables(reversed_polynomial: int) -> npt.NDArray[np.uint32]:
    """The 8 tables of slicing by 8: row k is for a byte that is followed by k more."""
    tables = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (reversed_polynomial if crc & 1 else 0)
        tables[0, byte] = crc
    for k in range(1, 8):
        before = tables[k - 1]
        tables[k] = (before >> np.uint32(8)) ^ tables[0][before & _LOW]
    return tables


_CASTAGNOLI = _tables(0x82F63B78)
_IEEE = _tables(0xEDB88320)


@compiled
def _by_byte(tables, state, data, start, end):
    for at in range(start, end):
        state = np.uint32(np.uint32(state) >> np.uint32(8)) ^ tables[0, (np.uint32(state) ^ data[at]) & _LOW]
    return np.uint32(state)


@compiled
def _by_tables(tables, state, data, start, end):
    at = start
    while at + 8 <= end:
        low = np.uint32(state) ^ (
            np.uint32(data[at])
            | (np.uint32(data[at + 1]) << np.uint32(8))
            | (np.uint32(data[at + 2]) << np.uint32(16))
            | (np.uint32(data[at + 3]) << np.uint32(24))
        )
        state = (
            tables[7, low & _LOW]
            ^ tables[6, (low >> np.uint32(8)) & _LOW]
            ^ tables[5, (low >> np.uint32(16)) & _LOW]
            ^ tables[4, low >> np.uint32(24)]
            ^ tables[3, data[at + 4]]
            ^ tables[2, data[at + 5]]
            ^ tables[1, data[at + 6]]
            ^ tables[0, data[at + 7]]
        )
        at += 8
    return _by_byte(tables, state, data, at, end)


@compiled
def _crc32c_by_instruction(state, data, start, end):
    at, state = start, np.uint32(state)
    while at + 8 <= end:
        state = crc32c_of_8(state, data, at)
        at += 8
    return _by_byte(_CASTAGNOLI, state, data, at, end)


@compiled
def _crc32c_by_tables(state, data, start, end):
    return _by_tables(_CASTAGNOLI, state, data, start, end)


_crc32c_state = _crc32c_by_instruction if CRC32C_INSTRUCTION else _crc32c_by_tables


@compiled
def crc32c_of(data, start, end):
    """CRC-32C of bytes [start, end) at the pointer `data`; for compiled callers, which check the bounds."""
    return _crc32c_state(_ONES, data, start, end) ^ _ONES


@compiled
def crc32_of(data, start, end):
    """CRC-32 of bytes [start, end) at the pointer `data`; for compiled callers, which check the bounds."""
    return _by_tables(_IEEE, _ONES, data, start, end) ^ _ONES


@compiled
def _crc32c_on(state, data):
    return _crc32c_state(state, pointer(data), 0, len(data))


def as_u8(data: bytes | bytearray | memoryview | U8Array) -> U8Array:
    """The bytes of `data` as a read-only array, without a copy: kernels are compiled for this one type."""
    view = np.asarray(data).view() if isinstance(data, np.ndarray) else np.frombuffer(data, dtype=np.uint8)
    view.flags.writeable = False
    return view


def crc32c(data: bytes | bytearray | memoryview | U8Array, value: int = 0) -> int:
    """CRC-32C of `data`, continued from `value` (the CRC of the bytes before them)."""
    return int(_crc32c_on(np.uint32(value ^ 0xFFFFFFFF), as_u8(data))) ^ 0xFFFFFFFF
