"""A real broker that lets us in and then stalls at a chosen request: whatever we do ends in time, and says so.

Beside test_stalls.py, where nobody gets in.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from sexton import cli, doctor
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import NEWEST
from sexton.coordinator.tombstones import encode_batches
from sexton.errors import SextonError
from sexton.java import find_java
from sexton.kafka import jars
from sexton.kafka.admin import commit_offsets, delete_group, delete_offsets, group_now
from sexton.kafka.append import append_tombstones
from sexton.kafka.broker_settings import reported_settings
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.collect_metadata import log_ends
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.rights import hidden, topic_states
from sexton.kafka.session import ClusterSession
from sexton.kafka.tail import TailReader
from sexton.kafka.topics import describe_topic
from sexton.settings import settings, variable
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.clients import make_topics
from tests.faults.stalling_proxy import StallingProxy, stalling_proxy
from tests.integration.test_admin import wait_for_coordinators
from tests.record_fields import encode_key

pytestmark = pytest.mark.thorough

PRODUCE, FETCH, LIST_OFFSETS, METADATA, COMMIT, OFFSET_FETCH, FIND, DESCRIBE, LIST = 0, 1, 2, 3, 8, 9, 10, 15, 16
DESCRIBE_CONFIGS, DELETE_GROUPS, OFFSET_DELETE = 32, 42, 47
CONNECT_S, REQUEST_S, RETRY_S = 1.0, 0.6, 0.6
DEADLINE_S = CONNECT_S + RETRY_S + 2 * REQUEST_S
"""What one operation may take: getting in, as long as it is tried again, and the attempt under way, which looks at the
cluster first."""
BUSY_S = 1.0
GROUP = "stalled"
PARTITIONS = 4


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, needs_broker: None) -> Iterator[StallingProxy]:
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    kafka, port, way = jars.ensure(settings().cache, "kafka"), free_port(), free_port()
    advertised = {
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{way}",
        "offsets.topic.num.partitions": str(PARTITIONS),
    }
    with stalling_proxy(port, way) as found:
        directory = tmp_path_factory.mktemp("stalls")
        with EmbeddedBroker(directory, port=port, java=java, jars=kafka, settings=advertised):
            with ClusterSession(config_of(found)) as session:
                wait_for_coordinators(session)
                make_topic(session)
            yield found
            found.stall(None)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"connect_timeout_ms": int(CONNECT_S * 1000), "request_timeout_ms": int(REQUEST_S * 1000)}
    monkeypatch.setattr(ClusterSession.__init__, "__kwdefaults__", {**short, "retry_for_s": RETRY_S})
    monkeypatch.setattr(doctor, "CONNECT_TIMEOUT_MS", short["connect_timeout_ms"])
    monkeypatch.setattr(doctor, "RETRY_FOR_S", RETRY_S)
    monkeypatch.setattr("sexton.kafka.append.PRODUCE_TIMEOUT_MS", 500)


def config_of(proxy: StallingProxy) -> ClientConfig:
    return client_config({}, bootstrap_servers=f"127.0.0.1:{proxy.port}")


def commit(session: ClusterSession) -> Any:
    return commit_offsets(session, GROUP, {("nowhere", 0): (1, -1, "")})


def make_topic(session: ClusterSession) -> None:
    """A topic to commit for, and a record in the log: an empty one is read without a Fetch."""
    make_topics(session.config, {"nowhere": 1})
    until = time.monotonic() + 30
    while set(commit(session).values()) != {None}:
        assert time.monotonic() < until
        time.sleep(0.2)


def tail(session: ClusterSession) -> Any:
    return TailReader(session, OFFSETS_TOPIC, partition_of(GROUP, PARTITIONS), from_log_offset=0).read()


def append(session: ClusterSession) -> Any:
    key = encode_key(1, {"group_id": GROUP, "topic": "gone", "partition": 0})
    batch = encode_batches([(GROUP, key)], base_offset=0, as_of_ms=1, profile=NEWEST)
    return append_tombstones(session.config, partition_of(GROUP, PARTITIONS), batch)


@dataclass(frozen=True)
class Stall:
    name: str
    work: Callable[[ClusterSession], Any]
    api: int
    how: str
    is_whole: bool = False
    """Whether what it is done with has to connect first."""


def check(session: ClusterSession) -> Any:
    return doctor.check_cluster(session.config)


STALLS = [
    Stall("list groups", list_groups, LIST, "silent"),
    Stall("list groups", list_groups, LIST, "throttled"),
    Stall("list groups", list_groups, LIST, "half_open"),
    Stall("committed offsets", lambda s: committed_offsets(s, GROUP), OFFSET_FETCH, "silent"),
    Stall("committed offsets", lambda s: committed_offsets(s, GROUP), OFFSET_FETCH, "slow"),
    Stall("committed offsets", lambda s: committed_offsets(s, GROUP), FIND, "silent"),
    Stall("committed offsets", lambda s: committed_offsets(s, GROUP), FIND, "throttled"),
    Stall("group now", lambda s: group_now(s, GROUP), DESCRIBE, "silent"),
    Stall("group now", lambda s: group_now(s, GROUP), DESCRIBE, "part"),
    Stall("apply: delete a group", lambda s: delete_group(s, GROUP), DELETE_GROUPS, "silent"),
    Stall("apply: delete a group", lambda s: delete_group(s, GROUP), DELETE_GROUPS, "half_open"),
    Stall("apply: delete offsets", lambda s: delete_offsets(s, GROUP, {"nowhere": [0]}), OFFSET_DELETE, "silent"),
    Stall("apply: delete offsets", lambda s: delete_offsets(s, GROUP, {"nowhere": [0]}), OFFSET_DELETE, "part"),
    Stall("apply: append", append, PRODUCE, "silent"),
    Stall("apply: the tail", tail, FETCH, "silent"),
    Stall("apply: the tail", tail, FETCH, "slow"),
    Stall("apply: the tail", tail, LIST_OFFSETS, "silent"),
    Stall("restore: commit", commit, COMMIT, "silent"),
    Stall("restore: commit", commit, COMMIT, "half_open"),
    Stall("restore: topics", lambda s: topic_states(s, ["nowhere"]), METADATA, "throttled"),
    Stall("drift check: what is hidden", hidden, METADATA, "silent"),
    Stall("fetch: log ends", lambda s: log_ends(s, describe_topic(s, OFFSETS_TOPIC)), LIST_OFFSETS, "throttled"),
    Stall("fetch: log ends", lambda s: log_ends(s, describe_topic(s, OFFSETS_TOPIC)), LIST_OFFSETS, "part"),
    *(
        Stall("settings", lambda s: reported_settings(s, OFFSETS_TOPIC), DESCRIBE_CONFIGS, how)
        for how in ("silent", "half_open", "slow", "part", "throttled")
    ),
    Stall("doctor", check, METADATA, "slow", is_whole=True),
    Stall("doctor", check, METADATA, "half_open", is_whole=True),
]


@pytest.mark.parametrize("stall", STALLS, ids=lambda stall: f"{stall.name}, {stall.api} {stall.how}")
def test_an_operation_ends_in_time(stall: Stall, proxy: StallingProxy, impatient: None) -> None:
    proxy.stall(None)
    with ClusterSession(config_of(proxy), connect_timeout_ms=10_000) as session:
        proxy.stall(stall.api, stall.how)
        begun = time.monotonic()
        try:
            with pytest.raises(SextonError) as caught:
                stall.work(session)
            took_s = time.monotonic() - begun
        finally:
            hits = proxy.hits
            proxy.stall(None)
    assert hits, "nothing was stalled"
    assert len(str(caught.value).splitlines()) == 1
    if stall.how == "throttled":
        assert "a quota holds this client back for 3600 s" in str(caught.value)
    # The tenth is promised, the rest is a busy machine's.
    assert took_s < DEADLINE_S * 1.1 + BUSY_S


def test_an_admin_client_takes_no_answer_for_a_log_end(proxy: StallingProxy) -> None:
    """Why it is not asked for them (sexton.kafka); when this fails, one reason is gone."""
    proxy.stall(None)
    admin = AdminClient({**config_of(proxy).for_confluent(), "log_level": 0})
    asked = {TopicPartition("nowhere", 0): OffsetSpec.latest()}
    assert [end.result().offset for end in admin.list_offsets(asked).values()] == [0]
    proxy.stall(LIST_OFFSETS, "silent")
    ends = [end.result().offset for end in admin.list_offsets(asked, request_timeout=REQUEST_S).values()]
    proxy.stall(None)
    assert ends == [OFFSET_INVALID]


@pytest.mark.parametrize("how", ["silent", "slow", "part", "throttled"])
def test_a_snapshot_ends_in_time(how: str, proxy: StallingProxy, impatient: None, tmp_path: Path) -> None:
    """Its own patience: several requests, each within its deadline, and nothing in the archive that admin snapshots
    finished."""
    proxy.stall(FETCH, how)
    begun = time.monotonic()
    argv = ["snapshot", "--archive", str(tmp_path / "archive"), "--bootstrap-servers", f"127.0.0.1:{proxy.port}"]
    code = cli.main(argv)
    took_s, hits = time.monotonic() - begun, proxy.hits
    proxy.stall(None)
    assert (code, hits > 0) == (1, True)
    assert not list((tmp_path / "archive").rglob("cluster_metadata/*.json"))
    assert took_s < (PARTITIONS + 1) * DEADLINE_S * 1.1 + BUSY_S
