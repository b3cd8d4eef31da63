"""Converts the rows and byte arenas of a fold to Arrow columns, without a Python object for each row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sexton.jit.compiled import compiled
from sexton.jit.memory import be32, copy_bytes, pointer
from sexton.kernels import layout as L
from sexton.kernels.layout import Bytes, FoldState, Int64s, sealed
from sexton.kernels.text import GROWTH, canonicalise, is_canonical
from sexton.log.crc import as_u8
from sexton.tables import TABLES

_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
_ID_CHARS = 22
Mask = npt.NDArray[np.bool_]
TEXT_LIST = pa.list_(pa.string())


def log_schema(table: str, *without: str) -> pa.Schema:
    """The schema of the columns of a table of `sexton.tables` that the log fills, in the table's order, except the
    run's columns and those named in `without`."""
    declared = TABLES[table].arrow_schema(with_run=False, origin="log")
    return pa.schema([field for field in declared if field.name not in without])


@compiled
def _gather(arena: Any, starts: Any, sizes: Any, ends: Any, out: Any) -> None:
    source, target = pointer(arena), pointer(out)
    to = 0
    for row in range(len(starts)):
        copy_bytes(target, to, source, starts[row], sizes[row])
        to += sizes[row]
        ends[row + 1] = to


@compiled
def _canonical_size(arena: Any, starts: Any, sizes: Any) -> int:
    """An upper bound of the bytes of all canonical forms; -1 if every span is canonical already."""
    data = pointer(arena)
    total, is_plain = 0, True
    for row in range(len(starts)):
        if is_canonical(data, starts[row], sizes[row]):
            total += sizes[row]
        else:
            total += GROWTH * sizes[row]
            is_plain = False
    return -1 if is_plain else total


@compiled
def _gather_canonical(arena: Any, starts: Any, sizes: Any, ends: Any, out: Any) -> None:
    source, target = pointer(arena), pointer(out)
    to = 0
    for row in range(len(starts)):
        to += canonicalise(source, starts[row], sizes[row], target, to)
        ends[row + 1] = to


@compiled
def _write_ids(high: Any, low: Any, alphabet: Any, out: Any) -> None:
    for row in range(len(high)):
        for char in range(_ID_CHARS):
            bit = 6 * char  # of the 128 bits, from the left; the last character has two bits
            if bit < 60:
                value = high[row] >> (58 - bit)
            elif bit == 60:
                value = (high[row] & 0xF) << 2 | (low[row] >> 62) & 0x3
            elif bit < 126:
                value = low[row] >> (122 - bit)
            else:
                value = (low[row] & 0x3) << 4
            out[row, char] = alphabet[value & 0x3F]


def value_spans(column: pa.Array | pa.ChunkedArray) -> tuple[Int64s, Bytes]:
    """Offsets and bytes of a string or binary column, as in Arrow: value i lies between offsets i and i + 1."""
    values = column.cast(pa.large_binary())
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if not len(values):
        return sealed(np.zeros(1, np.int64)), as_u8(b"")
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    return sealed(ends), as_u8(data or b"")


def spans(arena: Bytes, starts: Int64s, sizes: Int64s) -> pa.Array:
    """large_binary: the bytes of each span."""
    starts, sizes = np.ascontiguousarray(starts), np.ascontiguousarray(sizes)
    ends = np.zeros(len(starts) + 1, np.int64)
    out = np.empty(int(sizes.sum()), np.uint8)
    _gather(sealed(arena), starts, sizes, ends, out)
    return pa.Array.from_buffers(pa.large_binary(), len(starts), [None, pa.py_buffer(ends), pa.py_buffer(out)])


def strings(arena: Bytes, starts: Int64s, sizes: Int64s) -> pa.Array:
    """large_string: each span in its canonical form."""
    starts, sizes = np.ascontiguousarray(starts), np.ascontiguousarray(sizes)
    room = _canonical_size(sealed(arena), starts, sizes)
    if room < 0:
        return spans(arena, starts, sizes).view(pa.large_string())
    ends = np.zeros(len(starts) + 1, np.int64)
    out = np.empty(room, np.uint8)
    _gather_canonical(sealed(arena), starts, sizes, ends, out)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(out[: ends[-1]])]
    return pa.Array.from_buffers(pa.large_string(), len(starts), buffers)


def topic_ids(high: Int64s, low: Int64s) -> pa.Array:
    """large_string: UUIDs as Kafka writes them (Uuid.toString), NULL for the zero UUID."""
    is_told = (high != 0) | (low != 0)
    out = np.empty((int(is_told.sum()), _ID_CHARS), np.uint8)
    _write_ids(high[is_told], low[is_told], _BASE64, out)
    ends = np.zeros(len(is_told) + 1, np.int64)
    np.cumsum(is_told, out=ends[1:])
    buffers = [pa.array(is_told).buffers()[1], pa.py_buffer(ends * _ID_CHARS), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.large_string(), len(is_told), buffers)


def places(order: Int64s, count: int) -> Int64s:
    """The position of each of `count` rows in `order`; -1 for a row that is not in it."""
    found = np.full(count, -1, np.int64)
    found[order] = np.arange(len(order))
    return found


def masked(values: pa.Array, is_null: Mask) -> pa.Array:
    """`values` with NULL where `is_null`."""
    if not is_null.any():
        return values
    return pc.if_else(pa.array(~is_null), values, pa.scalar(None, values.type))


def numbers(
    table: Int64s, columns: Mapping[str, int], *, absent: Mapping[str, int] | None = None
) -> dict[str, pa.Array]:
    """int64 columns of a table of rows, by name; NULL where a value equals the one that `absent` has for the name.

    All columns are made in one call: threads contend at every call into NumPy or Arrow, however small.
    """
    absent = absent or {}
    count = len(table)
    out = np.empty((len(columns), count), np.int64)
    validity = np.zeros((len(columns), -(-count // 8)), np.uint8)
    nulls = np.empty(len(columns), np.int64)
    can_be_null = np.array([name in absent for name in columns])
    null_values = np.array([absent.get(name, 0) for name in columns], np.int64)
    _split(table, np.array(list(columns.values()), np.int64), can_be_null, null_values, out, validity, nulls)
    return {
        name: pa.Array.from_buffers(
            pa.int64(), count, [pa.py_buffer(valid) if null_count else None, pa.py_buffer(values)], int(null_count)
        )
        for name, values, valid, null_count in zip(columns, out, validity, nulls.tolist(), strict=True)
    }


@compiled
def _split(table: Any, columns: Any, can_be_null: Any, null_values: Any, out: Any, validity: Any, nulls: Any) -> None:
    nulls[:] = 0
    for row in range(len(table)):
        for at in range(len(columns)):
            value = table[row, columns[at]]
            out[at, row] = value
            if can_be_null[at] and value == null_values[at]:
                nulls[at] += 1
            else:
                validity[at, row >> 3] |= np.uint8(1 << (row & 7))


def offsets(table: Int64s, columns: Mapping[str, int]) -> dict[str, pa.Array]:
    """`numbers` with NULL for NONE."""
    return numbers(table, columns, absent=dict.fromkeys(columns, L.NONE))


def names(state: FoldState, starts: Int64s, sizes: Int64s) -> pa.Array:
    """large_string: spans of `key_bytes`, which are canonical already."""
    return spans(state.key_bytes, starts, sizes).view(pa.large_string())


def key_columns(state: FoldState, keys: Int64s) -> dict[str, pa.Array]:
    """group_id, topic and partition of `keys`, which are rows of `state.keys`."""
    group_ids = names(state, keys[:, L.KEY_AT] + 2, keys[:, L.KEY_SIZES] >> 32)
    return {"group_id": group_ids, **topic_partitions(state, keys)}


def named_keys(state: FoldState, keys: Int64s) -> dict[str, pa.Array]:
    """`key_columns` with the types that these columns have in tables."""
    named = key_columns(state, keys)
    return {**named, "group_id": named["group_id"].cast(pa.string()), "topic": named["topic"].cast(pa.string())}


def topic_partitions(state: FoldState, keys: Int64s) -> dict[str, pa.Array]:
    """topic and partition of `keys`, which are rows of `state.keys`."""
    at, sizes = keys[:, L.KEY_AT], keys[:, L.KEY_SIZES]
    topic_at, end = at + 4 + (sizes >> 32), at + (sizes & 0xFFFFFFFF) - 4
    partitions = np.empty(len(at), np.int32)
    _read_partitions(state.key_bytes, end, partitions)
    return {"topic": names(state, topic_at, end - topic_at), "partition": pa.array(partitions)}


@compiled
def _read_partitions(arena: Any, at: Any, out: Any) -> None:
    data = pointer(arena)
    for row in range(len(at)):
        out[row] = be32(data, at[row])


def group_ids(state: FoldState) -> pa.Array:
    """large_string: the ids of all groups."""
    groups = state.groups[: state.counts[L.GROUPS]]
    return names(state, groups[:, L.GROUP_AT], groups[:, L.GROUP_LENGTH])


def group_name(state: FoldState, row: int) -> str:
    """The id of the group in a row of `groups`."""
    at, size = state.groups[row, [L.GROUP_AT, L.GROUP_LENGTH]].tolist()
    return state.key_bytes[at : at + size].tobytes().decode()
