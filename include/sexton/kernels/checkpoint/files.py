"""Tables of a fold as bytes: Arrow IPC between processes, Parquet in a checkpoint."""

import hashlib
from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq

from sexton.archive.folder import Folder
from sexton.errors import DamagedFold
from sexton.kernels.checkpoint.tables import Tables, no_rows
from sexton.kernels.parquet import parquet_file

NOT_OF_GROUPS = frozenset({"producers", "undecodable", "counters", "profile"})
"""Tables whose rows belong to the whole log partition, not to groups."""
_UNREADABLE = (
    pa.ArrowException, OSError, StopIteration, EOFError, TypeError, ValueError, AttributeError, LookupError,
)  # fmt: skip
"""Exceptions of pyarrow for malformed bytes."""


def pack(tables: Tables) -> bytes:
    """Tables as one Arrow IPC stream: one row with a nested stream for each table."""
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
    """The tables that `pack` was given; DamagedFold for anything else."""
    try:
        batch = pa.ipc.open_stream(data).read_next_batch()
        batch.validate(full=True)
        return {name: pa.ipc.open_stream(batch.column(name)[0].as_buffer()).read_all() for name in batch.schema.names}
    except _UNREADABLE as error:
        raise DamagedFold(f"not the tables of a fold: {error}") from None


def write_parquet(tables: Tables, folder: Folder) -> dict[str, str]:
    """Write one Parquet file for each table that has rows; return the SHA-256 of each file by its name.

    The same fold gives the same bytes.
    """
    hashes = {}
    for name, table in tables.items():
        if table.num_rows:
            data = parquet_file(table)
            folder.write(data, f"{name}.parquet")
            hashes[f"{name}.parquet"] = hashlib.sha256(data).hexdigest()
    return hashes


def read_parquet(folder: Folder, only: Collection[str] | None = None) -> Tables:
    """The tables that `write_parquet` wrote, or `only` some of them; DamagedFold, naming the table, for a file that is
    not Parquet.

    Reads with a single thread: log partitions are already read in parallel.
    """
    found = {}
    for file in folder.files():
        name = file.removesuffix(".parquet")
        if only is not None and name not in only:
            continue
        try:
            found[name] = pq.ParquetFile(folder.open(file)).read(use_threads=False)
        except _UNREADABLE as error:
            raise DamagedFold(f"cannot be read as Parquet: {error}", where=name) from None
    return no_rows() | found
