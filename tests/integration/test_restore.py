"""Restores on a real broker: what was deleted comes back equal, from every source and for every type of group."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from pyarrow import fs as pafs

from sexton import cli
from sexton.coordinator.partitioner import partition_of
from sexton.java import JavaHome
from sexton.kafka.admin import commit_offsets, delete_group, delete_offsets, group_now
from sexton.kafka.broker import EmbeddedBroker, free_port
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import CommittedOffset, committed_offsets
from sexton.kafka.session import ClusterSession
from sexton.ledger.entries import Intent, Item, Result, StepOutcome, Value
from sexton.ledger.ledger import Ledger
from sexton.local.workload import QUIET, TIMEOUT_S
from sexton.pipeline import find_expired, plan_tombstones, replay_groups
from sexton.pipeline.replay_groups import ReplayRequest, now_ms
from sexton.pipeline.snapshot_log import SnapshotRequest
from sexton.pipeline.snapshot_log import run as run_snapshot
from sexton.plans.read_plan import own_plan
from sexton.plans.write_plan import keep_plan
from sexton.runs.folder import RunFolder
from sexton.runs.processes import SerialEngine
from tests.clients import commit_for, make_topics
from tests.environment import with_settings
from tests.integration.streams_client import streams_member
from tests.integration.test_broker import commit

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
def restore_broker(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]
) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("restore"), port=free_port(), java=java, jars=kafka_jars) as broker:
        yield broker


@pytest.fixture(scope="module")
def there(restore_broker: EmbeddedBroker) -> ClientConfig:
    """A cluster with two topics of some records, and a first group: with it the coordinators are there."""
    config = client_config({}, bootstrap_servers=restore_broker.bootstrap_servers)
    make_topics(config, {ORDERS: 3, CLICKS: 1})
    producer = Producer({**config.for_confluent(), **QUIET})
    for topic, partition in [(ORDERS, 0), (ORDERS, 1), (ORDERS, 2), (CLICKS, 0)]:
        for _ in range(RECORDS):
            producer.produce(topic, b"x", partition=partition)
    producer.flush(TIMEOUT_S)
    commit(config, group_id="first", count=1)
    return config


@pytest.fixture(scope="module")
def session(there: ClientConfig) -> Iterator[ClusterSession]:
    with ClusterSession(there) as session:
        yield session


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def snapshot(config: ClientConfig, archive: Path) -> None:
    """Taken two hours from now, so that every instant of today has settled."""
    with SerialEngine("test", quiet=True) as engine:
        request = SnapshotRequest(config=config, archive=str(archive))
        run_snapshot(engine, request, now_ms=lambda: now_ms() + 2 * HOUR_MS)


def plan_all(archive: Path, out: Path) -> str:
    """The plan of an hour from now with a retention of a minute, kept: everything that has no members; its plan_id."""
    return plan(archive, out, as_of_ms=now_ms() + HOUR_MS, retention_minutes=1)


def plan(archive: Path, out: Path, *, as_of_ms: int, retention_minutes: int) -> str:
    """A plan that the archive keeps; its plan_id."""
    with SerialEngine("test", quiet=True) as engine:
        request = ReplayRequest(
            archive=str(archive),
            as_of_ms=as_of_ms,
            taken_at_ms=as_of_ms + HOUR_MS,
            run_id="r",
            retention_minutes=retention_minutes,
        )
        replay_groups.run(engine, RunFolder(out), request)
        find_expired.run(engine, RunFolder(out))
        plan_tombstones.run(engine, RunFolder(out), page=lambda _: b"<html></html>\n")
    record = own_plan(RunFolder(out)).record
    keep_plan(RunFolder(out), record, str(archive))
    return record.plan_id


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
            consumer = self.member(kind, group_id)
            consumer.commit(offsets=[TopicPartition(ORDERS, 0, 7, "by a member", 0)], asynchronous=False)
            consumer.close()
        assert set(commit_offsets(self.session, group_id, GIVEN).values()) == {None}
        now = group_now(self.session, group_id)
        assert (now.group_type, now.state) == (kind, "Empty")
        return committed_offsets(self.session, group_id)

    def let_expire(self, group_id: str) -> None:
        """Commit all that the group has once more, to be kept for a millisecond."""
        committed = committed_offsets(self.session, group_id)
        offsets = {place: (found.committed_offset, found.metadata) for place, found in committed.items()}
        commit_for(self.session, group_id, offsets)

    def member(self, protocol: str, group_id: str) -> Consumer:
        """A member that has its partitions."""
        own = {"group.id": group_id, "group.protocol": protocol, "enable.auto.commit": False}
        consumer = Consumer({**self.config.for_confluent(), **QUIET, **own})
        consumer.subscribe([ORDERS])
        deadline = time.monotonic() + TIMEOUT_S
        while not consumer.assignment():
            assert time.monotonic() < deadline, "nothing was assigned"
            consumer.poll(0.2)
        return consumer


@pytest.fixture(scope="module")
def groups(there: ClientConfig, session: ClusterSession, kafka_jars: list[Path]) -> Groups:
    return Groups(there, session, kafka_jars)


@pytest.fixture
def restore(there: ClientConfig, archive: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """`sexton restore --json` on this cluster and archive."""

    def command(*argv: object, code: int = 0) -> dict[str, Any]:
        where = ("--archive", archive, "--bootstrap-servers", there.bootstrap_servers, "--json")
        got = cli.main(["restore", *map(str, (*argv, *where))])
        out, err = capsys.readouterr()
        assert (got, err) == (code, ""), err
        return json.loads(out)

    return command


@pytest.fixture
def explain(archive: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], dict[str, Any]]:
    """`sexton explain --json` of a group of this archive."""

    def command(group_id: str) -> dict[str, Any]:
        assert cli.main(["explain", group_id, "--archive", str(archive), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return command


def delete_as_applied(session: ClusterSession, archive: Path, plan_id: str, group_id: str, before: Offsets) -> None:
    """Delete a group's offsets, with the ledger that an apply of a plan leaves."""
    (cluster,) = archive.iterdir()
    ledger = Ledger(LOCAL, str(archive), cluster.name, plan_id)
    ledger.claim(at_ms=now_ms(), lease_ms=1, approved_by="ann", sink="coordinator", plan_sha256=plan_id)
    log_partition = partition_of(group_id, LOG_PARTITIONS)
    items = [
        Item(
            log_partition=log_partition,
            position=position,
            group_id=group_id,
            topic=key[0],
            partition=key[1],
            before=Value(
                committed_offset=found.committed_offset,
                leader_epoch=found.leader_epoch,
                metadata=found.metadata,
            ),
        )
        for position, (key, found) in enumerate(sorted(before.items()))
    ]
    ledger.intent(Intent(step=1, action="tombstone", items=items), at_ms=now_ms())
    by_topic: dict[str, list[int]] = {}
    for topic, partition in before:
        by_topic.setdefault(topic, []).append(partition)
    assert set(delete_offsets(session, group_id, by_topic).values()) == {None}
    results = [Result(log_partition=item.log_partition, position=item.position, outcome="done") for item in items]
    ledger.outcome(StepOutcome(step=1, of_attempt=1, items=results), at_ms=now_ms())
    ledger.close({"done": len(items)}, at_ms=now_ms())


@pytest.mark.parametrize("source", ["plan", "as_of"])
def test_what_was_deleted_comes_back_equal(
    source: str,
    groups: Groups,
    session: ClusterSession,
    archive: Path,
    tmp_path: Path,
    there: ClientConfig,
    restore: Callable[..., dict[str, Any]],
) -> None:
    """Groups deleted as a whole come back without their type; those that lost only offsets stay what they were."""
    names = {(kind, part): f"{source}-{kind}-{part}" for kind in KINDS for part in ("whole", "offsets")}
    before = {key: groups.make(key[0], name) for key, name in names.items()}
    as_of_ms = now_ms() + 1
    time.sleep(0.01)
    snapshot(there, archive)
    where = ("--as-of", as_of_ms) if source == "as_of" else ("--from-plan", plan_all(archive, tmp_path / "run"))
    for (_, part), name in names.items():
        if part == "whole":
            assert delete_group(session, name) is None
        else:
            assert set(delete_offsets(session, name, EVERY).values()) == {None}
        assert committed_offsets(session, name) == {}
    asked = (*where, "--pattern", f"{source}-.*")
    assert restore(*asked)["counts"] == {"restore": 4 * len(names)}
    assert restore(*asked, "--apply", "--approved-by", "ann")["counts"] == {"done": 4 * len(names)}
    for (kind, part), name in names.items():
        assert committed_offsets(session, name) == before[kind, part]
        assert len(before[kind, part]) == 4
        now = group_now(session, name)
        assert (now.group_type, now.state) == (kind if part == "offsets" else "classic", "Empty")
    again = restore(*asked)
    assert (again["restore_id"], set(again["counts"])) == (None, {"same"})


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_apply_removed_comes_back_from_its_ledger(
    kind: str,
    groups: Groups,
    session: ClusterSession,
    archive: Path,
    there: ClientConfig,
    restore: Callable[..., dict[str, Any]],
    explain: Callable[[str], dict[str, Any]],
) -> None:
    """And the log tells of both: who took it, and who put it back."""
    group_id, plan_id = f"applied-{kind}", "a" * 64
    before = groups.make(kind, group_id)
    snapshot(there, archive)
    delete_as_applied(session, archive, plan_id, group_id, before)
    assert committed_offsets(session, group_id) == {}
    done = restore("--from-ledger", plan_id, "--apply", "--approved-by", "ann")
    assert (done["would"], done["counts"]) == ({"restore": 4}, {"done": 4})
    assert committed_offsets(session, group_id) == before
    assert group_now(session, group_id).group_type == kind
    snapshot(there, archive)
    events = {event["what"]: event for event in explain(group_id)["events"]}
    assert events["deleted"]["detail"].endswith(f"; by plan {plan_id[:12]}")
    assert events["restored"]["detail"].endswith(
        f"4 commits of 4 partitions of clicks, orders; by restore {done['restore_id'][:12]}"
    )
    undone = restore("--from-ledger", done["restore_id"])
    assert undone["warnings"] == ["4 offsets were not there before: only a plan can remove them"]


def test_a_plan_is_applied_and_undone(
    groups: Groups,
    session: ClusterSession,
    archive: Path,
    tmp_path: Path,
    there: ClientConfig,
    restore: Callable[..., dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the commands alone: what `sexton apply` removes, its ledger puts back."""
    names = [f"undone-{kind}" for kind in KINDS]
    for kind, name in zip(KINDS, names, strict=True):
        groups.make(kind, name)
        groups.let_expire(name)
    before = {name: committed_offsets(session, name) for name in names}
    time.sleep(0.1)
    as_of_ms = now_ms()
    snapshot(there, archive)
    with with_settings(SEXTON_MAX_SHARE_OF_GROUPS="1"):
        plan_id = plan(archive, tmp_path / "run", as_of_ms=as_of_ms, retention_minutes=10_080)
    where = ("--archive", str(archive), "--bootstrap-servers", there.bootstrap_servers)
    with with_settings(SEXTON_MAX_SHARE_OF_GROUPS="1"):
        code = cli.main(["apply", plan_id, "--sink", "coordinator", "--approved-by", "ann", "--json", *where])
    assert (code, set(json.loads(capsys.readouterr().out)["counts"])) == (0, {"done"})
    assert [committed_offsets(session, name) for name in names] == [{}, {}, {}]
    asked = ("--from-ledger", plan_id)
    shown = restore(*asked)
    assert shown["counts"] == {"restore": 12}
    assert restore(*asked, "--apply", "--approved-by", "ann")["counts"] == {"done": 12}
    assert {name: committed_offsets(session, name) for name in names} == before
    from_undo = restore("--from-plan", plan_id, "--apply", "--approved-by", "ann")
    assert from_undo["counts"] == {}
    assert from_undo["would"] == {"same": 12}


@pytest.mark.parametrize("kind", KINDS)
def test_groups_with_members_are_refused_with_the_brokers_reason(
    kind: str,
    groups: Groups,
    session: ClusterSession,
    archive: Path,
    there: ClientConfig,
    restore: Callable[..., dict[str, Any]],
) -> None:
    group_id = f"busy-{kind}"
    groups.make(kind, group_id)
    as_of_ms = now_ms() + 1
    time.sleep(0.01)
    snapshot(there, archive)
    assert set(delete_offsets(session, group_id, EVERY).values()) == {None}
    source = ("--as-of", as_of_ms, "--group", group_id)
    shown = restore(*source)
    assert shown["counts"] == {"restore": 4}

    def refused() -> None:
        """The diff of now, and what was shown before, and the broker itself."""
        told = restore(*source)
        assert (told["restore_id"], told["counts"]) == (None, {"group_has_members": 4})
        assert {offset["error"] for offset in told["offsets"]} == {"UNKNOWN_MEMBER_ID"}
        done = restore("--id", shown["restore_id"], "--apply", "--approved-by", "ann", code=1)
        assert done["counts"] == {"refused": 4}
        assert {offset["error"] for offset in done["offsets"]} == {"UNKNOWN_MEMBER_ID"}
        answer = commit_offsets(session, group_id, {(CLICKS, 0): (1, -1, "")})
        assert answer == {(CLICKS, 0): "UNKNOWN_MEMBER_ID"}
        assert committed_offsets(session, group_id) == {}

    if kind == "streams":
        with streams_member(session, group_id, [ORDERS], jars=groups.jars):
            refused()
    else:
        consumer = groups.member(kind, group_id)
        try:
            refused()
        finally:
            consumer.close()
    assert restore("--id", shown["restore_id"], "--apply", "--approved-by", "ann")["counts"] == {"done": 4}


def test_what_cannot_be_put_back_is_told(
    groups: Groups,
    session: ClusterSession,
    archive: Path,
    there: ClientConfig,
    restore: Callable[..., dict[str, Any]],
) -> None:
    """Topics that are gone or made anew, values outside of the log, and --clamp."""
    admin = make_topics(there, {"gone": 1, "anew": 1})
    outside = {(ORDERS, 0): (RECORDS + 5, 1, "far"), (CLICKS, 0): (0, 0, "")}
    given = {("gone", 0): (1, -1, ""), ("anew", 0): (1, -1, ""), **outside}
    assert set(commit_offsets(session, "odd", given).values()) == {None}
    as_of_ms = now_ms() + 1
    time.sleep(0.01)
    snapshot(there, archive)
    assert delete_group(session, "odd") is None
    for topic in ("gone", "anew"):
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            admin.create_topics([NewTopic("anew", 1, 1)])["anew"].result(TIMEOUT_S)
            break
        except Exception:  # deleting goes on for a moment after it was confirmed
            time.sleep(0.1)
    admin.delete_records([TopicPartition(CLICKS, 0, 10)])[TopicPartition(CLICKS, 0, 10)].result(TIMEOUT_S)
    source = ("--as-of", as_of_ms, "--group", "odd")
    told = restore(*source)
    assert {(row["topic"], row["what"]) for row in told["offsets"]} == {
        ("gone", "topic_gone"),
        ("anew", "topic_recreated"),
        (ORDERS, "beyond_log_end"),
        (CLICKS, "below_log_start"),
    }
    assert restore(*source, "--clamp", "--apply", "--approved-by", "ann")["counts"] == {"done": 2}
    after = committed_offsets(session, "odd")
    found = {key: (value.committed_offset, value.leader_epoch, value.metadata) for key, value in after.items()}
    assert found == {(ORDERS, 0): (RECORDS, None, "far"), (CLICKS, 0): (10, None, "")}
