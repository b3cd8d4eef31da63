"""No data is no pass: a table that is empty where other tables say that rows are due fails a critical expectation."""

from dataclasses import replace

import pytest

from sexton.quality.declared_expectations import CHECKED_TABLES
from sexton.quality.suites import suites_of
from sexton.tables import INTERVAL_TABLES
from tests.quality import world

NOBODY_COUNTS = {
    "open_transactions", "topic_partitions", "unreachable_offsets", "undecodable_records",
}  # fmt: skip
"""Of these the sound run has no row, or no other table says how many there should be."""
DUE = [table.name for table in CHECKED_TABLES if table.name not in NOBODY_COUNTS]
CHANGES = "offset_changes"
CRITICAL = [each for suite in suites_of(world.RUN).values() for each in suite if each.severity == "critical"]
IN_RUN = replace(world.RUN, has_changes=True)


def stops(rows: world.Rows) -> set[str]:
    """Tables whose critical expectations fail: what they count is there and zero, or they do not hold."""
    counts = world.counts(world.tables_of(rows))
    return {each.table for each in CRITICAL if counts.get((each.table, each.name)) != 0}


@pytest.mark.parametrize("table", DUE)
def test_an_empty_table_where_rows_are_due_stops_a_run(table: str) -> None:
    rows = world.sound()
    assert rows[table]
    assert stops(rows) == set()
    rows[table] = []
    assert stops(rows)


def test_a_run_of_empty_tables_is_stopped() -> None:
    assert "load_profile" in stops({name: [] for name in world.sound()})


def test_a_log_partition_without_any_row_is_missed() -> None:
    rows = {name: [row for row in found if row.get("log_partition") != 1] for name, found in world.sound().items()}
    assert "load_profile" in stops(rows)


def test_offset_changes_that_is_not_there_or_not_as_declared_stops_a_run() -> None:
    """In a run that has changes; another has no such table, and nothing is expected of it."""
    others = {table.name: [] for table in INTERVAL_TABLES if table.name != CHANGES}
    tables = world.tables_of({**world.sound(), CHANGES: [], **others})
    suite = suites_of(IN_RUN)[CHANGES]
    for damaged in ({}, {CHANGES: tables[CHANGES].drop_columns(["kind"])}):
        rest = {name: rows for name, rows in tables.items() if name != CHANGES}
        failed = [each for each in world.judged({**rest, **damaged}, IN_RUN) if each.stops_publication]
        assert {each.table for each in failed} == {CHANGES}
        critical = [each for each in suite if each.severity == "critical"]
        assert len(failed) == len(critical) - len(damaged)  # the table is there, at least
