"""Random workloads of real clients: the fold of the bytes equals what the broker answers after a restart."""

import random
from pathlib import Path

from sexton.java import JavaHome
from sexton.kafka.broker import EmbeddedBroker, free_port
from tests.integration.differential import compare

SEEDS = 20


def test_the_log_says_what_the_broker_answers(tmp_path: Path, java: JavaHome, kafka_jars: list[Path]) -> None:
    drawn = random.randrange(1_000, 1_000_000)
    print(f"random seed: {drawn}")  # shown where the test fails
    with EmbeddedBroker(tmp_path, port=free_port(), java=java, jars=kafka_jars) as broker:
        equal = compare(broker, [*range(1, SEEDS + 1), drawn])
    assert equal > 20 * SEEDS
