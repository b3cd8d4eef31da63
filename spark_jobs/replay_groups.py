"""replay_groups: replay the archived log up to an instant and write the tables of group state into the run folder."""

import argparse
import sys
from dataclasses import asdict

from sexton.coordinator.profiles import NAMES
from sexton.errors import UsageError
from sexton.maintenance.check_checkpoint import Checked, compare_checkpoint
from sexton.pipeline import job, replay_groups
from sexton.pipeline.replay_groups import ReplayRequest, now_ms
from sexton.runs.choose_profile import AUTO
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder, snapshot_cluster
from sexton.runs.processes import engine_of_task


def options() -> argparse.ArgumentParser:
    parser = job.parser(
        "replay_groups",
        __doc__ or "",
        "spark-submit spark_jobs/replay_groups.py --archive var/archive --as-of 1795228111458 --run-dir var/runs/x",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--archive", metavar="URI", help="archive filled by snapshot_log")
    source.add_argument(
        "--segments",
        action="append",
        metavar="DIR",
        help="a broker's log directory, or a backup of one; may be repeated",
    )
    parser.add_argument("--as-of", type=int, metavar="MS", help="instant to describe (default: the log's end)")
    parser.add_argument("--since", type=int, metavar="MS", help="also write what changed from here to --as-of")
    parser.add_argument("--run-id", default="manual", metavar="ID", help="name of this attempt (default: manual)")
    parser.add_argument("--retention-minutes", type=int, metavar="N", help="default: the broker's, else Kafka's")
    parser.add_argument(
        "--profile",
        default=AUTO,
        metavar="NAME[:RELEASE]",
        help=f"whose rules: {', '.join(NAMES)} or {AUTO} (default: %(default)s)",
    )
    parser.add_argument("--topics", metavar="FILE", help="topics as JSON lines, if the archive has none")
    parser.add_argument(
        "--cluster-id", metavar="ID", help="default: that of this run's snapshot, or the archive's only"
    )
    parser.add_argument(
        "--settle-ms",
        type=int,
        metavar="MS",
        help="how long after --as-of a snapshot settles it (default: SEXTON_SETTLE_MS)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--full", action="store_true", help="read the whole log instead of starting from a checkpoint")
    how.add_argument(
        "--check",
        action="store_true",
        help="replay in full and compare with the checkpoint of --as-of (default: the newest); exit code 3 if they "
        "differ",
    )
    return parser


def run(arguments: argparse.Namespace) -> dict[str, object]:
    request = ReplayRequest(
        run_id=arguments.run_id,
        segments=arguments.segments,
        archive=arguments.archive,
        as_of_ms=arguments.as_of,
        taken_at_ms=now_ms(),
        retention_minutes=arguments.retention_minutes,
        profile=arguments.profile,
        topics_file=arguments.topics,
        cluster_id=arguments.cluster_id or snapshot_cluster(RunFolder(arguments.run_dir)),
        settle_ms=arguments.settle_ms,
        is_full=arguments.full,
        since_ms=arguments.since,
    )
    with engine_of_task("replay_groups") as engine:
        if arguments.check:
            return asdict(_check(engine, arguments, request))
        record = replay_groups.run(engine, RunFolder(arguments.run_dir), request)
    unloadable = [f"log partition {part}: {record.blocked[part]}" for part in record.unloadable]
    return {
        **record.counts,
        "engine": record.engine,
        "coverage": record.coverage,
        "base_as_of_ms": record.base_as_of_ms,
        "warnings": record.warnings,
        "alerts": unloadable,
        "exit_code": record.exit_code,
    }


def _check(engine: Engine, arguments: argparse.Namespace, request: ReplayRequest) -> Checked:
    if request.archive is None:
        raise UsageError("only an archive has checkpoints", where="--check", fix="give --archive URI")
    return compare_checkpoint(
        engine,
        RunFolder(arguments.run_dir),
        archive=request.archive,
        as_of_ms=request.as_of_ms,
        cluster_id=request.cluster_id,
        settle_ms=request.settle_ms,
    )


if __name__ == "__main__":
    sys.exit(job.main("replay_groups", options(), run))
