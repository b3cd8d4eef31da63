"""keep_house: one step of keeping house: verify, recheck, thin, tidy or drill.

  verify  read a part of the archive's bytes, each time the next one, and hold them against manifests, SHA-256 and CRC;
          exit code 3 where the archive is not what was put into it, each time until it is mended
  recheck replay in full what the newest checkpoint was published of, where that was not found right in the last
          SEXTON_HOUSE_RECHECK_DAYS days; exit code 3 where they differ
  thin    let published runs go that SEXTON_HOUSE_KEEP_* do not keep; held instants and applied plans stay
  tidy    expire Iceberg's old snapshots and left branches, make small files few (only Spark runs Iceberg's procedures);
          remove run folders that are SEXTON_HOUSE_RUNS_DAYS old
  drill   fold the archive and hold it against what the live brokers answer; reads only

Without --delete nothing is removed: thin and tidy say what they would do. Archived segments never are.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from sexton.errors import DataQualityFailure, UsageError
from sexton.kafka.client import client_config, read_properties
from sexton.kafka.facts import OFFSETS_TOPIC
from sexton.lake.catalog import open_lake
from sexton.maintenance import drill, folders, recheck, thin, tidy, verify
from sexton.maintenance.keeping import KeepPolicy
from sexton.pipeline import job
from sexton.pipeline.snapshot_log import SnapshotRequest
from sexton.runs.engine import Engine
from sexton.runs.folder import write_bytes
from sexton.settings import settings


def options() -> argparse.ArgumentParser:
    example = "spark-submit spark_jobs/keep_house.py thin --archive var/archive --run-dir var/runs/house"
    parser = job.parser("keep_house", __doc__ or "", example)
    parser.add_argument("step", choices=sorted(STEPS), metavar="STEP", help="verify, recheck, thin, tidy or drill")
    parser.add_argument("--archive", required=True, metavar="URI", help="folder or URI where segments are kept")
    parser.add_argument(
        "--cluster-id", metavar="ID", help="only this cluster; drill refuses any other (default: all of the archive)"
    )
    parser.add_argument("--now", type=int, metavar="MS", help="the instant by which ages are told (default: now)")
    parser.add_argument(
        "--subset", metavar="N/T", help="verify: read part N of T (default: the part after the last one)"
    )
    parser.add_argument("--delete", action="store_true", help="thin, tidy: remove what otherwise is only told")
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="drill: the live cluster")
    parser.add_argument(
        "--client-config",
        type=Path,
        metavar="FILE",
        help="drill: Kafka client properties; the place for secrets, which no option takes",
    )
    parser.add_argument("--topic", default=OFFSETS_TOPIC, metavar="NAME", help="drill: default: %(default)s")
    return parser


def run(arguments: argparse.Namespace) -> dict[str, object]:
    now_ms = _clock_ms() if arguments.now is None else arguments.now
    return STEPS[arguments.step](arguments, now_ms)


def _verify(arguments: argparse.Namespace, _now_ms: int) -> dict[str, object]:
    subset = None
    if arguments.subset:
        part = re.fullmatch(r"(\d{1,9})/(\d{1,9})", arguments.subset)
        if not part or not 1 <= int(part[1]) <= int(part[2]):
            raise UsageError(
                f"no part: {arguments.subset!r}", where="--subset", fix="n/t with 1 <= n <= t, such as 3/7"
            )
        subset = int(part[1]), int(part[2])
    parts = settings().house_verify_days
    found = verify.run(arguments.archive, parts=parts, subset=subset, only=arguments.cluster_id)
    if not found.rotten:
        return asdict(found)
    error = (
        f"the archive has lost or changed something ({found.rotten} findings): nothing is thinned until it is mended"
    )
    return {"exit_code": DataQualityFailure.exit_code, "error": error, **asdict(found)}


def _recheck(arguments: argparse.Namespace, now_ms: int) -> dict[str, object]:
    days = settings().house_recheck_days
    with Engine("keep_house") as engine:
        done = recheck.run(
            engine,
            arguments.archive,
            arguments.run_dir / "recheck",
            now_ms=now_ms,
            days=days,
            only=arguments.cluster_id,
        )
    return asdict(done)


def _thin(arguments: argparse.Namespace, now_ms: int) -> dict[str, object]:
    config = settings()
    policy = KeepPolicy(
        all_hours=config.house_keep_all_hours,
        hourly_days=config.house_keep_hourly_days,
        daily_months=config.house_keep_daily_months,
    )
    with Engine("keep_house", iceberg=True) as engine:
        done = thin.run(
            engine,
            open_lake(),
            arguments.archive,
            now_ms=now_ms,
            policy=policy,
            held={round(instant.timestamp() * 1000) for instant in config.house_holds},
            only=arguments.cluster_id,
            deletes=arguments.delete,
        )
    return {"deleted": arguments.delete, "clusters": [asdict(one) for one in done]}


def _tidy(arguments: argparse.Namespace, now_ms: int) -> dict[str, object]:
    config, deletes = settings(), arguments.delete
    with Engine("keep_house", iceberg=True) as engine:
        done = tidy.run(engine, open_lake(), now_ms=now_ms, days=config.house_lake_days, deletes=deletes)
    old = folders.run(Path(config.runs_uri), now_ms=now_ms, days=config.house_runs_days, deletes=deletes)
    return {"deleted": deletes, **asdict(done), **asdict(old)}


def _drill(arguments: argparse.Namespace, now_ms: int) -> dict[str, object]:
    config = settings()
    properties = read_properties(arguments.client_config) if arguments.client_config else {}
    request = SnapshotRequest(
        config=client_config(properties, bootstrap_servers=arguments.bootstrap_servers, where=arguments.client_config),
        archive=arguments.archive,
        topic=arguments.topic,
        bytes_per_second=config.fetch_bytes_per_second or None,
        cluster_id=arguments.cluster_id,
    )
    with Engine("keep_house") as engine:
        done = drill.run(engine, request, seed=now_ms, most_groups=config.house_drill_groups, now_ms=_clock_ms)
    told = asdict(replace(done, differences=[]))
    del told["differences"]  # they name groups, which outcomes and alerts do not
    file = arguments.run_dir / "drift.json"
    if not done.differences:
        return told
    write_bytes(file, json.dumps([asdict(one) for one in done.differences], indent=1).encode())
    return {**told, "drift": str(file)}


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000


STEPS: dict[str, Callable[[argparse.Namespace, int], dict[str, object]]] = {
    "verify": _verify,
    "recheck": _recheck,
    "thin": _thin,
    "tidy": _tidy,
    "drill": _drill,
}

if __name__ == "__main__":
    parser = options()
    sys.exit(job.main(parser.parse_args().step, parser, run))
