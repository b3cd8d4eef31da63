"""Random workloads of real clients: the fold of the bytes equals what the broker answers after a restart."""

from pathlib import Path

import pytest

from sexton.java import JavaHome
from sexton.kafka.broker import EmbeddedBroker, free_port
from tests.integration.differential import compare

pytestmark = pytest.mark.thorough

SEEDS, FULL_SEEDS = 8, 20


def test_the_log_says_what_the_broker_answers(
    tmp_path: Path, java: JavaHome, kafka_jars: list[Path], drawn: int, full: bool
) -> None:
    with EmbeddedBroker(tmp_path, port=free_port(), java=java, jars=kafka_jars) as broker:
        seeds = sorted({*range(1, (FULL_SEEDS if full else SEEDS) + 1), drawn})
        equal = compare(broker, seeds)
    assert equal > 20 * (len(seeds) - 1)
