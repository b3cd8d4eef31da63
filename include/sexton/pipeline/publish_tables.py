"""publish_tables: in every table the run's branch becomes main; the run's row in `runs` comes last.

Then the fold and the plan of a run that read an archive are stored there: the fold as a checkpoint, from which later
runs continue; the plan unless it is empty. A run that is not published stores neither. Publishing again changes
nothing. The next attempt completes an interrupted publication.
"""

from typing import Any

import pyarrow.compute as pc

from sexton.errors import DataQualityFailure, SextonError, UsageError
from sexton.failpoints import failpoint
from sexton.lake.catalog import open_lake
from sexton.lake.publish import publish
from sexton.lake.read import PublishedRun
from sexton.pipeline.validate_tables import TABLE as DQ_RESULTS
from sexton.pipeline.validate_tables import key_of
from sexton.plans.plan import Plan
from sexton.plans.read_plan import own_plan
from sexton.plans.write_plan import keep_plan
from sexton.runs.checkpoint import publish_checkpoint
from sexton.runs.choose_profile import AMBIGUOUS
from sexton.runs.engine import Engine
from sexton.runs.folder import WHOLE_RUN, RunFolder, RunRecord
from sexton.tables import SNAPSHOT_TABLES, TABLES, interval_tables


def run(engine: Engine, folder: RunFolder, *, archive: str | None = None) -> PublishedRun:
    """Publish the run's branch from validate_tables, then store checkpoint and plan in the archive of the run.

    `archive` is the archive's URI with its login; the default is the URI in the run record, which has no login.
    UsageError if this run was not checked, DataQualityFailure if a critical check failed.
    """
    record = folder.read_run()
    require_pass(folder, record)
    plan = _plan_to_keep(folder, record)
    if plan is not None:
        record = record.model_copy(update={"plan_sha256": plan.sha256})
        folder.write_run(record)
    names = [table.name for table in SNAPSHOT_TABLES]
    if record.changes_since_ms is not None:
        names += [table.name for table in interval_tables(record.origins)]
    published = publish(lambda: engine.session, open_lake(), key_of(record), names, row_of(record))
    failpoint("publish.named")
    if record.positions:
        publish_checkpoint(folder, record, archive or record.source)
    if plan is not None:
        keep_plan(folder, plan.record, archive or record.source)
    return published


def _plan_to_keep(folder: RunFolder, record: RunRecord) -> Plan | None:
    """The run's plan, read and checked, if the archive is to store it; SextonError if the plan is another run's.

    None if the run did not read an archive, if the plan is empty, or if the profile is ambiguous: then nobody may
    apply it.
    """
    if not (record.positions or record.admin_snapshot_sha256) or record.profile_source == AMBIGUOUS:
        return None
    plan = own_plan(folder)
    if plan.record.plan_id != record.plan_id:
        raise SextonError(f"not the plan of this run, {record.plan_id}", where=plan.folder)
    return None if plan.record.is_empty else plan


def row_of(record: RunRecord) -> dict[str, Any]:
    """The columns of `runs` that the run itself knows: all but its key and its snapshots."""
    nested: dict[str, Any] = {
        "cuts": [{"log_partition": part, "cut": cut} for part, cut in sorted(record.cuts.items())],
        "counts": [{"table": table, "rows": rows} for table, rows in sorted(record.counts.items())],
    }
    names = {*TABLES["runs"].column_names} - {*nested, "snapshots"}
    return {**nested, **{name: getattr(record, name) for name in names}}


def require_pass(folder: RunFolder, record: RunRecord) -> None:
    """UsageError or DataQualityFailure unless the checks passed: running this stage by hand cannot skip them."""
    file = folder.sub(DQ_RESULTS)
    if not folder.exists(DQ_RESULTS, f"{WHOLE_RUN}.parquet"):
        raise UsageError("this run was not checked", where=folder, fix="run validate_tables first")
    results = folder.read_table(DQ_RESULTS, 0, ["run_id", "severity", "success"])
    if results["run_id"].unique().to_pylist() != [record.run_id]:
        raise UsageError("its checks are from another run", where=file, fix="run validate_tables first")
    failed = pc.and_(pc.equal(results["severity"], "critical"), pc.invert(results["success"]))
    if count := pc.sum(failed).as_py():
        raise DataQualityFailure(f"{count} critical expectations failed, nothing is published", where=file)
