"""From the queue of records to the state: the writing half of the hot path.

A state larger than the processor's caches is slow for one reason: each record waits for a slot, then a row, then the
bytes of a key. So records are queued by the dozen and each wait is begun for all of them before any is needed.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import be64, copy_bytes, pointer, prefetch, rows
from sexton.kernels.apply import cancel_own, put_marker, put_pending, put_tombstone, remove_stored, store_text
from sexton.kernels.decode import (
    ATTRIBUTES,
    BATCH_COLUMNS,
    C_BATCH,
    C_QUEUED,
    C_TAKEN,
    EPOCH,
    FINISHED,
    FULL,
    GROUP_RECORD,
    IN_ARENA,
    MARKER,
    OFFSET,
    ORIGIN_OFFSET,
    PRODUCER,
    Q_BATCH,
    Q_COMMIT_MS,
    Q_EXPIRE_MS,
    Q_GROUP_SIZE,
    Q_HASH,
    Q_KEY,
    Q_KEY_SIZE,
    Q_KIND,
    Q_LEADER_EPOCH,
    Q_LOG_OFFSET,
    Q_ROW,
    Q_TEXT_AT,
    Q_TEXT_SIZE,
    Q_TIMESTAMP,
    Q_TOPIC_ID,
    Q_TOPIC_SIZE,
    Q_VALUE,
    Q_VALUE_SIZE,
    QUEUE_COLUMNS,
    QUEUE_ROWS,
    SOURCE,
    TOMBSTONE,
    TRANSACTIONAL,
    UNKNOWN,
    fill_queue,
)
from sexton.kernels.layout import (
    COMMIT_MS,
    COMMITS,
    COMMITTED,
    EXPIRE_MS,
    KEY_AT,
    KEY_GROUP,
    KEY_MASK,
    LAST_VALUE,
    LEADER_EPOCH,
    LOG_OFFSET,
    MAX_COMMIT_MS,
    NEED,
    PENDING_IF_TRANSACTIONAL,
    PENDING_RULE,
    PENDING_WITH_PRODUCER_ID,
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
    SEEN_LEGACY,
    SEEN_TOMBSTONES,
    SEEN_V4,
    SEEN_VALUES,
    SINCE,
    TEXT_SIZE,
    TOMBSTONES_CANCEL_PENDING,
    TOPIC_ID_HIGH,
    TOPIC_ID_LOW,
    Int64s,
    State,
    View,
    add_group,
    add_key,
    find_key,
    is_full,
    is_key,
    view_of,
)


def new_queue() -> Int64s:
    """Room for the records that wait to be applied."""
    return np.zeros((QUEUE_ROWS, QUEUE_COLUMNS), np.int64)


@compiled
def fold_batches(
    arrays: State,
    source: Any,
    arena: Any,
    batch_rows: Any,
    count: int,
    cursor_row: Any,
    queue_rows: Any,
    type_flags: Any,
) -> int:
    """Fold `count` batches from the cursor on.

    FINISHED; or FULL: the state has to grow, then call again; or ODD: all before the cursor is folded, and a reader
    has to take over its batch from the record C_DONE on.
    """
    state, cursor, group_types = view_of(arrays), pointer(cursor_row), pointer(type_flags)
    in_place, inflated = pointer(source), pointer(arena)
    batches, queue = rows(batch_rows, BATCH_COLUMNS), rows(queue_rows, QUEUE_COLUMNS)
    if not _apply(state, in_place, inflated, batches, cursor, queue):
        return FULL
    while cursor[C_BATCH] < count:
        status = fill_queue(state, in_place, inflated, batches, count, cursor, queue, group_types)
        _ask_for_rows(state, queue, cursor[C_QUEUED])
        if not _apply(state, in_place, inflated, batches, cursor, queue):
            return FULL
        if status != FINISHED:
            return status
    return FINISHED


@inlined
def _ask_for_rows(state: View, queue: Any, count: int) -> None:
    """Begin to load the rows that the queued records will touch, and then what these point to."""
    slots, mask = state.key_slots, state.counts[KEY_MASK]
    for record in range(count):
        if queue[record, Q_KIND] <= TOMBSTONE:
            hashed = queue[record, Q_HASH]
            at = hashed & mask
            while slots[at] != 0 and (slots[at] ^ hashed) >> 32 != 0:
                at = (at + 1) & mask
            queue[record, Q_ROW] = (slots[at] & 0xFFFFFFFF) - 1
            if slots[at] != 0:
                prefetch(state.keys, queue[record, Q_ROW])
    for record in range(count):
        if queue[record, Q_KIND] <= TOMBSTONE and queue[record, Q_ROW] >= 0:
            row = queue[record, Q_ROW]
            prefetch(state.key_bytes, state.keys[row, KEY_AT])
            prefetch(state.key_bytes, state.keys[row, KEY_AT] + 48)
            prefetch(state.groups, state.keys[row, KEY_GROUP])


@inlined
def _apply(state: View, in_place: Any, inflated: Any, batches: Any, cursor: Any, queue: Any) -> bool:
    """Apply the queued records that are not taken yet; False when the state has no room for the next one."""
    while cursor[C_TAKEN] < cursor[C_QUEUED]:
        record = cursor[C_TAKEN]
        need = queue[record, Q_KEY_SIZE] + max(queue[record, Q_VALUE_SIZE], 0) + 64
        if is_full(state.counts, need):
            state.counts[NEED] = need
            return False
        batch = queue[record, Q_BATCH]
        data = inflated if batches[batch, SOURCE] == IN_ARENA else in_place
        kind = queue[record, Q_KIND]
        if kind <= TOMBSTONE:
            _apply_offset(state, data, batches, batch, queue, record)
        elif kind == MARKER:
            put_marker(state, batches[batch, PRODUCER], queue[record, Q_VALUE], queue[record, Q_LOG_OFFSET])
        elif kind == GROUP_RECORD:
            _keep_group_record(state, data, batches, batch, queue, record)
        elif kind == UNKNOWN:
            state.unknown_types[queue[record, Q_VALUE] & 0xFFFF] += 1
        cursor[C_TAKEN] += 1
    return True


@inlined
def _apply_offset(state: View, data: Any, batches: Any, batch: int, queue: Any, record: int) -> None:
    """Apply an offset value or tombstone; its key is looked up by its raw bytes first."""
    start, group_size, topic_size = queue[record, Q_KEY] + 2, queue[record, Q_GROUP_SIZE], queue[record, Q_TOPIC_SIZE]
    log_offset = queue[record, Q_LOG_OFFSET]
    key, size = queue[record, Q_ROW], group_size + topic_size + 8
    if not is_key(state, key, data, start, size, group_size):
        key = find_key(state, queue[record, Q_HASH], data, start, size, group_size)
    if key < 0:
        key = add_key(state, data, start, group_size, topic_size)
    producer_id = batches[batch, PRODUCER]
    is_pending = _is_pending(state.counts[PENDING_RULE], producer_id, batches[batch, ATTRIBUTES])
    state.counts[SEEN_LEGACY] += data[start - 1] == 0
    if queue[record, Q_KIND] != OFFSET:
        state.counts[SEEN_TOMBSTONES] += 1
        if state.counts[TOMBSTONES_CANCEL_PENDING]:
            put_tombstone(state, key, log_offset)
        elif is_pending:
            cancel_own(state, key, producer_id)
        else:
            remove_stored(state, key, log_offset)
        return
    state.counts[SEEN_VALUES] += 1
    state.groups[state.keys[key, KEY_GROUP], COMMITS] += 1
    state.counts[SEEN_V4] += data[queue[record, Q_VALUE] + 1] == 4
    state.counts[MAX_COMMIT_MS] = max(state.counts[MAX_COMMIT_MS], queue[record, Q_COMMIT_MS])
    keys = state.keys
    if not is_pending:
        keys[key, LOG_OFFSET] = log_offset
        keys[key, PRODUCER_ID] = producer_id
        keys[key, SINCE] += 1
        state.groups[keys[key, KEY_GROUP], LAST_VALUE] = log_offset
        _set_value(state, keys, key, data, queue, record)
    else:
        row = put_pending(state, key, producer_id, batches[batch, EPOCH], log_offset, queue[record, Q_TIMESTAMP])
        _set_value(state, state.pending, row, data, queue, record)


@inlined
def _is_pending(rule: int, producer_id: int, attributes: int) -> bool:
    """Whether a value of such a batch waits for a marker."""
    if rule == PENDING_WITH_PRODUCER_ID:
        return producer_id != -1
    return rule == PENDING_IF_TRANSACTIONAL and attributes & TRANSACTIONAL != 0


@inlined
def _set_value(state: View, table: Any, row: int, data: Any, queue: Any, record: int) -> None:
    """Make the record's value that of a row of `keys` or `pending`."""
    topic_id = queue[record, Q_TOPIC_ID]
    table[row, COMMITTED] = be64(data, queue[record, Q_VALUE] + 2)
    table[row, LEADER_EPOCH] = queue[record, Q_LEADER_EPOCH]
    table[row, COMMIT_MS] = queue[record, Q_COMMIT_MS]
    table[row, EXPIRE_MS] = queue[record, Q_EXPIRE_MS]
    table[row, TOPIC_ID_HIGH] = be64(data, topic_id) if topic_id >= 0 else 0
    table[row, TOPIC_ID_LOW] = be64(data, topic_id + 8) if topic_id >= 0 else 0
    if queue[record, Q_TEXT_SIZE] > 0 or table[row, TEXT_SIZE] > 0:
        store_text(state, table, row, data, queue[record, Q_TEXT_AT], queue[record, Q_TEXT_SIZE])


@compiled
def _keep_group_record(state: View, data: Any, batches: Any, batch: int, queue: Any, record: int) -> None:
    """Append a group record; its meaning is for the replay of the whole log partition."""
    key, key_size = queue[record, Q_KEY], queue[record, Q_KEY_SIZE]
    value_size = queue[record, Q_VALUE_SIZE]
    group = add_group(state, data, key + 4, queue[record, Q_GROUP_SIZE])
    counts, records = state.counts, state.records
    row, to = counts[RECORDS], counts[RECORD_BYTES]
    records[row, R_LOG_OFFSET] = queue[record, Q_LOG_OFFSET]
    records[row, R_BASE_OFFSET] = batches[batch, ORIGIN_OFFSET]
    records[row, R_GROUP] = group
    records[row, R_LAST_VALUE] = state.groups[group, LAST_VALUE]
    records[row, R_AT] = to
    records[row, R_KEY_SIZE] = key_size
    records[row, R_VALUE_SIZE] = value_size
    copy_bytes(state.record_bytes, to, data, key, key_size)
    copy_bytes(state.record_bytes, to + key_size, data, queue[record, Q_VALUE], max(value_size, 0))
    counts[RECORDS] += 1
    counts[RECORD_BYTES] = to + key_size + max(value_size, 0)
