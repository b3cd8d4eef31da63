"""The tables that describe a run: dq_results and runs."""

import pyarrow as pa

from sexton.tables.columns import TEXTS
from sexton.tables.table import Column, Table

DQ_RESULTS = Table(
    name="dq_results",
    grain="an expectation of a run",
    key=("table", "expectation"),
    columns=(
        Column(name="table", type=pa.string(), doc="the table it is about"),
        Column(name="expectation", type=pa.string(), doc="what is expected, as a sentence"),
        Column(
            name="severity",
            type=pa.string(),
            doc="critical stops publication, a warning is only reported",
            allowed=("critical", "warning"),
        ),
        Column(name="success", type=pa.bool_(), doc="whether it was met"),
        Column(name="observed", type=pa.string(), doc="what was there", nullable=True),
    ),
    per_log_partition=False,
)


RUNS = Table(
    name="runs",
    grain="a published run",
    key=("cluster_id", "as_of_ms"),
    columns=(
        Column(name="topic_id", type=pa.string(), doc="topic id of `__consumer_offsets`, or `unknown`"),
        Column(name="taken_at_ms", type=pa.int64(), doc="when the log was read", unit="ms"),
        Column(name="profile", type=pa.string(), doc="whose rules"),
        Column(name="retention_ms", type=pa.int64(), doc="retention judged by", unit="ms", minimum=0),
        Column(
            name="cuts",
            type=pa.list_(pa.struct([("log_partition", pa.int32()), ("cut", pa.int64())])),
            doc="log_offset per log partition where reading stopped",
        ),
        Column(name="coverage", type=pa.string(), doc="complete or partial"),
        Column(
            name="changes_since_ms",
            type=pa.int64(),
            doc="beginning of the interval of offset_changes; NULL for a run without one",
            nullable=True,
            unit="ms",
        ),
        Column(name="missing_log_partitions", type=pa.list_(pa.int32()), doc="log partitions that were not there"),
        Column(
            name="snapshots",
            type=pa.list_(pa.struct([("table", pa.string()), ("snapshot_id", pa.int64())])),
            doc="Iceberg snapshot per table: what belongs to this run is read there",
        ),
        Column(name="checkpoint_sha256", type=pa.string(), doc="hash of the fold kept for the next run", nullable=True),
        Column(name="plan_id", type=pa.string(), doc="SHA-256 of the canonical plan", nullable=True),
        Column(
            name="plan_sha256",
            type=pa.string(),
            doc="SHA-256 of the plan.json that is kept in the archive; NULL where no plan is kept",
            nullable=True,
        ),
        Column(name="policy_sha256", type=pa.string(), doc="hash of the policy; NULL without one", nullable=True),
        Column(name="code_version", type=pa.string(), doc="version of Sexton"),
        Column(
            name="counts",
            type=pa.list_(pa.struct([("table", pa.string()), ("rows", pa.int64())])),
            doc="rows per table",
        ),
        Column(name="warnings", type=TEXTS, doc="what a reader should know"),
    ),
    kind="index",
    per_log_partition=False,
    doc="Written last: a run that is not here is not published.",
)
