"""reconcile: fold the whole archive and compare it with what the live brokers answer.

The job only reads from the cluster. It takes snapshots into the archive as snapshot_log does.
"""

import argparse
import json
import sys
from dataclasses import asdict, replace

from sexton.archive.folder import Folder
from sexton.maintenance import reconcile
from sexton.maintenance.options import clock_ms, parser
from sexton.pipeline import job
from sexton.pipeline.snapshot_log import SnapshotRequest
from sexton.runs.engine import Engine
from sexton.settings import settings


def options() -> argparse.ArgumentParser:
    found = parser("reconcile", __doc__)
    job.add_kafka_options(found)
    return found


def run(arguments: argparse.Namespace) -> dict[str, object]:
    config = settings()
    request = SnapshotRequest(
        config=job.kafka_config(arguments),
        archive=arguments.archive,
        topic=arguments.topic,
        bytes_per_second=config.fetch_bytes_per_second or None,
        cluster_id=arguments.cluster_id,
    )
    with Engine("reconcile") as engine:
        done = reconcile.run(
            engine,
            request,
            seed=arguments.now,
            most_groups=config.maintenance_reconcile_groups,
            now_ms=clock_ms,
        )
    outcome = asdict(replace(done, differences=[]))
    del outcome["differences"]  # they name groups; outcomes and alerts do not
    if not done.differences:
        return outcome
    folder = Folder(arguments.run_dir)
    folder.write(json.dumps([asdict(one) for one in done.differences], indent=1).encode(), "drift.json")
    return {**outcome, "drift": str(folder.sub("drift.json"))}


if __name__ == "__main__":
    sys.exit(job.main("reconcile", options(), run))
