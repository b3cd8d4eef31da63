"""A lookup of lag that is killed at any of the named points and taken again leaves an archive that answers as one whose
lookup was never killed; what it left besides does not exist for readers, and `archive verify` finds nothing broken."""

from pathlib import Path
from types import SimpleNamespace as Answer
from typing import Any

import pytest

from sexton.archive.files import cluster_folder
from sexton.archive.lineages import TIME_POINTS_FOLDER
from sexton.archive.time_points import lookup_instants, read_lookup
from sexton.archive.verify import verify
from sexton.failpoints import FAILPOINTS
from sexton.lag.measure_lag import Instant, look_up, measure
from tests.archived import CLUSTER, Archive
from tests.fork import killed
from tests.kafka.test_time_points import AS_OF_MS, BASE_MS, Logs
from tests.lag_tables import instant_of
from tests.plain_lag import Committed, LogRange

pytestmark = pytest.mark.thorough

OF_LOOKUPS = {name for name in FAILPOINTS if name.startswith("time_points")}
STEP_MS = 60_000
END = 1_000
AFTER_MS = 5


class Brokers(Logs):
    """Two partitions with a record a minute, in leader epoch 4, of which epoch 2 ended at offset 300."""

    def __init__(self) -> None:
        stamps = [AS_OF_MS - (END - n) * STEP_MS for n in range(END)]
        super().__init__(stamps, stamps)

    def call(self, request: Any, *, node_id: int | None = None) -> Any:
        if type(request).__name__ != "OffsetForLeaderEpochRequest":
            return super().call(request, node_id=node_id)
        (asked,) = request.topics
        ends = [Answer(partition=each.partition, error_code=0, end_offset=300) for each in asked.partitions]
        return Answer(topics=[Answer(topic="t", partitions=ends)])


def archive_at(folder: Path) -> Archive:
    made = Archive(folder)
    made.topics = [{"topic": "t", "id": "id", "partitions": [[0, END], [0, END]]}]
    made.snapshot(AS_OF_MS)
    return made


def instant(archive: Archive) -> Instant:
    offsets = ((0, 10, None), (0, 999, None), (1, 500, 2), (1, 200, 2))
    return instant_of(
        archive.root,
        [
            Committed(group_id=f"g{at}", topic="t", partition=n, committed_offset=at, leader_epoch=epoch)
            for n, at, epoch in offsets
        ],
        {("t", n): LogRange(topic_id="id", log_start_offset=0, log_end_offset=END) for n in range(2)},
        cluster_id=CLUSTER,
        as_of_ms=AS_OF_MS,
    )


def take_lookup(archive: Archive, at_ms: int) -> None:
    look_up(Brokers(), instant(archive), now_ms=lambda: at_ms)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _settings_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Answer(settings={"message.timestamp.type": "LogAppendTime", "retention.ms": "1"})
    monkeypatch.setattr("sexton.lag.measure_lag.described", lambda _, *topics: [answer] * len(topics))


@pytest.mark.parametrize("is_same_instant", [True, False], ids=["at the same instant", "later"])
@pytest.mark.parametrize("name", sorted(OF_LOOKUPS))
def test_a_lookup_killed_anywhere(name: str, is_same_instant: bool, tmp_path: Path) -> None:
    whole, broken = archive_at(tmp_path / "whole"), archive_at(tmp_path / "killed")
    asked_at_ms = AS_OF_MS + AFTER_MS
    take_lookup(whole, asked_at_ms)
    assert killed(lambda: take_lookup(broken, asked_at_ms), name)
    left = lookup_instants(broken.fs, broken.root, CLUSTER)
    assert left == ([asked_at_ms] if name == "time_points_manifest.after" else []), (
        "without its manifest it does not exist"
    )
    before = measure(instant(broken))
    take_lookup(broken, asked_at_ms if is_same_instant else asked_at_ms + 1_000)
    rows = measure(instant(broken))
    assert rows == measure(instant(whole))
    assert all(row["lag_max_ms"] - row["lag_min_ms"] <= 1 for row in rows.to_pylist())
    assert rows["would_reset"].to_pylist() == [None, None, "truncated", None]
    assert (before == rows) == bool(left)
    lookups = [
        read_lookup(broken.fs, broken.root, CLUSTER, at) for at in lookup_instants(broken.fs, broken.root, CLUSTER)
    ]
    assert len(lookups) == len(left) + 1
    assert min(filter(None, lookups[-1][1]["timestamp_ms"].to_pylist())) >= BASE_MS
    files = [path.suffix for path in Path(cluster_folder(broken.root, CLUSTER, TIME_POINTS_FOLDER)).iterdir()]
    orphans = 1 if name in ("time_points.after", "time_points_manifest.half") else 0
    assert (files.count(".parquet"), files.count(".json")) == (len(lookups) + orphans, len(lookups))
    assert verify(broken.fs, broken.root).findings == verify(whole.fs, whole.root).findings
