"""Tables of a fold as bytes: Arrow IPC between processes, Parquet in a checkpoint."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sexton.errors import DamagedFold
from sexton.kernels.checkpoint.tables import Tables, no_rows
from sexton.kernels.parquet import write_table

_UNREADABLE = (pa.ArrowException, OSError, StopIteration, EOFError, TypeError, ValueError, AttributeError)
"""What pyarrow raises over bytes that are not what they should be."""


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
    """The tables that `pack` was given; DamagedFold for anything else."""
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
    """The tables that `write_parquet` wrote; DamagedFold, with the name of the table, for a file that is not Parquet.

    One thread: each log partition has a thread or a process already.
    """
    found = {}
    for path in sorted(folder.glob("*.parquet")):
        try:
            found[path.stem] = pq.ParquetFile(path, memory_map=True).read(use_threads=False)
        except _UNREADABLE as error:
            raise DamagedFold(f"not to be read as Parquet: {error}", where=path.stem) from None
    return no_rows() | found
