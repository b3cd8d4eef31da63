"""The newest audits in the lake, counted for the summary of a run and for `/metrics`.

A run reads one log. It cannot show what other replicas of the log would serve (audit_replicas compares them), who owns
its open transactions (audit_transactions), or the lag of its groups in time (audit_lag, which starts after the run that
it describes).
"""

from collections import Counter

import pyarrow.compute as pc

from sexton.as_text import DAY_MS
from sexton.lake.audits import audit_rows, newest_audit, newest_audit_of_a_run
from sexton.lake.branch import RunKey
from sexton.lake.catalog import Lake
from sexton.runs.folder import LagCounts, ReplicaCounts, TransactionCounts
from sexton.summary.arrow_counts import most_frequent_first

LOSS_SPAN_MS = DAY_MS
"""An offset that loses unread messages within this span after a run counts as losing."""

# An audit later than the run is ignored, so that a later attempt of the run has the same counts.


def newest_replicas(lake: Lake, run: RunKey) -> ReplicaCounts | None:
    """Counts of the newest audit of the cluster's replicas that is not later than the run; None without one."""
    as_of_ms = newest_audit(lake, ["replica_state"], run.cluster_id, until_ms=run.as_of_ms)
    if as_of_ms is None:
        return None
    at = run.cluster_id, as_of_ms
    state = audit_rows(lake, "replica_state", *at, ["log_partition", "status"])
    found = audit_rows(lake, "replica_differences", *at, ["kind", "wrong_replicas", "needs_unclean_election"])
    alarms = [row for row in found if not row["needs_unclean_election"]]
    return ReplicaCounts(
        as_of_ms=as_of_ms,
        log_partitions=len({row["log_partition"] for row in state}),
        statuses=most_frequent_first(Counter(row["status"] for row in state)),
        kinds=most_frequent_first(Counter(row["kind"] for row in alarms)),
        wrong=most_frequent_first(Counter(replica for row in alarms for replica in row["wrong_replicas"])),
        behind=len(found) - len(alarms),
    )


def newest_transactions(lake: Lake, cluster_id: str, *, until_ms: int | None) -> TransactionCounts | None:
    """Counts of the newest audit of the cluster's transactions not later than `until_ms`; None without one."""
    tables = ["transactions", "transactional_ids"]
    as_of_ms = newest_audit(lake, tables, cluster_id, until_ms=until_ms)
    if as_of_ms is None:
        return None
    columns = ["verdict", "is_overdue", "since_ms", "group_ids", "offsets"]
    found = audit_rows(lake, "transactions", cluster_id, as_of_ms, columns)
    hanging = [row for row in found if row["verdict"] == "hanging"]
    return TransactionCounts(
        as_of_ms=as_of_ms,
        verdicts=most_frequent_first(Counter(row["verdict"] for row in found)),
        overdue=sum(row["is_overdue"] for row in found),
        hanging_groups=len({group_id for row in hanging for group_id in row["group_ids"]}),
        hanging_offsets=len({(o["group_id"], o["topic"], o["partition"]) for row in hanging for o in row["offsets"]}),
        hanging_since_ms=min((row["since_ms"] for row in hanging if row["since_ms"] is not None), default=None),
    )


def newest_lag(lake: Lake, run: RunKey) -> LagCounts | None:
    """Counts of the audit of lag for the cluster's newest audited run before `run`; None without one."""
    columns = ["group_id", "lag_min_ms", "would_reset", "loses_at_ms"]
    found = newest_audit_of_a_run(lake, "time_lag", run.cluster_id, columns, before_ms=run.as_of_ms)
    if found is None:
        return None
    as_of_ms, rows = found
    losing = rows.filter(pc.less_equal(rows["loses_at_ms"], as_of_ms + LOSS_SPAN_MS))
    return LagCounts(
        as_of_ms=as_of_ms,
        offsets=rows.num_rows,
        longest_ms=pc.max(rows["lag_min_ms"]).as_py() or 0,
        losing=losing.num_rows,
        losing_groups=pc.count_distinct(losing["group_id"]).as_py(),
        resets=most_frequent_first(Counter(rows["would_reset"].drop_null().to_pylist())),
    )
