"""The table dq_results: what was expected of a run, and whether it was met."""

import pyarrow as pa

from sexton.tables.columns import TEXTS
from sexton.tables.table import Column, Table

DQ_RESULTS = Table(
    name="dq_results",
    grain="an expectation of a run",
    key=("table", "expectation"),
    columns=(
        Column("table", pa.string(), "the table that was checked"),
        Column("expectation", pa.string(), "the expectation, as a sentence"),
        Column(
            "severity",
            pa.string(),
            "critical stops publication, a warning is only reported",
            allowed=("critical", "warning"),
        ),
        Column("success", pa.bool_(), "whether it was met"),
        Column("observed", pa.string(), "the observed value", nullable=True),
        Column(
            "failing_rows",
            TEXTS,
            "up to 20 rows that violate it, as JSON, without cluster_id, as_of_ms and run_id",
            nullable=True,
        ),
    ),
    per_log_partition=False,
)
