"""Expectations derived from the declarations of tables, in which minimums and allowed values are given.

An expectation has one measure: the count of violations. It holds if the measure exists and is zero, so a check that did
not run never passes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from sexton.tables import INTERVAL_TABLES, SNAPSHOT_TABLES, Column, Severity, Table
from sexton.tables.runs import DQ_RESULTS

CHECKED_TABLES: tuple[Table, ...] = tuple(table for table in SNAPSHOT_TABLES if table is not DQ_RESULTS)
"""The tables that a run writes before the checks."""


def checked_tables(*, tells_changes: bool) -> tuple[Table, ...]:
    """Return the tables of a run. Some runs also write the changes of an interval."""
    return (*CHECKED_TABLES, *INTERVAL_TABLES) if tells_changes else CHECKED_TABLES


MISSING = "missing"
TYPES = "types"
FOREIGN = "foreign"
NULLS = "nulls"
KEYS = "keys"
ABSENCE = "absence"
BEYOND_CUT = "beyond_cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A sentence about a table. `measure` names the count that must be zero."""

    table: str
    measure: str
    sentence: str
    severity: Severity = "critical"


def allowed_measure(column: Column) -> str:
    return f"{column.name}_not_allowed"


def minimum_measure(minimum: int, severity: Severity) -> str:
    return f"below_{minimum}_{severity}"


def minimums(table: Table) -> Iterator[tuple[int, Severity, list[Column]]]:
    """Yield the columns with a minimum, by minimum and severity."""

    def rule(column: Column) -> tuple[int, Severity]:
        assert column.minimum is not None
        return column.minimum, column.severity

    bounded = sorted((column for column in table.columns if column.minimum is not None), key=rule)
    for (minimum, severity), columns in groupby(bounded, key=rule):
        yield minimum, severity, list(columns)


def expectations_of(table: Table) -> Iterator[Expectation]:
    """Yield the expectations that follow from the declaration of `table`."""

    def expect(measure: str, sentence: str, severity: Severity = "critical") -> Expectation:
        return Expectation(table=table.name, measure=measure, sentence=sentence, severity=severity)

    every = "for every log partition" if table.per_log_partition else "for the run"
    yield expect(MISSING, f"the table is there {every}, even where it is empty")
    yield expect(TYPES, "every declared column is there, with its type")
    own = "cluster_id, as_of_ms and run_id" + (" and a log partition that it read" if table.per_log_partition else "")
    yield expect(FOREIGN, f"every row carries the run's {own}")
    yield expect(NULLS, f"never NULL: {_names(column for column in table.columns if not column.nullable)}")
    if table.key:
        yield expect(KEYS, f"no two rows share {', '.join(table.key)}")
    for minimum, severity, columns in minimums(table):
        yield expect(minimum_measure(minimum, severity), f"at least {minimum}: {_names(columns)}", severity)
    for column in table.columns:
        if column.allowed:
            yield expect(
                allowed_measure(column), f"{column.name} is one of {', '.join(column.allowed)}", column.severity
            )
    if absent := [column for column in table.columns if column.absent is not None]:
        yield expect(ABSENCE, f"absence is NULL, not the wire's sign for it: {_names(absent)}")
    if below := [column for column in table.columns if column.below_cut]:
        yield expect(BEYOND_CUT, f"lies below the cut of its log partition: {_names(below)}")


def _names(columns: Iterator[Column] | list[Column]) -> str:
    return ", ".join(column.name for column in columns)
