"""A plan applied to a real broker: groups of every kind, whole ones and single offsets, a commit that came in between,
a kill in the middle, orphans by the log sink, and the broker's own sweep of twins to compare with.

One broker and one plan for all tests, in their order.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.producer import ProduceRequest
from pyarrow import fs as pafs

from sexton.as_text import now_ms
from sexton.coordinator.partitioner import partition_of
from sexton.java import JavaHome
from sexton.kafka.admin import group_now
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import committed_offsets, list_groups
from sexton.kafka.session import ClusterSession
from sexton.kafka.tail import TailReader, TailRecord
from sexton.kafka.topics import describe_topic
from sexton.ledger.ledger import Ledger
from sexton.ledger.recorded_steps import own_actions
from sexton.log.batch import encode_batch
from sexton.plans.plan import Plan
from sexton.plans.read_plan import read_plan
from sexton.policy import read_policy
from sexton.settings import environment
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.aged import age
from tests.clients import commit_when_ready, joined, make_topics
from tests.integration import stages
from tests.integration.streams_client import streams_member
from tests.log_builder import commit
from tests.record_fields import decode_key
from tests.waiting import until

LOCAL = pafs.LocalFileSystem()
LOG_PARTITIONS = 4
RETENTION_S = 60
HOUR_MS = 3_600_000
KINDS = ("classic", "consumer", "streams", "simple")
TWIN = "twin-"
POLICY = """\
version: 1
limits: {max_offsets: 1000, max_groups: 1000, max_share_of_groups: 1.0, max_share_of_owner: 1.0}
holds:
  - {name: twins, match: {prefix: twin-}, kind: operational, owner: us, reason: the broker sweeps them, ticket: T-1}
rules:
  - {name: all, match: {regex: '.*'}, retention: 1m, owner: us, reason: a minute is enough here, ticket: T-2}
"""

pytestmark = pytest.mark.timeout(900)


@dataclass
class World:
    """A broker with groups, and a plan of what a minute's retention would take of them."""

    broker: EmbeddedBroker
    clients: ClientConfig
    folder: Path
    plan: Plan
    before: dict[str, Any]

    @property
    def archive(self) -> Path:
        return self.folder / "archive"

    @property
    def plan_id(self) -> str:
        return self.plan.record.plan_id

    @property
    def ledger(self) -> Ledger:
        return Ledger(LOCAL, str(self.archive), self.plan.record.cluster_id, self.plan_id)

    def apply(self, *options: str, **variables: str) -> tuple[int, dict[str, Any]]:
        """`sexton apply`; its exit code and what it printed."""
        command = [str(Path(sys.executable).with_name("sexton")), "apply", self.plan_id, "--json"]
        command += [f"--archive={self.archive}", f"--bootstrap-servers={self.clients.bootstrap_servers}"]
        command += [f"--policy={self.folder / 'policy.yaml'}", *options]
        done = subprocess.run(
            command,
            env=environment(SEXTON_HOME=str(self.folder), **variables),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode in (0, 1, -signal.SIGKILL), done.stderr
        return done.returncode, json.loads(done.stdout) if done.stdout else {}

    def offsets(self) -> dict[str, Any]:
        with ClusterSession(self.clients) as session:
            wait_until_loaded(session)
            return answers(session)

    def written(self) -> list[TailRecord]:
        """Every record since the plan was made, in all log partitions."""
        with ClusterSession(self.clients) as session:
            return [
                record
                for part, cut in self.plan.record.cuts.items()
                for record in TailReader(session, OFFSETS_TOPIC, part, from_log_offset=cut).records()
            ]


def wait_until_loaded(session: ClusterSession) -> None:
    """A coordinator that has not loaded its log partition yet leaves its groups out of a listing."""
    for group_id in {partition_of(f"g{number}", LOG_PARTITIONS): f"g{number}" for number in range(40)}.values():
        group_now(session, group_id)


def answers(session: ClusterSession) -> dict[str, Any]:
    """What the broker answers of every group: its type, its state, and its committed offsets."""
    return {
        group.group_id: {
            "kind": (group.group_type, group.state, group.protocol_type),
            "offsets": {
                key: (one.committed_offset, one.leader_epoch, one.metadata)
                for key, one in committed_offsets(session, group.group_id).items()
            },
        }
        for group in list_groups(session).groups
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("apply")
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    broker = EmbeddedBroker(folder / "broker", port=free_port(), java=java, jars=kafka_jars)
    clients = client_config({}, bootstrap_servers=broker.bootstrap_servers)
    with ExitStack() as stack:
        stack.callback(broker.stop)
        broker.start()
        make_first_group(clients)
        append_orphan(clients)
        begin(clients, kafka_jars)
        broker.stop()  # only a coordinator that loads it knows an offset that went past it
        age(broker.data, 1_000 * (RETENTION_S + 2))
        broker.start()
        stack.enter_context(member(clients, "partial", "other", protocol="consumer"))
        with ClusterSession(clients) as session:
            commit_when_ready(session, "orphaned", {("kept", 0): (3, -1, "")})  # so that the group stays
        time.sleep(0.05)
        plan = plan_of_now(clients, folder)
        made = World(broker=broker, clients=clients, folder=folder, plan=plan, before={})
        made.before = made.offsets()
        yield made


def make_first_group(clients: ClientConfig) -> None:
    make_topics(clients, {"kept": 3, "other": 1})
    with ClusterSession(clients) as session:
        commit_when_ready(session, "first", {("other", 0): (1, -1, "")})  # makes the offsets topic


def append_orphan(clients: ClientConfig) -> None:
    """An offset of a topic that nobody has: deleted, say, while no coordinator was there to see it."""
    now = now_ms()
    batch = encode_batch(
        [commit("orphaned", 5, "never", 0, commit_timestamp_ms=now - HOUR_MS, metadata="left behind")],
        base_offset=0,
        timestamp_ms=now - HOUR_MS,
    )
    part = partition_of("orphaned", LOG_PARTITIONS)
    Data = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=15_000,
        topic_data=[Data(name=OFFSETS_TOPIC, partition_data=[Data.PartitionProduceData(index=part, records=batch)])],
        max_version=12,
    )
    with ClusterSession(replace(clients, client_id="__admin_client")) as session:
        leader = describe_topic(session, OFFSETS_TOPIC).leaders[part]
        answer = session.call(request, node_id=leader.node_id)
    assert answer.responses[0].partition_responses[0].error_code == 0


def begin(clients: ClientConfig, jars: list[Path]) -> None:
    """Groups of every kind without members, twins of them, and groups with single offsets that are due."""
    offsets = {("kept", 0): (11, 1, "eleven"), ("kept", 2): (13, -1, ""), ("other", 0): (1, -1, "м")}
    for prefix in ("", TWIN):
        for protocol in ("classic", "consumer"):
            with member(clients, f"{prefix}{protocol}", "kept", protocol=protocol):
                time.sleep(0.2)
        with ClusterSession(clients) as session:
            with streams_member(session, f"{prefix}streams", ["kept"], jars=jars):
                pass
            for kind in KINDS:
                commit_when_ready(session, f"{prefix}{kind}", offsets)
    with ClusterSession(clients) as session:
        partial = {("kept", 0): (21, -1, ""), ("kept", 1): (22, -1, ""), ("other", 0): (0, -1, "")}
        commit_when_ready(session, "partial", partial)  # its member will be one of the other topic
        commit_when_ready(session, "changed", {("kept", 0): (1, -1, ""), ("kept", 1): (2, -1, "")})
        for number in range(8):
            commit_when_ready(session, f"many-{number}", {("kept", 0): (number, -1, ""), ("kept", 1): (7, -1, "m")})


@contextmanager
def member(clients: ClientConfig, group_id: str, topic: str, *, protocol: str) -> Iterator[None]:
    """A member that polls until the block ends."""
    consumer = joined(clients, group_id, topic, protocol=protocol)
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            consumer.poll(0.2)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        consumer.close()


def plan_of_now(clients: ClientConfig, out: Path) -> Plan:
    """What the stages make of the cluster as it is, kept in the archive as publishing keeps it."""
    at = {"as_of_ms": now_ms(), "settle_ms": 300}
    stages.snapshot(clients, out / "archive", **at)
    record = stages.plan(out / "archive", out / "run", policy=read_policy(out / "policy.yaml"), **at)
    return read_plan(LOCAL, str(out / "archive"), None, str(record.plan_id))


def planned(world: World, *group_ids: str) -> set[bytes]:
    rows = world.plan.tombstones.select(["group_id", "key"]).to_pylist()
    return {row["key"] for row in rows if not group_ids or row["group_id"] in group_ids}


def test_the_plan_is_what_it_should_be(world: World) -> None:
    rows = world.plan.tombstones.to_pylist()
    assert {row["group_id"] for row in rows} == {
        *KINDS,
        *(f"many-{number}" for number in range(8)),
        *("partial", "changed", "orphaned", "first"),
    }
    assert {row["topic"] for row in rows if row["group_id"] == "orphaned"} == {"never"}
    assert {(row["topic"], row["record_type"]) for row in rows if row["group_id"] == "partial"} == {("kept", 1)}
    assert world.plan.record.over_limits == []


def test_it_dies_in_the_middle_and_goes_on(world: World) -> None:
    with ClusterSession(world.clients) as session:
        commit_when_ready(session, "changed", {("kept", 1): (99, -1, "newer")})
    options = ("--sink=coordinator", "--approved-by=ann", f"--plan-sha256={world.plan.sha256}")
    assert world.apply(*options, SEXTON_FAILPOINT="apply.called:3")[0] == -signal.SIGKILL
    code, told = world.apply(*options)
    counts = told["counts"]
    assert code == 1  # the orphan
    assert counts["changed_since"] == len(planned(world, "changed"))
    assert counts["refused"] == 1
    assert counts["done"] == world.plan.tombstones.num_rows - counts["changed_since"] - 1
    assert [each["error"] for each in told["notable"] if each["outcome"] == "refused"] == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert told["attempt"] == 2
    assert told["windows"]["max_ms"] > 0


def test_everything_else_is_as_it_was(world: World) -> None:
    expected = {group_id: told for group_id, told in world.before.items() if group_id not in KINDS}
    for group_id in [*expected]:
        if group_id.startswith("many-") or group_id == "first":
            del expected[group_id]
    left = {("other", 0): expected["partial"]["offsets"]["other", 0]}
    expected["partial"] = {**expected["partial"], "offsets": left}
    changed = {**expected["changed"]["offsets"], ("kept", 1): (99, None, "newer")}
    expected["changed"] = {**expected["changed"], "offsets": changed}
    assert world.offsets() == expected
    with ClusterSession(world.clients) as session:
        assert not any(group_now(session, kind).exists for kind in KINDS)


def test_the_log_has_the_plans_tombstones_and_no_others(world: World) -> None:
    found = [record.key for record in world.written() if record.value is None and not record.is_control]
    expected = planned(world) - planned(world, "changed", "orphaned")
    assert len(found) == len(expected)
    assert set(found) == expected
    removed, _ = own_actions(LOCAL, str(world.archive), world.plan.record.cluster_id)
    offsets = {row["key"]: row for row in world.plan.tombstones.to_pylist() if row["topic"] is not None}
    for record in world.written():
        if record.value is None and record.key in offsets:
            row = offsets[record.key]
            (act,) = removed[row["group_id"], row["topic"], row["partition"]]
            assert act.overlaps(record.timestamp_ms, record.timestamp_ms)


def test_orphans_go_by_the_log_and_a_restart_proves_it(world: World) -> None:
    before = world.offsets()
    assert before["orphaned"]["offsets"]["never", 0] == (5, None, "left behind")
    options = ("--sink=log", "--allow-log-sink", "--approved-by=ann")
    code, told = world.apply(*options)
    assert (code, told["counts"].get("refused")) == (0, None)
    assert world.offsets() == before  # nobody has told the coordinator
    assert {record.key for record in world.written() if record.value is None} >= planned(world, "orphaned")
    world.broker.stop()
    world.broker.start()
    after = world.offsets()
    assert after["orphaned"]["offsets"] == {("kept", 0): (3, None, "")}
    del before["orphaned"]["offsets"]["never", 0]
    assert {name: told["offsets"] for name, told in after.items()} == {
        name: told["offsets"] for name, told in before.items()
    }


def test_the_brokers_own_sweep_writes_the_same_of_twins(world: World, java: JavaHome, kafka_jars: list[Path]) -> None:
    """Last, for it takes what is left: the broker comes back with the retention that the plan was made by."""
    world.broker.stop()
    sweeping = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "2000"}
    broker = EmbeddedBroker(
        world.broker.directory, port=world.broker.port, java=java, jars=kafka_jars, settings=sweeping
    )
    broker.start()
    try:
        until(lambda: not any(name.startswith(TWIN) for name in world.offsets()), every_s=0.5)
        by_group: dict[str, list[Any]] = {}
        for record in world.written():
            if record.value is None and record.key is not None and not record.is_control:
                record_type, key = decode_key(record.key)
                told = (record_type, *(value for name, value in sorted(key.items()) if name != "group_id"))
                by_group.setdefault(key["group_id"], []).append(told)
        for kind in KINDS:
            ours, theirs = by_group[kind], by_group[TWIN + kind]
            # The order of a group's offsets is that of a hash table: nobody's to claim.
            assert sorted(ours, key=str) == sorted(theirs, key=str)
            assert [told for told in ours if told[0] > 1] == [told for told in theirs if told[0] > 1]
    finally:
        broker.stop()
        world.broker.start()
        os.sync()
