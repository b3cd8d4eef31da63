"""Expectations derived from the declarations of tables, in which minimums and allowed values are given."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sexton.quality.expectation import Expectation, Rule
from sexton.quality.queried_views import CheckedRun, relation_of
from sexton.tables import SNAPSHOT_TABLES, Column, Severity, Table, interval_tables
from sexton.tables.dq_results import DQ_RESULTS
from sexton.tables.table import Origin, is_filled

CHECKED_TABLES: tuple[Table, ...] = tuple(table for table in SNAPSHOT_TABLES if table is not DQ_RESULTS)
"""The tables that a run writes before the checks."""


_NOT_FILLED: Mapping[Origin | None, str] = {"log": "the log was not read", "admin_snapshots": "it was"}
"""Why a column that only one origin can fill is NULL in a run with another origin."""
_BROKEN = {"not_null": "IS NULL", "minimum": "< {}", "allowed": "NOT IN ({})", "forbidden": "IN ({})"}
"""Rule about single values -> SQL condition on a value that breaks it; `{}` stands for what the value is compared
with."""


def checked_tables(origins: Iterable[Origin], *, has_changes: bool) -> tuple[Table, ...]:
    """Return the tables of a run whose evidence has `origins`. Some runs also write the changes of an interval."""
    return (*CHECKED_TABLES, *interval_tables(origins)) if has_changes else CHECKED_TABLES


def of_values(
    table: str,
    name: str,
    sentence: str,
    rule: Rule,
    value: Mapping[str, Sequence[Any]],
    severity: Severity = "critical",
) -> Expectation:
    """Return an expectation about single columns. `value` maps a column to what its values are compared with."""
    by_column = {column: f"t.{column} {_BROKEN[rule].format(_literals(values))}" for column, values in value.items()}
    sql = f"SELECT t.* FROM {relation_of(table)} t WHERE {' OR '.join(by_column.values())}" if by_column else ""
    return Expectation(
        table=table,
        name=name,
        sentence=sentence,
        severity=severity,
        sql=sql,
        rule=rule,
        by_column=by_column,
        value=value,
    )


def declared_expectations(table: Table, run: CheckedRun) -> Iterator[Expectation]:
    """Yield the expectations that follow from the declaration of `table`, for the rows of a run."""
    every = "for every log partition" if table.per_log_partition else "for the run"
    written = f"the table is there {every}, even where it is empty"
    yield Expectation(table=table.name, name="written", sentence=written, rule="written")
    as_declared = "every declared column is there, with its type"
    yield Expectation(table=table.name, name="columns", sentence=as_declared, rule="columns")
    yield _of_the_run(table, run)
    filled = [c for c in table.all_columns if not c.nullable and is_filled(c.known_from, run.origins)]
    required = ", ".join(column.name for column in filled if column in table.columns)
    yield of_values(table.name, "not_null", f"never NULL: {required}", "not_null", {c.name: [] for c in filled})
    if unfilled := {c.name: c.known_from for c in table.columns if not is_filled(c.known_from, run.origins)}:
        why = " and ".join(_NOT_FILLED[origin] for origin in dict.fromkeys(unfilled.values()))
        yield Expectation(
            table=table.name,
            name="origin",
            sentence=f"NULL because {why}: {', '.join(unfilled)}",
            sql=f"SELECT t.* FROM {table.name} t WHERE {' OR '.join(f't.{name} IS NOT NULL' for name in unfilled)}",
        )
    if table.key:
        key = ", ".join(f"t.{name}" for name in table.key)
        yield Expectation(
            table=table.name,
            name="unique",
            sentence=f"no two rows share {', '.join(table.key)}",
            rule="unique",
            value=table.key,
            sql=f"SELECT {key}, count(*) AS rows_with_it FROM {table.name} t GROUP BY {key} HAVING count(*) > 1",
        )
    bounded: dict[tuple[int, Severity], list[Column]] = {}
    for column in table.columns:
        if column.minimum is not None:
            bounded.setdefault((column.minimum, column.severity), []).append(column)
    for (minimum, severity), columns in sorted(bounded.items()):
        name, sentence = f"minimum_{minimum}_{severity}", f"at least {minimum}: {_names(columns)}"
        yield of_values(table.name, name, sentence, "minimum", {c.name: [minimum] for c in columns}, severity)
    for column in table.columns:
        if column.allowed:
            sentence, allowed = f"{column.name} is one of {', '.join(column.allowed)}", {column.name: column.allowed}
            yield of_values(table.name, f"allowed_{column.name}", sentence, "allowed", allowed, column.severity)
    if absent := [column for column in table.columns if column.absent is not None]:
        # Releases 2.1.0 and 2.1.1 treat an expire timestamp of -1 as set.
        exempt = "expire_timestamp_ms" if run.profile.keeps_expire_of_minus_1 else ""
        signs = {column.name: [column.absent] for column in absent if column.name != exempt}
        sentence = f"absence is NULL, not the wire's sign for it: {_names(absent)}"
        yield of_values(table.name, "absent", sentence, "forbidden", signs)
    if below := [column for column in table.columns if column.below_cut]:
        beyond = " OR ".join(f"t.{column.name} >= c.cut" for column in below)
        yield Expectation(
            table=table.name,
            name="below_cut",
            sentence=f"lies below the cut of its log partition: {_names(below)}",
            sql=f"SELECT t.* FROM {table.name} t JOIN cuts c ON c.log_partition = t.log_partition WHERE {beyond}",
            rule="below_cut",
            value=[column.name for column in below],
        )


def _of_the_run(table: Table, run: CheckedRun) -> Expectation:
    own: dict[str, list[Any]] = {"cluster_id": [run.cluster_id], "as_of_ms": [run.as_of_ms], "run_id": [run.run_id]}
    names = "cluster_id, as_of_ms and run_id"
    if table.per_log_partition:
        own["log_partition"] = list(run.cuts)
        names += " and a log partition that it read"
    return of_values(table.name, "of_the_run", f"every row carries the run's {names}", "allowed", own)


def _literals(values: Iterable[Any]) -> str:
    return ", ".join(repr(v) if isinstance(v, int) else "'" + str(v).replace("'", "''") + "'" for v in values)


def _names(columns: Iterable[Column]) -> str:
    return ", ".join(column.name for column in columns)
