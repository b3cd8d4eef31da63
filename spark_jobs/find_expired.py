"""find_expired: say of every offset whether the broker would expire it at as_of, why, and when."""

import argparse
import sys

from sexton.stages import find_expired, job
from sexton.stages.run import RunFolder
from sexton.stages.spark import Engine


def options() -> argparse.ArgumentParser:
    example = "spark-submit spark_jobs/find_expired.py --run-dir var/runs/x"
    return job.parser("find_expired", __doc__ or "", example)


def run(arguments: argparse.Namespace) -> dict[str, object]:
    with Engine("find_expired") as engine:
        record = find_expired.run(engine, RunFolder(arguments.run_dir))
    return {"offset_verdicts": record.counts["offset_verdicts"]}


if __name__ == "__main__":
    sys.exit(job.main("find_expired", options(), run))
