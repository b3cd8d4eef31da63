"""The two checksums of Kafka's log: CRC-32C (Castagnoli) over a v2 batch, CRC-32 (IEEE) over a v0 or v1 message.

Compiled slicing-by-8: neither the standard library nor the other libraries allowed here have CRC-32C, and the
compiled kernels call `crc32c_range` and `crc32_range` from inside their own loops.
"""

from typing import TypeAlias

import numba
import numpy as np
import numpy.typing as npt

U8Array: TypeAlias = npt.NDArray[np.uint8]


def _tables(reversed_polynomial: int) -> npt.NDArray[np.uint32]:
    """The 8 tables of slicing-by-8: row k advances a byte that k more bytes follow."""
    tables = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (reversed_polynomial if crc & 1 else 0)
        tables[0, byte] = crc
    for k in range(1, 8):
        before = tables[k - 1]
        tables[k] = (before >> np.uint32(8)) ^ tables[0][before & np.uint32(0xFF)]
    return tables


_CASTAGNOLI = _tables(0x82F63B78)
_IEEE = _tables(0xEDB88320)


@numba.njit(cache=True, nogil=True, inline="never")
def _advance(tables, state, data, start, end):  # type: ignore[no-untyped-def]
    at = start
    while at + 8 <= end:
        low = np.uint32(state) ^ (
            np.uint32(data[at])
            | (np.uint32(data[at + 1]) << np.uint32(8))
            | (np.uint32(data[at + 2]) << np.uint32(16))
            | (np.uint32(data[at + 3]) << np.uint32(24))
        )
        state = (
            tables[7, low & np.uint32(0xFF)]
            ^ tables[6, (low >> np.uint32(8)) & np.uint32(0xFF)]
            ^ tables[5, (low >> np.uint32(16)) & np.uint32(0xFF)]
            ^ tables[4, low >> np.uint32(24)]
            ^ tables[3, data[at + 4]]
            ^ tables[2, data[at + 5]]
            ^ tables[1, data[at + 6]]
            ^ tables[0, data[at + 7]]
        )
        at += 8
    while at < end:
        state = np.uint32(np.uint32(state) >> np.uint32(8)) ^ tables[0, (np.uint32(state) ^ data[at]) & np.uint32(0xFF)]
        at += 1
    return np.uint32(state)


@numba.njit(cache=True, nogil=True)
def crc32c_range(data, start, end):  # type: ignore[no-untyped-def]
    """CRC-32C of `data[start:end]` (uint8); for compiled callers, which check the bounds themselves."""
    return _advance(_CASTAGNOLI, np.uint32(0xFFFFFFFF), data, start, end) ^ np.uint32(0xFFFFFFFF)


@numba.njit(cache=True, nogil=True)
def crc32_range(data, start, end):  # type: ignore[no-untyped-def]
    """CRC-32 of `data[start:end]` (uint8); for compiled callers, which check the bounds themselves."""
    return _advance(_IEEE, np.uint32(0xFFFFFFFF), data, start, end) ^ np.uint32(0xFFFFFFFF)


def as_u8(data: bytes | bytearray | memoryview | U8Array) -> U8Array:
    """The bytes of `data` as a read-only array, without a copy: one type, so that kernels are compiled once."""
    view = np.asarray(data).view() if isinstance(data, np.ndarray) else np.frombuffer(data, dtype=np.uint8)
    view.flags.writeable = False
    return view


def crc32c(data: bytes | bytearray | memoryview | U8Array, value: int = 0) -> int:
    """CRC-32C of `data`, going on from `value` (the CRC of what came before)."""
    view = as_u8(data)
    state = np.uint32(value ^ 0xFFFFFFFF)
    return int(_advance(_CASTAGNOLI, state, view, 0, len(view))) ^ 0xFFFFFFFF
