"""audit_replicas: compare what each broker's own replica of the offsets topic would serve if it led.

The job only reads from the cluster. It copies every replica once, to the run folder.
"""

import argparse
import sys
from dataclasses import asdict

from sexton.errors import UndecodableInput
from sexton.lake.catalog import open_lake
from sexton.maintenance import audit_replicas
from sexton.maintenance.audit_replicas import ReplicaRequest
from sexton.maintenance.options import parser
from sexton.pipeline import job
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder


def options() -> argparse.ArgumentParser:
    found = parser("audit_replicas", __doc__)
    job.add_kafka_options(found)
    found.add_argument("--run-id", default="manual", metavar="ID", help="names the rows (default: %(default)s)")
    found.add_argument("--log-partitions", type=_numbers, metavar="N,...", help="only these (default: all)")
    found.add_argument("--bytes-per-second", type=int, metavar="N", help="read no faster than this in all")
    return found


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def run(arguments: argparse.Namespace) -> dict[str, object]:
    request = ReplicaRequest(
        run_id=arguments.run_id,
        config=job.kafka_config(arguments),
        archive=arguments.archive,
        log_partitions=arguments.log_partitions,
        bytes_per_second=arguments.bytes_per_second,
        cluster_id=arguments.cluster_id,
    )
    with Engine("audit_replicas", iceberg=True) as engine:
        done = audit_replicas.run(engine, RunFolder(arguments.run_dir), open_lake(), request, as_of_ms=arguments.now)
    return {**asdict(done), **({"exit_code": UndecodableInput.exit_code} if done.corrupt else {})}


if __name__ == "__main__":
    sys.exit(job.main("audit_replicas", options(), run))
