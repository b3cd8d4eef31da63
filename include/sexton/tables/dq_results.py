"""The table dq_results: what was expected of a run, and whether it was met."""

from sexton.tables.columns import boolean, string, strings
from sexton.tables.table import Table

DQ_RESULTS = Table(
    name="dq_results",
    grain="an expectation of a run",
    key=("table", "expectation"),
    columns=(
        string("table", "the table that was checked"),
        string("expectation", "the expectation, as a sentence"),
        string("severity", "critical stops publication, a warning is only reported", allowed=("critical", "warning")),
        boolean("success", "whether it was met"),
        string("observed", "the observed value", nullable=True),
        strings(
            "failing_rows",
            "up to 20 rows that violate it, as JSON, without cluster_id, as_of_ms and run_id",
            nullable=True,
        ),
    ),
    per_log_partition=False,
)
