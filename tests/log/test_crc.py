"""Checksums against known answers, the standard library, and themselves in two steps."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.jit.compiled import compiled
from sexton.jit.memory import pointer
from sexton.log import crc
from sexton.log.batch import Batch, read_batches
from sexton.log.crc import as_u8, crc32c
from sexton.log.message_set import encode_message


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
    ids=["nothing", "check", "zeros", "ones", "rising"],
)
def test_known_answers(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_goes_on_from_what_came_before(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(memoryview(first + second))


@compiled
def _of_range(data, start, end):
    return crc.crc32c_of(pointer(data), start, end)


@given(st.binary(max_size=100), st.integers(0, 20), st.integers(0, 20))
def test_ranges(data: bytes, before: int, after: int) -> None:
    padded = np.frombuffer(bytes(before) + data + bytes(after), dtype=np.uint8)
    assert _of_range(padded, before, before + len(data)) == crc32c(data)


@given(st.binary(max_size=100))
def test_crc_of_the_old_formats(value: bytes) -> None:
    # zlib's sum was written; the reader's own must agree with it.
    (message,) = read_batches(encode_message(None, value, offset=0, magic=0))
    assert isinstance(message, Batch)
    assert message.crc_ok


@numba.njit
def both_ways(state, data):  # type: ignore[no-untyped-def]
    """By tables, and in the way of this machine."""
    at, size = pointer(data), len(data)
    return crc._crc32c_by_tables(state, at, 0, size), crc._crc32c_state(state, at, 0, size)


@given(st.binary(max_size=100), st.integers(0, 0xFFFFFFFF))
def test_tables_and_the_processor_agree(data: bytes, state: int) -> None:
    by_tables, as_here = both_ways(np.uint32(state), as_u8(data))
    assert by_tables == as_here
