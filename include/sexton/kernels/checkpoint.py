"""A fold outside of memory: Arrow tables, as IPC between processes and as Parquet in a checkpoint.

    keys           one row per (group_id, topic, partition), stored value and last tombstone
    pending      the newest pending value of a producer and key, `key` being the row of `keys`
    producers      what each producer has open, and its first end marker
    groups         every group id, with the log_offset of its last offset value and the number of its commits
    group_records  group records in log order, `group` being the row of `groups`
    undecodable    rows for undecodable_records, with their place in the order of the log
    counters       name and number
    profile        whose rules it follows

Wire values stay as they are (-1, zero UUIDs); NULL stands for "none" in log_offsets.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sexton.coordinator.decoding import Undecodable
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST, profile_of
from sexton.errors import DamagedFold, UsageError
from sexton.jit.compiled import compiled
from sexton.jit.memory import be16, be32, copy_bytes, pointer, same_bytes
from sexton.kernels import columns as cols
from sexton.kernels.apply import add_pending, keep_leaks, store_text
from sexton.kernels.fold_checks import check_log_offsets, check_tables
from sexton.kernels.layout import (
    ABORTED,
    ARENAS,
    COMMIT_MS,
    COMMITS,
    COMMITTED,
    EXPIRE_MS,
    GROUP_AT,
    GROUP_LENGTH,
    GROUPS,
    KEY_AT,
    KEY_SIZES,
    KEYS,
    LAST_TOMBSTONE,
    LAST_VALUE,
    LEADER_EPOCH,
    LEAKED,
    LEAKS_OPEN_TRANSACTIONS,
    LOG_OFFSET,
    MAX_COMMIT_MS,
    NONE,
    P_CANCELLED,
    P_EPOCH,
    P_FIRST,
    P_FIRST_MS,
    P_ID,
    P_LAST,
    P_MARKER,
    P_MARKER_AT,
    PENDING,
    PENDING_EPOCH,
    PENDING_KEY,
    PENDING_LOG_OFFSET,
    PENDING_PRODUCER,
    PENDING_TIMESTAMP,
    PENDING_VALUES,
    PRODUCER_ID,
    PRODUCERS,
    R_AT,
    R_BASE_OFFSET,
    R_GROUP,
    R_KEY_SIZE,
    R_LAST_VALUE,
    R_LOG_OFFSET,
    R_VALUE_SIZE,
    RECORD_BYTES,
    RECORDS,
    ROW_TABLES,
    SEEN_CONTROL,
    SEEN_LEGACY,
    SEEN_RECORDS,
    SEEN_TOMBSTONES,
    SEEN_V4,
    SEEN_VALUES,
    SINCE,
    TEXT_AT,
    TEXT_SIZE,
    TOMBSTONED,
    TOPIC_ID_HIGH,
    TOPIC_ID_LOW,
    Bytes,
    Int64s,
    State,
    add_group,
    add_key,
    find_key,
    find_pending,
    hash_span,
    producer_row,
    reserve,
    used_by,
    view_of,
)
from sexton.kernels.parquet import write_table
from sexton.kernels.rules import group_types_of, new_state_of
from sexton.kernels.scan import READ_COUNTERS, READ_COUNTS, READ_FIRST, READ_NEXT
from sexton.kernels.text import GROWTH, canonicalise, is_canonical

Tables = dict[str, pa.Table]
_Number = TypeVar("_Number", np.int64, np.uint8)

_VALUE_COLUMNS = {
    "committed_offset": COMMITTED,
    "leader_epoch": LEADER_EPOCH,
    "commit_timestamp_ms": COMMIT_MS,
    "expire_timestamp_ms": EXPIRE_MS,
    "topic_id_high": TOPIC_ID_HIGH,
    "topic_id_low": TOPIC_ID_LOW,
}
_KEY_COLUMNS = {
    "last_tombstone_log_offset": LAST_TOMBSTONE,
    "values_since_tombstone": SINCE,
    "log_offset": LOG_OFFSET,
    "producer_id": PRODUCER_ID,
    **_VALUE_COLUMNS,
}
_PENDING_COLUMNS = {
    "key": PENDING_KEY,
    "log_offset": PENDING_LOG_OFFSET,
    "value_count": PENDING_VALUES,
    "timestamp_ms": PENDING_TIMESTAMP,
    "producer_epoch": PENDING_EPOCH,
    **_VALUE_COLUMNS,
}
_PRODUCER_COLUMNS = {
    "producer_id": P_ID,
    "producer_epoch": P_EPOCH,
    "first_log_offset": P_FIRST,
    "last_log_offset": P_LAST,
    "first_timestamp_ms": P_FIRST_MS,
    "cancelled_count": P_CANCELLED,
    "first_marker": P_MARKER,
    "first_marker_log_offset": P_MARKER_AT,
}
_RECORD_COLUMNS = {
    "log_offset": R_LOG_OFFSET,
    "base_offset": R_BASE_OFFSET,
    "group": R_GROUP,
    "last_value_log_offset": R_LAST_VALUE,
}
_COUNTERS = {
    "tombstoned": TOMBSTONED,
    "aborted": ABORTED,
    "data_records": SEEN_RECORDS,
    "control_records": SEEN_CONTROL,
    "offset_values": SEEN_VALUES,
    "offset_tombstones": SEEN_TOMBSTONES,
    "legacy_records": SEEN_LEGACY,
    "values_of_version_4": SEEN_V4,
    "max_commit_timestamp_ms": MAX_COMMIT_MS,
}
_SLACK_ROWS, _SLACK_BYTES = dict.fromkeys(ROW_TABLES, 256), dict.fromkeys(ARENAS, 1 << 16)
"""Room of a restored fold for what is folded onto it, before it first grows."""
_UNREADABLE = (pa.ArrowException, OSError, StopIteration, EOFError, TypeError, ValueError, AttributeError)
"""What pyarrow raises over bytes that are not what they should be."""
_UNDECODABLE = pa.schema(
    [
        ("place", pa.int64()),
        ("base_offset", pa.int64()),
        ("log_offset", pa.int64()),
        ("record_type", pa.int64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("key", pa.large_binary()),
        ("value", pa.large_binary()),
    ]
)


def to_tables(
    state: State,
    batch_counters: Int64s,
    profile: Profile,
    undecodable: list[tuple[int, Undecodable]],
    **marks: int | None,
) -> Tables:
    """The tables of a fold; `marks` are further numbers to keep with the counters."""
    counts = state.counts
    pending = state.pending[: counts[PENDING]]
    pending = pending[pending[:, PENDING_VALUES] != 0]
    numbers = {name: int(counts[at]) for name, at in _COUNTERS.items()}
    numbers |= {f"batch_counter_{at}": int(batch_counters[at]) for at in range(READ_COUNTERS)}
    numbers |= {f"unknown_type_{at}": int(state.unknown_types[at]) for at in np.flatnonzero(state.unknown_types)}
    named = [*numbers.items(), *marks.items()]
    return {
        "keys": pa.table({**key_columns(state), **_columns(state.keys[: counts[KEYS]], _KEY_COLUMNS, state)}),
        "pending": pa.table(
            {
                "producer_id": pa.array(state.producers[pending[:, PENDING_PRODUCER], P_ID]),
                **_columns(pending, _PENDING_COLUMNS, state),
            }
        ),
        "producers": pa.table(_columns(state.producers[: counts[PRODUCERS]], _PRODUCER_COLUMNS)),
        "groups": _groups(state),
        "group_records": _group_records(state),
        "undecodable": pa.Table.from_pylist([{"place": at, **asdict(row)} for at, row in undecodable], _UNDECODABLE),
        "counters": pa.table(
            {
                "name": pa.array([name for name, _ in named], pa.string()),
                "number": pa.array([number for _, number in named], pa.int64()),
            }
        ),
        "profile": pa.table({"profile": [profile.text]}),
    }


def key_columns(state: State, rows: Int64s | None = None) -> dict[str, pa.Array]:
    """group_id, topic and partition of all keys, or of some rows of `keys`."""
    chosen = slice(state.counts[KEYS]) if rows is None else rows
    at, sizes = state.keys[chosen, KEY_AT], state.keys[chosen, KEY_SIZES]
    group_size, size = sizes >> 32, sizes & 0xFFFFFFFF
    end = at + size - 4
    topic_at = at + 4 + group_size
    partitions = np.empty(len(at), np.int32)
    _read_partitions(state.key_bytes, end, partitions)
    return {
        "group_id": cols.strings(state.key_bytes, at + 2, group_size),
        "topic": cols.strings(state.key_bytes, topic_at, end - topic_at),
        "partition": pa.array(partitions),
    }


@compiled
def _read_partitions(arena: Any, at: Any, out: Any) -> None:
    data = pointer(arena)
    for row in range(len(at)):
        out[row] = be32(data, at[row])


def _columns(table: Int64s, names: Mapping[str, int], state: State | None = None) -> dict[str, pa.Array]:
    """Columns of `table` by name, and with a `state` the metadata of its rows."""
    found = cols.offsets(table, names)
    if state is not None:
        sizes = table[:, TEXT_SIZE]
        if LOG_OFFSET in names.values():
            sizes = np.where(table[:, LOG_OFFSET] == NONE, 0, sizes)
        found["metadata"] = cols.spans(state.text_bytes, table[:, TEXT_AT], sizes)
    return found


def _groups(state: State) -> pa.Table:
    groups = state.groups[: state.counts[GROUPS]]
    return pa.table(
        {
            "group_id": cols.strings(state.key_bytes, groups[:, GROUP_AT], groups[:, GROUP_LENGTH]),
            **cols.offsets(groups, {"last_value_log_offset": LAST_VALUE}),
            "commits": pa.array(groups[:, COMMITS]),
        }
    )


def _group_records(state: State) -> pa.Table:
    records = state.records[: state.counts[RECORDS]]
    at, key_size, value_size = records[:, R_AT], records[:, R_KEY_SIZE], records[:, R_VALUE_SIZE]
    values = cols.spans(state.record_bytes, at + key_size, np.maximum(value_size, 0))
    return pa.table(
        {
            **_columns(records, _RECORD_COLUMNS),
            "key": cols.spans(state.record_bytes, at, key_size),
            "value": cols.masked(values, value_size < 0),
        }
    )


def from_tables(
    tables: Tables, *, room_for: State | None = None
) -> tuple[State, Int64s, Profile, list[tuple[int, Undecodable]], dict[str, int | None]]:
    """What `to_tables` was given, with room for all of `room_for`, which is to be joined to it, or for a little more.

    DamagedFold, with the name of the table, when it is nothing that `to_tables` gives: nothing is used unchecked.
    """
    check_tables(tables, {name: table.schema for name, table in _no_rows().items()})
    tables = {name: table.combine_chunks() for name, table in tables.items()}
    profile = _profile_in(tables["profile"])
    batch_counters, numbers, unknown_types, marks = _counters_in(tables["counters"])
    check_log_offsets(tables, batch_counters)
    more_rows, more_bytes = (_SLACK_ROWS, _SLACK_BYTES) if room_for is None else used_by(room_for)
    rows = {
        "keys": tables["keys"].num_rows,
        "groups": tables["groups"].num_rows,
        # a transaction that Kafka 4.0.0 takes for open may be of a producer that has nothing else
        "producers": tables["producers"].num_rows + tables["pending"].num_rows,
        "pending": tables["pending"].num_rows,
        "records": tables["group_records"].num_rows,
    }
    sizes = {
        "key_bytes": sum(_size(tables[name], "group_id") for name in ("keys", "groups"))
        + _size(tables["keys"], "topic")
        + 8 * tables["keys"].num_rows,
        "text_bytes": _size(tables["keys"], "metadata") + _size(tables["pending"], "metadata"),
        "record_bytes": _size(tables["group_records"], "key") + _size(tables["group_records"], "value"),
    }
    state = reserve(
        new_state_of(profile, keys=16),
        rows={name: count + more_rows[name] for name, count in rows.items()},
        sizes={name: count + more_bytes[name] for name, count in sizes.items()},
    )
    _refuse(
        "groups",
        _restore_groups(
            state,
            *_spans_of(tables["groups"], "group_id"),
            _ints(tables["groups"], "last_value_log_offset"),
            _ints(tables["groups"], "commits"),
        ),
        "a group that is there twice",
    )
    _refuse(
        "keys",
        _restore_keys(
            state,
            *_spans_of(tables["keys"], "group_id"),
            *_spans_of(tables["keys"], "topic"),
            _ints(tables["keys"], "partition"),
            *_spans_of(tables["keys"], "metadata"),
        ),
        "a key that is there twice, or of a group that is not there",
    )
    _fill(state.keys, tables["keys"], _KEY_COLUMNS)
    _refuse("producers", _restore_producers(state, _ints(tables["producers"], "producer_id")), "it is there twice")
    _fill(state.producers, tables["producers"], _PRODUCER_COLUMNS)
    _refuse(
        "pending",
        _restore_pending(
            state,
            _ints(tables["pending"], "key"),
            _ints(tables["pending"], "producer_id"),
            _ints(tables["pending"], "value_count"),
            *_spans_of(tables["pending"], "metadata"),
        ),
        "a value that is there twice, or of a producer that has nothing open",
    )
    _fill(state.pending, tables["pending"], _PENDING_COLUMNS)
    _restore_leaks(state)
    _restore_records(state, tables["group_records"])
    _refuse("group_records", _misfit_record(state, group_types_of(profile)), "no record of its group")
    for at, number in numbers.items():
        state.counts[at] = number
    for number, count in unknown_types.items():
        state.unknown_types[number] = count
    undecodable = [(row.pop("place"), Undecodable(**row)) for row in tables["undecodable"].to_pylist()]
    return state, batch_counters, profile, undecodable, marks


def _refuse(table: str, row: int, what: str) -> None:
    """DamagedFold for the row of a table that compiled code has refused; none where it is -1."""
    if row >= 0:
        raise DamagedFold(f"row {row}: {what}", where=table)


def _profile_in(table: pa.Table) -> Profile:
    try:
        return profile_of(table["profile"][0].as_py())
    except UsageError as error:
        raise DamagedFold(error.message[:80], where="profile") from None


def _counters_in(table: pa.Table) -> tuple[Int64s, dict[int, int], dict[int, int], dict[str, int | None]]:
    """The batch counters, numbers by their place in `counts`, the count of each unknown type, and the other marks."""
    counters: dict[str, int | None] = dict(zip(*(table[name].to_pylist() for name in ("name", "number")), strict=True))
    try:
        batch_counters = np.array([counters.pop(f"batch_counter_{at}") for at in range(READ_COUNTERS)], np.int64)
        numbers = {at: _count(counters.pop(name), is_stamp=at == MAX_COMMIT_MS) for name, at in _COUNTERS.items()}
        unknown_types = {
            int(name.removeprefix("unknown_type_")): _count(counters.pop(name))
            for name in [name for name in counters if re.fullmatch(r"unknown_type_\d{1,5}", name)]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFold(f"no counters of a fold: {error}", where="counters") from None
    is_in_order = (
        batch_counters[READ_FIRST] >= -1
        and batch_counters[READ_NEXT] >= batch_counters[READ_FIRST]
        and batch_counters[READ_COUNTS].min() >= 0
    )
    if not is_in_order or any(number >> 16 for number in unknown_types):
        raise DamagedFold("no counters of a fold", where="counters")
    return batch_counters, numbers, unknown_types, counters


def _count(number: int | None, *, is_stamp: bool = False) -> int:
    if number is None or (number < 0 and not is_stamp):
        raise ValueError(f"a count of {number}")
    return number


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table[name]
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _ints(table: pa.Table, name: str) -> Int64s:
    """A column of numbers, NONE where it is NULL, read-only."""
    column = _column(table, name)
    told = pc.fill_null(column, NONE) if column.null_count else column
    numbers: Int64s = np.asarray(told).astype(np.int64, copy=False)
    return _read_only(numbers)


def _read_only(values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """As the compiled functions take what they only read: they are compiled for one kind of array."""
    view = values.view()
    view.flags.writeable = False
    return view


def _fill(target: Int64s, table: pa.Table, names: Mapping[str, int]) -> None:
    """Write columns of numbers into the first rows of `target`."""
    for name, column in names.items():
        target[: table.num_rows, column] = _ints(table, name)


def _spans_of(table: pa.Table, name: str) -> tuple[Int64s, Bytes]:
    """Ends of the values of a string or binary column, with a 0 before, and their bytes; both read-only."""
    column = _column(table, name).cast(pa.large_binary())
    if len(column) == 0:
        return _read_only(np.zeros(1, np.int64)), _read_only(np.zeros(1, np.uint8))
    _, ends, data = column.buffers()
    first, count = column.offset, len(column) + 1
    has_bytes = data is not None and data.size
    return (
        _read_only(np.frombuffer(ends, np.int64)[first : first + count]),
        _read_only(np.frombuffer(data, np.uint8) if has_bytes else np.zeros(1, np.uint8)),
    )


def _size(table: pa.Table, name: str) -> int:
    ends, _ = _spans_of(table, name)
    return int(ends[-1] - ends[0])


@compiled
def _restore_groups(arrays: State, ends: Any, data: Any, last_values: Any, commits: Any) -> int:
    """Append groups; the first row whose group is there already, else -1."""
    state, source = view_of(arrays), pointer(data)
    for row in range(len(last_values)):
        group = add_group(state, source, ends[row], ends[row + 1] - ends[row])
        if group != row:
            return row
        state.groups[group, LAST_VALUE] = last_values[row]
        state.groups[group, COMMITS] = commits[row]
    return -1


@compiled
def _restore_keys(
    arrays: State,
    group_ends: Any,
    groups: Any,
    topic_ends: Any,
    topics: Any,
    partitions: Any,
    text_ends: Any,
    texts: Any,
) -> int:
    """Append keys from their strings; each is framed in `key_bytes` behind what is used, where `add_key` leaves it.

    The first row whose key is there already, or whose group is not, else -1: there is room for no other group.
    """
    state = view_of(arrays)
    known = state.counts[GROUPS]
    out, group_data, topic_data, text_data = state.key_bytes, pointer(groups), pointer(topics), pointer(texts)
    for row in range(len(partitions)):
        group_at, topic_at = group_ends[row], topic_ends[row]
        group_size, topic_size = group_ends[row + 1] - group_at, topic_ends[row + 1] - topic_at
        size = group_size + topic_size + 8
        span_array = np.empty(size, np.uint8)
        span = pointer(span_array)
        span[0], span[1] = (group_size >> 8) & 0xFF, group_size & 0xFF
        copy_bytes(span, 2, group_data, group_at, group_size)
        at = 2 + group_size
        span[at], span[at + 1] = (topic_size >> 8) & 0xFF, topic_size & 0xFF
        copy_bytes(span, at + 2, topic_data, topic_at, topic_size)
        for i in range(4):
            span[size - 4 + i] = (partitions[row] >> (24 - 8 * i)) & 0xFF
        is_new = find_key(state, hash_span(state, span, 0, size), span, 0, size, group_size) < 0
        key = add_key(state, span, 0, group_size, topic_size) if is_new else np.int64(-1)
        span_array[0] = out[0]  # the array has to outlive its pointer
        if key != row or state.counts[GROUPS] != known:
            return row
        store_text(state, state.keys, key, text_data, text_ends[row], text_ends[row + 1] - text_ends[row])
    return -1


@compiled
def _restore_producers(arrays: State, producer_ids: Any) -> int:
    """Append producers; the first row whose producer is there already, else -1."""
    state = view_of(arrays)
    for row in range(len(producer_ids)):
        if producer_row(state, producer_ids[row]) != row:
            return row
    return -1


@compiled
def _restore_pending(arrays: State, keys: Any, producer_ids: Any, value_counts: Any, text_ends: Any, texts: Any) -> int:
    """Append pending values; the first row that is there already, or whose producer has nothing open, else -1.

    What transactions leak in Kafka 4.0.0 may be of a producer without a row of its own.
    """
    state, text_data = view_of(arrays), pointer(texts)
    for row in range(len(keys)):
        producer = producer_row(state, producer_ids[row])
        if value_counts[row] == LEAKED:
            is_known = state.counts[LEAKS_OPEN_TRANSACTIONS] != 0
        else:
            is_known = state.producers[producer, P_FIRST] != NONE and find_pending(state, keys[row], producer) < 0
        to = add_pending(state, keys[row], producer)
        if to != row or not is_known:
            return row
        state.pending[to, PENDING_VALUES] = value_counts[row]
        store_text(state, state.pending, to, text_data, text_ends[row], text_ends[row + 1] - text_ends[row])
    return -1


@compiled
def _misfit_record(arrays: State, group_types: Any) -> int:
    """The first group record whose type is not one of a group (`rules.group_types_of`), or whose key names a group
    other than that of its row; else -1."""
    state = view_of(arrays)
    data = state.record_bytes
    for row in range(state.counts[RECORDS]):
        at, room = state.records[row, R_AT], state.records[row, R_KEY_SIZE] - 4
        record_type, size = np.int64(be16(data, at)), np.int64(be16(data, at + 2))
        if (
            record_type < 0
            or record_type >= len(group_types)
            or group_types[record_type] == 0
            or size < 0
            or size > room
        ):
            return row
        group = state.records[row, R_GROUP]
        own_at, own_size = state.groups[group, GROUP_AT], state.groups[group, GROUP_LENGTH]
        if is_canonical(data, at + 4, size):
            is_own = size == own_size and same_bytes(state.key_bytes, own_at, data, at + 4, size)
        else:
            name_array = np.empty(GROWTH * size, np.uint8)
            name = pointer(name_array)
            is_own = canonicalise(data, at + 4, size, name, 0) == own_size
            is_own = is_own and same_bytes(state.key_bytes, own_at, name, 0, own_size)
            name_array[0] = 0  # the array has to outlive its pointer
        if not is_own:
            return row
    return -1


@compiled
def _restore_leaks(arrays: State) -> None:
    keep_leaks(view_of(arrays))


def _restore_records(state: State, table: pa.Table) -> None:
    count = table.num_rows
    (key_ends, keys), (value_ends, values) = _spans_of(table, "key"), _spans_of(table, "value")
    key_sizes, value_sizes = np.diff(key_ends), np.diff(value_ends)
    records = state.records[:count]
    for name, column in _RECORD_COLUMNS.items():
        records[:, column] = _ints(table, name)
    records[:, R_KEY_SIZE] = key_sizes
    records[:, R_VALUE_SIZE] = np.where(np.asarray(_column(table, "value").is_null()), -1, value_sizes)
    sizes = key_sizes + value_sizes
    records[:, R_AT] = np.cumsum(sizes) - sizes
    for row in range(count):
        at = records[row, R_AT]
        middle, end = at + key_sizes[row], at + sizes[row]
        state.record_bytes[at:middle] = keys[key_ends[row] : key_ends[row + 1]]
        state.record_bytes[middle:end] = values[value_ends[row] : value_ends[row + 1]]
    state.counts[RECORDS] = count
    state.counts[RECORD_BYTES] = int(sizes.sum())


def pack(tables: Tables) -> bytes:
    """Tables as one Arrow IPC stream: a row with the stream of each."""
    streams = {}
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        streams[name] = pa.array([sink.getvalue().to_pybytes()], pa.large_binary())
    batch = pa.record_batch(streams)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack(data: bytes) -> Tables:
    """What `pack` was given; DamagedFold when it is nothing that `pack` gives."""
    try:
        batch = pa.ipc.open_stream(data).read_next_batch()
        batch.validate(full=True)
        return {name: pa.ipc.open_stream(batch.column(name)[0].as_buffer()).read_all() for name in batch.schema.names}
    except _UNREADABLE as error:
        raise DamagedFold(f"not the tables of a fold: {error}") from None


def write_parquet(tables: Tables, folder: Path) -> None:
    """One Parquet file per table that has rows, the same bytes for the same fold."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        if table.num_rows:
            write_table(table, folder / f"{name}.parquet")


def read_parquet(folder: Path) -> Tables:
    """What `write_parquet` wrote; DamagedFold, with the name of the table, when a file is no Parquet.

    Each log partition has a thread or a process of its own already.
    """
    found = {}
    for path in sorted(folder.glob("*.parquet")):
        try:
            found[path.stem] = pq.ParquetFile(path, memory_map=True).read(use_threads=False)
        except _UNREADABLE as error:
            raise DamagedFold(f"not to be read as Parquet: {error}", where=path.stem) from None
    return _no_rows() | found


@cache
def _no_rows() -> Tables:
    tables = to_tables(new_state_of(NEWEST, keys=16), np.zeros(READ_COUNTERS, np.int64), NEWEST, [])
    return {name: table.slice(0, 0) for name, table in tables.items()}
