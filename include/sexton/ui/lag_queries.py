"""The lag in time of a run's offsets, which the DAG audit_lag stores under the run's instant; no row without an
audit."""

from collections.abc import Sequence

from sexton.lake.audits import RUNS_BACK
from sexton.lake.database import no_rows
from sexton.lake.published_tables import PublishedTables
from sexton.lake.read import PublishedRun

OFFSET_LAG = (
    *("lag_min_ms", "lag_max_ms", "basis", "lag_growth", "held_at", "would_reset", "diverged_at"),
    *("loses_at_min_ms", "loses_at_ms"),
)
"""Columns of an offset in addition to its verdict."""
GROUP_LAG = {
    "lag_min_ms": "max(lag_min_ms)",
    "lag_max_ms": "if(count(*) > count(lag_max_ms), NULL, max(lag_max_ms))",
    "resets": "count(would_reset)",
    "loses_at_ms": "min(loses_at_ms)",
}
"""Column of a group -> SQL over the group's rows of time_lag. A group's lag is the longest of its offsets."""


def lag_of(tables: PublishedTables, *runs: PublishedRun) -> str:
    """SQL for the rows of time_lag of `runs`, which are of one cluster."""
    return tables.at_instants("time_lag", runs[0].key.cluster_id, [run.key.as_of_ms for run in runs])


def is_audited(tables: PublishedTables, run: PublishedRun) -> bool:
    """Whether an audit measured the lag of a run. If the table has a file for the run, that file has a row."""
    return lag_of(tables, run) != no_rows("time_lag")


def newest_lag(tables: PublishedTables, runs: Sequence[PublishedRun]) -> str | None:
    """SQL for the rows of time_lag of the newest audited run among the last RUNS_BACK; None if none is audited.

    `runs` are of one cluster, oldest first.
    """
    source = lag_of(tables, *runs[-RUNS_BACK:])
    if source == no_rows("time_lag"):
        return None
    return f"(SELECT * FROM {source} WHERE as_of_ms = (SELECT max(as_of_ms) FROM {source}))"
