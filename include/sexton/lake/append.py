"""Replaces some rows of a table that no run replaces, such as `apply_ledger`, in one commit and without a JVM."""

from typing import TYPE_CHECKING

import pyarrow as pa
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from sexton.failpoints import failpoint
from sexton.lake.catalog import Lake
from sexton.tables import Table

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table as IcebergTable

ATTEMPTS = 8
_RETRIED = ("CommitFailedException", "OperationalError")


def replace_rows(lake: Lake, table: Table, rows: pa.Table, which: "BooleanExpression") -> None:
    """Make `rows` the only ones of `table` that `which` selects; again while another commit conflicts.

    Raises pyiceberg's NoSuchTableError where there is no such table yet.
    """
    retrying = Retrying(
        retry=retry_if_exception(lambda error: type(error).__name__ in _RETRIED),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        stop=stop_after_attempt(ATTEMPTS),
        reraise=True,
    )
    retrying(lambda: _replace(lake, table, rows, which))


def _replace(lake: Lake, table: Table, rows: pa.Table, which: "BooleanExpression") -> None:
    with lake.reader() as catalog:
        found = catalog.load_table((lake.namespace, table.name))
        _require_columns(found, table)
        is_there = found.scan(row_filter=which, selected_fields=("run_id",), limit=1).to_arrow().num_rows > 0
        with found.transaction() as transaction:
            if is_there:
                transaction.delete(which)
            transaction.append(rows.cast(table.arrow_schema()))
            failpoint("rows.replaced")


def _require_columns(found: "IcebergTable", table: Table) -> None:
    """Give a table of an earlier release the columns that were declared since."""
    schema = table.arrow_schema()
    if set(schema.names) - set(found.schema().column_names):
        with found.update_schema() as update:
            update.union_by_name(schema)
