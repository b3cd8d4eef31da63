"""replay_groups: replay the archived log up to an instant and write the tables of group state into the run folder."""

import argparse
import sys

from sexton.coordinator.profiles import NAMES
from sexton.stages import job, replay_groups
from sexton.stages.choose_profile import AUTO
from sexton.stages.replay_groups import ReplayRequest, now_ms
from sexton.stages.run import RunFolder
from sexton.stages.spark import Engine


def options() -> argparse.ArgumentParser:
    parser = job.parser(
        "replay_groups",
        __doc__ or "",
        "spark-submit spark_jobs/replay_groups.py --archive var/archive --as-of 1795228111458 --run-dir var/runs/x",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--archive", metavar="URI", help="archive that snapshot_log fills")
    source.add_argument("--segments", metavar="DIR", help="a broker's log directory, or a backup of one")
    parser.add_argument("--as-of", type=int, metavar="MS", help="instant that it describes (default: the log's end)")
    parser.add_argument("--run-id", default="manual", metavar="ID", help="name of this attempt (default: manual)")
    parser.add_argument("--retention-minutes", type=int, metavar="N", help="default: what the broker said, else 10080")
    parser.add_argument(
        "--profile",
        default=NAMES[0],
        metavar="NAME[:RELEASE]",
        help=f"whose rules: {', '.join(NAMES)} or {AUTO} (default: %(default)s)",
    )
    parser.add_argument("--topics", metavar="FILE", help="topics as JSON lines, where the archive does not know them")
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
    )
    with Engine("replay_groups") as engine:
        record = replay_groups.run(engine, RunFolder(arguments.run_dir), request)
    undecodable = record.counts["undecodable_records"]
    return {**record.counts, "warnings": record.warnings, "exit_code": 5 if undecodable else 0}


if __name__ == "__main__":
    sys.exit(job.main("replay_groups", options(), run))
