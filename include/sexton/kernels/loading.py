"""From queued records to the state: `coordinator.loading` compiled, the writing half of the hot path.

`_replay_records` corresponds to replay_record, `_replay_offset`, `replay_group` and `_is_pending` have the same names.
Kafka: CoordinatorLoaderImpl and OffsetMetadataManager.replay from 4.0 on, GroupMetadataManager.doLoadGroupsAndOffsets
in earlier releases.

A state larger than the processor's caches is slow because each record needs three dependent memory loads: a slot, a
row, the bytes of a key. So records are queued, QUEUE_ROWS at a time, and each load is prefetched for all of them.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

from typing import Any

import numpy as np

from sexton.jit.compiled import compiled, inlined
from sexton.jit.memory import be64, copy_bytes, pointer, prefetch
from sexton.kernels import layout as L
from sexton.kernels.decoding import fill_queue
from sexton.kernels.growth import is_full
from sexton.kernels.index import add_group, add_key, find_key, is_key
from sexton.kernels.layout import FoldState, Int64s, View, batches_of, queue_of, view_of
from sexton.kernels.offsets import cancel_pending_of, end_transaction, put_pending, remove, remove_stored
from sexton.kernels.pending_rows import store_text


def new_queue() -> Int64s:
    """Room for the records of one queue."""
    return np.zeros((L.QUEUE_ROWS, L.QUEUE_COLUMNS), np.int64)


@compiled
def fold_batches(
    arrays: FoldState,
    source: Any,
    arena: Any,
    batch_rows: Any,
    count: int,
    cursor_row: Any,
    queue_rows: Any,
    type_flags: Any,
) -> int:
    """Fold `count` batches from the cursor on.

    Returns FINISHED; or FULL: grow the state and call again; or FALLBACK: everything before the cursor is folded, and
    the slow path has to read the cursor's batch from record C_DONE on.
    """
    state, cursor, group_types = view_of(arrays), pointer(cursor_row), pointer(type_flags)
    in_place, inflated = pointer(source), pointer(arena)
    batches, queue = batches_of(batch_rows), queue_of(queue_rows)
    if not _replay_records(state, in_place, inflated, batches, cursor, queue):
        return L.FULL
    while cursor[L.C_BATCH] < count:
        status = fill_queue(state, in_place, inflated, batches, count, cursor, queue, group_types)
        _ask_for_rows(state, queue, cursor[L.C_QUEUED])
        if not _replay_records(state, in_place, inflated, batches, cursor, queue):
            return L.FULL
        if status != L.FINISHED:
            return status
    return L.FINISHED


@inlined
def _ask_for_rows(state: View, queue: Any, count: int) -> None:
    """Prefetch the rows that the queued records will touch, then the memory to which these rows point."""
    slots, mask = state.key_slots, state.counts[L.KEY_MASK]
    for record in range(count):
        if queue[record, L.Q_KIND] <= L.KIND_TOMBSTONE:
            hashed = queue[record, L.Q_HASH]
            at = hashed & mask
            while slots[at] != 0 and (slots[at] ^ hashed) >> 32 != 0:
                at = (at + 1) & mask
            queue[record, L.Q_ROW] = (slots[at] & 0xFFFFFFFF) - 1
            if slots[at] != 0:
                prefetch(state.keys, queue[record, L.Q_ROW])
    for record in range(count):
        if queue[record, L.Q_KIND] <= L.KIND_TOMBSTONE and queue[record, L.Q_ROW] >= 0:
            row = queue[record, L.Q_ROW]
            prefetch(state.key_bytes, state.keys[row, L.KEY_AT])
            prefetch(state.key_bytes, state.keys[row, L.KEY_AT] + 48)
            prefetch(state.groups, state.keys[row, L.KEY_GROUP])


@inlined
def _replay_records(state: View, in_place: Any, inflated: Any, batches: Any, cursor: Any, queue: Any) -> bool:
    """Replay the queued records from C_TAKEN on; False when the state has no space for the next one."""
    while cursor[L.C_TAKEN] < cursor[L.C_QUEUED]:
        record = cursor[L.C_TAKEN]
        need = queue[record, L.Q_KEY_SIZE] + max(queue[record, L.Q_VALUE_SIZE], 0) + 64
        if is_full(state.counts, need):
            state.counts[L.NEED] = need
            return False
        batch = queue[record, L.Q_BATCH]
        data = inflated if batches[batch, L.B_SOURCE] == L.IN_ARENA else in_place
        kind = queue[record, L.Q_KIND]
        if kind <= L.KIND_TOMBSTONE:
            _replay_offset(state, data, batches, batch, queue, record)
        elif kind == L.KIND_MARKER:
            end_transaction(
                state, batches[batch, L.B_PRODUCER], queue[record, L.Q_VALUE], queue[record, L.Q_LOG_OFFSET]
            )
        elif kind == L.KIND_GROUP_RECORD:
            replay_group(state, data, batches, batch, queue, record)
        elif kind == L.KIND_UNKNOWN:
            state.unknown_types[queue[record, L.Q_VALUE] & 0xFFFF] += 1
        cursor[L.C_TAKEN] += 1
    return True


@inlined
def _replay_offset(state: View, data: Any, batches: Any, batch: int, queue: Any, record: int) -> None:
    """Replay an offset value or a tombstone (OffsetMetadataManager.replay); looks its key up by raw bytes first.

    A tombstone goes to `offsets.remove`; with the rules before 4.0, to `remove_stored` or, in a transaction,
    `cancel_pending_of`.
    """
    start, group_size, topic_size = (
        queue[record, L.Q_KEY] + 2,
        queue[record, L.Q_GROUP_SIZE],
        queue[record, L.Q_TOPIC_SIZE],
    )
    log_offset = queue[record, L.Q_LOG_OFFSET]
    key, size = queue[record, L.Q_ROW], group_size + topic_size + 8
    if not is_key(state, key, data, start, size, group_size):
        key = find_key(state, queue[record, L.Q_HASH], data, start, size, group_size)
    if key < 0:
        key = add_key(state, data, start, group_size, topic_size)
    producer_id = batches[batch, L.B_PRODUCER]
    is_pending = _is_pending(state.counts[L.PENDING_RULE], producer_id, batches[batch, L.B_ATTRIBUTES])
    state.counts[L.SEEN_LEGACY] += data[start - 1] == 0
    if queue[record, L.Q_KIND] != L.KIND_OFFSET:
        state.counts[L.SEEN_TOMBSTONES] += 1
        if state.counts[L.TOMBSTONES_CANCEL_PENDING]:
            remove(state, key, log_offset)
        elif is_pending:
            cancel_pending_of(state, key, producer_id)
        else:
            remove_stored(state, key, log_offset)
        return
    state.counts[L.SEEN_VALUES] += 1
    state.groups[state.keys[key, L.KEY_GROUP], L.COMMITS] += 1
    state.counts[L.SEEN_V4] += data[queue[record, L.Q_VALUE] + 1] == 4
    state.counts[L.MAX_COMMIT_MS] = max(state.counts[L.MAX_COMMIT_MS], queue[record, L.Q_COMMIT_MS])
    keys = state.keys
    if not is_pending:
        keys[key, L.LOG_OFFSET] = log_offset
        keys[key, L.PRODUCER_ID] = producer_id
        keys[key, L.SINCE] += 1
        state.groups[keys[key, L.KEY_GROUP], L.LAST_VALUE] = log_offset
        _set_value(state, keys, key, data, queue, record)
    else:
        row = put_pending(state, key, producer_id, batches[batch, L.B_EPOCH], log_offset, queue[record, L.Q_TIMESTAMP])
        _set_value(state, state.pending, row, data, queue, record)


@inlined
def _is_pending(rule: int, producer_id: int, attributes: int) -> bool:
    """Whether the offset values of a batch are pending until a marker of its producer."""
    if rule == L.PENDING_WITH_PRODUCER_ID:
        return producer_id != -1
    return rule == L.PENDING_IF_TRANSACTIONAL and attributes & L.TRANSACTIONAL != 0


@inlined
def _set_value(state: View, table: Any, row: int, data: Any, queue: Any, record: int) -> None:
    """Write the record's value to a row of `keys` or `pending`."""
    topic_id = queue[record, L.Q_TOPIC_ID]
    table[row, L.COMMITTED] = be64(data, queue[record, L.Q_VALUE] + 2)
    table[row, L.LEADER_EPOCH] = queue[record, L.Q_LEADER_EPOCH]
    table[row, L.COMMIT_MS] = queue[record, L.Q_COMMIT_MS]
    table[row, L.EXPIRE_MS] = queue[record, L.Q_EXPIRE_MS]
    table[row, L.TOPIC_ID_HIGH] = be64(data, topic_id) if topic_id >= 0 else 0
    table[row, L.TOPIC_ID_LOW] = be64(data, topic_id + 8) if topic_id >= 0 else 0
    if queue[record, L.Q_TEXT_SIZE] > 0 or table[row, L.TEXT_SIZE] > 0:
        store_text(state, table, row, data, queue[record, L.Q_TEXT_AT], queue[record, L.Q_TEXT_SIZE])


@compiled
def replay_group(state: View, data: Any, batches: Any, batch: int, queue: Any, record: int) -> None:
    """Append a group record; `group_records` replays these records once the whole log partition is folded."""
    key, key_size = queue[record, L.Q_KEY], queue[record, L.Q_KEY_SIZE]
    value_size = queue[record, L.Q_VALUE_SIZE]
    group = add_group(state, data, key + 4, queue[record, L.Q_GROUP_SIZE])
    counts, records = state.counts, state.records
    row, to = counts[L.RECORDS], counts[L.RECORD_BYTES]
    records[row, L.R_LOG_OFFSET] = queue[record, L.Q_LOG_OFFSET]
    records[row, L.R_BASE_OFFSET] = batches[batch, L.B_ORIGIN_OFFSET]
    records[row, L.R_GROUP] = group
    records[row, L.R_LAST_VALUE] = state.groups[group, L.LAST_VALUE]
    records[row, L.R_AT] = to
    records[row, L.R_KEY_SIZE] = key_size
    records[row, L.R_VALUE_SIZE] = value_size
    copy_bytes(state.record_bytes, to, data, key, key_size)
    copy_bytes(state.record_bytes, to + key_size, data, queue[record, L.Q_VALUE], max(value_size, 0))
    counts[L.RECORDS] += 1
    counts[L.RECORD_BYTES] = to + key_size + max(value_size, 0)
