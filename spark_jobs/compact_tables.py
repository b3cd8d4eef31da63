"""compact_tables: expire Iceberg's old snapshots and the branches of failed runs, rewrite small files as large ones,
and remove run folders that are SEXTON_MAINTENANCE_RUNS_DAYS days old.

Without --delete the job rewrites small files and only reports what it would remove.
"""

from dataclasses import asdict

from sexton.job_params import CleanupRequest
from sexton.lake.catalog import open_lake
from sexton.maintenance import compact_tables, run_folders
from sexton.pipeline import job
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.settings import settings


def run(asked: CleanupRequest, _: RunFolder) -> dict[str, object]:
    config, now_ms, deletes = settings(), asked.now, asked.delete
    with Engine(iceberg=True) as engine:
        done = compact_tables.run(
            engine, open_lake(), now_ms=now_ms, days=config.maintenance_lake_days, deletes=deletes
        )
    old = run_folders.run(config.runs_uri, now_ms=now_ms, days=config.maintenance_runs_days, deletes=deletes)
    return {"deleted": deletes, **asdict(done), **asdict(old)}


if __name__ == "__main__":
    job.program("compact_tables", __doc__, run)
