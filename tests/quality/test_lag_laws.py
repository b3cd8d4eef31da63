"""Every law of time_lag holds for a sound audit and fails for one that breaks it."""

from typing import Any

import pyarrow as pa
import pytest

from sexton.quality import duckdb_checks
from sexton.quality.laws import AUDIT_LAWS
from sexton.quality.queried_views import CheckedRun
from sexton.quality.suites import audit_suites, shape
from sexton.tables import COMMITTED_OFFSETS, TIME_LAG, Table

RUN = CheckedRun(cluster_id="c", as_of_ms=1_000, run_id="r", cuts={0: 10})
OWN = {"cluster_id": "c", "as_of_ms": 1_000, "run_id": "r"}
KEY = {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 40}
COMMITTED = {**OWN, **KEY, "metadata": "", "commit_timestamp_ms": 5, "log_partition": 0, "log_offset": 3,
             "producer_id": -1}  # fmt: skip
LAG = {
    **OWN, **KEY, "log_start_offset": 10, "log_end_offset": 100, "lag": 60, "lag_min_ms": 5, "lag_max_ms": 9,
    "basis": "timestamps", "pending_producer_ids": [], "loses_at_min_ms": 2_000, "loses_at_ms": 3_000,
}  # fmt: skip
AT_END = {"basis": "log_end", "lag_min_ms": 0, "lag_max_ms": 0, "loses_at_min_ms": None, "loses_at_ms": None}
UNKNOWN = {"basis": None, "lag_min_ms": None, "lag_max_ms": None}


def failed(lag: dict[str, Any] | None, committed: dict[str, Any] | None = COMMITTED) -> set[str]:
    def rows(table: Table, row: dict[str, Any] | None) -> pa.Table:
        return pa.Table.from_pylist([row] if row else [], schema=table.arrow_schema())

    tables = {"time_lag": rows(TIME_LAG, lag), "committed_offsets": rows(COMMITTED_OFFSETS, committed)}
    shapes = shape({name: (1, [table.schema]) for name, table in tables.items()})
    results = duckdb_checks.check(tables, shapes, audit_suites(RUN, [TIME_LAG]), RUN)
    laws = {law.sentence: law.name for law in AUDIT_LAWS if law.table == "time_lag"}
    return {laws.get(each.expectation, each.expectation) for each in results if not each.success}


@pytest.mark.parametrize(
    "values",
    [
        {},
        AT_END,
        UNKNOWN,
        {"committed_offset": 40, "lag_max_ms": None},
        {"log_end_offset": None, "lag": None},
        {"log_end_offset": 30, "lag": 0, "would_reset": "beyond_log_end"},
        {"log_start_offset": 41, "would_reset": "behind_log_start"},
        {"loses_at_ms": None, "lag_growth": -0.5},
    ],
)
def test_sound(values: dict[str, Any]) -> None:
    assert failed({**LAG, **values}) == set()


def test_of_nothing_nothing_is_broken() -> None:
    assert failed(None, None) == set()


@pytest.mark.parametrize(
    ("law", "values"),
    [
        ("interval", {"lag_min_ms": 10}),
        ("interval", {"basis": None}),
        ("interval", {**UNKNOWN, "basis": "appends"}),
        ("interval", {**UNKNOWN, "lag_max_ms": 9}),
        ("log_end", {**AT_END, "lag_max_ms": 9}),
        ("log_end", {**AT_END, "loses_at_min_ms": 2_000}),
        ("lag_records", {"lag": 61}),
        ("lag_records", {"lag": None}),
        ("lag_records", {"log_end_offset": None}),
        ("lag_records", {"log_end_offset": 30, "lag": -10}),
        ("behind_log_start", {"log_start_offset": 41}),
        ("behind_log_start", {"would_reset": "behind_log_start"}),
        ("loses_at", {"loses_at_ms": 1_999}),
        ("loses_at", {"loses_at_min_ms": None}),
    ],
)
def test_broken(law: str, values: dict[str, Any]) -> None:
    assert law in failed({**LAG, **values})


def test_every_offset_has_its_lag_and_no_other() -> None:
    assert failed(None) == {"not_measured"}
    assert failed(LAG, None) == {"without_offset"}
    assert failed({**LAG, "committed_offset": 41, "lag": 59}) == {"not_measured"}


def test_a_word_that_is_not_declared() -> None:
    assert len(failed({**LAG, "would_reset": "perhaps"})) == len(failed({**LAG, "basis": "guess"})) == 1
