"""What an expectation is: a sentence about a table, and the SQL that returns the rows that break it.

One declaration serves both engines. `sexton audit` runs the SQL in DuckDB; the pipeline passes it to Great Expectations
on Spark. So the SQL only uses what both understand: joins (also SEMI and ANTI), EXISTS, GROUP BY .. HAVING.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sexton.tables import RUN_COLUMNS, Severity

Rule = Literal["written", "columns", "unique", "not_null", "minimum", "allowed", "forbidden", "below_cut"]
"""Rules about one table, for which Great Expectations has built-in expectations."""

MAX_SHOWN = 20
"""Maximum number of breaking rows that a result keeps."""
NOT_MEASURED = "not measured: the table, or one that it is compared with, is not there or not as declared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A sentence about a table, and the rows that break it. `name` is unique in its table.

    `sql` returns those rows; the rules `written` and `columns` have none, because they are about files. A rule about
    single columns has the SQL condition of a broken value in `by_column`.
    """

    table: str
    name: str
    sentence: str
    severity: Severity = "critical"
    sql: str = ""
    rule: Rule | None = None
    by_column: Mapping[str, str] = field(default_factory=dict)
    not_applicable: str | None = None
    """Why the expectation does not apply to this run; it then counts as met."""
    is_users: bool = False
    """Whether a user has added it, with a query of any form."""
    value: Any = None
    """What the rule compares with: the columns of a key, or by column the lowest, allowed or forbidden values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationResult:
    """One row of dq_results."""

    table: str
    expectation: str
    severity: Severity
    success: bool
    observed: str
    failing_rows: list[str]

    @property
    def stops_publication(self) -> bool:
        return not self.success and self.severity == "critical"


def result_of(
    expectation: Expectation,
    *,
    success: bool,
    count: int = 0,
    by_column: Mapping[str, int] | None = None,
    rows: Iterable[Mapping[str, Any]] = (),
    row_count: int | None = None,
    observed: str | None = None,
) -> ExpectationResult:
    """The result of an expectation that `count` rows, or the values `by_column`, break; `row_count` is the table's."""
    broken = {name: number for name, number in (by_column or {}).items() if number}
    count = count or sum(broken.values())
    detail = (
        ": " + ", ".join(f"{name} {number:,}" for name, number in broken.items()) if len(by_column or {}) > 1 else ""
    )
    if observed is None and success:
        observed = "none" if row_count is None else f"none in {row_count:,} rows"
    return ExpectationResult(
        table=expectation.table,
        expectation=expectation.sentence,
        severity=expectation.severity,
        success=success,
        observed=observed or f"{count:,}{detail}",
        failing_rows=[_as_json(row) for row in rows],
    )


def _as_json(row: Mapping[str, Any]) -> str:
    """A row as JSON, without the columns that all rows of a run share; bytes in hexadecimal."""
    shared = {column.name for column in RUN_COLUMNS}
    return json.dumps(
        {
            name: value.hex() if isinstance(value, bytes | bytearray) else value
            for name, value in row.items()
            if name not in shared
        },
        ensure_ascii=False,
        default=str,
    )
