"""validate_tables: write a run's tables to a branch of the lake, read them back and validate the expectations.

After a critical failure the exit code is 3: nothing is published, and the branch is kept. <run-dir>/dq/index.html has
details.
"""

import threading

import pyspark.sql  # noqa: F401  # before two threads import it: its modules import one another

from sexton.job_params import ValidateRequest
from sexton.pipeline import job, validate_tables
from sexton.quality.spark_checks import load_library
from sexton.report import write_report
from sexton.runs.folder import RunFolder
from sexton.runs.processes import engine_of_task


def run(asked: ValidateRequest, folder: RunFolder) -> dict[str, object]:
    try:
        if asked.no_lake:
            record = validate_tables.check_folder(folder)
        else:
            threading.Thread(target=load_library, daemon=True).start()  # while Spark starts
            with engine_of_task(iceberg=True) as engine:
                record = validate_tables.run(engine, folder)
    finally:  # also after a failure
        if folder.sub(validate_tables.TABLE).files():
            write_report(folder)
    return {
        "expectations": record.counts["dq_results"],
        "failed": validate_tables.failed_count(folder),
        "alerts": validate_tables.alerts_of(folder),
    }


if __name__ == "__main__":
    job.program("validate_tables", __doc__, run)
