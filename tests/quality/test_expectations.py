"""Every expectation holds for a sound run and fails for a run that breaks it."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pytest

from sexton.coordinator.profiles import profile_of
from sexton.policy import parse_policy
from sexton.quality.declared_expectations import CHECKED_TABLES, declared_expectations
from sexton.quality.expectation import Expectation
from sexton.quality.laws import LAWS
from sexton.quality.suites import needs, suites_of
from sexton.tables import TABLES, Column, Table
from tests.quality import world
from tests.quality.world import (
    DYING,
    LIVING,
    RUN,
    SHARING,
    Break,
    append,
    change,
    remove,
    row,
    sound,
    tables_of,
    tombstone,
)

POLICY = parse_policy(
    "{version: 1, holds: [{name: h, match: {prefix: dying}, kind: legal, owner: o, reason: r}]}", where="policy"
)
HOLDING = replace(RUN, policy=POLICY.canonical)
"""The same run, by a policy that holds the group that goes."""

BY_ROWS: dict[tuple[str, str], Break] = {
    ("committed_offsets", "without_group"): remove("groups", 0),
    ("committed_offsets", "misplaced_offsets"): change("committed_offsets", 0, log_partition=1),
    ("groups", "offset_counts"): change("groups", 0, offset_count=3),
    ("groups", "pending_counts"): change("groups", 2, pending_count=0),
    ("groups", "member_counts"): change("groups", 2, member_count=2),
    ("members", "without_group"): append("members", row("members", group_id="nobody", log_partition=1)),
    ("offset_verdicts", "missing_verdicts"): remove("offset_verdicts", 2),
    ("offset_verdicts", "without_offset"): remove("committed_offsets", 2),
    ("offset_verdicts", "policy_verdicts"): change("offset_verdicts", 2, policy_verdict="keep"),
    ("offset_verdicts", "against_the_broker"): change(
        "offset_verdicts", 2, policy_verdict="expire", broker_reason="subscribed"
    ),
    ("expiry_forecast", "not_in_forecast"): change("expiry_forecast", 0, group_id=LIVING),
    ("offset_verdicts", "held_offsets_kept"): change("offset_verdicts", 2, keep_status="not_kept"),
    ("offset_verdicts", "load_would_fail"): change("load_profile", 0, load_outcome="empty_cache"),
    ("load_profile", "missing_log_partitions"): remove("load_profile", 1),
    ("load_profile", "behind_the_cut"): change("load_profile", 0, next_log_offset=101),
    ("load_profile", "conservation"): change("load_profile", 0, superseded=2),
    ("load_profile", "live_rows"): change("load_profile", 0, live=3, superseded=2),
    ("load_profile", "pending_rows"): change("load_profile", 1, pending=0, aborted=1),
    ("load_profile", "unreachable_rows"): change("load_profile", 0, unreachable=1, superseded=2),
    ("tombstones", "without_expire"): change("offset_verdicts", 0, broker_verdict="keep"),
    ("tombstones", "kept_or_held"): change("offset_verdicts", 0, policy_verdict="hold"),
    ("tombstones", "planned_twice"): append("tombstones", tombstone(3, 6)),
    ("tombstones", "other_target"): change("tombstones", 0, target_log_offset=4),
    ("tombstones", "left_out"): remove("tombstones", 1),
    ("tombstones", "group_with_offsets"): append("tombstones", tombstone(3, None, group_id=LIVING, log_partition=1)),
    ("tombstones", "blocked"): change("load_profile", 0, load_would_fail=True),
    ("tombstones", "sweep_fails"): change("load_profile", 0, sweep_blocked_by="g"),
    ("tombstones", "positions"): remove("tombstones", 0),
    ("tombstones", "other_plan"): change("tombstones", 0, plan_id="another"),
    ("undecodable_records", "found"): append("undecodable_records", row("undecodable_records")),
    **{
        ("unreachable_offsets", reason): append(
            "unreachable_offsets", world.offset("unreachable_offsets", group_id, 0, 9, reason=reason)
        )
        for reason, group_id in (
            *(("group_removed", "gone"), ("misplaced", LIVING)),
            *(("share_group", LIVING), ("undetermined", LIVING)),
        )
    },
    ("load_profile", "load_failures"): change("load_profile", 0, load_would_fail=True),
    ("load_profile", "sweep_failures"): change("load_profile", 0, sweep_blocked_by="g"),
    ("load_profile", "unknown_types"): change("load_profile", 0, unknown_types=1),
    ("load_profile", "future_batches"): change("load_profile", 0, future_batches=1),
}
"""What breaks each law that rows can break."""


WITH_CHANGES = replace(RUN, has_changes=True)
DECLARED = (*CHECKED_TABLES, TABLES["offset_changes"])
"""Of a run with an interval."""


def rules_of(column: Column) -> Iterator[tuple[str, object]]:
    """Every expectation of the values of a column, and a value that breaks it."""
    if column.known_from == "admin_snapshots":
        yield "origin", world.DEFAULTS[column.type]
    elif not column.nullable:
        yield "not_null", None
    if column.minimum is not None:
        yield f"minimum_{column.minimum}_{column.severity}", column.minimum - 1
    if column.allowed:
        yield f"allowed_{column.name}", "unheard of"
    if column.absent is not None:
        yield "absent", column.absent
    if column.below_cut:
        yield "below_cut", 100


def one_row(table: str) -> world.Rows:
    """The sound run with at least one row in `table`."""
    rows = sound()
    if table == "offset_changes":
        rows[table] = [row(table, kind="deleted", old_committed_offset=5, log_offset=3, log_partition=0, partition=0)]
    if not rows[table]:
        rows[table].append(row(table))
    return rows


@cache
def sound_counts(table: str) -> dict[tuple[str, str], int]:
    return world.counts(tables_of(one_row(table)), WITH_CHANGES, table=table)


@cache
def sound_run_counts() -> dict[tuple[str, str], int]:
    return world.counts(tables_of(sound()))


def count_after(table: str, name: str, **values: object) -> int:
    """What breaks an expectation after the first row of `table` got other values; it was zero before."""
    rows = one_row(table)
    assert sound_counts(table)[table, name] == 0
    rows[table][0].update(values)
    return world.counts(tables_of(rows), WITH_CHANGES, table=table)[table, name]


def test_a_sound_run_keeps_every_expectation() -> None:
    results = world.judged(tables_of(sound()))
    assert [result for result in results if not result.success] == []
    assert len({(result.table, result.expectation) for result in results}) == len(results)
    assert {result.table for result in results} == {*(table.name for table in CHECKED_TABLES), "runs"}


BY_THE_RUN = {("runs", "coverage"), ("tombstones", "held_groups")}
"""What is broken by what the run says, not by rows."""


@pytest.mark.parametrize(
    "law",
    [law for law in LAWS if (law.table, law.name) not in BY_THE_RUN],
    ids=lambda law: law.name,
)
def test_laws_see_what_breaks_them(law: Expectation) -> None:
    rows = sound()
    assert sound_run_counts()[law.table, law.name] == 0
    BY_ROWS[law.table, law.name](rows)
    assert world.counts(tables_of(rows), table=law.table)[law.table, law.name] > 0


def test_undecodable_records_block_the_plan() -> None:
    rows = sound()
    rows["undecodable_records"].append(row("undecodable_records", log_partition=0))
    assert world.counts(tables_of(rows))["tombstones", "blocked"] == 3


def test_what_is_blocked_is_not_missed_in_the_plan() -> None:
    rows = sound()
    rows["load_profile"][0]["load_would_fail"] = True
    rows["tombstones"] = []
    counts = world.counts(tables_of(rows))
    assert counts["tombstones", "left_out"] == counts["tombstones", "blocked"] == 0


def test_a_policy_decides_before_the_broker() -> None:
    rows = sound()
    for verdict in rows["offset_verdicts"]:
        verdict["broker_verdict"], verdict["policy_verdict"] = "keep", verdict["broker_verdict"]
    counts = world.counts(tables_of(rows))
    assert counts["tombstones", "without_expire"] == counts["tombstones", "left_out"] == 0


def test_with_a_policy_every_verdict_has_its_own() -> None:
    rows = sound()
    counts = world.counts(tables_of(rows), HOLDING)
    assert counts["offset_verdicts", "policy_verdicts"] == len(rows["offset_verdicts"])
    for verdict in rows["offset_verdicts"]:
        verdict["policy_verdict"] = verdict["broker_verdict"]
    assert world.counts(tables_of(rows), HOLDING)["offset_verdicts", "policy_verdicts"] == 0


def test_a_pending_value_protects_from_rules() -> None:
    rows = sound()
    rows["offset_verdicts"][0].update(policy_verdict="expire", pinned_by_producer_id=7)
    assert world.counts(tables_of(rows))["offset_verdicts", "against_the_broker"] == 1


@pytest.mark.parametrize(("planned", "count"), [((), 0), ((SHARING,), 0), ((DYING, LIVING), 1)])
def test_nothing_is_planned_of_a_held_group(planned: tuple[str, ...], count: int) -> None:
    """A bare group has no verdict that could tell that it is held."""
    rows = sound()
    rows["tombstones"] = [tombstone(number, None, group_id=group_id) for number, group_id in enumerate(planned)]
    assert world.counts(tables_of(rows), HOLDING)["tombstones", "held_groups"] == count
    assert world.counts(tables_of(rows))["tombstones", "held_groups"] == 0


def test_a_misplaced_group_holds_no_committed_offset_but_keeps_its_copy() -> None:
    rows = sound()
    rows["groups"].append(world.group(DYING, 1))
    rows["unreachable_offsets"].append(world.offset("unreachable_offsets", DYING, 1, 5, reason="misplaced"))
    rows["offset_verdicts"].append(world.verdict(DYING, 1, 5, "keep"))
    counts = world.counts(tables_of(rows))
    assert counts["groups", "offset_counts"] == counts["committed_offsets", "without_group"] == 0
    rows["tombstones"].append(tombstone(0, None, log_partition=1))
    assert world.counts(tables_of(rows))["tombstones", "group_with_offsets"] == 1


def test_a_misplaced_copy_is_told_and_has_a_verdict_of_its_own() -> None:
    rows = sound()
    rows["unreachable_offsets"].append(world.offset("unreachable_offsets", DYING, 1, 5, reason="misplaced"))
    assert world.counts(tables_of(rows))["offset_verdicts", "missing_verdicts"] == 1
    rows["offset_verdicts"].append(world.verdict(DYING, 1, 5, "keep"))
    assert world.counts(tables_of(rows))["offset_verdicts", "missing_verdicts"] == 0


def test_coverage_is_told() -> None:
    results = world.judged(tables_of(sound()), replace(RUN, is_complete=False))
    (failed,) = [result for result in results if not result.success]
    assert (failed.table, failed.severity) == ("runs", "warning")


@pytest.mark.parametrize("table", DECLARED, ids=lambda table: table.name)
def test_values_that_break_the_rules_of_their_columns(table: Table) -> None:
    """One kind of rule at a time, of every column: each is named, also where several share one expectation."""
    sound, kinds = sound_counts(table.name), defaultdict(list)
    for column in table.columns:
        for rule, value in rules_of(column):
            kinds[rule.partition("_")[0]].append((column.name, rule, value))
    for broken in kinds.values():
        rows = one_row(table.name)
        rows[table.name][0].update({column: value for column, _, value in broken})
        observed = world.observed(tables_of(rows), WITH_CHANGES, table=table.name)
        for column, rule, _ in broken:
            assert sound[table.name, rule] == 0
            found = observed[table.name, rule]
            assert found == "1" or f" {column} 1" in found.replace(",", ""), (column, rule, found)


def test_an_expire_timestamp_of_minus_1_is_one_to_some_brokers() -> None:
    rows = sound()
    rows["committed_offsets"][0]["expire_timestamp_ms"] = -1
    old = replace(RUN, profile=profile_of("group_metadata_manager:2.1.0"))
    assert world.counts(tables_of(rows), old)["committed_offsets", "absent"] == 0
    rows["committed_offsets"][0]["leader_epoch"] = -1
    assert world.counts(tables_of(rows), old)["committed_offsets", "absent"] == 1


@pytest.mark.parametrize("table", [table for table in DECLARED if table.per_log_partition], ids=lambda t: t.name)
def test_a_row_of_a_log_partition_that_was_not_read(table: Table) -> None:
    assert count_after(table.name, "of_the_run", log_partition=7) == 1


@pytest.mark.parametrize("table", [table for table in DECLARED if table.key], ids=lambda table: table.name)
def test_a_key_that_comes_twice(table: Table) -> None:
    rows = one_row(table.name)
    rows[table.name].append(rows[table.name][0])
    assert world.counts(tables_of(rows), WITH_CHANGES, table=table.name)[table.name, "unique"] == 1


@pytest.mark.parametrize("table", DECLARED, ids=lambda table: table.name)
def test_rows_of_another_run(table: Table) -> None:
    rows = one_row(table.name)
    others = ({"cluster_id": "c2"}, {"as_of_ms": 1}, {"run_id": "r2"})
    rows[table.name] = [{**rows[table.name][0], **values} for values in others]
    assert world.counts(tables_of(rows), WITH_CHANGES, table=table.name)[table.name, "of_the_run"] == len(others)
    assert count_after(table.name, "not_null", run_id=None) == 1


@pytest.mark.parametrize("table", CHECKED_TABLES, ids=lambda table: table.name)
def test_what_is_not_there_is_not_a_pass(table: Table) -> None:
    """A missing table, column or a column of another type is reported, and nothing that reads the table is measured."""
    tables = tables_of(one_row(table.name))
    column = table.columns[-1].name
    at = tables[table.name].schema.get_field_index(column)
    rows = tables[table.name]
    damaged = {
        "missing": {name: rows for name, rows in tables.items() if name != table.name},
        "column": {**tables, table.name: rows.drop_columns([column])},
        "other type": {**tables, table.name: rows.set_column(at, column, pa.nulls(rows.num_rows, pa.float64()))},
    }
    readers = [law for law in LAWS if table.name in needs(law.sql)]
    for what, found in damaged.items():
        counts = world.counts(found)
        assert counts[table.name, "written"] == (what == "missing")
        assert counts.get((table.name, "columns")) == (None if what == "missing" else 1)
        assert (table.name, "not_null") not in counts
        assert not any((law.table, law.name) in counts for law in readers)


def test_every_expectation_is_one_that_a_test_breaks() -> None:
    """So that nobody adds an expectation without a run that fails it."""
    derived = {
        (table.name, each.name) for table in CHECKED_TABLES for each in declared_expectations(table, RUN)
    }  # broken above, table by table and column by column
    found = {(each.table, each.name) for suite in suites_of(RUN).values() for each in suite}
    assert found == derived | set(BY_ROWS) | BY_THE_RUN
    names = {each.name for each in declared_expectations(TABLES["offset_changes"], WITH_CHANGES)}
    columns = [column for column in TABLES["offset_changes"].columns if column.known_from != "admin_snapshots"]
    assert names == {
        *("written", "columns", "origin", "of_the_run", "not_null", "unique", "below_cut"),
        *(f"minimum_{column.minimum}_{column.severity}" for column in columns if column.minimum is not None),
        *(f"allowed_{column.name}" for column in columns if column.allowed),
    }
