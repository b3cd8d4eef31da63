"""validate_tables: checks what the earlier stages wrote, before anybody reads it (the table dq_results).

In the pipeline the tables first go to a branch of the lake, which is then checked. A critical failure ends the run:
main stays as it was and the branch is kept for inspection. `sexton audit` checks the run folder itself.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.profiles import profile_of
from sexton.errors import DataQualityFailure
from sexton.lake.branch import RunKey, ensure_tables, footers, read_branch, write_branch
from sexton.lake.catalog import open_lake
from sexton.lake.read import branch_rows
from sexton.quality import duckdb_checks, spark_checks
from sexton.quality.declared_expectations import checked_tables
from sexton.quality.expectation import Expectation, ExpectationResult
from sexton.quality.queried_views import CheckedRun
from sexton.quality.suites import Shapes, read_expectations, shape, suites_of
from sexton.runs.engine import Engine
from sexton.runs.fold_log import UNPACKED
from sexton.runs.folder import SHARDED, WHOLE_RUN, RunFolder, RunRecord, Shard
from sexton.runs.spark_session import SHUFFLE_PARTITIONS, session_conf
from sexton.settings import settings
from sexton.summary.audit_counts import newest_lag, newest_replicas, newest_transactions
from sexton.tables import TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE, DOCS = "dq_results", "dq"
FEW_ROWS = 100_000
CONF_FOR_FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    SHUFFLE_PARTITIONS: "1",
}
"""Spark settings for few rows. The checks are several dozen queries, and over few rows planning, compiling and starting
them takes most of the time. So the rows of the branch are read once and passed to Spark."""
_SHOWN_FAILURES = 10


def run(engine: Engine, folder: RunFolder) -> RunRecord:
    """Write the run's tables to its branch, check them there, and write dq_results and the Data Docs.

    run.json gets the counts of the newest audits of replicas, transactions and lag in the lake. Great Expectations
    checks on Spark. DataQualityFailure if a critical expectation fails.
    """
    record = folder.read_run()
    lake, checked = open_lake(), checked_run(record)
    files = files_of(record)
    shapes = _shape(folder, files)
    suites = suites_of(checked, own_expectations())
    key = key_of(record)
    sound = {name: paths for name, paths in files.items() if shapes.is_sound(name)}
    row_count = sum(record.counts.values())
    with conf_for(engine.session, row_count):
        ensure_tables(engine.session, lake)
        filled = write_branch(engine.session, lake, key, folder, sound)
        known = {name: TABLES[name].arrow_schema().empty_table() for name in sound.keys() - filled}
        works_here = engine.works_here(UNPACKED * folder.size_bytes(*sound))
        if works_here or row_count < FEW_ROWS:
            known |= {name: branch_rows(lake, key, name) for name in filled}
        rows = {
            name: spark_checks.frame(engine.session, known[name])
            if name in known
            else read_branch(engine.session, lake, key, name)
            for name in sound
        }
        count = partial(duckdb_checks.count_broken, known, run=checked) if works_here else None
        many = spark_checks.CONF_FOR_MANY_ROWS if row_count >= FEW_ROWS else {}
        with TemporaryDirectory(prefix="sexton-docs-") as docs, session_conf(engine.session, many):
            results = spark_checks.check(
                engine.session, rows, shapes, suites, checked, docs=Path(docs), known=known, count=count
            )
            _write_docs(folder, Path(docs))
        audits = {
            "replicas": newest_replicas(lake, key),
            "transactions": newest_transactions(lake, key.cluster_id, until_ms=key.as_of_ms),
            "lag": newest_lag(lake, key),
        }
        record = _write_results(folder, record.model_copy(update=audits), results)
        write_branch(engine.session, lake, key, folder, {TABLE: [f"{TABLE}/{WHOLE_RUN}.parquet"]})
    _stop_on_failure(results, folder, key)
    return record


def conf_for(session: "SparkSession", row_count: int) -> AbstractContextManager[None]:
    """Apply the Spark settings for checking `row_count` rows."""
    return session_conf(session, CONF_FOR_FEW_ROWS if row_count < FEW_ROWS else {})


def check_folder(folder: RunFolder) -> RunRecord:
    """Check the files of a run folder and write dq_results, without Spark, lake or Great Expectations.

    Failures are rows of dq_results, not errors.
    """
    record = folder.read_run()
    checked, files = checked_run(record), files_of(record)
    suites = suites_of(checked, own_expectations())
    paths = {name: [folder.local / file for file in some] for name, some in files.items()}
    results = duckdb_checks.check(paths, _shape(folder, files), suites, checked, scratch=folder.local / "partial")
    return _write_results(folder, record, results)


def own_expectations() -> list[Expectation]:
    """The expectations that users have put into the folder SEXTON_EXPECTATIONS."""
    folder = settings().expectations
    return read_expectations(folder) if folder else []


def _write_results(folder: RunFolder, record: RunRecord, results: list[ExpectationResult]) -> RunRecord:
    names = TABLES[TABLE].column_names
    rows = [{name: getattr(result, name) for name in names} for result in results]
    table = pa.Table.from_pylist(rows, schema=TABLES[TABLE].arrow_schema(with_run=False))
    count = folder.write_table(record, TABLE, table)
    record = record.model_copy(update={"counts": {**record.counts, TABLE: count}})
    folder.write_run(record)
    return record


def failed_count(folder: RunFolder) -> int:
    """Number of failed expectations in `folder`, warnings included."""
    results = folder.read_table(TABLE, WHOLE_RUN, ["success"])["success"]
    return len(results) - (pc.sum(results).as_py() or 0)


def alerts_of(folder: RunFolder) -> list[str]:
    """One alert about the failed warnings of a run that passed, with their counts; empty if none failed."""
    names = list(TABLES[TABLE].column_names)
    results = [ExpectationResult(**row) for row in folder.read_table(TABLE, WHOLE_RUN, names).to_pylist()]
    failed = [result for result in results if not result.success and not result.stops_publication]
    return [f"{len(failed)} warnings, which stop nothing: {_failures_text(failed)}"] if failed else []


def key_of(record: RunRecord) -> RunKey:
    """The key of the run's rows in the lake."""
    return RunKey(cluster_id=record.cluster_id, as_of_ms=record.as_of_ms, run_id=record.run_id)


def checked_run(record: RunRecord) -> CheckedRun:
    """The identity and inputs of the run, for the checks."""
    return CheckedRun(
        cluster_id=record.cluster_id,
        as_of_ms=record.as_of_ms,
        run_id=record.run_id,
        cuts=record.cuts,
        plan_id=record.plan_id,
        is_complete=record.coverage == "complete",
        origins=record.origins,
        profile=profile_of(record.profile),
        policy=record.policy,
        has_changes=record.changes_since_ms is not None,
    )


def _write_docs(folder: RunFolder, docs: Path) -> None:
    """Replace the Data Docs in the run folder."""
    folder.remove(DOCS)
    files = [path for path in docs.rglob("*") if path.is_file()]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: folder.write(path.read_bytes(), DOCS, path.relative_to(docs).as_posix()), files))


def files_of(record: RunRecord) -> dict[str, list[str]]:
    """The files that the run should have written, by table, relative to its folder."""

    def stems(table: Table) -> Sequence[Shard | int]:
        if not table.per_log_partition:
            return [WHOLE_RUN]
        return record.shards if table.name in SHARDED else record.log_partitions

    tables = checked_tables(record.origins, has_changes=record.changes_since_ms is not None)
    return {table.name: [f"{table.name}/{stem}.parquet" for stem in stems(table)] for table in tables}


def _shape(folder: RunFolder, files: Mapping[str, Sequence[str]]) -> Shapes:
    """The number and columns of the files. An unreadable file counts as missing."""
    found = zip(files, map(partial(footers, folder), files.values()), strict=True)
    return shape(
        {
            name: (len(some), [footer.schema.to_arrow_schema() for footer in some if footer is not None])
            for name, some in found
        }
    )


def _stop_on_failure(results: list[ExpectationResult], folder: RunFolder, key: RunKey) -> None:
    failed = [result for result in results if result.stops_publication]
    if not failed:
        return
    raise DataQualityFailure(
        f"{len(failed)} critical expectations failed, nothing is published: {_failures_text(failed)}",
        where=folder,
        fix=f"see dq/index.html there; branch {key.branch} is kept",
    )


def _failures_text(failed: list[ExpectationResult]) -> str:
    """Failures in one line: what was expected and how many rows break it, but no group ids."""
    some = [f"{result.table}: {result.expectation}: {result.observed}" for result in failed[:_SHOWN_FAILURES]]
    more = [f"and {len(failed) - _SHOWN_FAILURES} more"] if len(failed) > _SHOWN_FAILURES else []
    return "; ".join([*some, *more])
