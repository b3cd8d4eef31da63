"""From the batches of a block to a queue of records: `coordinator.decoding` compiled, the reading half of the hot path.

It reads records of magic 2, keys of every type that the coordinator reads, and OffsetCommitValue v0 to v4; `_decode`
corresponds to the plain `decode` (Kafka: GroupCoordinatorRecordSerde). It stops before a record that it does not
accept; `slow_path` then reads the rest of that batch and names the reason. So this module may refuse valid records.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import be16, be32, be64, prefetch
from sexton.kernels import layout as L
from sexton.kernels.index import hash_span
from sexton.kernels.layout import View


@inlined
def rewind(cursor: Any) -> None:
    """Set the cursor before the first record of a batch."""
    cursor[L.C_AT] = -1
    cursor[L.C_DONE] = 0
    cursor[L.C_DELTA] = -1


@inlined
def fill_queue(
    state: View, in_place: Any, inflated: Any, batches: Any, count: int, cursor: Any, queue: Any, group_types: Any
) -> int:
    """Queue records from the cursor on until the queue is full; FALLBACK where the slow path has to read the batch."""
    cursor[L.C_QUEUED] = 0
    cursor[L.C_TAKEN] = 0
    while cursor[L.C_BATCH] < count and cursor[L.C_QUEUED] < L.QUEUE_ROWS:
        batch = cursor[L.C_BATCH]
        where = batches[batch, L.B_SOURCE]
        if where == L.BY_READER:
            return L.FALLBACK
        data = inflated if where == L.IN_ARENA else in_place
        status = _read_batch(state, data, batches, batch, cursor, queue, group_types)
        if status != L.FINISHED:
            return status
    return L.FINISHED


@inlined
def read_varint(data: Any, pos: int, end: int) -> tuple[int, int]:
    """A zigzag varint of at most 32 bits, and the position after it: -1 if there is none at `pos`."""
    if pos < end and data[pos] < 0x80:
        small = np.int64(data[pos])
        return (small >> 1) ^ -(small & 1), pos + 1
    value, pos = _read_bits(data, pos, end, 35)
    return (value >> 1) ^ -(value & 1), (pos if value < 1 << 32 else -1)


@inlined
def read_head(data: Any, pos: int, end: int) -> tuple[int, int, int, int]:
    """(end, timestamp delta, offset delta, position of the size of the key) of the record at `pos`; the position is -1
    if no whole record lies before `end`."""
    size, at = read_varint(data, pos, end)
    stop = at + size
    if at < 0 or size < 1 or stop > end:
        return stop, np.int64(0), np.int64(0), np.int64(-1)
    shift_ms, at = _read_varlong(data, at + 1, stop)
    if at < 0:
        return stop, shift_ms, np.int64(0), np.int64(-1)
    delta, at = read_varint(data, at, stop)
    return stop, shift_ms, delta, at


@compiled
def _read_varlong(data: Any, pos: int, end: int) -> tuple[int, int]:
    """A zigzag varint of at most 63 bits, which every timestamp delta fits, and the position after it, or -1."""
    value, pos = _read_bits(data, pos, end, 63)
    return (value >> 1) ^ -(value & 1), pos


@compiled
def _read_unsigned(data: Any, pos: int, end: int) -> tuple[int, int]:
    """An unsigned varint as a Java int, which wraps, and the position after it: -1 if there is none at `pos`."""
    value, pos = _read_bits(data, pos, end, 35)
    return np.int64(np.int32(value)), pos


@inlined
def _read_bits(data: Any, pos: int, end: int, bits: int) -> tuple[int, int]:
    """The number in groups of seven bits, the lowest first, and the position after it; (0, -1) if it does not end
    before `end` or has more than `bits` bits."""
    value = np.int64(0)
    shift = 0
    while pos < end and shift < bits:
        byte = np.int64(data[pos])
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    return np.int64(0), -1


@inlined
def _read_batch(state: View, data: Any, batches: Any, batch: int, cursor: Any, queue: Any, group_types: Any) -> int:
    """Queue the records of one batch from the cursor on; after the last record, move the cursor to the next batch."""
    end = batches[batch, L.B_BODY_END]
    if cursor[L.C_AT] < 0:
        cursor[L.C_AT] = batches[batch, L.B_BODY]
    pos, done, last_delta, queued = cursor[L.C_AT], cursor[L.C_DONE], cursor[L.C_DELTA], cursor[L.C_QUEUED]
    total = batches[batch, L.B_COUNT]
    status = L.FINISHED if total >= 0 else L.FALLBACK
    if total != 1 and batches[batch, L.B_ATTRIBUTES] & L.CONTROL:
        status, total = L.FALLBACK, np.int64(0)  # a marker is alone; releases differ about other control batches
    while done < total and queued < L.QUEUE_ROWS:
        stop, shift_ms, delta, at = read_head(data, pos, end)
        if at < 0 or delta <= last_delta or delta > batches[batch, L.B_LAST_DELTA]:
            status = L.FALLBACK
            break
        key_size, key = read_varint(data, at, stop)
        if key < 0 or key_size < 2 or key + key_size > stop:
            status = L.FALLBACK
            break
        value_size, value = read_varint(data, key + key_size, stop)
        if value < 0 or value_size < -1 or value + max(value_size, 0) != stop - 1 or data[stop - 1] != 0:
            status = L.FALLBACK  # also a record with headers: nobody writes them here, the slow path reads them
            break
        queue[queued, L.Q_BATCH] = batch
        queue[queued, L.Q_LOG_OFFSET] = batches[batch, L.B_BASE_OFFSET] + delta
        queue[queued, L.Q_TIMESTAMP] = batches[batch, L.B_BASE_MS] + shift_ms
        if batches[batch, L.B_ATTRIBUTES] & L.APPEND_TIME:
            queue[queued, L.Q_TIMESTAMP] = batches[batch, L.B_MAX_MS]
        queue[queued, L.Q_START] = pos
        queue[queued, L.Q_STOP] = stop
        queue[queued, L.Q_KEY] = key
        queue[queued, L.Q_KEY_SIZE] = key_size
        queue[queued, L.Q_VALUE] = value
        queue[queued, L.Q_VALUE_SIZE] = value_size
        if not _decode(state, data, batches[batch, L.B_ATTRIBUTES] & L.CONTROL, queue, queued, group_types):
            status = L.FALLBACK
            break
        pos, last_delta = stop, delta
        done += 1
        queued += 1
    if status == L.FINISHED and done >= total and pos != end and total != 0:  # Kafka does not read an empty batch
        status = L.FALLBACK
    state.counts[L.SEEN_CONTROL if batches[batch, L.B_ATTRIBUTES] & L.CONTROL else L.SEEN_RECORDS] += (
        done - cursor[L.C_DONE]
    )
    cursor[L.C_AT], cursor[L.C_DONE], cursor[L.C_DELTA], cursor[L.C_QUEUED] = pos, done, last_delta, queued
    if status == L.FINISHED and done >= total:
        cursor[L.C_BATCH] = batch + 1
        rewind(cursor)
    return status


@inlined
def _decode(state: View, data: Any, is_control: int, queue: Any, row: int, group_types: Any) -> bool:
    """Complete a queued record from its key and value; False if the slow path has to read it."""
    key, key_size = queue[row, L.Q_KEY], queue[row, L.Q_KEY_SIZE]
    record_type = np.int64(be16(data, key))
    if is_control:
        marker = np.int64(be16(data, key + 2)) if key_size >= 4 and record_type == 0 else np.int64(-1)
        queue[row, L.Q_KIND] = L.KIND_MARKER
        queue[row, L.Q_VALUE] = marker
        queue[row, L.Q_VALUE_SIZE] = 0
        return 0 <= marker <= 1
    if record_type == 0 or record_type == 1:
        highest = state.counts[L.HIGHEST_VERSION if record_type == 1 else L.HIGHEST_LEGACY_VERSION]
        if highest < 0 or not _read_offset_key(state, data, queue, row):
            return False
        return _read_value(state.counts, data, highest, queue, row)
    if record_type < 0 or record_type >= L.GROUP_TYPES or group_types[record_type] == 0:
        queue[row, L.Q_KIND] = L.KIND_UNKNOWN
        queue[row, L.Q_VALUE] = record_type
        queue[row, L.Q_VALUE_SIZE] = 0
        return state.counts[L.SKIPS_UNKNOWN_TYPES] != 0
    group_size = np.int64(be16(data, key + 2)) if key_size >= 4 else np.int64(-1)
    queue[row, L.Q_KIND] = L.KIND_GROUP_RECORD
    queue[row, L.Q_GROUP_SIZE] = group_size
    return 0 <= group_size <= key_size - 4


@inlined
def _read_offset_key(state: View, data: Any, queue: Any, row: int) -> bool:
    """Queue the sizes and the hash of an offset's key, and prefetch its slot; False if the key is malformed."""
    start = queue[row, L.Q_KEY] + 2
    end = start + queue[row, L.Q_KEY_SIZE] - 2
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
    prefetch(state.key_slots, hashed & state.counts[L.KEY_MASK])
    queue[row, L.Q_GROUP_SIZE] = group_size
    queue[row, L.Q_TOPIC_SIZE] = topic_size
    queue[row, L.Q_HASH] = hashed
    return True


@inlined
def _read_value(counts: Any, data: Any, highest_version: int, queue: Any, row: int) -> bool:
    """Queue where the fields of an OffsetCommitValue lie, or a tombstone; False if the slow path has to read it."""
    value, size = queue[row, L.Q_VALUE], queue[row, L.Q_VALUE_SIZE]
    if size < 0:
        queue[row, L.Q_KIND] = L.KIND_TOMBSTONE
        return True
    stop = value + size
    if size < 20:  # no version is shorter
        return False
    version = be16(data, value)
    if version < 0 or version > highest_version:
        return False
    at = value + 10
    leader_epoch = topic_id = np.int64(-1)
    expire_ms = np.int64(L.NONE)
    if version >= 3:
        leader_epoch = np.int64(be32(data, at))
        at += 4
    if version == 4:
        text_size, at = _read_unsigned(data, at, stop)
        text_size -= 1
    else:
        text_size = np.int64(be16(data, at))
        at += 2
    text_at = at
    at += text_size + 8
    if text_at < 0 or text_size < 0 or text_size > L.MAX_STRING_BYTES or at > stop:
        return False
    queue[row, L.Q_COMMIT_MS] = be64(data, at - 8)
    if version == 1:
        if at + 8 > stop:
            return False
        expire_ms = be64(data, at)
        if expire_ms == -1 and counts[L.KEEPS_EXPIRE_OF_MINUS_1] == 0:
            expire_ms = np.int64(L.NONE)
    elif version == 4:
        topic_id, at = _read_tags(data, at, stop)
        if at < 0:
            return False
        if counts[L.READS_TOPIC_IDS] == 0:
            topic_id = np.int64(-1)
    queue[row, L.Q_KIND] = L.KIND_OFFSET
    queue[row, L.Q_LEADER_EPOCH] = leader_epoch
    queue[row, L.Q_TEXT_AT] = text_at
    queue[row, L.Q_TEXT_SIZE] = text_size
    queue[row, L.Q_EXPIRE_MS] = expire_ms
    queue[row, L.Q_TOPIC_ID] = topic_id
    return True


@compiled
def _read_tags(data: Any, at: int, stop: int) -> tuple[int, int]:
    """Where the topic id of a value (tag 0) lies, or -1; and the position after the tags, or -1 if they are truncated.

    Like Kafka, it skips an unknown tag according to its size, and ignores the size of a known tag.
    """
    topic_id = np.int64(-1)
    tags, at = _read_unsigned(data, at, stop)
    while at >= 0 and tags > 0:
        tag, at = _read_unsigned(data, at, stop)
        if at < 0:
            break
        size, at = _read_unsigned(data, at, stop)
        if at < 0:
            break
        if tag == 0:
            topic_id, size = at, np.int64(16)
        at = at + size if 0 <= size <= stop - at else np.int64(-1)
        tags -= 1
    return topic_id, at
