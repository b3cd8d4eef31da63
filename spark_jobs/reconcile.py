"""reconcile: fold the whole archive and compare it with what the live brokers answer.

The job only reads from the cluster. It takes snapshots into the archive as snapshot_log does.
"""

import json
from dataclasses import asdict, replace

from sexton.as_text import now_ms
from sexton.job_params import ReconcileRequest, SnapshotRequest
from sexton.maintenance import reconcile
from sexton.pipeline import job
from sexton.runs.engine import Engine
from sexton.runs.folder import RunFolder
from sexton.settings import settings


def run(asked: ReconcileRequest, folder: RunFolder) -> dict[str, object]:
    most, rate = settings().maintenance_reconcile_groups, settings().fetch_bytes_per_second
    request = SnapshotRequest.like(asked, bytes_per_second=rate)
    with Engine() as engine:
        done = reconcile.run(engine, request, seed=asked.now, most_groups=most, now_ms=now_ms)
    outcome = asdict(replace(done, differences=[]))
    del outcome["differences"]  # they name groups; outcomes and alerts do not
    if not done.differences:
        return outcome
    folder.write(json.dumps([asdict(one) for one in done.differences], indent=1).encode(), "drift.json")
    return {**outcome, "drift": str(folder.sub("drift.json"))}


if __name__ == "__main__":
    job.program("reconcile", __doc__, run)
