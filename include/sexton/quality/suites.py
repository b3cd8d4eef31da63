"""The suite of each table: the expectations from its declaration, the laws, and expectations that users have added."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pyarrow as pa

from sexton.errors import UsageError
from sexton.quality.declared_expectations import checked_tables, declared_expectations
from sexton.quality.expectation import NOT_MEASURED, Expectation, ExpectationResult, result_of
from sexton.quality.laws import AUDIT_LAWS, CHANGE_LAWS, LAWS
from sexton.quality.queried_views import VIEWS, CheckedRun
from sexton.tables import TABLES, Column, Severity, Table
from sexton.tables.table import is_filled

Suites = Mapping[str, Sequence[Expectation]]
"""Expectations by table."""
NEEDS_LOG = "does not apply: coverage is admin, and this needs the log"
_OF_THE_LOG = ("load_profile", "undecodable_records", "unreachable_offsets", "runs")
"""Tables whose laws need the log: only the log fills the first three; the law about `runs` says if it is complete."""
_RELATION = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)", re.IGNORECASE)
_HEADER = re.compile(r"^--\s*(\w+):\s*(.+?)\s*$")


def suites_of(run: CheckedRun, more: Iterable[Expectation] = ()) -> Suites:
    """Return the expectations of a run, by table in the order of TABLES."""
    laws = [*LAWS, *(CHANGE_LAWS if run.has_changes else ())]
    if not is_filled("log", run.origins):
        laws = [replace(law, not_applicable=NEEDS_LOG) if law.table in _OF_THE_LOG else law for law in laws]
    declared = {
        table.name: list(declared_expectations(table, run))
        for table in checked_tables(run.origins, has_changes=run.has_changes)
    }
    own = [*laws, *more]
    suites = {name: [*declared.get(name, ()), *(law for law in own if law.table == name)] for name in TABLES}
    return {name: suite for name, suite in suites.items() if suite}


def audit_suites(run: CheckedRun, tables: Iterable[Table]) -> Suites:
    """Return the expectations of audit tables, by table: from the declaration of each table, and its laws."""
    return {
        table.name: [*declared_expectations(table, run), *(law for law in AUDIT_LAWS if law.table == table.name)]
        for table in tables
    }


def relations_in(sql: str) -> set[str]:
    """Return the tables, views and relations of the run that a query reads, directly or through views."""
    names = set(_RELATION.findall(sql))
    if "held_groups" in names:
        names |= {"groups", "tombstones"}
    return names.union(*(relations_in(VIEWS[name]) for name in names & VIEWS.keys()))


def needs(sql: str) -> set[str]:
    """Return the tables that a query reads, directly or through views."""
    return relations_in(sql) & TABLES.keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """The state of each table's files: the number of missing files, and the columns that are not as declared."""

    missing: Mapping[str, int] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)

    def is_sound(self, table: str) -> bool:
        return self.missing.get(table) == 0 and not self.wrong[table]

    def judge(self, expectation: Expectation) -> ExpectationResult | None:
        """The result of an expectation that needs no query (about files, not applicable, not measurable), or None."""
        if expectation.not_applicable is not None:
            return result_of(expectation, success=True, observed=expectation.not_applicable)
        table = expectation.table
        if expectation.rule == "written" and (count := self.missing.get(table, 1)):
            return result_of(expectation, success=False, observed=f"files missing: {count}")
        if expectation.rule == "columns" and (wrong := self.wrong.get(table)):
            return result_of(expectation, success=False, observed=wrong)
        # `runs` is written last; the relation `run` stands in for it.
        read = needs(expectation.sql) | ({table} - {"runs"})
        if all(self.is_sound(name) for name in read):
            return None
        if expectation.rule == "written":
            return result_of(expectation, success=True)
        return result_of(expectation, success=False, observed=NOT_MEASURED)


def shape(tables: Mapping[str, tuple[int, Sequence[pa.Schema]]]) -> Shapes:
    """Return the shapes of tables, from (expected number of files, schemas of the files found) by table."""
    return Shapes(
        missing={name: count - len(schemas) for name, (count, schemas) in tables.items()},
        wrong={
            name: "; ".join(
                dict.fromkeys(wrong for schema in schemas for wrong in _wrong_columns(TABLES[name], schema))
            )
            for name, (_, schemas) in tables.items()
        },
    )


def read_expectations(folder: Path) -> list[Expectation]:
    """Return the expectations of the files `*.sql` in a folder, in order of file name.

    A file begins with lines `-- table: ...`, `-- expect: ...` (the sentence) and optionally
    `-- severity: critical|warning`; one query follows, which returns the rows that break it.
    """
    found = []
    for file in sorted(folder.glob("*.sql")):
        lines = file.read_text(encoding="utf-8").splitlines()
        head = {match[1]: match[2] for line in lines if (match := _HEADER.match(line))}
        query = " ".join(line for line in lines if not line.startswith("--")).strip().rstrip(";")
        problem = _problem(head, query)
        if problem:
            raise UsageError(problem, where=file, fix="see docs/quality.md")
        severity = cast("Severity", head.get("severity", "critical"))
        table, sentence = head["table"], head["expect"]
        found.append(
            Expectation(table=table, name=file.stem, sentence=sentence, severity=severity, sql=query, is_users=True)
        )
    return found


def _problem(head: Mapping[str, str], query: str) -> str:
    if missing := [name for name in ("table", "expect") if name not in head]:
        return f"no line `-- {missing[0]}: ...`"
    if head["table"] not in TABLES:
        return f"no table {head['table']}"
    if head.get("severity", "critical") not in ("critical", "warning"):
        return f"a severity is critical or warning, not {head['severity']}"
    return "" if query else "no query"


def _wrong_columns(table: Table, schema: pa.Schema) -> list[str]:
    """Return which columns are missing or have another type. Additional columns are allowed."""
    wrong = []
    for column in table.all_columns:
        at = schema.get_field_index(column.name)
        if at < 0:
            wrong.append(f"{column.name} is missing")
        elif not _same_type(column, schema.field(at).type):
            wrong.append(f"{column.name} is {schema.field(at).type}, not {column.type}")
    return wrong


def _same_type(column: Column, kind: pa.DataType) -> bool:
    """Return whether a type is the declared one; names of list items are not compared."""
    if pa.types.is_list(column.type) and pa.types.is_list(kind):
        return bool(column.type.value_type == kind.value_type)
    return bool(column.type == kind)
