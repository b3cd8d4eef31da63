"""Command-line options that the maintenance jobs in spark_jobs/ share."""

import argparse
import time

from sexton.pipeline import job


def parser(task: str, description: str | None, *, archive: bool = True) -> argparse.ArgumentParser:
    """Return a parser with --run-dir and --now; with `archive` also --archive and --cluster-id."""
    place = " --archive var/archive" if archive else ""
    example = f"spark-submit spark_jobs/{task}.py{place} --run-dir var/runs/maintenance"
    options = job.parser(task, description or "", example)
    options.add_argument(
        "--now", type=int, default=clock_ms(), metavar="MS", help="instant at which ages are measured (default: now)"
    )
    if archive:
        options.add_argument("--archive", required=True, metavar="URI", help="folder or URI of the archive")
        options.add_argument("--cluster-id", metavar="ID", help="this cluster only (default: all of the archive)")
    return options


def add_delete(options: argparse.ArgumentParser) -> None:
    options.add_argument("--delete", action="store_true", help="delete; without it only report what would be deleted")


def clock_ms() -> int:
    return time.time_ns() // 1_000_000
