"""Encodes the keys of planned tombstones from whole columns.

`records.encode_key` is the plain version, and the tests compare the two. The plain version needs a Python object for
each field, which is too slow for a plan of a million tombstones. Keys have only string and int32 fields, and no
flexible versions.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sexton.jit.compiled import compiled
from sexton.jit.memory import copy_bytes, pointer
from sexton.kernels.columns import value_spans
from sexton.kernels.encode_batches import write_number
from sexton.kernels.layout import Bytes, Int64s
from sexton.records import RECORD_TYPES
from sexton.records.record_type import RecordType
from sexton.records.schema import Text

_CHUNK_BYTES = (1 << 31) - 1
"""Bytes that fit in an Arrow column with 32-bit offsets."""
_MAX_BYTES = 32_767
_TYPE_BYTES, _SIZE_BYTES, _NUMBER_BYTES = 2, 2, 4


def encode_keys(rows: pa.Table) -> pa.ChunkedArray:
    """The key of each row, as binary, from its record_type and the columns named like the fields of that type's key.

    ValueError for a type that is not declared, a field that is NULL, or a string that is too long for Kafka.
    """
    kinds = np.asarray(rows["record_type"]).astype(np.int64)
    sizes = np.full(len(kinds), _TYPE_BYTES, np.int64)
    fields: list[tuple[Int64s, Int64s, Bytes | None]] = []
    for kind in np.unique(kinds).tolist():
        own = np.flatnonzero(kinds == kind)
        for name, is_text in _fields(kind):
            column = rows[name]
            if column.null_count and column.is_null().to_numpy()[own].any():
                raise ValueError(f"{name} of a {RECORD_TYPES[kind].name} is NULL")
            ends, data = value_spans(column) if is_text else (_int64(column), None)
            sizes[own] += _SIZE_BYTES + _checked(ends, own) if is_text else _NUMBER_BYTES
            fields.append((own, ends, data))
    ends = np.zeros(len(kinds) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    out, at = np.empty(int(ends[-1]), np.uint8), ends[:-1].copy()
    _write_numbers(np.arange(len(kinds)), kinds, _TYPE_BYTES, at, out)
    for own, values, data in fields:
        if data is None:
            _write_numbers(own, values, _NUMBER_BYTES, at, out)
        else:
            _write_texts(own, values, data, at, out)
    return _chunked(ends, out)


def _fields(kind: int) -> list[tuple[str, bool]]:
    """The names of a type's fields, and whether each is a text."""
    declared: RecordType | None = RECORD_TYPES.get(kind)
    if declared is None:
        raise ValueError(f"no such record type: {kind}")
    return [(field.name, isinstance(field.kind, Text)) for field in declared.key.fields]


def _int64(column: pa.ChunkedArray) -> Int64s:
    return np.asarray(column.fill_null(0)).astype(np.int64)


def _checked(ends: Int64s, rows: npt.NDArray[np.int64]) -> Int64s:
    """Sizes of the values in `rows`; ValueError for a string that is too long for Kafka."""
    sizes: Int64s = ends[rows + 1] - ends[rows]
    if len(sizes) and sizes.max() > _MAX_BYTES:
        raise ValueError(f"string of {sizes.max()} bytes: at most {_MAX_BYTES} can be encoded")
    return sizes


def _chunked(ends: Int64s, data: Bytes) -> pa.ChunkedArray:
    """Values one after the other as binary, in as few chunks as can hold them."""
    chunks, row, count = [], 0, len(ends) - 1
    while row < count:
        end = max(int(np.searchsorted(ends, ends[row] + _CHUNK_BYTES, side="right")) - 1, row + 1)
        offsets = (ends[row : end + 1] - ends[row]).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[ends[row] : ends[end]])]
        chunks.append(pa.Array.from_buffers(pa.binary(), end - row, buffers))
        row = end
    return pa.chunked_array(chunks, pa.binary())


@compiled
def _write_numbers(rows: Any, values: Any, size: int, at: Any, out: Any) -> None:
    """Write a number of `size` bytes to the end of the keys of some rows, and move their ends (`at`)."""
    target = pointer(out)
    for row in rows:
        write_number(target, at[row], values[row], size)
        at[row] += size


@compiled
def _write_texts(rows: Any, ends: Any, data: Any, at: Any, out: Any) -> None:
    """`_write_numbers` for strings, each after its size."""
    source, target = pointer(data), pointer(out)
    for row in rows:
        start, size = ends[row], ends[row + 1] - ends[row]
        write_number(target, at[row], size, _SIZE_BYTES)
        copy_bytes(target, at[row] + _SIZE_BYTES, source, start, size)
        at[row] += _SIZE_BYTES + size
