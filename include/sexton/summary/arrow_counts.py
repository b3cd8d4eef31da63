"""Counts over Arrow tables: only the few rows of a result become Python objects."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

TOP = 20
"""Maximum length of lists of which only the first rows matter."""


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a small table as Python objects. Only this function converts rows, and only few."""
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def counts_by(table: pa.Table, column: str) -> dict[str, int]:
    """Value -> number of rows, the most frequent value first."""
    rows = rows_of(table.group_by(column).aggregate([([], "count_all")]))
    return most_frequent_first({row[column]: row["count_all"] for row in rows})


def most_frequent_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], str(item[0]))))


def first_rows(table: pa.Table, order: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The first TOP rows in a given order, which has to be total."""
    if not table.num_rows:
        return []
    keys = pa.table({name: _plain(table[name]) for name, _ in order})
    return rows_of(table.take(pc.select_k_unstable(keys, TOP, sort_keys=list(order))))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts of a dictionary column as plain strings: Arrow does not sort dictionaries by value."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
