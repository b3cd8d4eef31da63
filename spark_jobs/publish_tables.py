"""publish_tables: publish a run's checked branch table by table, the row in `runs` last."""

import argparse
import sys

from sexton.lake.catalog import open_lake
from sexton.pipeline import job, publish_tables
from sexton.runs.folder import RunFolder
from sexton.runs.processes import engine_of_task


def options() -> argparse.ArgumentParser:
    example = "spark-submit spark_jobs/publish_tables.py --run-dir var/runs/manual"
    parser = job.parser("publish_tables", __doc__ or "", example)
    parser.add_argument(
        "--archive",
        metavar="URI",
        help="archive for the run's checkpoint (default: the run's archive)",
    )
    return parser


def run(arguments: argparse.Namespace) -> dict[str, object]:
    with engine_of_task("publish_tables", iceberg=True) as engine:
        published = publish_tables.run(engine, RunFolder(arguments.run_dir), archive=arguments.archive)
    return {
        "run_id": published.key.run_id,
        "as_of_ms": published.key.as_of_ms,
        "tables": len(published.snapshots),
        "lake": open_lake().where,
    }


if __name__ == "__main__":
    sys.exit(job.main("publish_tables", options(), run))
