"""Replaces the rows that a filter selects in a table such as `apply_ledger`, in one commit and without a JVM."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from sexton.failpoints import failpoint
from sexton.lake.catalog import Lake
from sexton.tables import Table

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

R = TypeVar("R")

ATTEMPTS = 8
_CONFLICTS = (
    "CommitFailedException",
    "CommitStateUnknownException",
    "OperationalError",
    "SQLITE_BUSY",
    "database is locked",
    "INSERT INTO iceberg_namespace_properties",  # another process created the namespace first
)


def retried(work: Callable[[], R]) -> R:
    """The result of `work`, retried while another commit conflicts with it."""
    retrying = Retrying(
        retry=retry_if_exception(lambda error: is_about(error, _CONFLICTS)),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        stop=stop_after_attempt(ATTEMPTS),
        reraise=True,
    )
    return retrying(work)


def is_about(error: BaseException, names: Iterable[str]) -> bool:
    """Whether an error's type or text has one of these names. PySpark passes on only the text of JVM errors."""
    text = f"{type(error).__name__}: {error}"
    return any(name in text for name in names)


def replace_rows(lake: Lake, table: Table, rows: pa.Table, which: "BooleanExpression") -> None:
    """Replace the rows of `table` that `which` selects with `rows`; retried while another commit conflicts.

    Raises pyiceberg's NoSuchTableError if the table does not exist yet.
    """
    retried(lambda: _replace(lake, table, rows, which))


def _replace(lake: Lake, table: Table, rows: pa.Table, which: "BooleanExpression") -> None:
    with lake.reader() as catalog:
        found, schema = catalog.load_table((lake.namespace, table.name)), table.arrow_schema()
        if set(schema.names) - set(found.schema().column_names):  # declared after the table was created
            with found.update_schema() as update:
                update.union_by_name(schema)
        is_there = found.scan(row_filter=which, selected_fields=("run_id",), limit=1).to_arrow().num_rows > 0
        with found.transaction() as transaction:
            if is_there:
                transaction.delete(which)
            transaction.append(rows.cast(schema))
            failpoint("rows.replaced")
