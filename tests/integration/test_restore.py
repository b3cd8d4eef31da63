"""Restores on a real broker: what was deleted comes back equal, from every source and for every type of group."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from pyarrow import fs as pafs

from sexton import cli
from sexton.as_text import now_ms
from sexton.java import JavaHome
from sexton.kafka.admin import commit_offsets, delete_group, delete_offsets, group_now
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import CommittedOffset, committed_offsets
from sexton.kafka.session import ClusterSession
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from sexton_dev.workload import QUIET, TIMEOUT_S, wait
from tests.clients import commit_for, commit_when_ready, joined, make_topics
from tests.environment import with_settings
from tests.integration import stages
from tests.integration.streams_client import streams_member
from tests.integration.test_broker import commit
from tests.waiting import until

LOCAL = pafs.LocalFileSystem()
LOG_PARTITIONS = 4
HOUR_MS = 3_600_000
RECORDS = 100
ORDERS, CLICKS = "orders", "clicks"
GIVEN = {(ORDERS, 1): (42, 0, "метка \u202e"), (CLICKS, 0): (17, -1, ""), (ORDERS, 2): (0, 3, "m" * 4_096)}
"""What is committed besides by members: (committed offset, leader epoch, metadata)."""
EVERY = {ORDERS: [0, 1, 2], CLICKS: [0]}
KINDS = ("classic", "consumer", "streams")
Offsets = dict[tuple[str, int], CommittedOffset]
"""What OffsetFetch answers of a group."""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]) -> Iterator[ClientConfig]:
    """A cluster with two topics of some records, and a first group: with it the coordinators are there."""
    with EmbeddedBroker(tmp_path_factory.mktemp("restore"), port=free_port(), java=java, jars=kafka_jars) as broker:
        config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        make_topics(config, {ORDERS: 3, CLICKS: 1})
        producer = Producer({**config.for_confluent(), **QUIET})
        for topic, partition in [(ORDERS, 0), (ORDERS, 1), (ORDERS, 2), (CLICKS, 0)]:
            for _ in range(RECORDS):
                producer.produce(topic, b"x", partition=partition)
        producer.flush(TIMEOUT_S)
        commit(config, group_id="first", count=1)
        yield config


@pytest.fixture(scope="module")
def session(there: ClientConfig) -> Iterator[ClusterSession]:
    with ClusterSession(there) as session:
        yield session


@dataclass
class Groups:
    """Makes groups of each type, with offsets by members and by an administrator, and without members in the end."""

    config: ClientConfig
    session: ClusterSession
    jars: list[Path]

    def make(self, kind: str, group_id: str) -> Offsets:
        """A group of a kind, Empty, and what it has committed."""
        if kind == "streams":
            with streams_member(self.session, group_id, [ORDERS], jars=self.jars) as member:
                assert set(member.commit({(ORDERS, 0): 7}).values()) == {None}
        else:
            consumer = joined(self.config, group_id, ORDERS, protocol=kind)
            consumer.commit(offsets=[TopicPartition(ORDERS, 0, 7, "by a member", 0)], asynchronous=False)
            consumer.close()
        commit_when_ready(self.session, group_id, GIVEN)
        now = group_now(self.session, group_id)
        assert (now.group_type, now.state) == (kind, "Empty")
        return committed_offsets(self.session, group_id)

    def let_expire(self, group_id: str) -> None:
        """Commit all that the group has once more, to be kept for a millisecond."""
        committed = committed_offsets(self.session, group_id)
        offsets = {place: (found.committed_offset, found.metadata) for place, found in committed.items()}
        commit_for(self.session, group_id, offsets)


@pytest.fixture(scope="module")
def groups(there: ClientConfig, session: ClusterSession, kafka_jars: list[Path]) -> Groups:
    return Groups(there, session, kafka_jars)


@dataclass
class Case:
    """An archive of a test's own of the cluster that all share, and what is told by commands there."""

    groups: Groups
    folder: Path
    told: pytest.CaptureFixture[str]

    @property
    def archive(self) -> Path:
        return self.folder / "archive"

    def snapshot(self) -> int:
        """Taken two hours from now, so that every instant of today has settled; the instant right before it."""
        as_of_ms = now_ms() + 1
        time.sleep(0.01)
        stages.snapshot(self.groups.config, self.archive, now_ms=lambda: now_ms() + 2 * HOUR_MS)
        return as_of_ms

    def plan(self, *, as_of_ms: int, retention_minutes: int) -> str:
        """A plan that the archive keeps; its plan_id."""
        own = {"as_of_ms": as_of_ms, "taken_at_ms": as_of_ms + HOUR_MS, "retention_minutes": retention_minutes}
        return str(stages.plan(self.archive, self.folder / "run", **own).plan_id)

    def sexton(self, command: str, *argv: object, code: int = 0) -> dict[str, Any]:
        """What a command tells of this archive, as JSON."""
        where = ["--archive", self.archive]
        where += [] if command == "explain" else ["--bootstrap-servers", self.groups.config.bootstrap_servers]
        got = cli.main([command, *map(str, (*argv, *where)), "--json"])
        out, err = self.told.readouterr()
        assert got == code, err
        return json.loads(out)

    def restore(self, *argv: object, code: int = 0) -> dict[str, Any]:
        return self.sexton("restore", *argv, code=code)


@pytest.fixture
def case(groups: Groups, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Case:
    return Case(groups, tmp_path, capsys)


@pytest.mark.parametrize("source", ["plan", "as_of"])
def test_what_was_deleted_comes_back_equal(source: str, case: Case, session: ClusterSession) -> None:
    """Groups deleted as a whole come back without their type; those that lost only offsets stay what they were."""
    names = {(kind, part): f"{source}-{kind}-{part}" for kind in KINDS for part in ("whole", "offsets")}
    before = {key: case.groups.make(key[0], name) for key, name in names.items()}
    as_of_ms = case.snapshot()
    # An hour from now everything is due by a retention of a minute that has no members.
    soon = {"as_of_ms": now_ms() + HOUR_MS, "retention_minutes": 1}
    where = ("--as-of", as_of_ms) if source == "as_of" else ("--from-plan", case.plan(**soon))
    for (_, part), name in names.items():
        if part == "whole":
            assert delete_group(session, name) is None
        else:
            assert set(delete_offsets(session, name, EVERY).values()) == {None}
        assert committed_offsets(session, name) == {}
    asked = (*where, "--pattern", f"{source}-.*")
    assert case.restore(*asked)["counts"] == {"restore": 4 * len(names)}
    assert case.restore(*asked, "--apply", "--approved-by", "ann")["counts"] == {"done": 4 * len(names)}
    for (kind, part), name in names.items():
        assert committed_offsets(session, name) == before[kind, part]
        assert len(before[kind, part]) == 4
        now = group_now(session, name)
        assert (now.group_type, now.state) == (kind if part == "offsets" else "classic", "Empty")
    again = case.restore(*asked)
    assert (again["restore_id"], set(again["counts"])) == (None, {"same"})


def test_a_plan_is_applied_and_undone(case: Case, session: ClusterSession) -> None:
    """By the commands alone: what `sexton apply` removes, its ledger puts back."""
    names = [f"undone-{kind}" for kind in KINDS]
    for kind, name in zip(KINDS, names, strict=True):
        case.groups.make(kind, name)
        case.groups.let_expire(name)
    before = {name: committed_offsets(session, name) for name in names}
    time.sleep(0.1)
    as_of_ms = now_ms()
    case.snapshot()
    with with_settings(SEXTON_MAX_SHARE_OF_GROUPS="1"):
        plan_id = case.plan(as_of_ms=as_of_ms, retention_minutes=10_080)
        applied = case.sexton("apply", plan_id, "--sink", "coordinator", "--approved-by", "ann")
    assert set(applied["counts"]) == {"done"}
    assert [committed_offsets(session, name) for name in names] == [{}, {}, {}]
    asked = ("--from-ledger", plan_id)
    shown = case.restore(*asked)
    assert shown["counts"] == {"restore": 12}
    done = case.restore(*asked, "--apply", "--approved-by", "ann")
    assert done["counts"] == {"done": 12}
    assert {name: committed_offsets(session, name) for name in names} == before
    case.snapshot()
    for name in names:  # the log tells of both: who took it, and who put it back
        details = [event["detail"] for event in case.sexton("explain", name)["events"]]
        assert any(detail.endswith(f"; by plan {plan_id[:12]}") for detail in details), details
        by_restore = f"4 commits of 4 partitions of clicks, orders; by restore {done['restore_id'][:12]}"
        assert any(detail.endswith(by_restore) for detail in details), details
    assert case.restore("--from-ledger", done["restore_id"])["warnings"] == [
        "12 offsets were not there before: only a plan can remove them"
    ]
    from_undo = case.restore("--from-plan", plan_id, "--apply", "--approved-by", "ann")
    assert from_undo["counts"] == {}
    assert from_undo["would"] == {"same": 12}


@pytest.mark.parametrize("kind", KINDS)
def test_groups_with_members_are_refused_and_why(kind: str, case: Case, session: ClusterSession) -> None:
    group_id = f"busy-{kind}"
    case.groups.make(kind, group_id)
    as_of_ms = case.snapshot()
    assert set(delete_offsets(session, group_id, EVERY).values()) == {None}
    source = ("--as-of", as_of_ms, "--group", group_id)
    shown = case.restore(*source)
    assert shown["counts"] == {"restore": 4}

    def refused() -> None:
        """The diff of now, and what was shown before, and the broker itself."""
        told = case.restore(*source)
        assert (told["restore_id"], told["counts"]) == (None, {"group_has_members": 4})
        assert {offset["error"] for offset in told["offsets"]} == {"UNKNOWN_MEMBER_ID"}
        done = case.restore("--id", shown["restore_id"], "--apply", "--approved-by", "ann", code=1)
        assert done["counts"] == {"refused": 4}
        assert {offset["error"] for offset in done["offsets"]} == {"UNKNOWN_MEMBER_ID"}
        answer = commit_offsets(session, group_id, {(CLICKS, 0): (1, -1, "")})
        assert answer == {(CLICKS, 0): "UNKNOWN_MEMBER_ID"}
        assert committed_offsets(session, group_id) == {}

    if kind == "streams":
        with streams_member(session, group_id, [ORDERS], jars=case.groups.jars):
            refused()
    else:
        with closing(joined(case.groups.config, group_id, ORDERS, protocol=kind)):
            refused()
    assert case.restore("--id", shown["restore_id"], "--apply", "--approved-by", "ann")["counts"] == {"done": 4}


def test_what_cannot_be_put_back_is_told(case: Case, session: ClusterSession) -> None:
    """Topics that are gone or made anew, values outside of the log, and --clamp."""
    admin = make_topics(case.groups.config, {"gone": 1, "anew": 1})
    outside = {(ORDERS, 0): (RECORDS + 5, 1, "far"), (CLICKS, 0): (0, 0, "")}
    given = {("gone", 0): (1, -1, ""), ("anew", 0): (1, -1, ""), **outside}
    commit_when_ready(session, "odd", given)
    as_of_ms = case.snapshot()
    assert delete_group(session, "odd") is None
    for topic in ("gone", "anew"):
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    # Deleting goes on for a moment after it was confirmed.
    until(lambda: wait(admin.create_topics([NewTopic("anew", 1, 1)])), passing=(KafkaException,))
    # And a broker knows of a topic a moment after the controller has confirmed it.
    until(lambda: admin.list_topics("anew", timeout=TIMEOUT_S).topics["anew"].error is None)
    admin.delete_records([TopicPartition(CLICKS, 0, 10)])[TopicPartition(CLICKS, 0, 10)].result(TIMEOUT_S)
    source = ("--as-of", as_of_ms, "--group", "odd")
    told = case.restore(*source)
    assert {(row["topic"], row["what"]) for row in told["offsets"]} == {
        ("gone", "topic_gone"), ("anew", "topic_recreated"), (ORDERS, "beyond_log_end"), (CLICKS, "below_log_start"),
    }  # fmt: skip
    assert case.restore(*source, "--clamp", "--apply", "--approved-by", "ann")["counts"] == {"done": 2}
    after = committed_offsets(session, "odd")
    found = {key: (value.committed_offset, value.leader_epoch, value.metadata) for key, value in after.items()}
    assert found == {(ORDERS, 0): (RECORDS, None, "far"), (CLICKS, 0): (10, None, "")}
