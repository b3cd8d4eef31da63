"""UTF-8 as Java reads it (`records.decode_utf8`, over bytes in arenas), and the log partition of a group.

The canonical form of a string is the UTF-8 of what Java's `new String(bytes, UTF_8)` makes of it: malformed bytes
become U+FFFD, in JDK's own grouping (java.lang.String.decodeUTF8_UTF16). A group's log partition is that of
`coordinator.partitioner.partition_of` (Utils.abs(groupId.hashCode) % partitions).
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled
from sexton.jit.memory import is_ascii

GROWTH = 3
"""The canonical form is at most this many times as long: one malformed byte becomes U+FFFD, three bytes."""


@compiled
def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80


@compiled
def _bad_second(lead: int, second: int) -> bool:
    """Whether `second` cannot follow a `lead` of three or four bytes (overlong, beyond U+10FFFF, no continuation)."""
    if lead == 0xE0:
        return second & 0xE0 != 0xA0
    if lead == 0xF0:
        return second < 0x90 or second > 0xBF
    if lead == 0xF4:
        return second & 0xF0 != 0x80
    return lead > 0xF4 or not _continues(second)


@compiled
def _step(data: Any, pos: int, end: int) -> tuple[int, bool]:
    """The number of bytes of the character at `pos`, and whether they are malformed, so that Java reads one U+FFFD."""
    lead = data[pos]
    left = end - pos
    if lead < 0x80:
        return 1, False
    if lead < 0xC2 or lead > 0xF4:
        return 1, True
    if lead < 0xE0:
        return (2, False) if left > 1 and _continues(data[pos + 1]) else (1, True)
    if left < 2 or _bad_second(lead, data[pos + 1]):
        return 1, True
    if left < 3 or not _continues(data[pos + 2]):
        return 2, True
    if lead < 0xF0:
        return 3, lead == 0xED and data[pos + 1] >= 0xA0  # an encoded surrogate is one U+FFFD
    if left < 4 or not _continues(data[pos + 3]):
        return 3, True
    return 4, False


@compiled
def is_canonical(data: Any, start: int, size: int) -> bool:
    """Whether the span is well-formed UTF-8, so that it is its own canonical form."""
    if is_ascii(data, start, size):
        return True
    pos = start
    end = start + size
    while pos < end:
        step, bad = _step(data, pos, end)
        if bad:
            return False
        pos += step
    return True


@compiled
def canonicalise(data: Any, start: int, size: int, out: Any, at: int) -> int:
    """Write the canonical form of the span to `out` from `at`; return its size. `out` has space for GROWTH * size."""
    pos = start
    end = start + size
    to = at
    while pos < end:
        step, bad = _step(data, pos, end)
        if bad:
            out[to], out[to + 1], out[to + 2] = 0xEF, 0xBF, 0xBD
            to += 3
        else:
            for i in range(step):
                out[to + i] = data[pos + i]
            to += step
        pos += step
    return to - at


@compiled
def java_hash(data: Any, start: int, size: int) -> int:
    """String.hashCode of canonical UTF-8: over UTF-16 units, in 32 bits."""
    state = np.int64(0)
    pos = start
    end = start + size
    while pos < end:
        lead = np.int64(data[pos])
        if lead < 0x80:
            unit, pos = lead, pos + 1
        elif lead < 0xE0:
            unit, pos = (lead & 0x1F) << 6 | np.int64(data[pos + 1]) & 0x3F, pos + 2
        elif lead < 0xF0:
            unit = (lead & 0x0F) << 12 | (np.int64(data[pos + 1]) & 0x3F) << 6 | np.int64(data[pos + 2]) & 0x3F
            pos += 3
        else:
            point = (lead & 0x07) << 18 | (np.int64(data[pos + 1]) & 0x3F) << 12
            point |= (np.int64(data[pos + 2]) & 0x3F) << 6 | np.int64(data[pos + 3]) & 0x3F
            state = (31 * state + 0xD800 + ((point - 0x10000) >> 10)) & 0xFFFFFFFF
            unit, pos = 0xDC00 + ((point - 0x10000) & 0x3FF), pos + 4
        state = (31 * state + unit) & 0xFFFFFFFF
    return state - (1 << 32) if state >= 1 << 31 else state


@compiled
def partition_of(data: Any, start: int, size: int, partition_count: int) -> int:
    """The log partition of the group whose canonical id is the span."""
    hashed = java_hash(data, start, size)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partition_count
