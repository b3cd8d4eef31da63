"""A real broker that sweeps every four seconds: the sweeps seen so far say when the later ones come.

Groups commit offsets that are due at once, so that sweeps leave tombstones; the stamps of these are its sweeps. A
minute, so only with `--full`.
"""

import time
from bisect import bisect_left
from collections.abc import Container
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest

from sexton.analysis.sweep_clock import clock_of, clock_of_leader, gone
from sexton.archive.folder import filesystem
from sexton.archive.leader_epochs import led_from
from sexton.as_text import now_ms
from sexton.java import JavaHome
from sexton.kafka.client import client_config
from sexton.kafka.session import ClusterSession
from sexton.kafka.topics import describe_topic
from sexton.log.batch import Batch, read_batches, read_records
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.clients import commit_for, make_topics
from tests.integration.stages import snapshot
from tests.integration.test_admin import wait_for_coordinators
from tests.record_fields import decode_key
from tests.replicas_cluster import LOG_PARTITIONS as CLUSTER_LOG_PARTITIONS
from tests.replicas_cluster import A, B, C, ThreeBrokers

INTERVAL_MS, RUN_S, LOG_PARTITIONS = 4_000, 70, 4
LATE_MS = 500
"""A sweep that comes so much later shows that the broker did not run: nothing foretells that but the interval."""
DUE = {("t", 0): (1, "")}
"""An offset to be kept for a millisecond."""
MOVES, REIGN_S = 5, 18
"""How often the leader changes, and how long each leads at least."""
NOT_CLEANED = {"cleanup_policy": "delete", "retention_ms": "-1", "segment_ms": "604800000"}
pytestmark = [pytest.mark.full, pytest.mark.timeout(1_800)]


def sweeps_of(folder: Path, *, leader_epochs: Container[int] = range(1_000)) -> list[int]:
    """The stamps of tombstones of offsets, which nobody but the sweep writes here, by leaders of these epochs."""
    stamps: set[int] = set()
    for path in sorted(folder.glob("*.log")):
        for batch in read_batches(path.read_bytes()):
            if isinstance(batch, Batch) and not batch.is_control and batch.leader_epoch in leader_epochs:
                gone_here = (
                    one for one in read_records(batch, cap_bytes=1 << 24) if one.value is None and is_offset(one.key)
                )
                stamps |= {record.timestamp_ms for record in gone_here}
    return [at_ms for at_ms in sorted(stamps) if not any(0 < at_ms - other <= 1_000 for other in stamps)]


def is_offset(key: bytes | None) -> bool:
    return key is not None and decode_key(key)[0] in (0, 1)


def test_sweeps_come_when_they_are_foretold(
    tmp_path: Path, java: JavaHome, kafka_jars: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"offsets.retention.check.interval.ms": str(INTERVAL_MS)}
    rng, found = Random(3), []
    with EmbeddedBroker(tmp_path / "b", port=free_port(), java=java, jars=kafka_jars, settings=settings) as broker:
        config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        make_topics(config, {"t": 1})
        with ClusterSession(config) as session:
            wait_for_coordinators(session)
            ends = time.monotonic() + RUN_S
            for number in count():
                commit_for(session, f"group-{number % 40}", DUE)
                time.sleep(0.1)
                if time.monotonic() > ends:
                    break
    for part in range(LOG_PARTITIONS):
        sweeps = sweeps_of(broker.data / f"__consumer_offsets-{part}")
        assert len(sweeps) >= 10
        for seen in range(1, len(sweeps) - 4):
            clock = clock_of(sweeps[:seen], check_interval_ms=INTERVAL_MS)
            for _ in range(20):
                due_ms = sweeps[seen - 1] + 1 + rng.randrange(4 * INTERVAL_MS)
                swept_ms = sweeps[bisect_left(sweeps, due_ms)]
                told = gone(clock, due_ms, check_interval_ms=INTERVAL_MS)
                assert told.expected_ms is not None
                inside = told.earliest_ms <= swept_ms <= told.latest_ms
                ahead = [sweeps[seen - 1], *(each for each in sweeps[seen:] if each <= swept_ms)]
                is_on_time = all(after - before < INTERVAL_MS + LATE_MS for before, after in pairwise(ahead))
                found.append((abs(told.expected_ms - swept_ms), inside, is_on_time))
    off = sorted(off_ms for off_ms, _, is_on_time in found if is_on_time)
    with capsys.disabled():
        half, most = off[len(off) // 2], off[len(off) * 95 // 100]
        print(
            f"\n{len(found)} predictions, {len(off)} without a late sweep: half within {half} ms, 95 % within {most} ms"
        )
    assert all(inside for _, inside, _ in found)
    assert len(off) > len(found) / 2
    assert sum(off_ms <= 1_000 for off_ms in off) >= 0.95 * len(off)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reign:
    """What a leader did with a log partition: where it began to write, and when it swept."""

    begins_at: int
    sweeps_ms: list[int]


def reigns_of(folder: Path) -> list[Reign]:
    begins: dict[int, int] = {}
    for path in sorted(folder.glob("*.log")):
        for batch in read_batches(path.read_bytes()):
            if isinstance(batch, Batch):
                begins.setdefault(batch.leader_epoch, batch.base_offset)
    return [Reign(begins_at=at, sweeps_ms=sweeps_of(folder, leader_epochs=[epoch])) for epoch, at in begins.items()]


def test_sweeps_of_a_leader_on_another_broker(
    tmp_path: Path, java: JavaHome, kafka_jars: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The log partitions move between brokers whose sweeps have other phases. Until a sweep of the new leader was seen
    nothing is foretold; then its later ones are, and none of them by the phase of the leader before."""
    settings = {"offsets.retention.check.interval.ms": str(INTERVAL_MS)}
    order = [A, B, C, A, C, B][: MOVES + 1]
    with ThreeBrokers(tmp_path, java=java, jars=kafka_jars, settings=settings) as cluster:
        # Nothing is cleaned: the log keeps the tombstones of all sweeps.
        cluster.configure(**NOT_CLEANED)
        rng = Random(4)
        for leader in order:
            cluster.elect(leader)
            ends = time.monotonic() + REIGN_S + rng.random() * INTERVAL_MS / 1_000
            with ClusterSession(cluster.config) as session:
                for number in count():
                    commit_for(session, f"group-{number % 40}", DUE)
                    time.sleep(0.1)
                    if time.monotonic() > ends:
                        break
        archive = str(tmp_path / "archive")
        taken = snapshot(cluster.config, archive)
        with ClusterSession(cluster.config) as session:
            topic_id = describe_topic(session, "__consumer_offsets").topic_id
        reigns = [
            reigns_of(cluster.brokers[A].data / f"__consumer_offsets-{part}") for part in range(CLUSTER_LOG_PARTITIONS)
        ]
    off, late, unknown, by_the_old_phase = [], 0, 0, []
    for part, of_partition in enumerate(reigns):
        where = {"cluster_id": taken.cluster_id, "topic_id": str(topic_id), "log_partition": part}
        begins_at = led_from(*filesystem(archive), **where, as_of_ms=now_ms(), back_to=0)
        assert begins_at == of_partition[-1].begins_at, "the archive knows it as well"
        led = [number for number, reign in enumerate(of_partition) if reign.sweeps_ms]
        assert len(led) >= len(order)
        for before, number in pairwise(led):
            so_far, sweeps = of_partition[: number + 1], of_partition[number].sweeps_ms
            earlier = [(reign.begins_at, at_ms) for reign in so_far[:-1] for at_ms in reign.sweeps_ms]
            begins_at = so_far[-1].begins_at
            assert clock_of_leader(earlier, led_from=begins_at, check_interval_ms=INTERVAL_MS) is None
            unknown += 1
            by_the_old_phase.append((sweeps[0] - of_partition[before].sweeps_ms[-1]) % INTERVAL_MS)
            for seen in range(1, len(sweeps)):
                known = [*earlier, *((begins_at, at_ms) for at_ms in sweeps[:seen])]
                clock = clock_of_leader(known, led_from=begins_at, check_interval_ms=INTERVAL_MS)
                due_ms = sweeps[seen - 1] + 1 + rng.randrange(INTERVAL_MS // 2)
                told = gone(clock, due_ms, check_interval_ms=INTERVAL_MS)
                assert told.expected_ms is not None
                if sweeps[seen] - sweeps[seen - 1] < INTERVAL_MS + LATE_MS:
                    assert told.earliest_ms <= sweeps[seen] <= told.latest_ms
                    off.append(abs(told.expected_ms - sweeps[seen]))
                else:
                    late += 1
    off.sort()
    with capsys.disabled():
        print(
            f"\n{unknown} changes of leader, each unknown until its first sweep; {len(off)} sweeps foretold after one, "
            f"half within {off[len(off) // 2]} ms, 95 % within {off[len(off) * 95 // 100]} ms, {late} came late; the "
            f"old phase would be wrong by {sorted(by_the_old_phase)} ms"
        )
    assert len(off) > late
    assert sum(off_ms <= 1_000 for off_ms in off) >= 0.95 * len(off)
