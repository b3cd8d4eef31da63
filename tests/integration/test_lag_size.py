"""20,000 partitions refined to the millisecond: how long it takes, in how many rounds.

Minutes, so only with `--full`.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

from sexton.archive.time_bounds import Bounds
from sexton.java import JavaHome
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.session import ClusterSession
from sexton.kafka.time_points import refine
from sexton.ports import HOST
from sexton_dev.broker import EmbeddedBroker, new_cluster_id
from sexton_dev.ports import free_port
from tests.clients import make_topics

TOPICS, PARTITIONS, RECORDS = 200, 100, 20
SPAN_MS = 7 * 86_400_000
TIMEOUT_S = 300
LIMIT_S = 60

pytestmark = [pytest.mark.full, pytest.mark.timeout(1_800)]


@pytest.fixture
def config(tmp_path: Path, java: JavaHome, kafka_jars: list[Path]) -> Iterator[ClientConfig]:
    """Two brokers: each log is an open file, of which a process may have a few ten thousand."""
    ports, controller = [free_port(), free_port(), free_port()], 3
    cluster_id = new_cluster_id()
    with ExitStack() as stack:
        for node_id, port in enumerate(ports[::-1], start=1):
            node = 4 - node_id  # the controller first
            settings = {
                "process.roles": "controller" if node == controller else "broker", "node.id": str(node),
                "controller.quorum.voters": f"{controller}@{HOST}:{ports[2]}",
            }  # fmt: skip
            own = {"port": port, "java": java, "jars": kafka_jars, "settings": settings, "cluster_id": cluster_id}
            stack.enter_context(EmbeddedBroker(tmp_path / str(node), **own))
        yield client_config({}, bootstrap_servers=f"{HOST}:{ports[0]},{HOST}:{ports[1]}")


def test_twenty_thousand_partitions(config: ClientConfig, capsys: pytest.CaptureFixture[str]) -> None:
    rng, now_ms = Random(5), time.time_ns() // 1_000_000
    names = [f"topic-{number}" for number in range(TOPICS)]
    for at in range(0, TOPICS, 10):
        make_topics(config, dict.fromkeys(names[at : at + 10], PARTITIONS))
    producer = Producer({**config.for_confluent(), "log_level": 0, "queue.buffering.max.messages": 1_000_000})
    truth: dict[tuple[str, int], list[int]] = {}
    for name in names:
        for number in range(PARTITIONS):
            stamps = sorted(now_ms - rng.randrange(SPAN_MS) for _ in range(RECORDS))
            truth[name, number] = [*accumulate(stamps, max)]
            for stamp in stamps:
                producer.produce(name, b"x", partition=number, timestamp=stamp)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    nothing = Bounds(low_ms=None, high_ms=None)
    wanted = {key: {rng.randrange(RECORDS): nothing} for key in truth}
    with ClusterSession(config) as session:
        began = time.monotonic()
        found = refine(session, wanted, as_of_ms=now_ms, now_ms=lambda: now_ms)
        took_s = time.monotonic() - began
    with capsys.disabled():
        print(f"\n{len(wanted)} partitions: {took_s:.1f} s, {found.rounds} rounds, {found.questions} questions")
    assert not found.unanswered
    assert found.rounds <= 31
    for key, (offset,) in wanted.items():
        answers = [point for point in found.points[key] if point.source == "list_offsets"]
        newest = max(point.timestamp_ms for point in answers if point.timestamp_ms and point.offset <= offset)
        assert newest == truth[key][offset]
        assert any(point.offset == offset or point.asked_ms == newest + 1 for point in answers)
    assert took_s < LIMIT_S
