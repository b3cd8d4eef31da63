"""plan_tombstones: write the tombstones that the verdicts ask for, as rows and as record batches; never to Kafka."""

import argparse
import sys

from sexton.stages import plan_tombstones, job
from sexton.stages.run import RunFolder
from sexton.stages.spark import Engine


def options() -> argparse.ArgumentParser:
    return job.parser("plan_tombstones", __doc__ or "", "spark-submit spark_jobs/plan_tombstones.py --run-dir var/runs/manual")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    with Engine("plan_tombstones") as engine:
        record = plan_tombstones.run(engine, RunFolder(arguments.run_dir))
    return {"tombstones": record.counts["tombstones"], "plan_id": record.plan_id}


if __name__ == "__main__":
    sys.exit(job.main("plan_tombstones", options(), run))
