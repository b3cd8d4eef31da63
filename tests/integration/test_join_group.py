"""JoinGroup, SyncGroup and Heartbeat of a broker, which has to answer what the plain model answers from its log."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest

from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.join import Join, JoinAnswer, join_group
from sexton.coordinator.profiles import of_broker
from sexton.java import JavaHome
from sexton.kafka.client import client_config
from sexton.kafka.session import ClusterSession
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.campaign.broker.command import PINNED_RELEASE
from tests.coordinator.api.broker import coordinator_of
from tests.integration.sweep_instants import make_offsets_topic
from tests.log_builder import subscription
from tests.waiting import until

LONG_MS, SHORT_MS = 60_000, 1_500
SETTINGS = {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0"}
PARTITION_COUNT = 4


class Group:
    """A group of a broker. Every request has a connection of its own: one that waits would hold back the others."""

    def __init__(self, broker: EmbeddedBroker, pool: ThreadPoolExecutor, group_id: str) -> None:
        self.group_id = group_id
        self._broker, self._pool = broker, pool

    def model(self, join: Join, **assumed: Any) -> JoinAnswer:
        """What is answered by the plain model, which has loaded the broker's log as it is now."""
        logs = {
            number: b"".join(
                path.read_bytes() for path in sorted((self._broker.data / f"__consumer_offsets-{number}").glob("*.log"))
            )
            for number in range(PARTITION_COUNT)
        }
        profile = of_broker(PINNED_RELEASE)
        return join_group(coordinator_of(logs, profile=profile, partition_count=PARTITION_COUNT), join, **assumed)

    def join(self, join: Join, *, session_ms: int = LONG_MS) -> "Future[Any]":
        Protocol = JoinGroupRequest.JoinGroupRequestProtocol
        request = JoinGroupRequest(
            group_id=join.group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=LONG_MS,
            member_id=join.member_id,
            group_instance_id=join.group_instance_id,
            protocol_type=join.protocol_type,
            protocols=[Protocol(name=name, metadata=subscription("t")) for name in join.protocols],
            min_version=join.api_version,
            max_version=join.api_version,
        )
        return self._pool.submit(self._call, request)

    def sync(self, member_id: str, generation: int, *assigned: str) -> "Future[Any]":
        """SyncGroup of a member; the leader's has what is `assigned`."""
        Assignment = SyncGroupRequest.SyncGroupRequestAssignment
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=member_id,
            assignments=[Assignment(member_id=one, assignment=b"\0\0\0\0\0\0\0\0\0\0") for one in assigned],
            max_version=3,
        )
        return self._pool.submit(self._call, request)

    def heartbeat(self, member_id: str, generation: int) -> Error:
        request = HeartbeatRequest(group_id=self.group_id, generation_id=generation, member_id=member_id, max_version=3)
        return Error(self._call(request).error_code)

    @property
    def state(self) -> str:
        (described,) = self._call(DescribeGroupsRequest(groups=[self.group_id], max_version=4)).groups
        return str(described.group_state)

    def made_stable(self, *instances: str) -> tuple[int, dict[str, str]]:
        """Let static members form the group, one after the other: its generation, and member ids by instance."""
        ids: dict[str, str] = {}
        generation = 0
        for instance in instances:
            joins = {instance: self.join(self.of(group_instance_id=instance))}
            if ids:
                until(lambda: self.state == "PreparingRebalance")
                joins |= {one: self.join(self.of(group_instance_id=one, member_id=ids[one])) for one in ids}
            answers = {one: future.result() for one, future in joins.items()}
            assert {answer.error_code for answer in answers.values()} == {0}
            ids = {one: answers[one].member_id for one in (*ids, instance)}
            generation, leader = answers[instance].generation_id, answers[instance].leader
            syncs = [self.sync(leader, generation, *ids.values())]
            syncs += [self.sync(member_id, generation) for member_id in ids.values() if member_id != leader]
            assert {future.result().error_code for future in syncs} == {0}
        return generation, ids

    def of(self, **fields: Any) -> Join:
        return Join(group_id=self.group_id, **{"api_version": 5, **fields})

    def _call(self, request: Any) -> Any:
        with ClusterSession(client_config({}, bootstrap_servers=self._broker.bootstrap_servers)) as session:
            return session.call(request)


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[EmbeddedBroker]:
    folder = tmp_path_factory.mktemp("join") / "broker"
    with EmbeddedBroker(folder, port=free_port(), java=java, jars=kafka_jars, settings=SETTINGS) as broker:
        make_offsets_topic(broker)
        yield broker


@pytest.fixture
def group(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[Group]:
    with ThreadPoolExecutor(8) as pool:
        yield Group(broker, pool, request.node.name)


@pytest.mark.parametrize("api_version", [4, 9])
def test_a_group_that_is_not_there(group: Group, api_version: int) -> None:
    known = group.of(member_id="m", api_version=api_version)
    assert group.model(known).error is Error(group.join(known).result().error_code) is Error.UNKNOWN_MEMBER_ID
    new = group.of(api_version=api_version)
    asked = group.model(new)
    assert (asked.is_new, asked.writes_record) == (True, True)
    assert asked.error is Error(group.join(new).result().error_code) is Error.MEMBER_ID_REQUIRED
    assert asked.group is not None
    assert asked.group.state == "Empty"
    until(lambda: group.state == "Empty", "no group was created")  # the answer does not wait for the record's append
    assert not group.model(new).is_new, "the broker has written its record"


def test_a_member_of_an_old_client_is_taken_at_once(group: Group) -> None:
    """The model shows the group before the initial delay ends, which the broker has set to nothing."""
    new = group.of(api_version=3)
    asked, answer = group.model(new), group.join(new).result()
    assert (asked.error, asked.is_new) == (Error(answer.error_code), True)
    assert asked.error is Error.NONE


def test_members_of_a_stable_group(group: Group) -> None:
    generation, ids = group.made_stable("i", "j")
    leader = ids["i"]
    for fields in (
        {"member_id": "x"}, {"protocols": ("roundrobin",)}, {"protocol_type": "connect"},
        {"member_id": "x", "group_instance_id": "i"}, {"member_id": leader, "group_instance_id": "k"},
        {"member_id": ids["j"], "group_instance_id": "j"},
    ):  # fmt: skip
        join = group.of(**fields)
        asked = group.model(join)
        answer = group.join(join).result()
        assert asked.error is Error(answer.error_code), fields
        assert asked.group is not None
        assert (group.state, generation) == (asked.group.state, asked.group.generation), fields
        assert group.heartbeat(leader, generation) is Error.NONE
    assert group.heartbeat(leader, generation - 1) is Error.ILLEGAL_GENERATION
    replaced = group.of(group_instance_id="j", api_version=9)
    asked, answer = group.model(replaced), group.join(replaced).result()
    assert (asked.error, group.state) == (Error(answer.error_code), "Stable")
    assert group.heartbeat(ids["j"], generation) is Error.UNKNOWN_MEMBER_ID
    assert group.heartbeat(answer.member_id, generation) is Error.NONE
    leads = group.of(member_id=leader, group_instance_id="i")
    asked, again = group.model(leads), group.join(leads)
    assert asked.group is not None
    assert asked.group.state == "PreparingRebalance"
    until(lambda: group.state == "PreparingRebalance")
    assert group.heartbeat(answer.member_id, generation) is Error.REBALANCE_IN_PROGRESS
    assert group.join(group.of(member_id=answer.member_id, group_instance_id="j")).result().error_code == 0
    assert again.result().generation_id == generation + 1
    stranger = group.of(api_version=9)  # last, since a rebalance waits for whoever has been given an id
    assert group.model(stranger).error is Error(group.join(stranger).result().error_code) is Error.MEMBER_ID_REQUIRED


@pytest.mark.parametrize("instance", ["new", "j"])
def test_who_waits_in_syncgroup(group: Group, instance: str) -> None:
    """Kept alive longer than its session, and answered when a new member, or its own successor, joins."""
    generation, ids = group.made_stable("i", "j")
    leader, follower = ids["i"], ids["j"]
    comes = group.of(group_instance_id=instance)
    asked = group.model(comes, syncing=[follower])
    stays = group.model(group.of(member_id=leader), syncing=[follower])

    rejoins = {one: group.of(member_id=member_id, group_instance_id=one) for one, member_id in ids.items()}
    joined = [group.join(rejoins["i"])]
    until(lambda: group.state == "PreparingRebalance")
    joined.append(group.join(rejoins["j"], session_ms=SHORT_MS))
    generation = joined[1].result().generation_id
    waits = group.sync(follower, generation)
    assert stays.group is not None
    assert asked.group is not None
    assert stays.group.generation == generation

    again = group.join(rejoins["i"]).result()
    here = (Error(again.error_code), again.generation_id, group.state)
    assert here == (stays.error, stays.group.generation, stays.group.state)
    assert [(one.awaits_sync, one.is_kept_alive) for one in stays.members] == [(False, False), (True, True)]
    deadline = time.monotonic() + (2 * SHORT_MS / 1_000 if instance == "new" else 0)
    while time.monotonic() < deadline:
        assert group.heartbeat(leader, generation) is Error.NONE
    assert not waits.done()

    coming = group.join(comes)
    answer = Error(waits.result().error_code).name
    assert answer == next(one.sync_error for one in asked.members if one.member_id == follower)
    assert (group.state, generation) == (asked.group.state, asked.group.generation)
    assert group.heartbeat(leader, generation) is Error.REBALANCE_IN_PROGRESS
    ended = [group.join(join) for one, join in rejoins.items() if one != instance]
    assert {Error(future.result().error_code) for future in (coming, *ended)} == {Error.NONE}
