"""What the clients of `make up` are made of; tests/integration/test_first_hour.py has them work on a real broker."""

from sexton.coordinator.partitioner import partition_of
from sexton_dev.broker import DEFAULT_SETTINGS
from sexton_dev.example_clients import BROKER_SETTINGS, IMPORTS, JOBS, ROUND_S, SERVICES, TOPICS

LOG_PARTITIONS = int(DEFAULT_SETTINGS["offsets.topic.num.partitions"])


def test_what_expires_of_two_jobs_is_one_sweeps() -> None:
    assert IMPORTS.keys() <= JOBS.keys()
    assert len({partition_of(group_id, LOG_PARTITIONS) for group_id in IMPORTS}) == 1
    assert all(JOBS[group_id] != topic for group_id, topic in IMPORTS.items())


def test_jobs_commit_before_their_offsets_expire() -> None:
    assert 60 * int(BROKER_SETTINGS["offsets.retention.minutes"]) > 2 * ROUND_S


def test_every_topic_is_made() -> None:
    used = {*JOBS.values(), *IMPORTS.values(), *(topic for topic, _ in SERVICES.values())}
    assert used <= TOPICS.keys()
