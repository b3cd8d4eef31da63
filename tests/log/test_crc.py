"""Checksums against known answers, the standard library, and themselves in two steps."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.log import crc
from sexton.log.crc import crc32_range, crc32c, crc32c_range


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


@settings(deadline=None)
@given(st.binary(max_size=100), st.binary(max_size=100))
def test_goes_on_from_what_came_before(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(memoryview(first + second))


@settings(deadline=None)
@given(st.binary(max_size=100), st.integers(0, 20), st.integers(0, 20))
def test_ranges(data: bytes, before: int, after: int) -> None:
    padded = np.frombuffer(bytes(before) + data + bytes(after), dtype=np.uint8)
    end = before + len(data)
    assert crc32c_range(padded, before, end) == crc32c(data)
    assert crc32_range(padded, before, end) == zlib.crc32(data)


@settings(deadline=None)
@given(st.binary(max_size=100), st.integers(0, 0xFFFFFFFF))
def test_tables_and_the_processor_agree(data: bytes, state: int) -> None:
    view = crc.as_u8(data)
    by_tables = crc._crc32c_by_tables(np.uint32(state), view, 0, len(view))
    assert by_tables == crc._crc32c_state(np.uint32(state), view, 0, len(view))
