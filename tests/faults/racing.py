"""One of two snapshots that race, in a process of its own, which stops at a point until it is let go.

    python -m tests.faults.racing URI FOLDER POINT HIDDEN

takes a snapshot of a cluster that is the same in every process, but for the last HIDDEN batches of each log, which
come when it goes on. At the failpoint POINT it leaves FOLDER/reached and waits for FOLDER/go. It prints what it has
archived.
"""

import json
import sys
import time
from pathlib import Path

from sexton import failpoints
from sexton.archive import create
from sexton.archive import lineages as lineage
from sexton.archive import writer as archive
from sexton.kafka.client import ClientConfig
from sexton.pipeline import snapshot_log
from sexton.pipeline.snapshot_log import SnapshotRequest
from tests.faults.snapshots import START_MS, InlineEngine
from tests.kafka.fake_cluster import FakeCluster

SEED, BATCHES = 7, 20
LONGEST_S = 60


def grown() -> FakeCluster:
    cluster = FakeCluster(SEED)
    for log in cluster.logs:
        log.append(BATCHES)
    return cluster


class Race:
    """Stands in for `failpoint`: the first time at its point, it waits, and then the hidden batches are there."""

    def __init__(self, cluster: FakeCluster, folder: Path, point: str, hidden: int) -> None:
        self._folder, self._point, self._is_done = folder, point, False
        self._whole = [(log, log.batches, log.end) for log in cluster.logs]
        for log in cluster.logs if hidden else ():
            log.end = int.from_bytes(log.batches[-hidden][:8], "big")
            log.batches = log.batches[:-hidden]

    def __call__(self, name: str) -> None:
        assert name in failpoints.FAILPOINTS
        if name != self._point or self._is_done:
            return
        self._is_done = True
        (self._folder / "reached").touch()
        until = time.monotonic() + LONGEST_S
        while not (self._folder / "go").exists():
            assert time.monotonic() < until, "nobody lets go"
            time.sleep(0.01)
        for log, batches, end in self._whole:
            log.batches, log.end = batches, end


def main() -> None:
    uri, folder, point, hidden = sys.argv[1:]
    cluster = grown()
    race = Race(cluster, Path(folder), point, int(hidden))
    for module in (archive, create, lineage, snapshot_log):
        module.failpoint = race  # type: ignore[attr-defined]
    request = SnapshotRequest(config=ClientConfig(bootstrap_servers="fake:1"), archive=uri)
    now_ms = START_MS + (1 if point != "none" else 0)
    engine = InlineEngine(cluster.rng)
    taken = snapshot_log.run(engine, request, now_ms=lambda: now_ms, connect=cluster.connect)  # type: ignore[arg-type]
    print(json.dumps({"segments": taken.segments, "warnings": taken.warnings}))


if __name__ == "__main__":
    main()
