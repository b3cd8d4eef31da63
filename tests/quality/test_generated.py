"""No history of a log makes a correct replay fail a critical check: what is odd in a log is told, no more."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.analysis.forecast import forecast_of
from sexton.coordinator.api.plain_view import PlainView
from sexton.coordinator.api.unloading import unexpected_unloads
from sexton.coordinator.expiry import NOT_LOADED
from sexton.coordinator.profile import Profile
from sexton.quality.declared_expectations import CHECKED_TABLES
from sexton.quality.queried_views import CheckedRun
from sexton.quality.suites import suites_of
from sexton.tables import TABLES
from sexton.verdicts.expiry import held_offsets, plan, under_block
from tests.campaign.histories import histories
from tests.fates import load
from tests.kernels.compare import CAP_BYTES, PROFILES
from tests.log_builder import BASE_MS, BatchSpec, encode_log
from tests.oracle import oracle_tables, removed_groups
from tests.plain_sweep import group_tombstones
from tests.quality import world
from tests.verdicts.whole_judge import judge

PLAN_COLUMNS: dict[str, Any] = {"plan_id": "plan", "log_partition": 0, "target_log_partition": 0, "key": b"k"}


def run_of(
    history: list[BatchSpec], partition_count: int | None, profile: Profile
) -> tuple[dict[str, pa.Table], CheckedRun]:
    """The tables that the plain rules give for log partition 0, and its run."""
    log = encode_log(history)
    loaded = load([log], cap_bytes=CAP_BYTES, profile=profile)
    run = CheckedRun(
        cluster_id="c1", as_of_ms=1_000, run_id="r1", cuts={0: loaded.cut}, plan_id="plan", profile=profile,
    )  # fmt: skip
    rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in CHECKED_TABLES}
    rows.update(oracle_tables(loaded, 0, partition_count))
    removed = removed_groups([log], cap_bytes=CAP_BYTES)
    rows["load_profile"][0]["unexpected_unloads"] = len(
        unexpected_unloads(PlainView(loaded), removed=removed, profile=profile)
    )
    state = {name: typed(name, rows[name]) for name in rows}
    offsets = held_offsets(state["committed_offsets"], state["unreachable_offsets"])
    verdicts = judge(
        offsets, state["groups"], state["pending_offsets"], retention_ms=60_000, now_ms=BASE_MS + 70_000,
        profile=profile,
    )  # fmt: skip
    if loaded.holds_nothing:
        verdicts = under_block(verdicts, NOT_LOADED, now_ms=BASE_MS + 70_000)
    rows["offset_verdicts"] = [{**row, "log_partition": 0} for row in verdicts.to_pylist()]
    own = tombstones_of(
        [
            {
                "group_id": group_id,
                "ordinal": ordinal,
                **{name: getattr(item, name) for name in ("record_type", "member_id", "regular_expression")},
            }
            for group_id, group in loaded.groups.by_id.items()
            if group.group_type != "Classic"
            for ordinal, item in enumerate(group_tombstones(group))
        ]
    )
    told = typed("offset_verdicts", rows["offset_verdicts"])
    forecast = forecast_of(told, offsets, state["groups"], as_of_ms=BASE_MS + 70_000, profile=profile)
    rows["expiry_forecast"] = [{**row, "log_partition": 0} for row in forecast.to_pylist()]
    if not (loaded.undecodable or loaded.load_would_fail):
        expires = pc.equal(verdicts["broker_verdict"], "expire")
        planned = plan(offsets, expires, state["groups"], own, profile=profile)
        rows["tombstones"] = [
            {**row, **PLAN_COLUMNS, "position": position} for position, row in enumerate(planned.to_pylist())
        ]
    marked = {"cluster_id": run.cluster_id, "as_of_ms": run.as_of_ms, "run_id": run.run_id}
    return world.tables_of({name: [{**row, **marked} for row in found] for name, found in rows.items()}), run


def typed(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=TABLES[name].arrow_schema(with_run=False))


def tombstones_of(rows: list[dict[str, Any]]) -> pa.Table:
    names = ["group_id", "ordinal", "record_type", "member_id", "regular_expression"]
    kinds = dict.fromkeys(names, pa.string()) | dict.fromkeys(names[1:3], pa.int32())
    return pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items())))


@settings(max_examples=40)
@given(histories(max_size=10), st.sampled_from([None, 1, 3]), st.sampled_from(PROFILES))
def test_a_correct_replay_breaks_no_critical_expectation(history, partition_count, profile):
    tables, run = run_of(history, partition_count, profile)
    counts = world.counts(tables, run)
    critical = [e for suite in suites_of(run).values() for e in suite if e.severity == "critical"]
    assert [(e.table, e.name) for e in critical if counts[e.table, e.name]] == []
