"""The canonical form of a fold that begins where its log partition does: what a checkpoint holds.

How a log was cut into pieces leaves traces in a fold: where keys came first, keys that nothing is left of, first end
markers that could only matter to something further left. None of it tells of the log. Without it, the same log gives
the same tables and so the same bytes, be it read in one pass, in pieces or from a checkpoint on.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.kernels.store import Tables
from sexton.kernels.table import NONE, Int64s

_NO_MARKER = -1
_UNSET = {
    "producer_id": -1,
    "committed_offset": 0,
    "leader_epoch": 0,
    "commit_timestamp_ms": 0,
    "expire_timestamp_ms": 0,
    "topic_id_high": 0,
    "topic_id_low": 0,
}
"""Columns of a stored value where none is stored: there, leftovers of one that was."""


def canonical(tables: Tables) -> Tables:
    """The tables of a fold (`store`), which is a prefix of its log partition, in canonical form.

    keys are those with a stored or an undecided value, by the log_offset of the newest; undecided values by log_offset;
    producers those with something open, by id. Groups stand in the order in which they came, as they always do.
    """
    keys, undecided = tables["keys"], tables["undecided"]
    key_rows, at = _ints(undecided, "key"), _ints(undecided, "log_offset")
    newest = _ints(keys, "log_offset").copy()
    np.maximum.at(newest, key_rows, at)
    order = _by_newest(keys, newest)
    rank = np.full(len(newest), -1, np.int64)
    rank[order] = np.arange(len(order))
    kept = np.lexsort((rank[key_rows], _ints(undecided, "producer_id"), at))
    return {
        **tables,
        "keys": _settled(keys.take(order)),
        "undecided": _with(undecided.take(kept), key=rank[key_rows[kept]]),
        "producers": _open(tables["producers"]),
    }


def _by_newest(keys: pa.Table, newest: Int64s) -> Int64s:
    """Rows of the keys that something is left of. No two records share a log_offset, except in a damaged log."""
    live = np.flatnonzero(newest != NONE)
    order: Int64s = live[np.argsort(newest[live], kind="stable")]
    if np.any(np.diff(newest[order]) == 0):
        columns = {name: keys[name] for name in ("group_id", "topic", "partition")}
        by_name = pa.table({"newest": newest, **columns}).take(live)
        told = pc.sort_indices(by_name, sort_keys=[(name, "ascending") for name in by_name.column_names])
        order = live[np.asarray(told)]
    return order


def _settled(keys: pa.Table) -> pa.Table:
    """Keys without their last tombstones, and with nothing in the columns of a value that is not there."""
    is_stored = keys["log_offset"].is_valid()
    told = {name: pc.if_else(is_stored, keys[name], pa.scalar(value, pa.int64())) for name, value in _UNSET.items()}
    nothing = pa.nulls(keys.num_rows, keys.schema.field("last_tombstone_log_offset").type)
    return _with(keys, last_tombstone_log_offset=nothing, **told)


def _open(producers: pa.Table) -> pa.Table:
    """Producers with something open, without the markers that have settled what came before."""
    is_open = pc.or_(producers["first_log_offset"].is_valid(), pc.not_equal(producers["cancelled_count"], 0))
    found = producers.filter(is_open).sort_by("producer_id")
    nothing = pa.nulls(found.num_rows, found.schema.field("first_marker_log_offset").type)
    return _with(found, first_marker=np.full(found.num_rows, _NO_MARKER), first_marker_log_offset=nothing)


def _with(table: pa.Table, **columns: pa.Array | Int64s) -> pa.Table:
    """The table with other columns in the places and types of those of these names, in one piece."""
    for name, column in columns.items():
        field = table.schema.field(name)
        told = pa.array(column) if isinstance(column, np.ndarray) else column
        table = table.set_column(table.schema.get_field_index(name), field, told.cast(field.type))
    return table.combine_chunks()


def _ints(table: pa.Table, name: str) -> Int64s:
    return np.asarray(pc.fill_null(table[name].cast(pa.int64()), NONE)).astype(np.int64)
