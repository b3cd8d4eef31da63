"""No data is no pass: a table that is empty where other tables say that rows are due fails a critical expectation."""

from dataclasses import replace

import pytest

from sexton.quality import CHECKED_TABLES, measure_part, total_of, validate
from sexton.quality import declared_expectations as names
from sexton.quality.validation import EXPECTATIONS, INTERVAL_EXPECTATIONS
from sexton.tables import INTERVAL_TABLES, TABLES
from tests.quality import world

NOBODY_COUNTS = {
    "open_transactions",
    "topic_partitions",
    "unreachable_offsets",
    "undecodable_records",
}
"""Of these the sound run has no row, or no other table says how many there should be."""
DUE = [table.name for table in CHECKED_TABLES if table.name not in NOBODY_COUNTS]
CHANGES = "offset_changes"
CRITICAL = [each for found in EXPECTATIONS.values() for each in found if each.severity == "critical"]
IN_RUN = replace(world.RUN, tells_changes=True)


def stops(rows: world.Rows) -> set[str]:
    """Tables whose critical expectations fail: what they count is there and zero, or they do not hold."""
    counts = world.measured(world.tables_of(rows)).counts
    return {each.table for each in CRITICAL if counts.get((each.table, each.measure)) != 0}


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


def changed(**values: object) -> dict[str, object]:
    found = world.row(CHANGES, kind="deleted", old_committed_offset=5, log_offset=3, log_partition=0, partition=0)
    return {**found, **values}


def counts(rows: list[dict[str, object]]) -> dict[str, int]:
    """What breaks the declaration of offset_changes in a run that tells them."""
    tables = world.tables_of({**world.sound(), CHANGES: rows})
    found = measure_part(
        {name: [table] for name, table in tables.items()}, IN_RUN, IN_RUN.cuts, files=dict.fromkeys(tables, 1)
    )
    return {measure: count for (table, measure), count in found.counts.items() if table == CHANGES}


DERIVED = [each.measure for each in names.expectations_of(TABLES[CHANGES])]


def breaking(measure: str) -> list[list[dict[str, object]]]:
    """Rows that break what the declaration promises, column by column."""
    columns = TABLES[CHANGES].columns
    found = {
        names.FOREIGN: [[changed(cluster_id="another")], [changed(log_partition=7)]],
        names.NULLS: [[changed(**{column.name: None})] for column in columns if not column.nullable],
        names.KEYS: [[changed(), changed()]],
        names.ABSENCE: [[changed(**{c.name: c.absent})] for c in columns if c.absent is not None],
        names.BEYOND_CUT: [[changed(**{column.name: 100})] for column in columns if column.below_cut],
    }
    for minimum, severity, low in names.minimums(TABLES[CHANGES]):
        found[names.minimum_measure(minimum, severity)] = [[changed(**{c.name: minimum - 1})] for c in low]
    for column in columns:
        if column.allowed:
            found[names.allowed_measure(column)] = [[changed(**{column.name: "strange"})]]
    return found[measure]


@pytest.mark.parametrize("measure", [name for name in DERIVED if name not in (names.MISSING, names.TYPES)])
def test_what_offset_changes_promises_can_be_broken(measure: str) -> None:
    assert counts([changed()])[measure] == 0
    for rows in breaking(measure):
        assert counts(rows)[measure] > 0, rows


def test_offset_changes_that_is_not_there_or_not_as_declared_stops_a_run() -> None:
    """In a run that tells changes; another has no such table, and nothing is expected of it."""
    others = {table.name: [] for table in INTERVAL_TABLES if table.name != CHANGES}
    tables = world.tables_of({**world.sound(), CHANGES: [changed()], **others})
    for missing, damaged in ((True, {}), (False, {CHANGES: tables[CHANGES].drop_columns(["kind"])})):
        pieces = {name: [table] for name, table in {**tables, **damaged}.items() if not (missing and name == CHANGES)}
        found = measure_part(pieces, IN_RUN, IN_RUN.cuts, files=dict.fromkeys(tables, 1))
        failed = [each for each in validate(total_of([found], IN_RUN), docs=None) if each.stops_publication]
        assert {each.table for each in failed} == {CHANGES}
        critical = [each for each in INTERVAL_EXPECTATIONS[CHANGES] if each.severity == "critical"]
        assert len(failed) == len(critical) - (0 if missing else 1)  # the table is there, at least
