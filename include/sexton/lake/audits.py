"""Reads what audits have appended to the lake (audit_replicas, audit_transactions, audit_lag), without a JVM.

All tables of an audit have the same instant. An audit without findings has written no row and is not visible here.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sexton.lake.catalog import Lake
from sexton.lake.read import load, plain, published_instants
from sexton.tables import TABLES

RUNS_BACK = 24
"""Number of newest runs among which an audit is searched: an older audit is out of date."""


def newest_audit(lake: Lake, tables: Sequence[str], cluster_id: str, *, until_ms: int | None) -> int | None:
    """The instant of a cluster's newest audit up to `until_ms`, from the rows of its `tables`; None without rows."""
    from pyiceberg.expressions import AlwaysTrue, LessThanOrEqual

    where = AlwaysTrue() if until_ms is None else LessThanOrEqual("as_of_ms", until_ms)
    newest = [pc.max(_read(lake, table, cluster_id, where, ["as_of_ms"])["as_of_ms"]).as_py() for table in tables]
    return max((each for each in newest if each is not None), default=None)


def audit_rows(lake: Lake, table: str, cluster_id: str, as_of_ms: int, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of one audit."""
    from pyiceberg.expressions import EqualTo

    rows: list[dict[str, Any]] = _read(lake, table, cluster_id, EqualTo("as_of_ms", as_of_ms), columns).to_pylist()
    return rows


def newest_audit_of_a_run(
    lake: Lake, table: str, cluster_id: str, columns: Sequence[str], *, before_ms: int
) -> tuple[int, pa.Table] | None:
    """The newest audit of a published run before `before_ms`, as (instant of the run, rows); None if the last RUNS_BACK
    runs before it have no audit."""
    from pyiceberg.expressions import EqualTo

    instants = [as_of_ms for as_of_ms, _ in published_instants(lake, cluster_id) if as_of_ms < before_ms]
    for as_of_ms in reversed(instants[-RUNS_BACK:]):
        rows = _read(lake, table, cluster_id, EqualTo("as_of_ms", as_of_ms), columns)
        if rows.num_rows:
            return as_of_ms, plain(rows)
    return None


def _read(lake: Lake, table: str, cluster_id: str, where: Any, columns: Sequence[str]) -> pa.Table:
    """Rows of a table; none if the table does not exist yet."""
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.expressions import EqualTo

    try:
        found = load(lake, table)
    except NoSuchTableError:
        return TABLES[table].arrow_schema().empty_table().select(columns)
    return found.scan(row_filter=EqualTo("cluster_id", cluster_id) & where, selected_fields=tuple(columns)).to_arrow()
