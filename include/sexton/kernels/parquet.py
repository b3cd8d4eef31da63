"""How tables of a run and folds are written as Parquet; needs no compiler."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_table(table: pa.Table, path: Path) -> None:
    """One Parquet file. Only texts get dictionaries: offsets and timestamps hardly repeat."""
    texts = [field.name for field in table.schema if not pa.types.is_primitive(field.type)]
    pq.write_table(table, path, compression="zstd", use_dictionary=texts or False)
