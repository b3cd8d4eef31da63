"""Checks the findings of an audit, then replaces the rows of the audit's instant with them.

If the audit uses Spark, Great Expectations checks them in Spark; otherwise DuckDB makes the same checks.
"""

from collections.abc import Mapping

import pyarrow as pa

from sexton.errors import DataQualityFailure
from sexton.lake.append import replace_rows
from sexton.lake.branch import RunKey, ensure_tables
from sexton.lake.catalog import Lake
from sexton.lake.read import partition_of
from sexton.pipeline.validate_tables import conf_for
from sexton.quality import duckdb_checks, spark_checks
from sexton.quality.queried_views import CheckedRun
from sexton.quality.suites import audit_suites, shape
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.tables import Table


def publish_audit(
    engine: Engine | None,
    folder: RunFolder,
    lake: Lake,
    run: RunKey,
    tables: Mapping[Table, pa.Table],
    *,
    cuts: Mapping[int, int],
    compared: Mapping[Table, pa.Table] | None = None,
) -> list[str]:
    """Write the rows, without RUN_COLUMNS, to the run folder, check them, and replace the rows of the instant in the
    lake.

    `compared` are complete tables that laws also read, `cuts` the cuts of the log partitions that were read. Returns
    failed checks that are not critical. If a critical check fails, it raises DataQualityFailure and publishes nothing.
    Without an `engine` the tables must exist: a published run has created them.
    """
    names = {"cluster_id": run.cluster_id, "as_of_ms": run.as_of_ms, "run_id": run.run_id}
    whole = {}
    for table, rows in tables.items():
        own = {name: pa.array([value] * rows.num_rows, table.column(name).type) for name, value in names.items()}
        whole[table] = pa.table({**own, **{name: rows[name] for name in rows.column_names}}).cast(table.arrow_schema())
        folder.write_rows(whole[table], table.name)
    checked = CheckedRun(cluster_id=run.cluster_id, as_of_ms=run.as_of_ms, run_id=run.run_id, cuts=cuts)
    read = {**(compared or {}), **whole}
    shapes = shape({table.name: (1, [rows.schema]) for table, rows in read.items()})
    suites = audit_suites(checked, tables)
    if engine is None:
        results = duckdb_checks.check({table.name: rows for table, rows in read.items()}, shapes, suites, checked)
    else:
        with conf_for(engine.session, sum(rows.num_rows for rows in whole.values())):
            frames = {table.name: spark_checks.frame(engine.session, rows) for table, rows in read.items()}
            results = spark_checks.check(engine.session, frames, shapes, suites, checked, docs=None)
    failed = [one for one in results if not one.success]
    if critical := [one for one in failed if one.stops_publication]:
        raise DataQualityFailure(f"{critical[0].table}: {critical[0].expectation}", fix="nothing was published")
    if engine is not None:
        ensure_tables(engine.session, lake, tuple(tables))
    for table, rows in whole.items():
        replace_rows(lake, table, rows, partition_of(run))
    return [f"{one.table}: {one.expectation}: {one.observed}" for one in failed]
