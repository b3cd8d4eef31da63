"""Random workloads of real clients: the fold of the bytes equals what the broker answers after a restart."""

import random

from sexton.kafka.broker import EmbeddedBroker
from tests.integration.differential import compare

SEEDS = 20


def test_the_log_says_what_the_broker_answers(own_broker: EmbeddedBroker) -> None:
    drawn = random.randrange(1_000, 1_000_000)
    print(f"random seed: {drawn}")  # shown where the test fails
    equal = compare(own_broker, [*range(1, SEEDS + 1), drawn])
    assert equal > 20 * SEEDS
