"""find_expired: write a verdict for every offset: whether and when the broker and a policy expire it, and why."""

import argparse
import sys
from pathlib import Path

from sexton.pipeline import find_expired, job
from sexton.policy import read_policy
from sexton.runs.folder import RunFolder
from sexton.runs.processes import engine_of_task


def options() -> argparse.ArgumentParser:
    example = "spark-submit spark_jobs/find_expired.py --run-dir var/runs/x"
    parser = job.parser("find_expired", __doc__ or "", example)
    parser.add_argument("--policy", type=Path, metavar="FILE", help="retention rules and holds (docs/policy.md)")
    return parser


def run(arguments: argparse.Namespace) -> dict[str, object]:
    policy = None if arguments.policy is None else read_policy(arguments.policy)
    with engine_of_task("find_expired") as engine:
        record = find_expired.run(engine, RunFolder(arguments.run_dir), policy=policy)
    return {"offset_verdicts": record.counts["offset_verdicts"]}


if __name__ == "__main__":
    sys.exit(job.main("find_expired", options(), run))
