"""Logs that break under an archive: every break is found and told, none is joined in silence, and nothing else is one.

Ground truth are the bytes: an archived log goes on exactly where what is archived is how the log began.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from sexton.archive.lineages import EPOCH_DIVERGED, GAP, PARTITION_COUNT, RECREATED, TRUNCATED, UNOBSERVED, Origin
from sexton.pipeline import fetch_log
from tests.faults.snapshots import Archivist
from tests.kafka.fake_cluster import FakeCluster, FakeLog

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of a few batches, and ranges of a few log_offsets."""
    monkeypatch.setattr(fetch_log, "SEGMENT_BYTES", 400)
    monkeypatch.setattr(fetch_log, "LOG_OFFSETS_A_TASK", 7)


@pytest.fixture(params=["driver", "tasks"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "tasks":
        monkeypatch.setattr(fetch_log, "DRIVER_BYTES", -1)


def harmless_event(log: FakeLog) -> None:
    """What leaves the archived bytes the beginning of the log."""
    log.rng.choice((lambda: log.append(log.rng.randint(1, 6)), log.elect, log.clean))()


def breaking_event(log: FakeLog) -> None:
    """An election that may lose records, or a log start that may move beyond what is archived."""
    rng = log.rng
    kind = rng.choice(("cut", "divergent", "deleted"))
    if kind == "cut":
        log.elect(cut_at=rng.randint(log.start, log.end))
    elif kind == "divergent":
        begun = [at for epoch, at in log.epochs[1:] if log.start < at < log.end]
        log.elect(cut_at=rng.choice(begun) if begun else None, divergent=rng.randint(0, 4) if begun else 0)
    else:
        log.delete_below(rng.randint(log.start, log.end))
    log.append(rng.randint(0, 8))


def grown(seed: int, *, log_partitions: int = 2) -> FakeCluster:
    cluster = FakeCluster(seed, log_partitions=log_partitions)
    for log in cluster.logs:
        log.append(cluster.rng.randint(0, 12))
    return cluster


def assert_told(archivist: Archivist, before: dict[int, str], broken: set[int]) -> None:
    """Exactly the broken log partitions begin new lineages, and each is told of."""
    newest, taken = archivist.newest(), archivist.taken[-1]
    assert {part for part, name in before.items() if newest[part].lineage.name != name} == broken
    for part in broken:
        origin = newest[part].origin
        assert origin is not None
        assert origin.reason in (GAP, TRUNCATED, EPOCH_DIVERGED)
        assert origin.previous == before[part]
        assert any(alert.startswith(f"log partition {part}: ") for alert in taken.alerts)
    assert len(taken.alerts) == len(broken)
    assert set(taken.alerts) <= set(taken.warnings)


def run_history(seed: int, archive: Path) -> int:
    """Rounds of events and snapshots of one cluster; returns the number of breaks."""
    cluster = grown(seed)
    archivist = Archivist(cluster, archive)
    archivist.snapshot()
    breaks = 0
    for _ in range(6):
        for log in cluster.logs:
            for _ in range(cluster.rng.randint(0, 3)):
                (breaking_event if cluster.rng.random() < 0.4 else harmless_event)(log)
        before = {part: lineage.lineage.name for part, lineage in archivist.newest().items()}
        broken = archivist.no_longer_the_log()
        archivist.snapshot()
        assert_told(archivist, before, broken)
        archivist.assert_is_the_log()
        breaks += len(broken)
    assert archivist.snapshot().alerts == []
    return breaks


@pytest.mark.usefixtures("_way")
def test_every_break_is_found(full: bool, seed: int, tmp_path: Path, tell: Callable[[str], None]) -> None:
    count = 200 if full else 10
    breaks = sum(run_history(seed + number, tmp_path / str(number)) for number in range(count))
    assert breaks > count
    tell(f"{count} histories, {breaks} breaks, all told, nothing else told")


def run_disturbed(seed: int, archive: Path) -> tuple[int, int]:
    """As run_history, but the cluster changes in the middle of snapshots; returns the counts of changes and breaks."""
    cluster = grown(seed)
    archivist = Archivist(cluster, archive)
    archivist.snapshot()
    rng, changes = cluster.rng, 0
    for _ in range(4):
        for log in cluster.logs:
            log.append(rng.randint(5, 25))
        left = rng.randint(1, 40)

        def disturb(request: object) -> None:
            nonlocal left, changes
            left -= 1
            if left == 0:
                changes += 1
                log = rng.choice(cluster.logs)
                (breaking_event if rng.random() < 0.7 else harmless_event)(log)
                cluster.failures = rng.randint(0, 3)

        cluster.before_request = disturb
        archivist.snapshot()
        cluster.before_request = lambda request: None
        broken = archivist.no_longer_the_log()  # what broke when it was read already
        before = {part: lineage.lineage.name for part, lineage in archivist.newest().items()}
        archivist.snapshot()
        newest = archivist.newest()
        assert broken <= {part for part, name in before.items() if newest[part].lineage.name != name}
        archivist.assert_is_the_log()
    return changes, sum(len(found) - 1 for found in archivist.lineages().values())


@pytest.mark.usefixtures("_way")
def test_breaks_in_the_middle_of_a_snapshot(full: bool, seed: int, tmp_path: Path, tell: Callable[[str], None]) -> None:
    count = 500 if full else 10
    totals = [run_disturbed(seed + number, tmp_path / str(number)) for number in range(count)]
    changes, breaks = (sum(part) for part in zip(*totals, strict=True))
    assert changes > count
    assert breaks
    tell(
        f"{count} histories, {changes} changes in the middle of snapshots, {breaks} breaks, no byte joined to another's"
    )


@pytest.mark.usefixtures("_way")
def test_brokers_that_restart_in_the_middle(full: bool, seed: int, tmp_path: Path, tell: Callable[[str], None]) -> None:
    """Clean elections and requests that fail: no gap, no batch twice, no lineage but the first."""
    restarts = 0
    for number in range(500 if full else 10):
        cluster = grown(seed + number)
        archivist = Archivist(cluster, tmp_path / str(number))
        rng = cluster.rng

        def restart(request: object, rng: Random = rng, cluster: FakeCluster = cluster) -> None:
            nonlocal restarts
            if rng.random() < 0.1:
                restarts += 1
                for log in cluster.logs:
                    log.elect()
                cluster.failures = rng.randint(1, 4)

        for _ in range(2):
            for log in cluster.logs:
                log.append(rng.randint(5, 20))
            cluster.before_request = restart
            archivist.snapshot()
            cluster.before_request = lambda request: None
        archivist.snapshot()
        archivist.assert_is_the_log()
        assert [len(found) for found in archivist.lineages().values()] == [1, 1]
        assert not any(taken.alerts for taken in archivist.taken)
    tell(f"{restarts} restarts")


@pytest.mark.usefixtures("_way")
def test_a_topic_that_is_made_anew(full: bool, seed: int, tmp_path: Path) -> None:
    """Between snapshots, or in the middle of one: no byte of one topic in the archive of the other."""
    for number in range(20 if full else 6):
        cluster = grown(seed + number)
        archivist = Archivist(cluster, tmp_path / str(number))
        for log in cluster.logs:
            log.append(10)
        archivist.snapshot()
        old_id, old = archivist.facts.topic_id, archivist.lineages()
        left = 0 if number % 2 else cluster.rng.randint(2, 25)
        for log in cluster.logs:
            log.append(5)

        def make_anew(cluster: FakeCluster = cluster) -> None:
            cluster.make_anew()
            for log in cluster.logs:
                log.append(30)

        def later(request: object, make_anew: Callable[[], None] = make_anew) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                make_anew()

        if left:
            cluster.before_request = later
        else:
            make_anew()
        archivist.snapshot()
        cluster.before_request = lambda request: None
        if left > 0:  # the snapshot was over before
            make_anew()
        taken = archivist.snapshot()
        archivist.assert_is_the_log()
        told = [line for one in archivist.taken for line in one.alerts if "created again" in line]
        assert len(told) == 1
        assert old_id in told[0]
        assert str(taken.topic_id) in told[0]
        assert {
            (origin.reason, origin.previous_topic_id)
            for lineage in archivist.newest().values()
            if (origin := lineage.origin)
        } == {(RECREATED, old_id)}
        for part, found in old.items():
            assert [lineage.lineage for lineage in found] == [found[0].lineage], part


def test_another_number_of_log_partitions(full: bool, seed: int, tmp_path: Path) -> None:
    for number in range(10 if full else 3):
        cluster = grown(seed + number, log_partitions=3)
        archivist = Archivist(cluster, tmp_path / str(number))
        archivist.snapshot()
        for log in cluster.logs:
            log.append(3)
        cluster.add_log_partitions(2)
        (alert,) = archivist.snapshot().alerts
        assert "5 log partitions now" in alert
        archivist.assert_is_the_log()
        reasons = {part: lineage.origin.reason for part, lineage in archivist.newest().items() if lineage.origin}
        assert reasons == {0: PARTITION_COUNT, 1: PARTITION_COUNT, 2: PARTITION_COUNT, 3: "first", 4: "first"}
        assert archivist.snapshot().alerts == []
        assert all(len(found) <= 2 for found in archivist.lineages().values())


def test_nobody_looked_for_longer_than_tombstones_last(tmp_path: Path) -> None:
    cluster = grown(5)
    archivist = Archivist(cluster, tmp_path)
    archivist.snapshot()
    cluster.logs[0].append(2)
    archivist.now_ms += cluster.delete_retention_ms
    (alert,) = archivist.snapshot().alerts
    assert "delete.retention.ms" in alert
    newest = archivist.newest()
    assert newest[0].origin == Origin(
        reason=UNOBSERVED,
        found_at_ms=archivist.now_ms,
        partition_count=2,
        previous="000000-00000000000000000000",
        previous_end=newest[0].origin.previous_end if newest[0].origin else None,
    )
    assert newest[1].lineage.ordinal == 0  # nothing new there: nothing can have gone
    archivist.assert_is_the_log()


def emptied(seed: int, folder: Path) -> tuple[FakeCluster, Archivist]:
    """A cluster whose log partition 0 has lost all its records since a snapshot."""
    cluster = grown(seed)
    archivist = Archivist(cluster, folder)
    cluster.logs[0].append(4)
    archivist.snapshot()
    cluster.logs[0].elect(cut_at=0)
    return cluster, archivist


def test_what_a_dead_snapshot_found_is_told_by_the_next(tmp_path: Path) -> None:
    cluster, archivist = emptied(6, tmp_path)
    cluster.logs[0].append(20)

    def die(request: object) -> None:
        if type(request).__name__ == "FetchRequest" and len(list((tmp_path / "fake").rglob("000001-*/*.json"))) > 1:
            raise KeyboardInterrupt

    cluster.before_request = die
    with pytest.raises(KeyboardInterrupt):
        archivist.snapshot()
    assert len(archivist.newest()[0].segments) > 0  # the next one goes on there, and would find nothing wrong
    cluster.before_request = lambda request: None
    (alert,) = archivist.snapshot().alerts
    assert alert.startswith("log partition 0: ")
    assert archivist.snapshot().alerts == []


def test_a_log_that_was_emptied(tmp_path: Path) -> None:
    """There is nothing to archive, and still the old records are not the log any more."""
    cluster, archivist = emptied(7, tmp_path)
    assert len(archivist.snapshot().alerts) == 1
    assert archivist.newest()[0].segments == ()
    assert archivist.snapshot().alerts == []
    cluster.logs[0].append(4)
    assert archivist.snapshot().alerts == []
    archivist.assert_is_the_log()


def test_a_log_that_changes_all_the_time_is_given_up(tmp_path: Path) -> None:
    cluster = grown(8)
    archivist = Archivist(cluster, tmp_path)
    for log in cluster.logs:
        log.append(30)
    archivist.snapshot()
    for log in cluster.logs:
        log.append(30)

    def restless(request: object) -> None:
        if type(request).__name__ == "FetchRequest":
            cluster.logs[0].elect(cut_at=cluster.logs[0].end - 1)
            cluster.logs[0].append(3)

    cluster.before_request = restless
    with pytest.raises(Exception, match=r"again and again|was committed up to|FencedLeaderEpoch"):
        archivist.snapshot()
