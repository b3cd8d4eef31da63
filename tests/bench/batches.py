"""Compiled: batches of offset commits one after another into memory, as a broker appends them.

The layouts are those of record batches of magic 2, OffsetCommitKey v1 and OffsetCommitValue v3, and end markers. CRCs
are valid. Everything that varies comes from one generator of pseudo-random numbers, so that the same seed gives the
same bytes however the work is cut.
"""

from typing import Any

import numpy as np

from sexton.jit.memory import pointer
from sexton.log.crc import crc32c_of
from tests.bench.compiled import compiled

HEADER_BYTES = 61
CONTROL = 0x20
MARKER_BYTES = HEADER_BYTES + 17
VALUE_BYTES = 24
RECORD_BYTES = 30
"""Above what a record needs besides the group and topic of its key, its value and its metadata."""

# where the writing of a log partition stands
OFFSET, BATCH, RECORD, RANDOM = range(4)

# columns of a mark, which tells of one batch
START, END, FIRST_OFFSET, LAST_OFFSET, TIMESTAMP_MS = range(5)
MARK_COLUMNS = 5

# the numbers that describe a log partition
(
    RECORDS, MEAN_RECORDS, PARTITIONS, METADATA_BYTES, FIRST_MS, SPAN_MS, LONGEST_NAMES, TRANSACTIONAL_PERMILLE,
    TOMBSTONE_PERMILLE, RETIRED_PERMILLE,
) = range(10)  # fmt: skip

PRODUCERS = 1000
ABORTED_PERMILLE = 100


@compiled
def _below(at: Any, limit: int) -> int:
    """The next pseudo-random number in [0, limit), by xorshift."""
    state = np.uint64(at[RANDOM])
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    at[RANDOM] = np.int64(state)
    return np.int64(state >> np.uint64(20)) % limit


@compiled
def _put(out: Any, at: int, value: int, size: int) -> int:
    for i in range(size):
        out[at + i] = (value >> (8 * (size - 1 - i))) & 0xFF
    return at + size


@compiled
def _varint(out: Any, at: int, value: int) -> int:
    left = (value << 1) ^ (value >> 63)
    while left & ~0x7F:
        out[at] = (left & 0x7F) | 0x80
        left >>= 7
        at += 1
    out[at] = left
    return at + 1


@compiled
def _varint_bytes(value: int) -> int:
    size, left = 1, (value << 1) ^ (value >> 63)
    while left & ~0x7F:
        left >>= 7
        size += 1
    return size


@compiled
def _seal(out: Any, start: int, end: int, offset: int, count: int, attributes: int, now_ms: int, pid: int) -> None:
    """Fill in the header of the batch that lies in [start, end)."""
    _put(out, start, offset, 8)
    _put(out, start + 8, end - start - 12, 4)
    _put(out, start + 12, 0, 4)
    out[start + 16] = 2
    _put(out, start + 21, attributes, 2)
    _put(out, start + 23, count - 1, 4)
    _put(out, start + 27, now_ms, 8)
    _put(out, start + 35, now_ms, 8)
    _put(out, start + 43, pid, 8)
    _put(out, start + 51, 0 if pid >= 0 else -1, 2)
    _put(out, start + 53, -1, 4)
    _put(out, start + 57, count, 4)
    _put(out, start + 17, np.int64(crc32c_of(pointer(out), start + 21, end)), 4)


@compiled
def _record(
    out: Any, at: int, delta: int, names: Any, name: int, name_bytes: int, partition: int, value_bytes: int,
    metadata_bytes: int, committed: int, now_ms: int,
) -> int:  # fmt: skip
    """One offset commit, or a tombstone when `value_bytes` is -1; returns where it ends."""
    key_bytes = name_bytes + 4
    size = 2 + _varint_bytes(delta) + _varint_bytes(key_bytes) + key_bytes
    size += _varint_bytes(value_bytes) + max(value_bytes, 0) + 1
    at = _varint(out, at, size)
    out[at] = 0
    out[at + 1] = 0  # no difference to the batch's timestamp
    at = _varint(out, at + 2, delta)
    at = _varint(out, at, key_bytes)
    for i in range(name_bytes):
        out[at + i] = names[name + i]
    at = _put(out, at + name_bytes, partition, 4)
    at = _varint(out, at, value_bytes)
    if value_bytes >= 0:
        at = _put(out, at, 3, 2)
        at = _put(out, at, committed, 8)
        at = _put(out, at, 0, 4)
        at = _put(out, at, metadata_bytes, 2)
        for i in range(metadata_bytes):
            out[at + i] = 97 + (committed + i) % 26
        at = _put(out, at + metadata_bytes, now_ms, 8)
    out[at] = 0
    return at + 1


@compiled
def _marker(out: Any, start: int, commits: bool, offset: int, now_ms: int, pid: int) -> int:
    """A control batch with one end marker; returns where it ends."""
    at = _varint(out, start + HEADER_BYTES, 16)
    for i in range(16):
        out[at + i] = 0
    out[at + 3] = 8  # key: 4 bytes, version 0, type
    out[at + 7] = 1 if commits else 0
    out[at + 8] = 12  # value: 6 bytes, version 0, coordinator epoch 0
    _seal(out, start, at + 16, offset, 1, 0x10 | CONTROL, now_ms, pid)
    return at + 16


@compiled
def _mark(marks: Any, row: int, start: int, end: int, first: int, last: int, now_ms: int) -> int:
    marks[row, START] = start
    marks[row, END] = end
    marks[row, FIRST_OFFSET] = first
    marks[row, LAST_OFFSET] = last
    marks[row, TIMESTAMP_MS] = now_ms
    return row + 1


@compiled
def write_batches(
    out: Any, marks: Any, at: Any, numbers: Any, names: Any, name_starts: Any, groups: Any
) -> tuple[int, int]:
    """Fill `out` with whole batches from where `at` stands; returns (bytes written, marks filled).

    `names` holds what all keys of a group begin with, from name_starts[group] on; `groups` are those that live in this
    log partition. Those at the end of it, by RETIRED_PERMILLE, commit in the first third of the log only.
    """
    limit = 2 * numbers[MEAN_RECORDS] - 1
    record_room = numbers[LONGEST_NAMES] + VALUE_BYTES + numbers[METADATA_BYTES] + RECORD_BYTES
    room = HEADER_BYTES + limit * record_room + MARKER_BYTES
    active = max(len(groups) - len(groups) * numbers[RETIRED_PERMILLE] // 1000, 1)
    used, row = 0, 0
    while at[RECORD] < numbers[RECORDS] and used + room <= len(out) and row + 2 <= len(marks):
        now_ms = numbers[FIRST_MS] + np.int64(numbers[SPAN_MS] * (at[RECORD] / numbers[RECORDS]))
        group = groups[_below(at, len(groups) if 3 * at[RECORD] < numbers[RECORDS] else active)]
        partition = _below(at, numbers[PARTITIONS])
        count = min(1 + _below(at, limit), numbers[RECORDS] - at[RECORD])
        pid = at[BATCH] % PRODUCERS if _below(at, 1000) < numbers[TRANSACTIONAL_PERMILLE] else -1
        name, name_bytes = name_starts[group], name_starts[group + 1] - name_starts[group]
        start = used
        used += HEADER_BYTES
        for delta in range(count):
            value_bytes = VALUE_BYTES + numbers[METADATA_BYTES]
            if _below(at, 1000) < numbers[TOMBSTONE_PERMILLE]:
                value_bytes = -1
            used = _record(
                out, used, delta, names, name, name_bytes, (partition + delta) % numbers[PARTITIONS], value_bytes,
                numbers[METADATA_BYTES], at[RECORD] + delta, now_ms,
            )  # fmt: skip
        _seal(out, start, used, at[OFFSET], count, 0x10 if pid >= 0 else 0, now_ms, pid)
        row = _mark(marks, row, start, used, at[OFFSET], at[OFFSET] + count - 1, now_ms)
        at[OFFSET] += count
        if pid >= 0:
            end = _marker(out, used, _below(at, 1000) >= ABORTED_PERMILLE, at[OFFSET], now_ms, pid)
            row = _mark(marks, row, used, end, at[OFFSET], at[OFFSET], now_ms)
            used = end
            at[OFFSET] += 1
        at[RECORD] += count
        at[BATCH] += 1
    return used, row


@compiled
def repack(out: Any, data: Any, marks: Any, bodies: Any, sizes: Any, codec: int) -> None:
    """Copy the batches of `data` to `out` with compressed bodies, which lie one after another; `marks` then tell of
    `out`. A size of -1 stands for a batch that stays as it is."""
    used, taken = 0, 0
    for row in range(len(marks)):
        start, end, size = marks[row, START], marks[row, END], sizes[row]
        marks[row, START] = used
        for i in range(end - start if size < 0 else HEADER_BYTES):
            out[used + i] = data[start + i]
        if size >= 0:
            for i in range(size):
                out[used + HEADER_BYTES + i] = bodies[taken + i]
            taken += size
            end = used + HEADER_BYTES + size
            _put(out, used + 8, end - used - 12, 4)
            out[used + 22] |= codec
            _put(out, used + 17, np.int64(crc32c_of(pointer(out), used + 21, end)), 4)
        else:
            end = used + end - start
        marks[row, END] = end
        used = end
