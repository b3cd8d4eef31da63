"""The table runs: the published runs."""

import pyarrow as pa

from sexton.tables.columns import TEXTS
from sexton.tables.table import Column, Table

RUNS = Table(
    name="runs",
    grain="a published run",
    key=("cluster_id", "as_of_ms"),
    columns=(
        Column("topic_id", pa.string(), "topic id of `__consumer_offsets`, or `unknown`"),
        Column("taken_at_ms", pa.int64(), "when the log was read"),
        Column("profile", pa.string(), "the coordinator whose rules apply"),
        Column("retention_ms", pa.int64(), "retention used for the verdicts", minimum=0),
        Column(
            "cuts",
            pa.list_(pa.struct([("log_partition", pa.int32()), ("cut", pa.int64())])),
            "log_offset per log partition where reading stopped",
        ),
        Column("coverage", pa.string(), "complete or partial; admin where admin snapshots replace the log"),
        Column(
            "changes_since_ms",
            pa.int64(),
            "beginning of the interval of offset_changes; NULL for a run without one",
            nullable=True,
        ),
        Column("missing_log_partitions", pa.list_(pa.int32()), "log partitions that were missing"),
        Column(
            "snapshots",
            pa.list_(pa.struct([("table", pa.string()), ("snapshot_id", pa.int64())])),
            "Iceberg snapshot per table from which this run's rows are read",
        ),
        Column("checkpoint_sha256", pa.string(), "SHA-256 of the checkpoint kept for the next run", nullable=True),
        Column("plan_id", pa.string(), "SHA-256 of the canonical plan", nullable=True),
        Column(
            "plan_sha256",
            pa.string(),
            "SHA-256 of the plan.json that is kept in the archive; NULL where no plan is kept",
            nullable=True,
        ),
        Column("policy_sha256", pa.string(), "SHA-256 of the policy; NULL without one", nullable=True),
        Column("code_version", pa.string(), "version of Sexton"),
        Column("engine", pa.string(), "the engine of the replay", nullable=True, allowed=("spark", "local")),
        Column("counts", pa.list_(pa.struct([("table", pa.string()), ("rows", pa.int64())])), "rows per table"),
        Column("warnings", TEXTS, "warnings to readers of the run"),
    ),
    kind="index",
    per_log_partition=False,
    doc="Written last: a run that is not here is not published.",
)
