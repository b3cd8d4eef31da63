"""snapshot_log: copy new batches of __consumer_offsets from the brokers into the archive, byte for byte.

It continues where the archive ends, up to the high watermark. If an earlier snapshot has settled --as-of, it asks no
broker. It only reads: the principal needs READ and DESCRIBE on the topic, and DESCRIBE_CONFIGS on the cluster to record
the broker's settings. Where the topic is hidden, it archives a look at the groups by Admin API.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from sexton.archive.folder import Folder
from sexton.pipeline import job, snapshot_log
from sexton.pipeline.snapshot_log import SnapshotRequest
from sexton.runs.processes import engine_of_task

KEPT = "snapshot_log.json"


def options() -> argparse.ArgumentParser:
    parser = job.parser(
        "snapshot_log",
        __doc__ or "",
        "spark-submit spark_jobs/snapshot_log.py --bootstrap-servers 127.0.0.1:19092 --archive var/archive"
        " --run-dir var/runs/manual",
    )
    job.add_kafka_options(parser)
    parser.add_argument("--archive", required=True, metavar="URI", help="folder or URI where segments are kept")
    parser.add_argument("--as-of", type=int, metavar="MS", help="wait until this instant has settled (default: now)")
    parser.add_argument(
        "--settle-ms",
        type=int,
        default=60_000,
        metavar="MS",
        help="how long after --as-of late appends may arrive (default: %(default)s)",
    )
    parser.add_argument(
        "--bytes-per-second", type=int, metavar="N", help="read no faster than this (default: as brokers allow)"
    )
    parser.add_argument("--groups-per-second", type=int, metavar="N", help="pace of a look by Admin API")
    parser.add_argument("--admin-only", action="store_true", help="look by Admin API, leave the log alone")
    parser.add_argument("--cluster-id", metavar="ID", help="refuse any other cluster (default: whichever answers)")
    return parser


def run(arguments: argparse.Namespace) -> dict[str, object]:
    request = SnapshotRequest(
        config=job.kafka_config(arguments),
        archive=arguments.archive,
        topic=arguments.topic,
        as_of_ms=arguments.as_of,
        settle_ms=arguments.settle_ms,
        bytes_per_second=arguments.bytes_per_second or None,
        cluster_id=arguments.cluster_id,
        admin_only=arguments.admin_only,
        groups_per_second=arguments.groups_per_second or None,
    )
    kept = Folder(arguments.run_dir, "alerts")
    alerts = _kept(kept)

    def keep(lines: Sequence[str]) -> None:
        alerts.extend(line for line in lines if line not in alerts)
        kept.write(json.dumps(alerts).encode(), KEPT)

    if snapshot := snapshot_log.earlier(request):
        fetched = "nothing: an earlier snapshot has settled the instant"
    else:
        with engine_of_task("snapshot_log") as engine:
            snapshot = snapshot_log.run(engine, request, now_ms=lambda: time.time_ns() // 1_000_000, notify=keep)
        fetched = "new batches" if snapshot.segments else "nothing new"
    if snapshot.looked_because is not None:
        fetched = f"no log: groups were looked at by Admin API ({snapshot.looked_because})"
    return {"fetched": fetched, **asdict(replace(snapshot, alerts=alerts))}


def _kept(folder: Folder) -> list[str]:
    """Return the alerts of an earlier attempt of this run, which may have died before they were raised."""
    return [str(line) for line in json.loads(folder.read(KEPT))] if folder.exists(KEPT) else []


if __name__ == "__main__":
    sys.exit(job.main("snapshot_log", options(), run))
