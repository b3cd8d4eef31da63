"""audit_transactions: find out whether the transactions that hold offsets will end, and list all transactional ids.

The job only reads from the cluster. It archives what is new in __transaction_state.
"""

import argparse
import sys
from dataclasses import asdict

from sexton.lake.catalog import open_lake
from sexton.maintenance import audit_transactions
from sexton.maintenance.audit_transactions import TransactionRequest
from sexton.maintenance.options import clock_ms, parser
from sexton.pipeline import job
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder


def options() -> argparse.ArgumentParser:
    found = parser("audit_transactions", __doc__)
    job.add_kafka_options(found)
    found.add_argument("--run-id", default="manual", metavar="ID", help="names the rows (default: %(default)s)")
    found.add_argument("--bytes-per-second", type=int, metavar="N", help="read no faster than this")
    return found


def run(arguments: argparse.Namespace) -> dict[str, object]:
    request = TransactionRequest(
        run_id=arguments.run_id,
        config=job.kafka_config(arguments),
        archive=arguments.archive,
        bytes_per_second=arguments.bytes_per_second,
        cluster_id=arguments.cluster_id,
    )
    with Engine("audit_transactions", iceberg=True) as engine:
        done = audit_transactions.run(
            engine, RunFolder(arguments.run_dir), open_lake(), request, as_of_ms=arguments.now, now_ms=clock_ms
        )
    return asdict(done)


if __name__ == "__main__":
    sys.exit(job.main("audit_transactions", options(), run))
