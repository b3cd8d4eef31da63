"""Tables and columns, and the Arrow schema that follows from their declaration.

A declaration is the only place where a table's grain, key, columns and rules are written down. What else a table needs
is derived: Arrow here, Spark and Iceberg in ddl.py, the page docs/tables.md in scripts/docs.py, the checks in
sexton.quality. Not here: record formats, and the code that fills tables.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Literal

import pyarrow as pa

Severity = Literal["critical", "warning"]
"""Whether a broken rule stops publication, or is only reported."""

Origin = Literal["log", "admin_snapshots"]
"""The evidence that fills a column: the log, or admin snapshots (coverage `admin`), which show states and so only
bounds of when events happened."""

Kind = Literal["snapshot", "interval", "append", "index"]
"""How rows are replaced. snapshot: per (cluster_id, as_of_ms); interval: per (cluster_id, end of the interval); append:
never; index, the list of published runs: like snapshot."""


def is_filled(known_from: Origin | None, origins: Iterable[Origin]) -> bool:
    """Whether evidence from `origins` fills a column or table that is `known_from` one origin, or from any (None)."""
    return known_from is None or known_from in origins


@dataclass(frozen=True, slots=True)
class Column:
    """One column, and the rules that its values must follow.

    A rule about values that clients or brokers wrote has severity warning: Sexton only reports such values. `absent` is
    Kafka's value on the wire for "none"; it is NULL in the table, so a rule forbids it. `below_cut` marks a log_offset
    that must have been read, so it lies below the cut of its log partition. A column that is `known_from` one origin is
    NULL in runs from the other; without `known_from`, the rules hold for both.
    """

    name: str
    doc: str
    _: KW_ONLY
    type: pa.DataType
    nullable: bool = False
    absent: int | str | None = None
    minimum: int | None = None
    allowed: tuple[str, ...] = ()
    below_cut: bool = False
    severity: Severity = "critical"
    known_from: Origin | None = None

    @property
    def field(self) -> pa.Field:
        # Always nullable in Arrow: a NULL where none is allowed does not crash the writer, but is reported by the
        # checks with its table and count.
        return pa.field(self.name, self.type)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table. `grain` says what a row is; the columns in `key` identify a row within a run. Compared by identity,
    because each table is declared once. A run without evidence from the origin `known_from` does not write the table,
    if it is one of an interval."""

    name: str
    grain: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    kind: Kind = "snapshot"
    per_log_partition: bool = True
    known_from: Origin | None = None
    doc: str = ""

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names in order, without RUN_COLUMNS."""
        return tuple(column.name for column in self.columns)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """RUN_COLUMNS, then the table's columns."""
        return (*RUN_COLUMNS, *self.columns)

    def column(self, name: str) -> Column:
        return next(column for column in self.all_columns if column.name == name)

    def arrow_schema(self, *, with_run: bool = True, origin: Origin | None = None) -> pa.Schema:
        """The Arrow schema; `with_run` adds cluster_id, as_of_ms and run_id in front, `origin` leaves out columns that
        only the other origin fills."""
        return _arrow_schema(self, with_run, origin)


@cache
def _arrow_schema(table: Table, with_run: bool, origin: Origin | None) -> pa.Schema:
    columns = table.all_columns if with_run else table.columns
    return pa.schema([column.field for column in columns if origin is None or is_filled(column.known_from, [origin])])


RUN_COLUMNS = (
    Column("cluster_id", "Kafka's cluster id, `unknown` where it is not recorded", type=pa.string()),
    Column("as_of_ms", "the instant that the run describes", type=pa.int64()),
    Column("run_id", "id of the attempt that wrote the row; every attempt has a new one", type=pa.string()),
)
PARTITION_COLUMNS = ("cluster_id", "as_of_ms")
"""The partition columns of every Iceberg table: a run replaces one partition."""
