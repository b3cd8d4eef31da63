"""plan_tombstones: write the tombstones of expired offsets as a plan with its page. Nothing is written to Kafka."""

import argparse
import sys

from sexton.pipeline import job, plan_tombstones
from sexton.report.plan_page import render_plan
from sexton.runs.folder import RunFolder
from sexton.runs.processes import engine_of_task


def options() -> argparse.ArgumentParser:
    example = "spark-submit spark_jobs/plan_tombstones.py --run-dir var/runs/x"
    return job.parser("plan_tombstones", __doc__ or "", example)


def run(arguments: argparse.Namespace) -> dict[str, object]:
    with engine_of_task("plan_tombstones") as engine:
        record = plan_tombstones.run(engine, RunFolder(arguments.run_dir), page=render_plan)
    return {"tombstones": record.counts["tombstones"], "plan_id": record.plan_id}


if __name__ == "__main__":
    sys.exit(job.main("plan_tombstones", options(), run))
