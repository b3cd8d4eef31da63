"""The newest audit of replicas in the lake, counted for the summary of a run.

A run reads one log, which cannot show what other replicas of it would serve: the DAG audit_replicas compares these.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake
from sexton.lake.read import load
from sexton.runs.folder import ReplicaCounts


def newest_counts(lake: Lake, run: RunKey) -> ReplicaCounts | None:
    """Of the newest audit of the run's cluster that is not later than the run, so that a later attempt counts the same;
    None without any. The tables have to be there."""
    from pyiceberg.expressions import LessThanOrEqual

    earlier = LessThanOrEqual("as_of_ms", run.as_of_ms)
    instants = _rows(lake, "replica_state", run.cluster_id, earlier, ["as_of_ms"])
    if not instants:
        return None
    as_of_ms = max(row["as_of_ms"] for row in instants)
    return _counts_at(lake, run.cluster_id, as_of_ms)


def _counts_at(lake: Lake, cluster_id: str, as_of_ms: int) -> ReplicaCounts:
    from pyiceberg.expressions import EqualTo

    at = EqualTo("as_of_ms", as_of_ms)
    state = _rows(lake, "replica_state", cluster_id, at, ["log_partition", "status"])
    found = _rows(lake, "replica_differences", cluster_id, at, ["kind", "wrong_replicas", "needs_unclean_election"])
    alarms = [row for row in found if not row["needs_unclean_election"]]
    return ReplicaCounts(
        as_of_ms=as_of_ms,
        log_partitions=len({row["log_partition"] for row in state}),
        statuses=_counted([row["status"] for row in state]),
        kinds=_counted([row["kind"] for row in alarms]),
        wrong=_counted([replica for row in alarms for replica in row["wrong_replicas"]]),
        behind=len(found) - len(alarms),
    )


def _rows(lake: Lake, table: str, cluster_id: str, where: Any, columns: Sequence[str]) -> list[dict[str, Any]]:
    from pyiceberg.expressions import EqualTo

    scan = load(lake, table).scan(row_filter=EqualTo("cluster_id", cluster_id) & where, selected_fields=tuple(columns))
    rows: list[dict[str, Any]] = scan.to_arrow().to_pylist()
    return rows


def _counted(values: Sequence[str]) -> dict[str, int]:
    """The most frequent first, then by name."""
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))
