"""Rebuilds the state of a fold from the tables of a checkpoint, and checks them.

Damaged tables raise DamagedFold. Compiled code never uses an index or a length that was not checked.
"""

# What numba compiles has sized integers where the annotations say int and bool.
# mypy: disable-error-code="no-any-return, return-value, assignment"

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.decoding import Undecodable
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.errors import DamagedFold, UsageError
from sexton.jit.compiled import compiled
from sexton.jit.memory import be16, copy_bytes, pointer, same_bytes
from sexton.kernels import layout as L
from sexton.kernels.checkpoint.checks import check_log_offsets, check_tables
from sexton.kernels.checkpoint.tables import (
    COUNTERS,
    KEY_COLUMNS,
    PENDING_COLUMNS,
    PRODUCER_COLUMNS,
    RECORD_COLUMNS,
    Tables,
    no_rows,
)
from sexton.kernels.columns import value_spans
from sexton.kernels.growth import reserve
from sexton.kernels.index import (
    add_group,
    append_key,
    find_key,
    find_pending,
    hash_span,
    producer_row,
    put_slot,
)
from sexton.kernels.layout import FoldState, Int64s, sealed, view_of
from sexton.kernels.pending_rows import add_pending, relink_leaks, store_text
from sexton.kernels.profile_flags import group_types_of, new_state_of
from sexton.kernels.text import GROWTH, canonicalise, is_canonical

_SLACK_ROWS, _SLACK_BYTES = 256, 1 << 16
"""Spare space of a restored fold before it first grows."""
_FILLED_ROWS = 4_096


def from_tables(
    tables: Tables, *, is_indexed: bool = True
) -> tuple[FoldState, Int64s, Profile, list[tuple[int, Undecodable]], dict[str, int | None]]:
    """The state, batch counters, profile, undecodable records and marks that `to_tables` wrote.

    The state has space for a few more rows. Without `is_indexed` it has no index of keys: it can only be joined to
    another state, and duplicate keys are not detected.

    DamagedFold, with the name of the table, for anything that `to_tables` does not write: nothing is used unchecked.
    """
    check_tables(tables, {name: table.schema for name, table in no_rows().items()})
    tables = {name: table.combine_chunks() for name, table in tables.items()}
    profile = _profile_in(tables["profile"])
    batch_counters, numbers, unknown_types, marks = _counters_in(tables["counters"])
    check_log_offsets(tables, batch_counters)
    state = _empty_state(tables, profile)
    groups, keys, producers, pending = (tables[name] for name in ("groups", "keys", "producers", "pending"))
    refused = _restore_groups(
        state, *value_spans(groups["group_id"]), _ints(groups, "last_value_log_offset"), _ints(groups, "commits")
    )
    _refuse("groups", refused, "duplicate group")
    refused = _restore_keys(
        state,
        *value_spans(keys["group_id"]),
        *value_spans(keys["topic"]),
        _ints(keys, "partition"),
        *value_spans(keys["metadata"]),
        is_indexed,
    )
    _refuse("keys", refused, "a duplicate key, or a key whose group is missing")
    _fill(state.keys, keys, KEY_COLUMNS)
    _refuse("producers", _restore_producers(state, _ints(producers, "producer_id")), "it is there twice")
    _fill(state.producers, producers, PRODUCER_COLUMNS)
    refused = _restore_pending(
        state,
        *(_ints(pending, name) for name in ("key", "producer_id", "value_count")),
        *value_spans(pending["metadata"]),
    )
    _refuse("pending", refused, "a duplicate value, or a value whose producer has no open transaction")
    _fill(state.pending, pending, PENDING_COLUMNS)
    relink_leaks(state)
    _restore_records(state, tables["group_records"])
    _refuse("group_records", _misfit_record(state, group_types_of(profile)), "no record of its group")
    for at, number in numbers.items():
        state.counts[at] = number
    for number, count in unknown_types.items():
        state.unknown_types[number] = count
    undecodable = [(row.pop("place"), Undecodable(**row)) for row in tables["undecodable"].to_pylist()]
    return state, batch_counters, profile, undecodable, marks


def _empty_state(tables: Tables, profile: Profile) -> FoldState:
    """A state with space for the rows of `tables`, and for a few more."""
    keys, pending, records = tables["keys"], tables["pending"], tables["group_records"]
    key_bytes = _size(keys, "group_id") + _size(keys, "topic") + 8 * keys.num_rows
    needed = {
        "keys": keys.num_rows,
        "groups": tables["groups"].num_rows,
        # a transaction that Kafka 4.0.0 leaves open may belong to a producer that has nothing else
        "producers": tables["producers"].num_rows + pending.num_rows,
        "pending": pending.num_rows,
        "records": records.num_rows,
        "key_bytes": key_bytes + _size(tables["groups"], "group_id"),
        "text_bytes": _size(keys, "metadata") + _size(pending, "metadata"),
        "record_bytes": _size(records, "key") + _size(records, "value"),
    }
    slack = dict.fromkeys(L.ROW_TABLES, _SLACK_ROWS) | dict.fromkeys(L.ARENAS, _SLACK_BYTES)
    return reserve(new_state_of(profile, keys=16), {name: count + slack[name] for name, count in needed.items()})


def _refuse(table: str, row: int, what: str) -> None:
    """Raise DamagedFold for the row of a table that compiled code refused; -1: none was refused."""
    if row >= 0:
        raise DamagedFold(f"row {row}: {what}", where=table)


def _profile_in(table: pa.Table) -> Profile:
    try:
        return profile_of(table["profile"][0].as_py())
    except UsageError as error:
        raise DamagedFold(error.message[:80], where="profile") from None


def _counters_in(table: pa.Table) -> tuple[Int64s, dict[int, int], dict[int, int], dict[str, int | None]]:
    """The batch counters, the numbers by their index in `counts`, the count of each unknown record type, and the
    marks."""
    counters: dict[str, int | None] = dict(zip(*(table[name].to_pylist() for name in ("name", "number")), strict=True))
    try:
        batch_counters = np.array([counters.pop(f"batch_counter_{at}") for at in range(L.READ_COUNTERS)], np.int64)
        numbers = {at: _count(counters.pop(name), is_stamp=at == L.MAX_COMMIT_MS) for name, at in COUNTERS.items()}
        unknown_types = {
            int(name.removeprefix("unknown_type_")): _count(counters.pop(name))
            for name in [name for name in counters if re.fullmatch(r"unknown_type_\d{1,5}", name)]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFold(f"not the counters of a fold: {error}", where="counters") from None
    is_in_order = (batch_counters[L.READ_FIRST] >= 0) == (batch_counters[L.READ_BATCHES] > 0) and batch_counters[
        L.READ_COUNTS
    ].min() >= 0
    if not is_in_order or any(number >> 16 for number in unknown_types):
        raise DamagedFold("not the counters of a fold", where="counters")
    return batch_counters, numbers, unknown_types, counters


def _count(number: int | None, *, is_stamp: bool = False) -> int:
    if number is None or (number < 0 and not is_stamp):
        raise ValueError(f"a count of {number}")
    return number


def _ints(table: pa.Table, name: str) -> Int64s:
    """A column of numbers, NONE where it is NULL, read-only."""
    column = table[name].combine_chunks()
    filled = pc.fill_null(column, L.NONE) if column.null_count else column
    numbers: Int64s = np.asarray(filled).astype(np.int64, copy=False)
    return sealed(numbers)


def _fill(target: Int64s, table: pa.Table, names: Mapping[str, int]) -> None:
    """Write columns of numbers into the first rows of `target`, in blocks of rows that stay in the cache."""
    columns = [(_ints(table, name), column) for name, column in names.items()]
    for start in range(0, table.num_rows, _FILLED_ROWS):
        rows = target[start : min(start + _FILLED_ROWS, table.num_rows)]
        for numbers, column in columns:
            rows[:, column] = numbers[start : start + _FILLED_ROWS]


def _size(table: pa.Table, name: str) -> int:
    ends, _ = value_spans(table[name])
    return int(ends[-1] - ends[0])


@compiled
def _restore_groups(arrays: FoldState, ends: Any, data: Any, last_values: Any, commits: Any) -> int:
    """Append groups; return the first row whose group exists already, or -1."""
    state, source = view_of(arrays), pointer(data)
    for row in range(len(last_values)):
        group = add_group(state, source, ends[row], ends[row + 1] - ends[row])
        if group != row:
            return row
        state.groups[group, L.LAST_VALUE] = last_values[row]
        state.groups[group, L.COMMITS] = commits[row]
    return -1


@compiled
def _restore_keys(
    arrays: FoldState,
    group_ends: Any,
    groups: Any,
    topic_ends: Any,
    topics: Any,
    partitions: Any,
    text_ends: Any,
    texts: Any,
    is_indexed: bool,
) -> int:
    """Append keys from their strings; return the first row whose key exists already or whose group is missing, or -1.

    A missing group is never added: no space is reserved for it.
    """
    state = view_of(arrays)
    known = state.counts[L.GROUPS]
    out, group_data, topic_data, text_data = state.key_bytes, pointer(groups), pointer(topics), pointer(texts)
    for row in range(len(partitions)):
        group_at, topic_at, at = group_ends[row], topic_ends[row], state.counts[L.KEY_BYTES]
        group_size, topic_size = group_ends[row + 1] - group_at, topic_ends[row + 1] - topic_at
        if not is_canonical(group_data, group_at, group_size) or not is_canonical(topic_data, topic_at, topic_size):
            return row
        size, middle = group_size + topic_size + 8, at + 2 + group_size
        out[at], out[at + 1] = (group_size >> 8) & 0xFF, group_size & 0xFF
        copy_bytes(out, at + 2, group_data, group_at, group_size)
        out[middle], out[middle + 1] = (topic_size >> 8) & 0xFF, topic_size & 0xFF
        copy_bytes(out, middle + 2, topic_data, topic_at, topic_size)
        for i in range(4):
            out[at + size - 4 + i] = (partitions[row] >> (24 - 8 * i)) & 0xFF
        hashed = hash_span(state, out, at, size) if is_indexed else np.int64(0)
        if is_indexed and find_key(state, hashed, out, at, size, group_size) >= 0:
            return row
        key = append_key(state, at, group_size, size)
        if state.counts[L.GROUPS] != known:
            return row
        if is_indexed:
            put_slot(state.key_slots, state.counts[L.KEY_MASK], hashed, key)
        store_text(state, state.keys, key, text_data, text_ends[row], text_ends[row + 1] - text_ends[row])
    return -1


@compiled
def _restore_producers(arrays: FoldState, producer_ids: Any) -> int:
    """Append producers; return the first row whose producer exists already, or -1."""
    state = view_of(arrays)
    for row in range(len(producer_ids)):
        if producer_row(state, producer_ids[row]) != row:
            return row
    return -1


@compiled
def _restore_pending(
    arrays: FoldState, keys: Any, producer_ids: Any, value_counts: Any, text_ends: Any, texts: Any
) -> int:
    """Append pending values; return the first row that exists already or whose producer has nothing open, or -1.

    A transaction that Kafka 4.0.0 leaves open may belong to a producer without a row.
    """
    state, text_data = view_of(arrays), pointer(texts)
    for row in range(len(keys)):
        producer = producer_row(state, producer_ids[row])
        if value_counts[row] == L.LEAKED:
            is_known = state.counts[L.LEAKS_OPEN_TRANSACTIONS] != 0
        else:
            is_known = state.producers[producer, L.P_FIRST] != L.NONE and find_pending(state, keys[row], producer) < 0
        to = add_pending(state, keys[row], producer)
        if to != row or not is_known:
            return row
        state.pending[to, L.PENDING_VALUES] = value_counts[row]
        store_text(state, state.pending, to, text_data, text_ends[row], text_ends[row + 1] - text_ends[row])
    return -1


@compiled
def _misfit_record(arrays: FoldState, group_types: Any) -> int:
    """The first group record whose type is not that of a group record (`profile_flags.group_types_of`) or whose key
    names another group than its row does; -1 if there is none."""
    state = view_of(arrays)
    data = state.record_bytes
    for row in range(state.counts[L.RECORDS]):
        at, room = state.records[row, L.R_AT], state.records[row, L.R_KEY_SIZE] - 4
        record_type, size = np.int64(be16(data, at)), np.int64(be16(data, at + 2))
        if (
            record_type < 0
            or record_type >= len(group_types)
            or group_types[record_type] == 0
            or size < 0
            or size > room
        ):
            return row
        group = state.records[row, L.R_GROUP]
        own_at, own_size = state.groups[group, L.GROUP_AT], state.groups[group, L.GROUP_LENGTH]
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


def _restore_records(state: FoldState, table: pa.Table) -> None:
    count = table.num_rows
    (key_ends, keys), (value_ends, values) = value_spans(table["key"]), value_spans(table["value"])
    key_sizes, value_sizes = np.diff(key_ends), np.diff(value_ends)
    records = state.records[:count]
    for name, column in RECORD_COLUMNS.items():
        records[:, column] = _ints(table, name)
    records[:, L.R_KEY_SIZE] = key_sizes
    records[:, L.R_VALUE_SIZE] = np.where(np.asarray(table["value"].is_null()), -1, value_sizes)
    sizes = key_sizes + value_sizes
    records[:, L.R_AT] = np.cumsum(sizes) - sizes
    for row in range(count):
        at = records[row, L.R_AT]
        middle, end = at + key_sizes[row], at + sizes[row]
        state.record_bytes[at:middle] = keys[key_ends[row] : key_ends[row + 1]]
        state.record_bytes[middle:end] = values[value_ends[row] : value_ends[row + 1]]
    state.counts[L.RECORDS] = count
    state.counts[L.RECORD_BYTES] = int(sizes.sum())
