"""A real broker that sweeps every four seconds: the sweeps seen so far say when the later ones come.

Groups commit offsets that are due at once, so that sweeps leave tombstones; the stamps of these are its sweeps. A
minute, so only with `--full`.
"""

import time
from bisect import bisect_left
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.consumer import OffsetCommitRequest

from sexton.analysis.sweep_clock import clock_of, gone
from sexton.java import JavaHome
from sexton.kafka.broker import EmbeddedBroker, free_port
from sexton.kafka.client import client_config
from sexton.kafka.group_state import find_coordinator
from sexton.kafka.session import ClusterSession
from sexton.log.batch import Batch, read_batches, read_records
from tests.integration.test_admin import wait_for_coordinators
from tests.record_fields import decode_key

INTERVAL_MS, RUN_S, LOG_PARTITIONS = 4_000, 70, 4
LATE_MS = 500
"""A sweep that comes so much later shows that the broker did not run: nothing foretells that but the interval."""
pytestmark = pytest.mark.full


def sweeps_of(folder: Path) -> list[int]:
    """The stamps of tombstones of offsets, which nobody but the sweep writes here."""
    stamps: set[int] = set()
    for path in sorted(folder.glob("*.log")):
        for batch in read_batches(path.read_bytes()):
            if isinstance(batch, Batch) and not batch.is_control:
                gone_here = (
                    one for one in read_records(batch, cap_bytes=1 << 24) if one.value is None and is_offset(one.key)
                )
                stamps |= {record.timestamp_ms for record in gone_here}
    return [at_ms for at_ms in sorted(stamps) if not any(0 < at_ms - other <= 1_000 for other in stamps)]


def is_offset(key: bytes | None) -> bool:
    return key is not None and decode_key(key)[0] in (0, 1)


def commit_due_at_once(session: ClusterSession, group_id: str) -> None:
    """As clients could before KIP-211: to be kept for a millisecond."""
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic
    part = Topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = OffsetCommitRequest(
        version=4,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time_ms=1,
        topics=[Topic(name="t", partitions=[part])],
    )
    answer = session.call(request, node_id=find_coordinator(session, group_id))
    assert {one.error_code for topic in answer.topics for one in topic.partitions} == {0}


def test_sweeps_come_when_they_are_foretold(
    tmp_path: Path, java: JavaHome, kafka_jars: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"offsets.retention.check.interval.ms": str(INTERVAL_MS)}
    rng, found = Random(3), []
    with EmbeddedBroker(tmp_path / "b", port=free_port(), java=java, jars=kafka_jars, settings=settings) as broker:
        config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        admin = AdminClient({**config.for_confluent(), "log_level": 0})
        for made in admin.create_topics([NewTopic("t", 1, 1)]).values():
            made.result(60)
        with ClusterSession(config) as session:
            wait_for_coordinators(session)
            ends = time.monotonic() + RUN_S
            for number in count():
                commit_due_at_once(session, f"group-{number % 40}")
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
