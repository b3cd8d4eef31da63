"""`sexton lag` on a real broker, by a principal that may read no message: every interval contains the truth, which is
read back from the messages by another one."""

import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from sexton.as_text import now_ms
from sexton.cli import main
from sexton.java import JavaHome
from sexton.kafka.session import ClusterSession
from sexton.lag.measure_lag import measure
from sexton_dev.workload import wait
from tests.clients import admin_of, commit_when_ready, make_topics
from tests.commands import sexton
from tests.integration.secure_broker import READER, SecureCluster, secure_cluster
from tests.integration.test_admin import wait_for_coordinators
from tests.integration.test_documented_acls import SHELL
from tests.lag_tables import instant_of
from tests.plain_lag import Committed, LogRange

APPENDED, CREATED, QUIET = "appended", "created", "quiet"
PARTITIONS = 6
TIMEOUT_S = 60
LOOKUPS = 3
GROUPS = 12
SLACK_MS = 1_000
INSTANTS, OFFSETS_AN_INSTANT = 200, 45
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@dataclass
class Truth:
    """What is read back: timestamps by partition and offset, and the instants at which groups and logs were seen."""

    timestamps: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    lookups: list[dict[str, Any]] = field(default_factory=list)
    """The answers of the live looks, in order."""

    ends: list[dict[tuple[str, int], int]] = field(default_factory=list)
    """Where the logs ended at each."""

    moved: list[tuple[int, int]] = field(default_factory=list)
    """When the records between two lookups were written: never before the first instant, nor after the second."""

    def lag_ms(self, key: tuple[str, int], offset: int, as_of_ms: int, end: int) -> int:
        """The lag at an instant at which the log ended at `end`."""
        if offset >= end:
            return 0
        newest = list(accumulate(self.timestamps[key], max))
        return max(0, as_of_ms - newest[offset])


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[SecureCluster]:
    """The reader has what docs/security.md grants it: DESCRIBE on all topics, READ on the offsets topic alone."""
    with secure_cluster(tmp_path_factory.mktemp("lag"), java=java, jars=kafka_jars) as cluster:
        admin = admin_of(cluster.all_powerful)
        topics = [
            NewTopic(APPENDED, PARTITIONS, 1, config={"message.timestamp.type": "LogAppendTime"}),
            NewTopic(CREATED, PARTITIONS, 1, config={"message.timestamp.after.max.ms": str(DAY_MS)}),
            NewTopic(QUIET, 1, 1),
        ]
        wait(admin.create_topics(topics))
        wait(admin.create_acls([acl.binding() for acl in SHELL if acl.principal == f"User:{READER}"]))
        yield cluster


def produce(cluster: SecureCluster, rng: Random, *, age_ms: int) -> None:
    """Steady traffic, several records in a millisecond, and timestamps of some age that go back and forth by a day."""
    producer = Producer({**cluster.all_powerful.for_confluent(), "log_level": 0, "linger.ms": 0})
    for _ in range(40):
        for topic in (APPENDED, CREATED):
            for number in range(PARTITIONS):
                for _ in range(rng.randint(0, 3)):
                    now_ms = time.time_ns() // 1_000_000
                    at_ms = now_ms - age_ms - rng.choice((0, 0, 1, rng.randrange(DAY_MS), -rng.randrange(10_000)))
                    producer.produce(topic, b"x", partition=number, timestamp=at_ms)
        producer.flush(TIMEOUT_S)
    assert not len(producer)


def commit(cluster: SecureCluster, rng: Random, ends: dict[tuple[str, int], int]) -> None:
    """Anywhere in the logs, at their ends as well."""
    with ClusterSession(cluster.all_powerful) as session:
        for group in range(GROUPS):
            offsets = {key: (rng.choice((rng.randint(0, end), end)), -1, "") for key, end in ends.items()}
            commit_when_ready(session, f"group-{group}", offsets)


def ends_of(cluster: SecureCluster) -> dict[tuple[str, int], int]:
    consumer = Consumer({**cluster.all_powerful.for_confluent(), "group.id": "unused", "log_level": 0})
    keys = [*((topic, number) for topic in (APPENDED, CREATED) for number in range(PARTITIONS)), (QUIET, 0)]
    found = {key: consumer.get_watermark_offsets(TopicPartition(*key), TIMEOUT_S)[1] for key in keys}
    consumer.close()
    return found


def read_back(cluster: SecureCluster, ends: dict[tuple[str, int], int]) -> dict[tuple[str, int], list[int]]:
    consumer = Consumer({**cluster.all_powerful.for_confluent(), "group.id": "unused", "log_level": 0})
    consumer.assign([TopicPartition(*key, 0) for key in ends])
    found: dict[tuple[str, int], list[int]] = {key: [] for key in ends}
    while any(len(found[key]) < end for key, end in ends.items()):
        for message in consumer.consume(500, 0.5):
            stamps = found[message.topic(), message.partition()]
            assert message.offset() == len(stamps)
            stamps.append(message.timestamp()[1])
    consumer.close()
    return found


told = partial(sexton, "lag")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lag-archive")


@pytest.fixture(scope="module")
def client_file(cluster: SecureCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lag-client") / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in cluster.properties(READER).items()))
    return path


@pytest.fixture(scope="module")
def truth(cluster: SecureCluster, archive: Path, client_file: Path) -> Truth:
    """Lookups between which everything moves; nothing moves while one is taken.

    Each time the records are newer by an hour: between two lookups the appends say more than timestamps do.
    """
    rng, truth = Random(7), Truth()
    with ClusterSession(cluster.all_powerful) as session:
        wait_for_coordinators(session)
    for number in range(LOOKUPS):
        began_ms = now_ms()
        produce(cluster, rng, age_ms=(LOOKUPS - number) * HOUR_MS)
        truth.moved.append((began_ms, now_ms()))
        truth.ends.append(ends_of(cluster))
        commit(cluster, rng, truth.ends[-1])
        time.sleep(0.05)
        truth.lookups.append(told("--client-config", client_file, "--archive", archive))
        time.sleep(0.5)
    truth.timestamps = read_back(cluster, truth.ends[-1])
    return truth


def test_every_refined_lag_is_the_truth(truth: Truth) -> None:
    seen = 0
    for answer, ends in zip(truth.lookups, truth.ends, strict=True):
        assert answer["lookup"]["rounds"] <= 31
        assert len(answer["offsets"]) == GROUPS * (2 * PARTITIONS + 1)
        for row in answer["offsets"]:
            key = row["topic"], row["partition"]
            lag_ms = truth.lag_ms(key, row["committed_offset"], answer["as_of_ms"], ends[key])
            assert row["lag_min_ms"] <= lag_ms <= row["lag_max_ms"], row
            assert row["lag"] == ends[key] - row["committed_offset"]
            assert row["lag_max_ms"] - row["lag_min_ms"] <= 1, row
            assert row["would_reset"] is row["held_at"] is None
            if row["lag"]:
                assert row["basis"] == "timestamps"
            seen += 1
    assert seen == LOOKUPS * GROUPS * (2 * PARTITIONS + 1)


def test_every_past_lag_has_the_truth_inside(truth: Truth, archive: Path) -> None:
    """108,000 (group, partition, instant), from the archive alone.

    A broker does not say when a record with a CreateTime was appended, so instants while such records come are left to
    the other topic. An interval of appends is held against the time in which the record was written.
    """
    rng, seen, bases = Random(11), 0, set()
    first_ms, last_ms = truth.moved[0][0], truth.lookups[-1]["as_of_ms"]
    newest = {key: [*accumulate(stamps, max)] for key, stamps in truth.timestamps.items()}
    keys = [key for key in newest if key[0] != QUIET]
    partitions = {
        key: LogRange(topic_id=None, log_start_offset=0, log_end_offset=end) for key, end in truth.ends[-1].items()
    }
    for _ in range(INSTANTS):
        as_of_ms = rng.randint(first_ms, last_ms + 1_000)
        done = sum(until_ms < as_of_ms for _, until_ms in truth.moved)
        is_moving = any(from_ms <= as_of_ms <= until_ms for from_ms, until_ms in truth.moved)
        committed, ends = [], {}
        for key in keys:
            ends[key] = (
                bisect_right(newest[key], as_of_ms) if key[0] == APPENDED else truth.ends[done - 1][key] if done else 0
            )
            for number in range(OFFSETS_AN_INSTANT):
                at = rng.randint(0, ends[key])
                committed.append(Committed(group_id=str(number), topic=key[0], partition=key[1], committed_offset=at))
        instant = instant_of(
            str(archive),
            committed,
            partitions,
            cluster_id=truth.lookups[-1]["cluster_id"],
            as_of_ms=as_of_ms,
            slack_ms=SLACK_MS,
        )
        for row in measure(instant).to_pylist():
            seen += 1
            key, offset = (row["topic"], row["partition"]), row["committed_offset"]
            if key[0] == CREATED and is_moving:
                continue
            bases.add(row["basis"])
            low_ms, high_ms = row["lag_min_ms"] or 0, row["lag_max_ms"]
            if offset >= ends[key]:
                assert low_ms == 0, row
            elif row["basis"] == "appends":
                at = next(number for number, seen_ends in enumerate(truth.ends) if offset < seen_ends[key])
                began_ms, ended_ms = truth.moved[at]
                assert low_ms <= as_of_ms - began_ms, row
                assert high_ms is None or high_ms >= as_of_ms - ended_ms, row
            else:
                lag_ms = max(0, as_of_ms - newest[key][offset])
                assert low_ms <= lag_ms, row
                assert high_ms is None or lag_ms <= high_ms, row
    assert seen == INSTANTS * OFFSETS_AN_INSTANT * len(keys) >= 100_000
    assert bases >= {"log_end", "timestamps", "appends"}


def test_a_past_look_is_answered_as_it_was(truth: Truth, archive: Path) -> None:
    """By the command, for the newest instant of the archive: the same rows without a broker."""
    now = told("--archive", archive)
    assert now["lookup"] is None
    assert (now["as_of_ms"], now["offsets"]) == (truth.lookups[-1]["as_of_ms"], truth.lookups[-1]["offsets"])


def test_as_a_table(truth: Truth, archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lag", "group-1", "--topic", f"{CREATED}:2", "--archive", str(archive)]) == 0
    out = capsys.readouterr().out
    assert "LAG-TIME" in out
    (row,) = [line for line in out.splitlines() if line.startswith("group-1")]
    assert row.split()[1:3] == [CREATED, "2"]


def test_no_message_was_read_and_none_can_be(cluster: SecureCluster) -> None:
    config = cluster.config(READER)
    consumer = Consumer({**config.for_confluent(), "group.id": "spy", "log_level": 0})
    consumer.assign([TopicPartition(APPENDED, 0, 0)])
    message = consumer.poll(TIMEOUT_S)
    assert message.error().name() == "TOPIC_AUTHORIZATION_FAILED"
    consumer.close()


@pytest.fixture(scope="module")
def hurt(cluster: SecureCluster, truth: Truth, archive: Path, client_file: Path) -> dict[str, dict[str, Any]]:
    """One group for each thing that may befall one, by a look after all of it; rows by group.

    Not planted: topics that are gone or made anew. A broker deletes the offsets of a topic with it.
    """
    assert truth.lookups
    config = cluster.all_powerful
    admin = make_topics(config, {"shrunk": 1, "held": 1})
    plain = Producer({**config.for_confluent(), "log_level": 0})
    for topic in ("shrunk", "held"):
        for _ in range(10):
            plain.produce(topic, b"x", partition=0)
    assert plain.flush(TIMEOUT_S) == 0
    with ClusterSession(config) as session:
        for group, topic, offset in (
            ("behind", "shrunk", 3),
            ("beyond", "shrunk", 11),
            ("in-range", "shrunk", 7),
            ("waits", "held", 10),
            ("lags", "held", 9),
        ):
            commit_when_ready(session, group, {(topic, 0): (offset, -1, "")})
    wait(admin.delete_records([TopicPartition("shrunk", 0, 5)]))
    open_one = Producer({**config.for_confluent(), "log_level": 0, "transactional.id": "open", "linger.ms": 0})
    open_one.init_transactions(TIMEOUT_S)
    open_one.begin_transaction()
    open_one.produce("held", b"x", partition=0)
    assert open_one.flush(TIMEOUT_S) == 0
    answer = told("--client-config", client_file, "--archive", archive)
    open_one.abort_transaction(TIMEOUT_S)
    return {row["group_id"]: row for row in answer["offsets"]}


def test_every_planted_reset_is_foretold(hurt: dict[str, dict[str, Any]]) -> None:
    found = {group: row["would_reset"] for group, row in hurt.items() if not group.startswith("group-")}
    assert found["behind"] == "behind_log_start"
    assert found["beyond"] == "beyond_log_end"
    assert found["in-range"] is found["waits"] is found["lags"] is None
    assert not any(row["would_reset"] for group, row in hurt.items() if group.startswith("group-"))
    assert hurt["behind"]["lag_max_ms"] is None


def test_a_group_at_an_open_transaction_is_held(hurt: dict[str, dict[str, Any]]) -> None:
    assert (hurt["waits"]["held_at"], hurt["lags"]["held_at"]) == (10, None)
