"""Settings as brokers tell them: each decides for the log partitions that it leads."""

from sexton.kafka.client import client_config
from sexton.kafka.facts import OFFSETS_TOPIC, told_settings
from tests.kafka.fake_cluster import FakeCluster

CODEC = "offsets.topic.compression.codec"
CONFIG = client_config({}, bootstrap_servers="fake:9092")


def cluster(*values: str) -> FakeCluster:
    made = FakeCluster(1)
    made.brokers = {number: {CODEC: value, "log.dirs": str(number)} for number, value in enumerate(values, start=1)}
    return made


def test_brokers_that_agree() -> None:
    told, warnings = told_settings(cluster("3", "3", "3").connect(CONFIG), OFFSETS_TOPIC)
    assert (told.broker, told.brokers_differ, warnings) == ({CODEC: "3"}, {}, [])


def test_brokers_that_differ_are_said() -> None:
    """And the one with the lowest id is taken."""
    made = cluster("3", "0")
    made.brokers[2]["offset.metadata.max.bytes"] = "9"
    told, warnings = told_settings(made.connect(CONFIG), OFFSETS_TOPIC)
    assert told.broker == {CODEC: "3"}
    assert told.brokers_differ == {CODEC: {"1": "3", "2": "0"}, "offset.metadata.max.bytes": {"1": "", "2": "9"}}
    assert warnings == [
        "brokers differ in offset.metadata.max.bytes: not told on broker 1, 9 on broker 2; that of broker 1 is taken "
        "for all",
        f"brokers differ in {CODEC}: 3 on broker 1, 0 on broker 2; that of broker 1 is taken for all",
    ]


def test_a_broker_that_gives_no_answer_is_said() -> None:
    made = cluster("3", "0", "3")
    made.dead = {2}
    told, warnings = told_settings(made.connect(CONFIG), OFFSETS_TOPIC)
    assert (told.broker, told.brokers_differ) == ({CODEC: "3"}, {})
    assert warnings == ["the settings of broker 2 are not known, those of broker 1 are taken: broker 2 gives no answer"]
