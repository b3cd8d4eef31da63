"""audit_lag: measure how late every group of the newest published run was, what it will lose, and who would reset.

The job only reads from the cluster, and no message. It archives what the brokers answer.
"""

import argparse
import sys
from dataclasses import asdict

from sexton.lake.catalog import open_lake
from sexton.maintenance import audit_lag
from sexton.maintenance.audit_lag import LagRequest
from sexton.maintenance.options import clock_ms, parser
from sexton.pipeline import job
from sexton.runs.folder import RunFolder
from sexton.settings import settings


def options() -> argparse.ArgumentParser:
    found = parser("audit_lag", __doc__)
    job.add_kafka_options(found)
    found.add_argument("--run-id", default="manual", metavar="ID", help="names the rows (default: %(default)s)")
    found.add_argument(
        "--alert-hours",
        type=int,
        default=settings().lag_alert_hours,
        metavar="N",
        help="alert about messages that are lost unread within so many hours (default: %(default)s)",
    )
    return found


def run(arguments: argparse.Namespace) -> dict[str, object]:
    request = LagRequest(
        run_id=arguments.run_id,
        config=job.kafka_config(arguments),
        archive=arguments.archive,
        cluster_id=arguments.cluster_id,
        alert_hours=arguments.alert_hours,
    )
    done = audit_lag.run(RunFolder(arguments.run_dir), open_lake(), request, as_of_ms=arguments.now, now_ms=clock_ms)
    return asdict(done)


if __name__ == "__main__":
    sys.exit(job.main("audit_lag", options(), run))
