"""The record loop: batches of a block, record by record, into the state; the hot path of everything.

Here: records of magic 2, keys of every type the coordinator reads, OffsetCommitValue v0 to v4 (spec 1.2, 1.3, 2.1).
Whatever is not plainly good stops the loop at that record, before it has changed anything: `fold` then reads the rest
of that batch through `log.batch` and `records`, which name the reason. So this module only has to be sure when it
accepts, and may be as strict as it likes.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np

from sexton.kernels.apply import put_marker, put_tombstone, put_waiting, store_text
from sexton.kernels.compiled import compiled
from sexton.kernels.memory import be16, be32, be64, copy_bytes, hash_bytes, pointer, rows
from sexton.kernels.table import (
    COMMIT_MS,
    COMMITTED,
    EXPIRE_MS,
    KEY_GROUP,
    LAST_VALUE,
    LEADER_EPOCH,
    LOG_OFFSET,
    MAX_COMMIT_MS,
    NEED,
    PRODUCER_ID,
    R_AT,
    R_BASE_OFFSET,
    R_GROUP,
    R_KEY_SIZE,
    R_LAST_VALUE,
    R_LOG_OFFSET,
    R_VALUE_SIZE,
    RECORD_BYTES,
    RECORDS,
    SEEN_CONTROL,
    SEEN_RECORDS,
    SEEN_TOMBSTONES,
    SEEN_VALUES,
    SINCE,
    TEXT_SIZE,
    TOPIC_ID_HIGH,
    TOPIC_ID_LOW,
    State,
    View,
    add_group,
    add_key,
    find_key,
    is_full,
    view_of,
)

# columns of a batch of the block. BODY and BODY_END lie in the source or in the arena of inflated batches; TOLD_OFFSET
# is the base offset to tell where a record came from: not the batch's own where a reader has taken it out of its batch
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
    TOLD_OFFSET,
    POSITION,
    SIZE,
) = range(14)
BATCH_COLUMNS = 14
IN_PLACE, IN_ARENA, BY_READER = 0, 1, 2
"""Where a batch's records lie; BY_READER: `log.batch` has to read the whole batch."""

APPEND_TIME, CONTROL = 0x08, 0x20

# cursor: where the loop stands. AT is -1 before a batch's first record
C_BATCH, C_AT, C_DONE, C_DELTA = range(4)
CURSOR_COLUMNS = 4
FINISHED, FULL, ODD = range(3)

ROLES = 64
"""Record types below this are looked up in the flags of what the coordinator reads."""
MAX_STRING_BYTES = 0x7FFF
_NO_VALUE = -1


@compiled
def fold_batches(
    arrays: State, source: Any, arena: Any, batch_rows: Any, count: int, cursor_row: Any, role_flags: Any
) -> int:
    """Fold batches from the cursor on; FINISHED, or FULL (grow and call again), or ODD (a reader takes the batch)."""
    state, cursor, roles = view_of(arrays), pointer(cursor_row), pointer(role_flags)
    in_place, inflated, batches = pointer(source), pointer(arena), rows(batch_rows, BATCH_COLUMNS)
    while cursor[C_BATCH] < count:
        batch = cursor[C_BATCH]
        where = batches[batch, SOURCE]
        if where == BY_READER:
            return ODD
        data = inflated if where == IN_ARENA else in_place
        status = _fold_batch(state, data, batches, batch, cursor, roles)
        if status != FINISHED:
            return status
        cursor[C_BATCH] += 1
        rewind(cursor)
    return FINISHED


@compiled
def rewind(cursor: Any) -> None:
    """Stand before the first record of a batch."""
    cursor[C_AT] = -1
    cursor[C_DONE] = 0
    cursor[C_DELTA] = -1


@compiled
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


@compiled
def _fold_batch(state: View, data: Any, batches: Any, batch: int, cursor: Any, roles: Any) -> int:
    """Fold one batch from the cursor's record on."""
    end = batches[batch, BODY_END]
    if cursor[C_AT] < 0:
        cursor[C_AT] = batches[batch, BODY]
    pos = cursor[C_AT]
    done = cursor[C_DONE]
    last_delta = cursor[C_DELTA]
    total = batches[batch, COUNT]
    base_offset = batches[batch, BASE_OFFSET]
    status = FINISHED if total >= 0 else ODD
    while done < total:
        size, at = _varint(data, pos, end)
        stop = at + size
        if at < 0 or size < 1 or stop > end:
            status = ODD
            break
        shift_ms, at = _varlong(data, at + 1, stop)
        if at < 0:
            status = ODD
            break
        delta, at = _varint(data, at, stop)
        if at < 0 or delta <= last_delta or delta > batches[batch, LAST_DELTA]:
            status = ODD
            break
        key_size, key = _varint(data, at, stop)
        if key < 0 or key_size < 2 or key + key_size > stop:
            status = ODD
            break
        value_size, value = _varint(data, key + key_size, stop)
        if value < 0 or value_size < _NO_VALUE or value + max(value_size, 0) != stop - 1 or data[stop - 1] != 0:
            status = ODD  # also a record with headers: nobody writes them here, the reader knows them
            break
        timestamp_ms = batches[batch, BASE_MS] + shift_ms
        if batches[batch, ATTRIBUTES] & APPEND_TIME:
            timestamp_ms = batches[batch, MAX_MS]
        status = _fold_record(
            state, data, key, key_size, value, value_size, base_offset + delta, timestamp_ms, batches, batch, roles
        )
        if status != FINISHED:
            break
        pos = stop
        last_delta = delta
        done += 1
    if status == FINISHED and pos != end and total != 0:  # nobody looks into an empty batch
        status = ODD
    cursor[C_AT] = pos
    cursor[C_DELTA] = last_delta
    state.counts[SEEN_CONTROL if batches[batch, ATTRIBUTES] & CONTROL else SEEN_RECORDS] += done - cursor[C_DONE]
    cursor[C_DONE] = done
    return status


@compiled
def _fold_record(
    state: View,
    data: Any,
    key: int,
    key_size: int,
    value: int,
    value_size: int,
    log_offset: int,
    timestamp_ms: int,
    batches: Any,
    batch: int,
    roles: Any,
) -> int:
    """Fold one record whose key and value lie at `key` and `value`."""
    if is_full(state.counts, key_size + max(value_size, 0) + 64):
        state.counts[NEED] = key_size + max(value_size, 0) + 64
        return FULL
    record_type = be16(data, key)
    if batches[batch, ATTRIBUTES] & CONTROL:
        if key_size < 4 or record_type != 0:
            return ODD
        marker = be16(data, key + 2)
        if marker != 0 and marker != 1:
            return ODD
        put_marker(state, batches[batch, PRODUCER], marker, log_offset)
        return FINISHED
    if record_type == 0 or record_type == 1:
        return _fold_offset(
            state, data, record_type, key, key_size, value, value_size, log_offset, timestamp_ms, batches, batch
        )
    if record_type < 0 or record_type >= ROLES or roles[record_type] == 0:
        state.unknown_types[record_type & 0xFFFF] += 1
        return FINISHED
    return _keep_group_record(state, data, key, key_size, value, value_size, log_offset, batches, batch)


@compiled
def _fold_offset(
    state: View,
    data: Any,
    record_type: int,
    key: int,
    key_size: int,
    value: int,
    value_size: int,
    log_offset: int,
    timestamp_ms: int,
    batches: Any,
    batch: int,
) -> int:
    """Fold an offset value or its tombstone; the key is looked up by its raw bytes first."""
    start, end = key + 2, key + key_size
    if end - start < 8:
        return ODD
    group_size = np.int64(be16(data, start))
    topic_at = start + 2 + group_size
    if group_size < 0 or topic_at + 6 > end:
        return ODD
    topic_size = np.int64(be16(data, topic_at))
    size = group_size + topic_size + 8
    if topic_size < 0 or start + size > end:
        return ODD

    version = -1
    text_at = text_size = commit_ms = np.int64(0)
    leader_epoch = expire_ms = topic_id = np.int64(-1)
    if value_size >= 0:
        stop = value + value_size
        if value_size < 20:
            return ODD
        version = be16(data, value)
        if version < 0 or version > 4 or (record_type == 0 and version != 0):
            return ODD
        at = value + 10
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
            return ODD
        commit_ms = be64(data, at - 8)
        if version == 1:
            if at + 8 > stop:
                return ODD
            expire_ms = be64(data, at)
        elif version == 4:
            topic_id, at = _read_tags(data, at, stop)
            if at < 0:
                return ODD

    hashed = hash_bytes(data, start, size)
    keys = state.keys
    row = find_key(state, hashed, data, start, size, group_size)
    if row < 0:
        row = add_key(state, data, start, group_size, topic_size)
    if version < 0:
        state.counts[SEEN_TOMBSTONES] += 1
        put_tombstone(state, row, log_offset)
        return FINISHED
    state.counts[SEEN_VALUES] += 1
    state.counts[MAX_COMMIT_MS] = max(state.counts[MAX_COMMIT_MS], commit_ms)
    if batches[batch, PRODUCER] == -1:
        keys[row, LOG_OFFSET] = log_offset
        keys[row, PRODUCER_ID] = -1
        keys[row, SINCE] += 1
        state.groups[keys[row, KEY_GROUP], LAST_VALUE] = log_offset
        _set_value(state, keys, row, data, value, leader_epoch, text_at, text_size, commit_ms, expire_ms, topic_id)
    else:
        to = put_waiting(state, row, batches[batch, PRODUCER], batches[batch, EPOCH], log_offset, timestamp_ms)
        _set_value(
            state, state.waiting, to, data, value, leader_epoch, text_at, text_size, commit_ms, expire_ms, topic_id
        )
    return FINISHED


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


@compiled
def _set_value(
    state: View,
    table: Any,
    row: int,
    data: Any,
    value: int,
    leader_epoch: int,
    text_at: int,
    text_size: int,
    commit_ms: int,
    expire_ms: int,
    topic_id: int,
) -> None:
    """Make the value at `value` that of a row of `keys` or `waiting`; `topic_id` is where its 16 bytes lie, or -1."""
    table[row, COMMITTED] = be64(data, value + 2)
    table[row, LEADER_EPOCH] = leader_epoch
    table[row, COMMIT_MS] = commit_ms
    table[row, EXPIRE_MS] = expire_ms
    table[row, TOPIC_ID_HIGH] = be64(data, topic_id) if topic_id >= 0 else 0
    table[row, TOPIC_ID_LOW] = be64(data, topic_id + 8) if topic_id >= 0 else 0
    if text_size > 0 or table[row, TEXT_SIZE] > 0:
        store_text(state, table, row, data, text_at, text_size)


@compiled
def _keep_group_record(
    state: View,
    data: Any,
    key: int,
    key_size: int,
    value: int,
    value_size: int,
    log_offset: int,
    batches: Any,
    batch: int,
) -> int:
    """Append a group record; its meaning is for the replay of the whole log partition."""
    group_size = np.int64(be16(data, key + 2)) if key_size >= 4 else np.int64(-1)
    if group_size < 0 or group_size + 4 > key_size:
        return ODD
    group = add_group(state, data, key + 4, group_size)
    counts, records, out = state.counts, state.records, state.record_bytes
    row, to = counts[RECORDS], counts[RECORD_BYTES]
    records[row, R_LOG_OFFSET] = log_offset
    records[row, R_BASE_OFFSET] = batches[batch, TOLD_OFFSET]
    records[row, R_GROUP] = group
    records[row, R_LAST_VALUE] = state.groups[group, LAST_VALUE]
    records[row, R_AT] = to
    records[row, R_KEY_SIZE] = key_size
    records[row, R_VALUE_SIZE] = value_size
    copy_bytes(out, to, data, key, key_size)
    copy_bytes(out, to + key_size, data, value, max(value_size, 0))
    counts[RECORDS] += 1
    counts[RECORD_BYTES] = to + key_size + max(value_size, 0)
    return FINISHED
