"""Random workloads of real clients: the fold of the bytes equals what the broker answers after a restart."""

from pathlib import Path

import pytest

from sexton.java import JavaHome
from sexton.kafka.broker import EmbeddedBroker, free_port
from tests.integration.differential import compare

pytestmark = pytest.mark.thorough

SEEDS = 20


def test_the_log_says_what_the_broker_answers(
    tmp_path: Path, java: JavaHome, kafka_jars: list[Path], drawn: int
) -> None:
    with EmbeddedBroker(tmp_path, port=free_port(), java=java, jars=kafka_jars) as broker:
        equal = compare(broker, sorted({*range(1, SEEDS + 1), drawn}))
    assert equal > 20 * SEEDS
