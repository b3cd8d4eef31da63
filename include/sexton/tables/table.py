"""Tables and columns, and the Arrow schema that follows from their declaration.

A declaration is the only place where a table's grain, key, columns and rules are written down. What else a table needs
is derived: Arrow here, Spark and Iceberg in ddl.py, the page docs/tables.md in scripts/docs.py, the checks in
sexton.quality. Record formats and what fills a table are not here.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Literal

import pyarrow as pa

Severity = Literal["critical", "warning"]
"""Whether a broken rule stops publication, or is only reported."""

Origin = Literal["log", "admin_snapshots"]
"""What fills a column: the bytes of the log, or admin snapshots, which show states and so intervals (coverage
`admin`)."""

Kind = Literal["snapshot", "interval", "append", "index"]
"""How rows are replaced: a snapshot's by (cluster_id, as_of_ms), an interval's by its end, append never; the index
names the published runs and is replaced like a snapshot."""


def is_filled(known_from: Origin | None, origins: Iterable[Origin]) -> bool:
    """Whether evidence of some origins fills what is `known_from` one of them alone, or from any (None)."""
    return known_from is None or known_from in origins


@dataclass(frozen=True, slots=True)
class Column:
    """One column and the rules its values keep.

    A rule about what a client or broker wrote is a warning: we report such values, we do not write them. `absent` is
    Kafka's value on the wire for "none"; it is NULL in the table, so a rule forbids it. `below_cut` marks a
    log_offset that must have been read, so it lies below the cut of its log partition. A column that is `known_from`
    one origin alone is NULL in the runs of the other; otherwise the rules hold for both.
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
        # Nullable in Arrow whatever the declaration says: a NULL where none is allowed is a finding of the
        # checks, which report its table and count, and does not crash a writer.
        return pa.field(self.name, self.type)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table: the grain says what one row is, `key` which columns no two rows of a run share. Declared once, so equal
    only to itself. One of an interval that is `known_from` an origin is no table of a run without it."""

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
        """The Arrow schema; `with_run` adds cluster_id, as_of_ms and run_id in front, `origin` leaves out what only the
        other origin fills."""
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
"""What every Iceberg table is partitioned by, and what a run replaces."""
