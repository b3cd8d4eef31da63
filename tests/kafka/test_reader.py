"""A reader of one log: what it asks for, what it refuses to read over, how fast it reads."""

import pytest

from sexton.errors import BrokerError
from sexton.kafka.client import ClientConfig
from sexton.kafka.fetch import DivergedError, LeaderMovedError, LogChangedError, LogReader, OutOfRangeError, Pace
from sexton.kafka.session import THROTTLE_LIMIT_MS, ClusterSession
from sexton.kafka.topics import PartitionLeader, describe_topic
from sexton.records import kafka_uuid
from sexton.topics import OFFSETS_TOPIC
from tests.kafka.fake_cluster import FakeCluster, FakeSession

CONFIG = ClientConfig(bootstrap_servers="fake:1")


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster(1, log_partitions=1)
    cluster.logs[0].append(30)
    return cluster


def reader(cluster: FakeCluster, *, after_epoch: int | None = -1, pace: Pace | None = None) -> LogReader:
    leader = PartitionLeader(node_id=1, epoch=cluster.logs[0].epoch)
    known = {"topic_id": kafka_uuid(cluster.topic_id), "leader": leader, "after_epoch": after_epoch, "pace": pace}
    return LogReader(FakeSession(cluster, CONFIG), OFFSETS_TOPIC, 0, **known)


def test_nothing_is_asked_but_batches(cluster: FakeCluster) -> None:
    log = cluster.logs[0]
    data = b"".join(batches.data for batches in reader(cluster).read(start=0, end=log.end))
    assert data == b"".join(log.batches)
    assert {type(request).__name__ for request in cluster.requests} == {"FetchRequest"}
    assert all(request.topics[0].topic_id == cluster.topic_id for request in cluster.requests)


def elect_after(cluster: FakeCluster, count: int, **how: int) -> None:
    def elect(request: object) -> None:
        if len(cluster.requests) == count:
            cluster.logs[0].elect(**how)
            cluster.logs[0].append(30)

    cluster.before_request = elect


def test_a_clean_election_is_read_over(cluster: FakeCluster) -> None:
    end = cluster.logs[0].end
    elect_after(cluster, 4)
    data = b"".join(batches.data for batches in reader(cluster).read(start=0, end=end))
    assert data == b"".join(cluster.logs[0].batches[:30])
    asked = [type(request).__name__ for request in cluster.requests]
    assert asked.count("OffsetForLeaderEpochRequest") == asked.count("MetadataRequest") == 1


def test_a_truncation_below_the_reader_is_not(cluster: FakeCluster) -> None:
    elect_after(cluster, 10, cut_at=2)
    with pytest.raises(DivergedError, match=r"leader epoch 0 was read up to \d+ and now ends at [012]\b"):
        list(reader(cluster).read(start=0, end=cluster.logs[0].end))


def test_a_truncation_above_the_reader_is(cluster: FakeCluster) -> None:
    log = cluster.logs[0]
    end = log.end
    elect_after(cluster, 3, cut_at=end - 1)
    found = list(reader(cluster).read(start=0, end=end))
    assert b"".join(batches.data for batches in found) == b"".join(
        batch for batch in log.batches if int.from_bytes(batch[:8], "big") < end
    )


def test_who_does_not_know_what_comes_before_stops_at_an_election(cluster: FakeCluster) -> None:
    elect_after(cluster, 2)
    with pytest.raises(LeaderMovedError):
        list(reader(cluster, after_epoch=None).read(start=10, end=cluster.logs[0].end))


def test_a_failed_request_is_no_election(cluster: FakeCluster) -> None:
    def fail(request: object) -> None:
        cluster.failures = len(cluster.requests) % 3 == 0

    cluster.before_request = fail
    log = cluster.logs[0]
    found = list(reader(cluster, after_epoch=None).read(start=0, end=log.end))
    assert b"".join(batches.data for batches in found) == b"".join(log.batches)


def test_a_topic_that_was_made_anew(cluster: FakeCluster) -> None:
    def make_anew(request: object) -> None:
        if len(cluster.requests) == 3:
            cluster.make_anew()
            cluster.logs[0].append(60)

    cluster.before_request = make_anew
    with pytest.raises(LogChangedError, match="created again"):
        list(reader(cluster).read(start=0, end=cluster.logs[0].end))


def test_a_log_start_that_moved_beyond(cluster: FakeCluster) -> None:
    cluster.logs[0].delete_below(20)
    with pytest.raises(OutOfRangeError):
        list(reader(cluster).read(start=3, end=cluster.logs[0].end))


def test_an_end_that_is_gone_is_no_empty_range(cluster: FakeCluster) -> None:
    """What was promised below the end is waited for; it is never taken for compacted."""
    end = cluster.logs[0].end
    with pytest.raises(BrokerError, match=f"was committed up to {end + 5}, now to {end}"):
        list(reader(cluster).read(start=0, end=end + 5))


def test_a_range_that_compaction_emptied(cluster: FakeCluster) -> None:
    log = cluster.logs[0]
    log.batches = log.batches[-1:]
    assert list(reader(cluster).read(start=0, end=5)) == []
    assert [b.data for b in LogReader(FakeSession(cluster, CONFIG), OFFSETS_TOPIC, 0).read(start=0, end=log.end)] == (
        [log.batches[-1]]
    )


def test_answers_that_a_quota_kept_empty_are_not_the_end(cluster: FakeCluster) -> None:
    cluster.hold_back = 5
    log = cluster.logs[0]
    found = list(reader(cluster).read(start=0, end=log.end))
    assert b"".join(batches.data for batches in found) == b"".join(log.batches)


def test_describe_needs_the_partition(cluster: FakeCluster) -> None:
    session = FakeSession(cluster, CONFIG)
    assert describe_topic(session, OFFSETS_TOPIC).leaders[0].epoch == 0
    with pytest.raises(BrokerError, match="there is no such partition: the topic has 1"):
        list(LogReader(session, OFFSETS_TOPIC, 7).read(start=0, end=1))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("bytes_per_second", [300, 5_000])
def test_a_pace_is_kept(cluster: FakeCluster, bytes_per_second: int) -> None:
    log = cluster.logs[0]
    log.append(300)
    cluster.is_even, cluster.response_bytes = True, 1 << 20
    clock = Clock()

    def takes_time(request: object) -> None:
        clock.now += 0.002

    cluster.before_request = takes_time
    pace = Pace(bytes_per_second, clock=clock, sleep=clock.sleep)
    total = 0
    for batches in reader(cluster, pace=pace).read(start=0, end=log.end):
        total += len(batches.data)
        assert len(batches.data) <= bytes_per_second
    assert total == sum(map(len, log.batches))
    assert total / (clock.now - 100.0) <= bytes_per_second
    assert total / (clock.now - 100.0) >= bytes_per_second * 0.6


class Throttled(ClusterSession):
    """A session whose broker answers that a quota is used up."""

    def __init__(self, throttle_ms: int) -> None:
        self.config = CONFIG
        self._throttle_ms = throttle_ms
        self._request_timeout_ms = 1000
        self.waited: list[object] = []

    def _run(self, work):  # type: ignore[no-untyped-def]
        self.waited.append(work)
        return type("Answer", (), {"throttle_time_ms": self._throttle_ms})()


def test_a_quota_is_waited_for() -> None:
    session = Throttled(250)
    session.call(object())
    assert len(session.waited) == 2
    session = Throttled(0)
    session.call(object())
    assert len(session.waited) == 1


def test_a_quota_that_asks_for_an_hour_is_an_error() -> None:
    session = Throttled(3_600_000)
    with pytest.raises(BrokerError, match=r"a quota holds this client back for 3600 s .*client id sexton"):
        session.call(object())
    assert len(session.waited) == 1
    assert THROTTLE_LIMIT_MS <= 60_000
