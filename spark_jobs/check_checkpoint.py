"""check_checkpoint: replay the newest checkpoint's instant in full and compare the two.

A cluster is due when its last successful check is SEXTON_MAINTENANCE_CHECKPOINT_DAYS days old. The job ends with exit
code 3 where the checkpoint and the replay differ.
"""

import argparse
import sys
from dataclasses import asdict

from sexton.maintenance import check_checkpoint
from sexton.maintenance.options import parser
from sexton.pipeline import job
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.settings import settings


def options() -> argparse.ArgumentParser:
    return parser("check_checkpoint", __doc__)


def run(arguments: argparse.Namespace) -> dict[str, object]:
    with Engine("check_checkpoint") as engine:
        done = check_checkpoint.run(
            engine,
            arguments.archive,
            RunFolder(arguments.run_dir, "check_checkpoint"),
            now_ms=arguments.now,
            days=settings().maintenance_checkpoint_days,
            only=arguments.cluster_id,
        )
    return asdict(done)


if __name__ == "__main__":
    sys.exit(job.main("check_checkpoint", options(), run))
