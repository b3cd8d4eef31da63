"""Encodes the keys of planned tombstones by column, for whole tables.

`records.encode_key` is the plain version, and the tests compare the two. It needs a Python object per field, which is
too slow for a plan of a million tombstones. Keys have only strings and int32 fields, and none of their types is
flexible.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sexton.records import RECORD_TYPES
from sexton.records.schema import Text

_CHUNK_ROWS = 16_384
"""This many of the longest keys (two strings of 32,767 bytes) fit an Arrow column of 2 GiB."""
_MAX_BYTES = 32_767
_NOTHING = pa.scalar(b"", pa.large_binary())


def encode_keys(rows: pa.Table) -> pa.ChunkedArray:
    """The key of each row, as binary, from its record_type and the columns named like the fields of that type's key.

    ValueError for a type that is not declared, a field that is NULL, or a string that is too long for Kafka.
    """
    pieces = [_encode(rows.slice(start, _CHUNK_ROWS)) for start in range(0, rows.num_rows, _CHUNK_ROWS)]
    return pa.chunked_array(pieces, pa.binary())


def _encode(rows: pa.Table) -> pa.Array:
    """The keys of rows of several types: each type separately, then in the rows' order again."""
    kinds = np.asarray(rows["record_type"])
    order = np.argsort(kinds, kind="stable")
    found, starts = np.unique(kinds[order], return_index=True)
    sorted_rows = rows.take(pa.array(order))
    encoded = [
        _of_type(int(kind), sorted_rows.slice(start, end - start))
        for kind, start, end in zip(found, starts, [*starts[1:], len(kinds)], strict=True)
    ]
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(encoded).take(pa.array(back)).cast(pa.binary())


def _of_type(record_type: int, rows: pa.Table) -> pa.Array:
    declared = RECORD_TYPES.get(record_type)
    if declared is None:
        raise ValueError(f"no such record type: {record_type}")
    parts = [_numbers(np.full(rows.num_rows, record_type), ">i2")]
    for field in declared.key.fields:
        column = rows[field.name].combine_chunks()
        if column.null_count:
            raise ValueError(f"{field.name} of a {declared.name} is NULL")
        parts += _text(column) if isinstance(field.kind, Text) else [_numbers(np.asarray(column), ">i4")]
    return pc.binary_join_element_wise(*parts, _NOTHING)


def _text(column: pa.Array) -> list[pa.Array]:
    sizes = np.asarray(pc.binary_length(column))
    if len(sizes) and sizes.max() > _MAX_BYTES:
        raise ValueError(f"string of {sizes.max()} bytes: at most {_MAX_BYTES} can be encoded")
    return [_numbers(sizes, ">i2"), column.cast(pa.large_binary())]


def _numbers(values: npt.NDArray[np.int64], form: str) -> pa.Array:
    data = values.astype(form)
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(data.itemsize), len(data), [None, pa.py_buffer(data)])
    return fixed.cast(pa.large_binary())
