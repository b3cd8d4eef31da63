"""No data is no pass: a table that is empty where other tables say that rows are due fails a critical expectation."""

from dataclasses import replace

import pytest

from sexton.quality.declared_expectations import CHECKED_TABLES, declared_expectations
from sexton.quality.suites import suites_of
from sexton.tables import INTERVAL_TABLES, TABLES
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


def changed(**values: object) -> dict[str, object]:
    found = world.row(CHANGES, kind="deleted", old_committed_offset=5, log_offset=3, log_partition=0, partition=0)
    return {**found, **values}


def counts(rows: list[dict[str, object]]) -> dict[str, int]:
    """What breaks the declaration of offset_changes in a run that has them."""
    tables = world.tables_of({**world.sound(), CHANGES: rows})
    return {name: count for (_, name), count in world.counts(tables, IN_RUN, table=CHANGES).items()}


DERIVED = [each.name for each in declared_expectations(TABLES[CHANGES], IN_RUN)]


def breaking(name: str) -> list[list[dict[str, object]]]:
    """Rows that break what the declaration promises, column by column."""
    of_looks = [column for column in TABLES[CHANGES].columns if column.known_from == "looks"]
    columns = [column for column in TABLES[CHANGES].columns if column not in of_looks]
    found = {
        "origin": [[changed(**{column.name: 5})] for column in of_looks],
        "of_the_run": [[changed(cluster_id="another")], [changed(log_partition=7)]],
        "not_null": [[changed(**{column.name: None})] for column in columns if not column.nullable],
        "unique": [[changed(), changed()]],
        "absent": [[changed(**{c.name: c.absent})] for c in columns if c.absent is not None],
        "below_cut": [[changed(**{column.name: 100})] for column in columns if column.below_cut],
    }
    for column in columns:
        if column.minimum is not None:
            low = [changed(**{column.name: column.minimum - 1})]
            found.setdefault(f"minimum_{column.minimum}_{column.severity}", []).append(low)
        if column.allowed:
            found[f"allowed_{column.name}"] = [[changed(**{column.name: "strange"})]]
    return found[name]


@pytest.mark.parametrize("name", [name for name in DERIVED if name not in ("written", "columns")])
def test_what_offset_changes_promises_can_be_broken(name: str) -> None:
    assert counts([changed()])[name] == 0
    for rows in breaking(name):
        assert counts(rows)[name] > 0, rows


def test_offset_changes_that_is_not_there_or_not_as_declared_stops_a_run() -> None:
    """In a run that has changes; another has no such table, and nothing is expected of it."""
    others = {table.name: [] for table in INTERVAL_TABLES if table.name != CHANGES}
    tables = world.tables_of({**world.sound(), CHANGES: [changed()], **others})
    suite = suites_of(IN_RUN)[CHANGES]
    for damaged in ({}, {CHANGES: tables[CHANGES].drop_columns(["kind"])}):
        rest = {name: rows for name, rows in tables.items() if name != CHANGES}
        failed = [each for each in world.judged({**rest, **damaged}, IN_RUN) if each.stops_publication]
        assert {each.table for each in failed} == {CHANGES}
        critical = [each for each in suite if each.severity == "critical"]
        assert len(failed) == len(critical) - len(damaged)  # the table is there, at least
