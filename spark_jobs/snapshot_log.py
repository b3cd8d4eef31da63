"""snapshot_log: copy what is new in __consumer_offsets from the brokers into the archive, byte for byte.

It goes on where the archive ends, up to the high watermark; with nothing new it fetches nothing. An --as-of that an
earlier snapshot has settled takes no broker at all. It only reads: the principal needs READ and DESCRIBE on the topic,
and DESCRIBE_CONFIGS on the cluster to record the broker's settings.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from sexton.kafka.client import client_config, read_properties
from sexton.kafka.topics import OFFSETS_TOPIC
from sexton.pipeline import job, snapshot_log
from sexton.pipeline.snapshot_log import SnapshotRequest
from sexton.runs.engine import Engine
from sexton.runs.folder import write_bytes


def options() -> argparse.ArgumentParser:
    parser = job.parser(
        "snapshot_log",
        __doc__ or "",
        "spark-submit spark_jobs/snapshot_log.py --bootstrap-servers 127.0.0.1:19092 --archive var/archive"
        " --run-dir var/runs/manual",
    )
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="default: what --client-config says")
    parser.add_argument(
        "--client-config",
        type=Path,
        metavar="FILE",
        help="Kafka client properties, Java's or librdkafka's names; the place for secrets, which no option takes",
    )
    parser.add_argument("--archive", required=True, metavar="URI", help="folder or URI where segments are kept")
    parser.add_argument("--as-of", type=int, metavar="MS", help="wait until this instant has settled (default: now)")
    parser.add_argument(
        "--settle-ms",
        type=int,
        default=60_000,
        metavar="MS",
        help="how long after --as-of late appends may still come (default: %(default)s)",
    )
    parser.add_argument(
        "--bytes-per-second", type=int, metavar="N", help="read no faster than this (default: as brokers allow)"
    )
    parser.add_argument("--cluster-id", metavar="ID", help="refuse any other cluster (default: whichever answers)")
    parser.add_argument("--topic", default=OFFSETS_TOPIC, metavar="NAME", help="default: %(default)s")
    return parser


def run(arguments: argparse.Namespace) -> dict[str, object]:
    properties = read_properties(arguments.client_config) if arguments.client_config else {}
    request = SnapshotRequest(
        config=client_config(properties, bootstrap_servers=arguments.bootstrap_servers, where=arguments.client_config),
        archive=arguments.archive,
        topic=arguments.topic,
        as_of_ms=arguments.as_of,
        settle_ms=arguments.settle_ms,
        bytes_per_second=arguments.bytes_per_second or None,
        cluster_id=arguments.cluster_id,
    )
    kept = arguments.run_dir / "alerts" / "snapshot_log.json"
    alerts = _kept(kept)

    def tell(lines: Sequence[str]) -> None:
        alerts.extend(line for line in lines if line not in alerts)
        write_bytes(kept, json.dumps(alerts).encode())

    if snapshot := snapshot_log.earlier(request):
        fetched = "nothing: an earlier snapshot has settled the instant"
    else:
        with Engine("snapshot_log") as engine:
            snapshot = snapshot_log.run(engine, request, now_ms=lambda: time.time_ns() // 1_000_000, notify=tell)
        fetched = "new batches" if snapshot.segments else "nothing new"
    return {"fetched": fetched, **asdict(replace(snapshot, alerts=alerts))}


def _kept(file: Path) -> list[str]:
    """The alerts of an earlier attempt of this run, which may have died before anybody heard of them."""
    return [str(line) for line in json.loads(file.read_bytes())] if file.exists() else []


if __name__ == "__main__":
    sys.exit(job.main("snapshot_log", options(), run))
