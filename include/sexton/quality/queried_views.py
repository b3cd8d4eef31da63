"""Relations that expectations can query: the tables of a run, its identity and inputs, and views of both."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST
from sexton.policy import CompiledPolicy, GroupInput, Policy
from sexton.tables.table import Origin

KEY = ("log_partition", "group_id", "topic", "partition")
_KEY = ", ".join(KEY)

VIEWS: Mapping[str, str] = {
    "held_offsets": f"""
        SELECT {_KEY}, log_offset, committed_offset FROM committed_offsets
        UNION ALL
        SELECT {_KEY}, log_offset, committed_offset FROM unreachable_offsets
        WHERE reason NOT IN ('group_removed', 'undetermined')""",
    "decisions": f"""
        SELECT {_KEY}, coalesce(policy_verdict, broker_verdict) AS verdict FROM offset_verdicts""",
    "planned_offsets": """
        SELECT target_log_partition AS log_partition, group_id, topic, partition, target_log_offset,
            target_committed_offset, position
        FROM tombstones WHERE record_type IN (0, 1)""",
    "planned_groups": """
        SELECT target_log_partition AS log_partition, group_id, record_type, position
        FROM tombstones WHERE record_type NOT IN (0, 1)""",
    "blocked_log_partitions": """
        SELECT log_partition FROM load_profile WHERE coalesce(load_would_fail, true)
        UNION
        SELECT log_partition FROM undecodable_records""",
    "failing_sweeps": """
        SELECT p.log_partition, p.sweep_blocked_by FROM load_profile p CROSS JOIN run r
        WHERE p.sweep_blocked_by IS NOT NULL AND coalesce(p.sweep_blocked_from_ms <= r.as_of_ms, true)""",
    "misplaced_groups": """
        SELECT log_partition, group_id, home_log_partition FROM groups WHERE home_log_partition <> log_partition""",
    "values_set": """
        SELECT * FROM offset_changes WHERE kind IN ('set', 'restored')""",
    "values_gone": """
        SELECT * FROM offset_changes WHERE kind NOT IN ('set', 'restored')""",
    "stored_values": f"""
        SELECT {_KEY}, log_offset, committed_offset FROM committed_offsets
        UNION ALL
        SELECT {_KEY}, log_offset, committed_offset FROM unreachable_offsets""",
}
"""Name -> SQL of a view that several expectations need, over tables and the relations of CheckedRun."""

GROUP_COLUMNS = ("log_partition", "group_id", "group_type", "state", "protocol_type", "member_count")
HELD_GROUPS = pa.schema([("log_partition", pa.int32()), ("group_id", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRun:
    """The run's identity and inputs, with which its tables are compared."""

    cluster_id: str
    as_of_ms: int
    run_id: str
    cuts: Mapping[int, int]
    plan_id: str | None = None
    is_complete: bool = True
    profile: Profile = NEWEST
    policy: str | None = None
    """The policy as canonical JSON."""
    origins: tuple[Origin, ...] = ("log",)
    """Evidence of the run. Without `log`, laws about what only the bytes of the log show do not apply."""
    has_changes: bool = False
    """Whether the run writes the changes of an interval."""

    def relations(self) -> dict[str, pa.Table]:
        """The relation `run`, one row, and `cuts`, one row for each log partition."""
        run = {
            "cluster_id": self.cluster_id,
            "as_of_ms": self.as_of_ms,
            "run_id": self.run_id,
            "plan_id": self.plan_id,
            "is_complete": self.is_complete,
            "has_policy": self.policy is not None,
            "one_cache": self.profile.one_cache,
            "leaks_open_transactions": self.profile.leaks_open_transactions,
        }
        kinds = {"as_of_ms": pa.int64(), **dict.fromkeys(("cluster_id", "run_id", "plan_id"), pa.string())}
        return {
            "run": pa.table({name: pa.array([value], kinds.get(name, pa.bool_())) for name, value in run.items()}),
            "cuts": pa.table(
                {"log_partition": pa.array(self.cuts, pa.int32()), "cut": pa.array(self.cuts.values(), pa.int64())}
            ),
        }


def relation_of(table: str) -> str:
    """The relation that the expectations of a table query. `runs` is written last, so `run` stands in for it."""
    return "run" if table == "runs" else table


def held_groups(policy: str, groups: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The groups under a hold, as HELD_GROUPS, from rows with GROUP_COLUMNS. Conditions on idle time do not apply to
    holds."""
    compiled = CompiledPolicy(Policy.from_canonical(policy))
    for batch in groups:
        inputs = batch.drop_columns(["log_partition"]).to_pylist()
        is_held = [compiled.for_group(GroupInput(**row, last_active_ms=None)).at(0).hold is not None for row in inputs]
        yield batch.select(HELD_GROUPS.names).filter(pa.array(is_held, pa.bool_())).cast(HELD_GROUPS)
