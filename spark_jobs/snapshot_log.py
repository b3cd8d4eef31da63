"""snapshot_log: copy new batches of __consumer_offsets from the brokers into the archive, byte for byte.

It continues where the archive ends, up to the high watermark. If an earlier snapshot has settled --as-of, it asks no
broker. It only reads: the principal needs READ and DESCRIBE on the topic, and DESCRIBE_CONFIGS on the cluster to record
the broker's settings. Where the topic is hidden, it archives an admin snapshot.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace

from sexton.as_text import now_ms
from sexton.job_params import SnapshotRequest
from sexton.pipeline import job, snapshot_log
from sexton.runs.folder import RunFolder
from sexton.runs.processes import engine_of_task

KEPT = "snapshot_log.json"
"""Alerts of this run, including those of an earlier attempt that died before it raised them."""


def run(asked: SnapshotRequest, folder: RunFolder) -> dict[str, object]:
    kept = folder.sub("alerts")
    alerts = [str(line) for line in json.loads(kept.read(KEPT))] if kept.exists(KEPT) else []

    def keep(lines: Sequence[str]) -> None:
        alerts.extend(line for line in lines if line not in alerts)
        kept.write(json.dumps(alerts).encode(), KEPT)

    if snapshot := snapshot_log.earlier(asked):
        fetched = "nothing: an earlier snapshot has settled the instant"
    else:
        with engine_of_task() as engine:
            snapshot = snapshot_log.run(engine, asked, now_ms=now_ms, notify=keep)
        fetched = "new batches" if snapshot.segments else "nothing new"
    if snapshot.admin_because is not None:
        fetched = f"no log: groups were read through the Admin API ({snapshot.admin_because})"
    return {"fetched": fetched, **asdict(replace(snapshot, alerts=alerts))}


if __name__ == "__main__":
    job.program("snapshot_log", __doc__, run)
