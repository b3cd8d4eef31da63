"""The table runs: the published runs."""

import pyarrow as pa

from sexton.tables.columns import int64, string, strings
from sexton.tables.table import Column, Table


def _pairs(key: str, key_type: pa.DataType, value: str) -> pa.DataType:
    return pa.list_(pa.struct({key: key_type, value: pa.int64()}))


RUNS = Table(
    name="runs",
    grain="a published run",
    key=("cluster_id", "as_of_ms"),
    columns=(
        string("topic_id", "topic id of `__consumer_offsets`, or `unknown`"),
        int64("taken_at_ms", "when the log was read"),
        string("profile", "the coordinator whose rules apply"),
        int64("retention_ms", "retention used for the verdicts", minimum=0),
        Column(
            "cuts",
            "log_offset per log partition where reading stopped",
            type=_pairs("log_partition", pa.int32(), "cut"),
        ),
        string("coverage", "complete or partial; admin where admin snapshots replace the log"),
        int64(
            "changes_since_ms", "beginning of the interval of offset_changes; NULL for a run without one", nullable=True
        ),
        Column("missing_log_partitions", "log partitions that were missing", type=pa.list_(pa.int32())),
        Column(
            "snapshots",
            "Iceberg snapshot per table from which this run's rows are read",
            type=_pairs("table", pa.string(), "snapshot_id"),
        ),
        string("checkpoint_sha256", "SHA-256 of the checkpoint kept for the next run", nullable=True),
        string("plan_id", "SHA-256 of the canonical plan", nullable=True),
        string(
            "plan_sha256",
            "SHA-256 of the plan.json that is kept in the archive; NULL where no plan is kept",
            nullable=True,
        ),
        string("policy_sha256", "SHA-256 of the policy; NULL without one", nullable=True),
        string("code_version", "version of Sexton"),
        string("engine", "the engine of the replay", nullable=True, allowed=("spark", "local")),
        Column("counts", "rows per table", type=_pairs("table", pa.string(), "rows")),
        strings("warnings", "warnings to readers of the run"),
    ),
    kind="index",
    per_log_partition=False,
    doc="Written last: a run that is not here is not published.",
)
