"""validate_tables: write a run's tables to a branch of the lake, read them back and validate the expectations.

A critical failure ends with exit code 3: nothing is published, the branch is kept, <run-dir>/dq/index.html has details.
"""

import argparse
import sys

from sexton.pipeline import job, validate_tables
from sexton.report import write_report
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.runs.validation_process import Checker


def options() -> argparse.ArgumentParser:
    example = "spark-submit spark_jobs/validate_tables.py --run-dir var/runs/manual"
    found = job.parser("validate_tables", __doc__ or "", example)
    found.add_argument("--no-lake", action="store_true", help="check the run folder itself, without Iceberg")
    return found


def run(arguments: argparse.Namespace) -> dict[str, object]:
    folder = RunFolder(arguments.run_dir)
    try:
        with Checker() as checker, Engine("validate_tables", iceberg=not arguments.no_lake) as engine:
            record = validate_tables.run(engine, folder, lake=not arguments.no_lake, validate=checker.validate)
    finally:  # also for a run that failed
        if folder.table_file(validate_tables.TABLE).exists():
            write_report(folder.root)
    return {
        "expectations": record.counts["dq_results"],
        "failed": validate_tables.failed_count(folder),
        "alerts": validate_tables.alerts_of(folder),
    }


if __name__ == "__main__":
    sys.exit(job.main("validate_tables", options(), run))
