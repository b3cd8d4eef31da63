"""Writes tables of a run or of a fold as Parquet, and casts columns; needs no compiler."""

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_table(table: pa.Table, path: Path) -> None:
    """One Parquet file. Only texts get dictionaries: offsets and timestamps hardly repeat."""
    if table.num_rows:
        with pa.OSFile(str(path), "wb") as file:
            _write(table, file)
    else:
        path.write_bytes(_empty_file(table.schema))


@cache
def _empty_file(schema: pa.Schema) -> bytes:
    """The file of a table without rows. A run writes dozens: most log partitions have no rows for most tables."""
    sink = pa.BufferOutputStream()
    _write(schema.empty_table(), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _write(table: pa.Table, target: pa.NativeFile) -> None:
    texts = [field.name for field in table.schema if not pa.types.is_primitive(field.type)]
    pq.write_table(table, target, compression="zstd", use_dictionary=texts or False)


def cast(values: Any, kind: pa.DataType) -> Any:
    """`values` as `kind`; themselves where they are that: Arrow takes as long to find that out as for a small cast."""
    return values if values.type == kind else values.cast(kind)
