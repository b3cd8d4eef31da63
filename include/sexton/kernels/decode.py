"""From the batches of a block to a queue of records: the reading half of the hot path.

Here: records of magic 2, keys of every type the coordinator reads, OffsetCommitValue v0 to v4.
Whatever is not plainly good stops the reading before that record: `fold` then reads the rest of that batch through
`log.batch` and `coordinator.decoding`, which name the reason. So this module only has to be sure when it accepts, and
may be as strict as it likes.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import be16, be32, be64, prefetch
from sexton.kernels.layout import (
    HIGHEST_LEGACY_VERSION,
    HIGHEST_VERSION,
    KEEPS_EXPIRE_OF_MINUS_1,
    KEY_MASK,
    NONE,
    READS_TOPIC_IDS,
    SEEN_CONTROL,
    SEEN_RECORDS,
    SKIPS_UNKNOWN_TYPES,
    View,
    hash_span,
)

# columns of a batch of the block. BODY and BODY_END lie in the source or in the arena of inflated batches.
# ORIGIN_OFFSET is the base offset of the batch that a record was written in, also where the slow path split that batch
(
    SOURCE,
    BODY,
    BODY_END,
    BASE_OFFSET,
    ATTRIBUTES,
    BASE_MS,
    MAX_MS,
    PRODUCER,
    EPOCH,
    COUNT,
    LAST_DELTA,
    ORIGIN_OFFSET,
    POSITION,
    SIZE,
) = range(14)
BATCH_COLUMNS = 14
IN_PLACE, IN_ARENA, BY_READER = 0, 1, 2
"""Where a batch's records lie; BY_READER: `log.batch` has to read the whole batch."""

APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20

# cursor: where the reading stands (C_AT is -1 before a batch's first record), and how much of the queue is taken
C_BATCH, C_AT, C_DONE, C_DELTA, C_QUEUED, C_TAKEN = range(6)
CURSOR_COLUMNS = 6
FINISHED, FULL, FALLBACK = range(3)

# columns of a queued record; positions are those in its batch's bytes
(
    Q_KIND,
    Q_BATCH,
    Q_LOG_OFFSET,
    Q_TIMESTAMP,
    Q_KEY,
    Q_KEY_SIZE,
    Q_VALUE,
    Q_VALUE_SIZE,
    Q_GROUP_SIZE,
    Q_TOPIC_SIZE,
    Q_HASH,
    Q_LEADER_EPOCH,
    Q_TEXT_AT,
    Q_TEXT_SIZE,
    Q_COMMIT_MS,
    Q_EXPIRE_MS,
    Q_TOPIC_ID,
    Q_ROW,
) = range(18)
QUEUE_COLUMNS = 18
QUEUE_ROWS = 64
"""Enough to wait for memory of many records at once, and few enough to stay in the first cache."""
OFFSET, TOMBSTONE, MARKER, GROUP_RECORD, UNKNOWN = range(5)
"""Kinds of queued records. Q_VALUE is the marker of a MARKER, and the type of an UNKNOWN."""

GROUP_TYPES = 64
"""Record types below this are looked up in the flags of what the coordinator reads."""
MAX_STRING_BYTES = 0x7FFF


@inlined
def rewind(cursor: Any) -> None:
    """Stand before the first record of a batch."""
    cursor[C_AT] = -1
    cursor[C_DONE] = 0
    cursor[C_DELTA] = -1


@inlined
def fill_queue(
    state: View, in_place: Any, inflated: Any, batches: Any, count: int, cursor: Any, queue: Any, group_types: Any
) -> int:
    """Queue records from the cursor on until the queue is full; ODD where a reader has to take the batch over."""
    cursor[C_QUEUED] = 0
    cursor[C_TAKEN] = 0
    while cursor[C_BATCH] < count and cursor[C_QUEUED] < QUEUE_ROWS:
        batch = cursor[C_BATCH]
        where = batches[batch, SOURCE]
        if where == BY_READER:
            return FALLBACK
        data = inflated if where == IN_ARENA else in_place
        status = _read_batch(state, data, batches, batch, cursor, queue, group_types)
        if status != FINISHED:
            return status
    return FINISHED


@inlined
def _varint(data: Any, pos: int, end: int) -> tuple[int, int]:
    """Zigzag varint of at most 32 bits and the position behind it; -1 there when it is not one."""
    if pos < end and data[pos] < 0x80:
        small = np.int64(data[pos])
        return (small >> 1) ^ -(small & 1), pos + 1
    value = np.int64(0)
    shift = 0
    while pos < end and shift < 35:
        byte = np.int64(data[pos])
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), (pos if value < 1 << 32 else -1)
        shift += 7
    return 0, -1


@compiled
def _varlong(data: Any, pos: int, end: int) -> tuple[int, int]:
    """As `_varint`, of at most 63 bits: no timestamp of ours is further from its batch's."""
    value = np.int64(0)
    shift = 0
    while pos < end and shift < 63:
        byte = np.int64(data[pos])
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
    return 0, -1


@compiled
def _unsigned(data: Any, pos: int, end: int) -> tuple[int, int]:
    """Unsigned varint as a Java int, which wraps, and the position behind it; -1 there when it is not one."""
    value = np.int64(0)
    shift = 0
    while pos < end and shift < 35:
        byte = np.int64(data[pos])
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return np.int64(np.int32(value)), pos
        shift += 7
    return 0, -1


@inlined
def _read_batch(state: View, data: Any, batches: Any, batch: int, cursor: Any, queue: Any, group_types: Any) -> int:
    """Queue the records of one batch from the cursor's on; behind its last the cursor goes on to the next batch."""
    end = batches[batch, BODY_END]
    if cursor[C_AT] < 0:
        cursor[C_AT] = batches[batch, BODY]
    pos, done, last_delta, queued = cursor[C_AT], cursor[C_DONE], cursor[C_DELTA], cursor[C_QUEUED]
    total = batches[batch, COUNT]
    status = FINISHED if total >= 0 else FALLBACK
    if total != 1 and batches[batch, ATTRIBUTES] & CONTROL:
        status, total = FALLBACK, np.int64(0)  # markers come alone; coordinators differ in what they make of others
    while done < total and queued < QUEUE_ROWS:
        size, at = _varint(data, pos, end)
        stop = at + size
        if at < 0 or size < 1 or stop > end:
            status = FALLBACK
            break
        shift_ms, at = _varlong(data, at + 1, stop)
        if at < 0:
            status = FALLBACK
            break
        delta, at = _varint(data, at, stop)
        if at < 0 or delta <= last_delta or delta > batches[batch, LAST_DELTA]:
            status = FALLBACK
            break
        key_size, key = _varint(data, at, stop)
        if key < 0 or key_size < 2 or key + key_size > stop:
            status = FALLBACK
            break
        value_size, value = _varint(data, key + key_size, stop)
        if value < 0 or value_size < -1 or value + max(value_size, 0) != stop - 1 or data[stop - 1] != 0:
            status = FALLBACK  # also a record with headers: nobody writes them here, the reader knows them
            break
        queue[queued, Q_BATCH] = batch
        queue[queued, Q_LOG_OFFSET] = batches[batch, BASE_OFFSET] + delta
        queue[queued, Q_TIMESTAMP] = batches[batch, BASE_MS] + shift_ms
        if batches[batch, ATTRIBUTES] & APPEND_TIME:
            queue[queued, Q_TIMESTAMP] = batches[batch, MAX_MS]
        queue[queued, Q_KEY] = key
        queue[queued, Q_KEY_SIZE] = key_size
        queue[queued, Q_VALUE] = value
        queue[queued, Q_VALUE_SIZE] = value_size
        if not _read_record(state, data, batches[batch, ATTRIBUTES] & CONTROL, queue, queued, group_types):
            status = FALLBACK
            break
        pos, last_delta = stop, delta
        done += 1
        queued += 1
    if status == FINISHED and done >= total and pos != end and total != 0:  # nobody looks into an empty batch
        status = FALLBACK
    state.counts[SEEN_CONTROL if batches[batch, ATTRIBUTES] & CONTROL else SEEN_RECORDS] += done - cursor[C_DONE]
    cursor[C_AT], cursor[C_DONE], cursor[C_DELTA], cursor[C_QUEUED] = pos, done, last_delta, queued
    if status == FINISHED and done >= total:
        cursor[C_BATCH] = batch + 1
        rewind(cursor)
    return status


@inlined
def _read_record(state: View, data: Any, is_control: int, queue: Any, row: int, group_types: Any) -> bool:
    """Complete a queued record from its key and value; False when it is not plainly good."""
    key, key_size = queue[row, Q_KEY], queue[row, Q_KEY_SIZE]
    record_type = np.int64(be16(data, key))
    if is_control:
        marker = np.int64(be16(data, key + 2)) if key_size >= 4 and record_type == 0 else np.int64(-1)
        queue[row, Q_KIND] = MARKER
        queue[row, Q_VALUE] = marker
        queue[row, Q_VALUE_SIZE] = 0
        return 0 <= marker <= 1
    if record_type == 0 or record_type == 1:
        highest = state.counts[HIGHEST_VERSION if record_type == 1 else HIGHEST_LEGACY_VERSION]
        if highest < 0 or not _read_offset_key(state, data, queue, row):
            return False
        return _read_value(state.counts, data, highest, queue, row)
    if record_type < 0 or record_type >= GROUP_TYPES or group_types[record_type] == 0:
        queue[row, Q_KIND] = UNKNOWN
        queue[row, Q_VALUE] = record_type
        queue[row, Q_VALUE_SIZE] = 0
        return state.counts[SKIPS_UNKNOWN_TYPES] != 0
    group_size = np.int64(be16(data, key + 2)) if key_size >= 4 else np.int64(-1)
    queue[row, Q_KIND] = GROUP_RECORD
    queue[row, Q_GROUP_SIZE] = group_size
    return 0 <= group_size <= key_size - 4


@inlined
def _read_offset_key(state: View, data: Any, queue: Any, row: int) -> bool:
    """Sizes and hash of group, topic and partition; their slot of the table is asked for."""
    start = queue[row, Q_KEY] + 2
    end = start + queue[row, Q_KEY_SIZE] - 2
    if end - start < 8:
        return False
    group_size = np.int64(be16(data, start))
    topic_at = start + 2 + group_size
    if group_size < 0 or topic_at + 6 > end:
        return False
    topic_size = np.int64(be16(data, topic_at))
    size = group_size + topic_size + 8
    if topic_size < 0 or start + size > end:
        return False
    hashed = hash_span(state, data, start, size)
    prefetch(state.key_slots, hashed & state.counts[KEY_MASK])
    queue[row, Q_GROUP_SIZE] = group_size
    queue[row, Q_TOPIC_SIZE] = topic_size
    queue[row, Q_HASH] = hashed
    return True


@inlined
def _read_value(counts: Any, data: Any, highest_version: int, queue: Any, row: int) -> bool:
    """Where the fields of an OffsetCommitValue lie; a tombstone has none."""
    value, size = queue[row, Q_VALUE], queue[row, Q_VALUE_SIZE]
    if size < 0:
        queue[row, Q_KIND] = TOMBSTONE
        return True
    stop = value + size
    if size < 20:  # no version is shorter
        return False
    version = be16(data, value)
    if version < 0 or version > highest_version:
        return False
    at = value + 10
    leader_epoch = topic_id = np.int64(-1)
    expire_ms = np.int64(NONE)
    if version >= 3:
        leader_epoch = np.int64(be32(data, at))
        at += 4
    if version == 4:
        text_size, at = _unsigned(data, at, stop)
        text_size -= 1
    else:
        text_size = np.int64(be16(data, at))
        at += 2
    text_at = at
    at += text_size + 8
    if text_at < 0 or text_size < 0 or text_size > MAX_STRING_BYTES or at > stop:
        return False
    queue[row, Q_COMMIT_MS] = be64(data, at - 8)
    if version == 1:
        if at + 8 > stop:
            return False
        expire_ms = be64(data, at)
        if expire_ms == -1 and counts[KEEPS_EXPIRE_OF_MINUS_1] == 0:
            expire_ms = np.int64(NONE)
    elif version == 4:
        topic_id, at = _read_tags(data, at, stop)
        if at < 0:
            return False
        if counts[READS_TOPIC_IDS] == 0:
            topic_id = np.int64(-1)
    queue[row, Q_KIND] = OFFSET
    queue[row, Q_LEADER_EPOCH] = leader_epoch
    queue[row, Q_TEXT_AT] = text_at
    queue[row, Q_TEXT_SIZE] = text_size
    queue[row, Q_EXPIRE_MS] = expire_ms
    queue[row, Q_TOPIC_ID] = topic_id
    return True


@compiled
def _read_tags(data: Any, at: int, stop: int) -> tuple[int, int]:
    """Where the topic id of a value lies (tag 0) or -1, and the position behind the tags, -1 when they are not whole.

    As Kafka reads them: an unknown tag is skipped by its size, the size of a known one is not looked at.
    """
    topic_id = np.int64(-1)
    tags, at = _unsigned(data, at, stop)
    while at >= 0 and tags > 0:
        tag, at = _unsigned(data, at, stop)
        if at < 0:
            break
        size, at = _unsigned(data, at, stop)
        if at < 0:
            break
        if tag == 0:
            topic_id, size = at, np.int64(16)
        at = at + size if 0 <= size <= stop - at else np.int64(-1)
        tags -= 1
    return topic_id, at
