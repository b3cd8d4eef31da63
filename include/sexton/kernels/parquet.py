"""Tables of a run or of a fold as Parquet, and casts of columns; does not need numba."""

from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def parquet_file(table: pa.Table) -> pa.Buffer:
    """The bytes of a Parquet file. Only texts get dictionaries: offsets and timestamps hardly repeat."""
    return _file(table) if table.num_rows else _empty_file(table.schema)


@cache
def _empty_file(schema: pa.Schema) -> pa.Buffer:
    """The file of a table without rows. A run writes dozens: most log partitions have no rows in most tables."""
    return _file(schema.empty_table())


def _file(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=texts_of(table.schema) or False)
    return sink.getvalue()


def texts_of(schema: pa.Schema) -> list[str]:
    """The columns that get dictionaries: string columns, but not bytes, which differ from record to record."""
    return [field.name for field in schema if not (pa.types.is_primitive(field.type) or pa.types.is_binary(field.type))]


def cast(values: Any, kind: pa.DataType) -> Any:
    """`values` cast to `kind`, unchanged where they have that type: Arrow's own check takes as long as a small cast."""
    return values if values.type == kind else values.cast(kind)
