"""Expectations of verdicts: what a policy may decide, what may be planned, what a forecast must include."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.policy import CompiledPolicy, GroupInput, Policy
from sexton.policy.inputs import TIME_REASONS
from sexton.quality.declared_expectations import Expectation
from sexton.quality.measure import CheckedRun, Measures, count_true

VERDICTS, TOMBSTONES, FORECAST = "offset_verdicts", "tombstones", "expiry_forecast"
_BY_TIME = pa.array(sorted(TIME_REASONS))
_GROUP = ["log_partition", "group_id"]


def _expect(table: str, measure: str, sentence: str) -> Expectation:
    return Expectation(table=table, measure=measure, sentence=sentence)


VERDICT_EXPECTATIONS: tuple[Expectation, ...] = (
    _expect(VERDICTS, "policy_verdicts", "with a policy every row has its verdict, without one none has"),
    _expect(
        VERDICTS,
        "against_the_broker",
        "no rule expires what the broker keeps for another reason than time, or what an open transaction holds",
    ),
    _expect(TOMBSTONES, "held_groups", "nothing is planned of a group that the policy holds"),
    _expect(FORECAST, "due_untold", "every group that loses an offset now is in the forecast"),
)


def measure_verdicts(found: Measures, verdicts: pa.Table, run: CheckedRun) -> None:
    """Count invalid policy verdicts."""
    decided = verdicts["policy_verdict"]
    missing = decided.null_count if run.policy is not None else verdicts.num_rows - decided.null_count
    found.put(VERDICTS, "policy_verdicts", missing)
    is_timely = pc.is_in(verdicts["broker_reason"], value_set=_BY_TIME)
    is_kept = pc.or_(pc.invert(is_timely), pc.is_valid(verdicts["pinned_by_producer_id"]))
    found.put(VERDICTS, "against_the_broker", count_true(pc.and_(is_kept, pc.equal(decided, "expire"))))


def measure_held(found: Measures, tombstones: pa.Table, groups: pa.Table, run: CheckedRun) -> None:
    """Count planned groups that are under a hold."""
    if run.policy is None:
        found.put(TOMBSTONES, "held_groups", 0)
        return
    compiled = CompiledPolicy(Policy.from_canonical(run.policy))
    planned = groups.filter(pc.is_in(groups["group_id"], value_set=pc.unique(tombstones["group_id"])))
    held = 0
    for row in planned.select(["group_id", "group_type", "state", "protocol_type", "member_count"]).to_pylist():
        facts = GroupInput(**{**row, "last_active_ms": None})  # holds do not match by idle time
        held += compiled.for_group(facts).at(run.as_of_ms).hold is not None
    found.put(TOMBSTONES, "held_groups", held)


def measure_forecast(found: Measures, verdicts: pa.Table, forecast: pa.Table) -> None:
    """Count groups with an expired offset and no row in the forecast."""
    due = pc.or_kleene(pc.equal(verdicts["broker_verdict"], "expire"), pc.equal(verdicts["policy_verdict"], "expire"))
    losing = verdicts.filter(pc.fill_null(due, False)).group_by(_GROUP).aggregate([])
    forecasted = forecast.group_by(_GROUP).aggregate([])
    rows = losing.append_column("row", pa.array(np.arange(losing.num_rows)))
    found.put(FORECAST, "due_untold", rows.join(forecasted, keys=_GROUP, join_type="left anti").num_rows)
