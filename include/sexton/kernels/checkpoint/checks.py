"""Validates the tables of a fold before compiled code reads them: that code checks no index and no length.

Anyone who may write to an archive can change a checkpoint and its hashes. Whole columns are checked here: names, types,
row counts, NULL, ranges, and the offsets of strings within their columns. `restore` refuses duplicates (of a key, a
group, a producer), because it fills the hash tables anyway.

Not here: whether the values match the log. Only a full replay shows that (maintenance.check_checkpoint).
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sexton.errors import DamagedFold
from sexton.kernels import layout as L
from sexton.kernels.text import GROWTH

_MOST = (1 << 63) - 1
_INT16, _INT32 = (-(1 << 15), (1 << 15) - 1), (-(1 << 31), (1 << 31) - 1)
_MAX_ROWS = (1 << 31) - 1
"""A slot of a hash table has 32 bits for the number of a row."""
_LONGEST_NAME = GROWTH * ((1 << 15) - 1)
"""The maximum size of a name in canonical form: a record has 16 bits for the length of a name."""
_SMALLEST_KEY = 4
"""A record type and the length of a group id."""

_RANGES: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "keys": {"values_since_tombstone": (0, _MOST), "leader_epoch": _INT32},
    "pending": {"value_count": (L.LEAKED, _MOST), "producer_epoch": _INT16, "leader_epoch": _INT32},
    "producers": {"producer_epoch": _INT16, "cancelled_count": (0, _MOST), "first_marker": (-1, L.MARKER_COMMIT)},
    "groups": {"commits": (0, _MOST)},
    "undecodable": {"record_type": _INT16},
}
_NEVER_NULL: Mapping[str, frozenset[str]] = {
    "keys": frozenset({"group_id", "topic", "partition", "metadata", *_RANGES["keys"]}),
    "pending": frozenset({"key", "log_offset", "metadata", *_RANGES["pending"]}),
    "producers": frozenset(_RANGES["producers"]),
    "groups": frozenset({"group_id", "commits"}),
    "group_records": frozenset({"log_offset", "group", "key"}),
    "undecodable": frozenset({"place", "reason", "detail"}),
    "counters": frozenset({"name"}),
    "profile": frozenset({"profile"}),
}
"""These columns always have a value; a number that means "none" in a record, such as -1, is stored as it is. In all
other columns NULL means "none"."""
_INDEXES = {("pending", "key"): "keys", ("group_records", "group"): "groups"}
_LOG_OFFSETS: Mapping[str, tuple[str, ...]] = {
    "keys": ("log_offset", "last_tombstone_log_offset"),
    "pending": ("log_offset",),
    "producers": ("first_log_offset", "last_log_offset", "first_marker_log_offset"),
    "groups": ("last_value_log_offset",),
    "group_records": ("log_offset", "base_offset", "last_value_log_offset"),
}
_NAMES = {"keys": ("group_id", "topic"), "groups": ("group_id",)}


def check_tables(tables: Mapping[str, pa.Table], schemas: Mapping[str, pa.Schema]) -> None:
    """Raise DamagedFold, naming the table, unless `tables` have these schemas and can belong to a fold."""
    if unknown := sorted(tables.keys() ^ schemas.keys()):
        raise DamagedFold("unknown or missing table", where=unknown[0])
    for name, table in tables.items():
        _check_shape(name, table, schemas[name])
        for column, (low, high) in _RANGES.get(name, {}).items():
            _check_range(name, table, column, low, high)
    for (name, column), of in _INDEXES.items():
        _check_range(name, tables[name], column, 0, tables[of].num_rows - 1)
    for name, columns in _NAMES.items():
        for column in columns:
            _check_sizes(name, tables[name], column, 0, _LONGEST_NAME)
    _check_sizes("group_records", tables["group_records"], "key", _SMALLEST_KEY, _INT32[1])
    _check_values(tables)


def check_log_offsets(tables: Mapping[str, pa.Table], counters: npt.NDArray[np.int64]) -> None:
    """Raise DamagedFold unless every log_offset is in the range of the log that was read.

    Damaged batches and batches of old formats may carry any offset: if the log has such a batch, nothing is checked.
    """
    if tables["undecodable"].num_rows or counters[[L.READ_LEFT_OUT, L.READ_MAGIC_0, L.READ_MAGIC_1]].any():
        return
    low, high = int(counters[L.READ_FIRST]), int(counters[L.READ_REACHED]) - 1
    for name, columns in _LOG_OFFSETS.items():
        for column in columns:
            _check_range(name, tables[name], column, low, high)


def _check_shape(name: str, table: pa.Table, schema: pa.Schema) -> None:
    if not table.schema.equals(schema):
        try:
            here, wanted = ({(field.name, str(field.type)) for field in of} for of in (table.schema, schema))
        except UnicodeDecodeError:
            raise DamagedFold("the name of a column is not UTF-8", where=name) from None
        differing = {column for column, _ in here ^ wanted}
        raise DamagedFold(f"its columns are not those of a fold: {', '.join(sorted(differing)) or 'order'}", where=name)
    if table.num_rows > _MAX_ROWS:
        raise DamagedFold(f"{table.num_rows} rows", where=name)
    try:
        table.validate(full=True)  # lengths, ends of texts, UTF-8
    except pa.ArrowInvalid as error:
        raise DamagedFold(str(error), where=name) from None
    for column in _NEVER_NULL[name]:
        if nulls := table[column].null_count:
            raise DamagedFold(f"{column} is NULL in {nulls} rows", where=name)


def _check_range(name: str, table: pa.Table, column: str, low: int, high: int) -> None:
    if table.num_rows == 0:
        return
    found = pc.min_max(table[column])
    least, most = found["min"].as_py(), found["max"].as_py()
    if least is not None and not low <= least <= most <= high:
        wrong = least if least < low else most
        raise DamagedFold(f"{column} is {wrong}, not within {low} and {high}", where=name)


def _check_sizes(name: str, table: pa.Table, column: str, low: int, high: int) -> None:
    if table.num_rows == 0:
        return
    found = pc.min_max(pc.binary_length(table[column]))
    if not low <= found["min"].as_py() <= found["max"].as_py() <= high:
        raise DamagedFold(f"{column} has from {found['min']} to {found['max']} bytes", where=name)


def _check_values(tables: Mapping[str, pa.Table]) -> None:
    """Checks across columns."""
    keys, pending, profile = tables["keys"], tables["pending"], tables["profile"]
    if keys.num_rows:
        empty = pc.is_null(keys["log_offset"])
        if pc.any(pc.and_(empty, pc.greater(pc.binary_length(keys["metadata"]), 0))).as_py():
            raise DamagedFold("a key without a value has metadata", where="keys")
    if pending.num_rows and pc.any(pc.equal(pending["value_count"], 0)).as_py():
        raise DamagedFold("value_count is 0", where="pending")
    if profile.num_rows != 1:
        raise DamagedFold(f"{profile.num_rows} rows, expected one", where="profile")
    if pc.count_distinct(tables["counters"]["name"]).as_py() != tables["counters"].num_rows:
        raise DamagedFold("duplicate counter", where="counters")
