"""expire_runs: remove published runs that SEXTON_MAINTENANCE_KEEP_* does not keep, and their checkpoints.

Runs under hold and runs whose plan was applied stay. Archived segments are never removed. Without --delete the job only
reports what it would remove.
"""

from dataclasses import asdict

from sexton.job_params import ExpireRequest
from sexton.lake.catalog import open_lake
from sexton.maintenance import expire_runs
from sexton.maintenance.run_retention import RunRetention
from sexton.pipeline import job
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.settings import settings


def run(asked: ExpireRequest, _: RunFolder) -> dict[str, object]:
    config = settings()
    retention = RunRetention(
        all_hours=config.maintenance_keep_all_hours,
        hourly_days=config.maintenance_keep_hourly_days,
        daily_months=config.maintenance_keep_daily_months,
    )
    with Engine(iceberg=True) as engine:
        done = expire_runs.run(
            engine,
            open_lake(),
            asked.archive,
            now_ms=asked.now,
            retention=retention,
            held={round(instant.timestamp() * 1000) for instant in config.maintenance_holds},
            only=asked.cluster_id,
            deletes=asked.delete,
        )
    return {"deleted": asked.delete, "clusters": [asdict(one) for one in done]}


if __name__ == "__main__":
    job.program("expire_runs", __doc__, run)
