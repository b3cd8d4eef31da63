"""How a snapshot cuts its work, and how long it waits."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest

from sexton.errors import BrokerError, Refused, UsageError
from sexton.job_params import SnapshotRequest
from sexton.kafka.client import ClientConfig
from sexton.kafka.failures import TransientError
from sexton.pipeline import fetch_log, job, snapshot_log
from sexton.pipeline.snapshot_log import TakenSnapshot, earlier
from sexton.runs.engine import Engine
from tests.faults.snapshots import START_MS, Archivist, InlineEngine
from tests.jobs import load_job
from tests.kafka.fake_cluster import ATTEMPTS, FakeCluster


@given(start=st.integers(0, 5_000_000), size=st.integers(0, 5_000_000), later=st.integers(0, 3_000_000))
@settings(max_examples=50)
def test_ranges_join_and_do_not_depend_on_the_end(start: int, size: int, later: int) -> None:
    cut = list(fetch_log.ranges(start, start + size))
    joined = [start, *(end for _, end in cut)]
    assert list(pairwise(joined)) == cut
    assert joined[-1] == start + size
    assert {a for a, _ in cut} <= {a for a, _ in fetch_log.ranges(start, start + size + later)}


def test_an_instant_far_ahead_is_refused() -> None:
    config = ClientConfig(bootstrap_servers="nobody:1")
    request = SnapshotRequest(config=config, archive="unused", as_of_ms=10_000_000, settle_ms=0)
    with pytest.raises(UsageError, match="166 minutes ahead"):
        snapshot_log.run(Engine(iceberg=True, quiet=True), request, now_ms=lambda: 0)


def test_it_waits_until_the_instant_has_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, slept = [1_000], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += int(seconds * 1000) - (1 if len(slept) == 1 else 0)  # a sleep may end early

    class Connected(Exception):
        pass

    def snapshot(*_: object, taken_at_ms: int, **__: object) -> None:
        assert taken_at_ms >= 5_500
        raise Connected

    monkeypatch.setattr(snapshot_log, "_survey", snapshot)
    config = ClientConfig(bootstrap_servers="nobody:1")
    request = SnapshotRequest(config=config, archive="unused", as_of_ms=5_000, settle_ms=500)
    with pytest.raises(Connected):
        snapshot_log.run(Engine(iceberg=True, quiet=True), request, now_ms=lambda: clock[0], sleep=sleep)
    assert slept == [4.5, 0.001]


@pytest.mark.parametrize("wanted", [None, "fake"])
def test_of_the_wanted_cluster_or_of_whichever_answers(tmp_path: Path, wanted: str | None) -> None:
    cluster = FakeCluster(1)
    cluster.logs[0].append(2)
    assert taken(cluster, tmp_path, wanted).batches == 2


def test_another_cluster_is_refused_before_anything_is_archived(tmp_path: Path) -> None:
    """A connection that leads to the wrong cluster would publish it to the readers of this one."""
    cluster = FakeCluster(1)
    cluster.logs[0].append(2)
    with pytest.raises(Refused, match="this is cluster fake, expected eu"):
        taken(cluster, tmp_path, "eu")
    assert list(tmp_path.rglob("*")) == []


def test_an_instant_that_is_settled_takes_no_other_snapshot(tmp_path: Path) -> None:
    cluster = FakeCluster(2)
    cluster.logs[0].append(2)
    settled_ms = START_MS - 60_000

    def found(as_of_ms: int | None, wanted: str | None = None) -> TakenSnapshot | None:
        config = ClientConfig(bootstrap_servers="nobody:1")
        return earlier(SnapshotRequest(config=config, archive=str(tmp_path), as_of_ms=as_of_ms, cluster_id=wanted))

    assert found(settled_ms) is None, "nothing is archived"
    took = taken(cluster, tmp_path, None)
    nothing = {"segments": 0, "batches": 0, "size_bytes": 0, "log_offsets": 0}
    assert found(settled_ms) == found(settled_ms - 1) == replace(took, **nothing)
    assert found(settled_ms + 1) is None, "the next snapshot has to settle it"
    assert found(None) is None
    assert found(settled_ms, "other") is None
    (tmp_path / "other").mkdir()
    assert found(settled_ms) is None, "either might be meant"
    assert found(settled_ms, "fake") is not None
    shutil.rmtree(tmp_path / "fake" / "cluster_metadata")
    assert found(settled_ms, "fake") is None, "a snapshot that died before its metadata was not finished"


def test_what_another_snapshot_has_archived_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a task that was given up for dead and goes on: its segments end elsewhere."""
    cluster = FakeCluster(1)
    cluster.logs[0].append(3)
    counts: list[int] = []
    real, others = fetch_log._next_segment, ["another"]

    def meanwhile(*args: Any) -> Any:
        if others:
            with monkeypatch.context() as patch:
                others.clear()
                patch.setattr(fetch_log, "SEGMENT_BYTES", 1)
                counts.append(taken(cluster, tmp_path, None).segments)
        return real(*args)

    monkeypatch.setattr(fetch_log, "_next_segment", meanwhile)
    assert taken(cluster, tmp_path, None).segments == 0
    assert len(Archivist(cluster, tmp_path).newest()[0].segments) == counts[0] > 1


@pytest.mark.parametrize("driver_bytes", [1 << 30, -1], ids=["in the driver", "by tasks"])
def test_a_broker_that_is_silent_for_a_while_costs_one_range(tmp_path, monkeypatch, driver_bytes):
    monkeypatch.setattr(fetch_log, "DRIVER_BYTES", driver_bytes)
    cluster = FakeCluster(1)
    for log in cluster.logs:
        log.append(3)
    left = [ATTEMPTS]

    def silent(request: Any) -> None:
        if isinstance(request, FetchRequest) and request.topics[0].partitions[0].partition == 1 and left[0]:
            left[0] -= 1
            raise TransientError("no answer")

    cluster.before_request = silent
    assert taken(cluster, tmp_path).batches == 6
    Archivist(cluster, tmp_path).assert_is_the_log()


def test_under_a_rate_log_partitions_are_read_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_log, "DRIVER_BYTES", -1)
    cluster = FakeCluster(1)
    for log in cluster.logs:
        log.append(3)
    both, met = Barrier(2), set[int]()

    def meet(request: Any) -> None:
        if isinstance(request, FetchRequest) and (part := request.topics[0].partitions[0].partition) not in met:
            met.add(part)
            both.wait(10)

    cluster.before_request = meet
    assert taken(cluster, tmp_path, bytes_per_second=1 << 20).batches == 6


def taken(
    cluster: FakeCluster,
    archive: Path,
    wanted: str | None = None,
    *,
    now_ms: Callable[[], int] = lambda: START_MS,
    bytes_per_second: int | None = None,
) -> TakenSnapshot:
    config = ClientConfig(bootstrap_servers="fake:1")
    request = SnapshotRequest(config=config, archive=str(archive), cluster_id=wanted, bytes_per_second=bytes_per_second)
    engine = InlineEngine(cluster.rng)
    return snapshot_log.run(engine, request, now_ms=now_ms, connect=cluster.connect)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before_ms", "now_ms", "instants", "breaks"),
    [
        (50, 50, [40, 50], False),
        (50, 50, [51, 52], True),
        (50, 50, [40, 51, 52, 53], True),
        (50, 1000, [51, 52], True),
        (1000, 50, [51, 52], True),
        (1000, 1000, [51, 52], False),
    ],
    ids=["in-time", "began-late", "read-late", "setting-raised", "setting-lowered", "long"],
)
def test_a_log_goes_on_if_it_was_read_before_a_tombstone_could_go(before_ms, now_ms, instants, breaks, tmp_path):
    """From one look at the log to the end of the next reading, and by the lower setting: what a cleaner has written
    into a batch stays."""
    cluster = FakeCluster(1)
    cluster.delete_retention_ms = before_ms
    cluster.logs[0].append(3)
    assert taken(cluster, tmp_path).alerts == []
    cluster.delete_retention_ms = now_ms
    cluster.logs[0].append(3)
    clock = iter(instants)
    again = taken(cluster, tmp_path, now_ms=lambda: START_MS + next(clock))
    assert next(clock, None) is None, "it looked again, or did not"
    assert [line.split(":")[0] for line in again.alerts] == (
        ["the log was not read for longer than the topic's delete.retention.ms"] if breaks else []
    )
    origin = Archivist(cluster, tmp_path).newest()[0].origin
    assert origin is not None
    assert origin.reason == ("unobserved" if breaks else "first")


def test_a_reading_that_takes_longer_than_tombstones_stay_is_told(tmp_path: Path) -> None:
    cluster = FakeCluster(1)
    cluster.delete_retention_ms = 50
    cluster.logs[0].append(3)
    clock = iter([0, 51])
    (warning,) = taken(cluster, tmp_path, now_ms=lambda: START_MS + next(clock)).warnings
    assert "reading took 0.1 s, longer than the topic's delete.retention.ms" in warning


def test_the_alerts_of_an_attempt_that_died_are_told_by_the_next(monkeypatch, tmp_path):
    main = load_job("snapshot_log")
    deaths = iter([True, False])

    def run(*_: object, notify: Callable[[list[str]], None], **__: object) -> TakenSnapshot:
        if next(deaths):
            notify(["the log ends at 5", "made anew"])
            raise BrokerError("and then it died")
        return TakenSnapshot(
            cluster_id="c", topic_id="t", taken_at_ms=1, log_partitions=1, segments=0, batches=0, size_bytes=0,
            log_offsets=0,
        )  # fmt: skip

    monkeypatch.setattr(snapshot_log, "run", run)
    options = ["--bootstrap-servers=b:1", f"--archive={tmp_path}", f"--run-dir={tmp_path / 'run'}"]
    codes = [job.main("snapshot_log", "", SnapshotRequest, main.run, options) for _ in range(2)]
    assert codes == [1, 0]
    outcome = json.loads((tmp_path / "run" / "outcome" / "snapshot_log.json").read_text())
    assert outcome["alerts"] == ["the log ends at 5", "made anew"]
