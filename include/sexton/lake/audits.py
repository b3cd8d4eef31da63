"""Reads what audits have appended to the lake (audit_replicas, audit_transactions), without a JVM.

An audit has one instant in all its tables; one that found nothing at all has left no row and is not seen here.
"""

from collections.abc import Sequence
from typing import Any

from sexton.lake.catalog import Lake
from sexton.lake.read import load


def newest_audit(lake: Lake, tables: Sequence[str], cluster_id: str, *, until_ms: int | None) -> int | None:
    """The instant of the newest audit of a cluster that is not later than `until_ms`, by its `tables`; None without
    any."""
    from pyiceberg.expressions import AlwaysTrue, LessThanOrEqual

    where = AlwaysTrue() if until_ms is None else LessThanOrEqual("as_of_ms", until_ms)
    instants = [row["as_of_ms"] for table in tables for row in _rows(lake, table, cluster_id, where, ["as_of_ms"])]
    return max(instants, default=None)


def audit_rows(lake: Lake, table: str, cluster_id: str, as_of_ms: int, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of one audit."""
    from pyiceberg.expressions import EqualTo

    return _rows(lake, table, cluster_id, EqualTo("as_of_ms", as_of_ms), columns)


def _rows(lake: Lake, table: str, cluster_id: str, where: Any, columns: Sequence[str]) -> list[dict[str, Any]]:
    """None of a table that is not there yet."""
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.expressions import EqualTo

    try:
        found = load(lake, table)
    except NoSuchTableError:
        return []
    scan = found.scan(row_filter=EqualTo("cluster_id", cluster_id) & where, selected_fields=tuple(columns))
    rows: list[dict[str, Any]] = scan.to_arrow().to_pylist()
    return rows
