"""`sexton keep` on brokers that keep offsets for three minutes: held groups of each kind outlive their retention, and a
group beside each of them, which nobody holds, does not."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.protocol.consumer import LeaveGroupRequest

from sexton import cli
from sexton.java import JavaHome
from sexton.kafka import membership
from sexton.kafka.admin import group_now
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import committed_offsets, find_coordinator
from sexton.kafka.session import ClusterSession
from sexton_dev.ports import free_port
from sexton_dev.workload import QUIET, TIMEOUT_S
from tests.clients import commit_when_ready, joined, make_topics
from tests.integration.streams_client import streams_member
from tests.integration.test_broker import commit
from tests.release_jars import jars_of
from tests.waiting import until
from tests.zookeeper_broker import broker_class

pytestmark = pytest.mark.thorough

RETENTION_MINUTES, NOT_KEPT = 3, 6
PINNED = "4.3.1"
EVERYWHERE = ("simple", "classic", "connect", "live-classic")
SINCE_4 = ("consumer", "streams", "live-consumer")
TOPIC, OTHER = "t", "other"
KEY = (TOPIC, 0)
METADATA = "m\0\u043c"
MESSAGES = 10
POLICY = """
version: 1
holds:
  - {name: kept, match: {prefix: kept-}, kind: operational, owner: o, reason: r, keep: true}
  - {name: stops, match: {prefix: held-}, kind: operational, owner: o, reason: r}
"""
BRIEF = """
version: 1
holds:
  - {name: brief, match: {prefix: brief-}, kind: operational, owner: o, reason: r, keep: 2m}
"""
SETTINGS = {
    "offsets.retention.minutes": str(RETENTION_MINUTES),
    "offsets.retention.check.interval.ms": "2000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "3000",
    "group.streams.max.session.timeout.ms": "600000",
    "group.streams.session.timeout.ms": "600000",
}
LONG_POLLS = {"max_poll_interval_ms": 86_400_000}


@contextmanager
def cluster(folder: Path, release: str, java: JavaHome, pinned: Sequence[Path]) -> Iterator[ClientConfig]:
    jars = pinned if release == PINNED else jars_of(release)
    with broker_class(release)(folder, port=free_port(), java=java, jars=jars, settings=SETTINGS) as broker:
        config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        make_topics(config, {TOPIC: 1, OTHER: 1})
        producer = Producer({**config.for_confluent(), **QUIET})
        for _ in range(MESSAGES):
            producer.produce(TOPIC, b"x", partition=0)
        producer.flush(TIMEOUT_S)
        commit(config, group_id="first", count=1)  # by a client that waits until the offsets topic is there
        yield config


@pytest.fixture
def keep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    policy = tmp_path / "policy.yaml"

    def run(config: ClientConfig, *codes: int, rules: str = POLICY) -> dict[str, Any]:
        policy.write_text(rules)
        where = ["--policy", str(policy), "--archive", str(tmp_path / "archive"), "--json", "--every", "5m"]
        own = ["--bootstrap-servers", config.bootstrap_servers, "--apply", "--approved-by", "ann"]
        got = cli.main(["keep", *where, *own])
        out, err = capsys.readouterr()
        assert got in codes, err + out
        return dict(json.loads(out))

    return run


def join_as_worker(session: ClusterSession, group_id: str) -> None:
    """A member of protocol type connect that comes and goes."""
    node_id = find_coordinator(session, group_id)
    answer = session.call_once(membership._join(group_id, "", "connect"), node_id=node_id)
    joined = session.call_once(membership._join(group_id, answer.member_id, "connect"), node_id=node_id)
    assert joined.error_code == 0
    leaving = LeaveGroupRequest.MemberIdentity(member_id=joined.member_id)
    session.call_once(LeaveGroupRequest(group_id=group_id, members=[leaving], min_version=3), node_id=node_id)


def make(config: ClientConfig, session: ClusterSession, kind: str, group_id: str, jars: list[Path]) -> Consumer | None:
    """A group of a kind with one offset; the member of one that lives."""
    if kind in ("streams", "classic", "consumer"):
        if kind == "streams":
            with streams_member(session, group_id, [TOPIC], jars=jars) as member:
                assert set(member.commit({KEY: 7}).values()) == {None}
        else:
            with closing(joined(config, group_id, TOPIC, protocol=kind)) as consumer:
                consumer.commit(offsets=[TopicPartition(TOPIC, 0, 7, "m", 0)], asynchronous=False)
    else:
        commit_when_ready(session, group_id, {KEY: (7, 0, METADATA)})
    if kind == "connect":
        join_as_worker(session, group_id)
    if kind.startswith("live-"):
        return joined(config, group_id, OTHER, protocol=kind.removeprefix("live-"), **LONG_POLLS)
    until(lambda: group_now(session, group_id).state == "Empty")
    return None


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("release", "retentions"),
    [(PINNED, 1), *(pytest.param(release, 10, marks=pytest.mark.full) for release in (PINNED, "3.9.1", "2.8.2"))],
)
def test_held_groups_outlive_their_retention(
    release: str,
    retentions: int,
    tmp_path: Path,
    java: JavaHome,
    kafka_jars: list[Path],
    keep: Callable[..., dict[str, Any]],
    tell: Callable[[str], None],
) -> None:
    """So often does an offset come and expire meanwhile. What is left alone is said: an offset of a live streams group,
    which may read the topic, and one beyond the log. What members subscribe to does not fall due."""
    kinds = [*EVERYWHERE, *(SINCE_4 if release == PINNED else ())]
    with (
        cluster(tmp_path / "broker", release, java, kafka_jars) as config,
        ClusterSession(config) as session,
        ExitStack() as members,
    ):

        def made(name: str, kind: str) -> None:
            if member := make(config, session, kind, name, kafka_jars):
                members.callback(member.close)

        kept = {f"kept-{kind}": kind for kind in kinds}
        for name, kind in kept.items():
            made(name, kind)
        for name, offset in (("kept-subscribed", 7), ("kept-beyond", 99)):
            commit_when_ready(session, name, {KEY: (offset, 0, "")})
        members.callback(joined(config, "kept-subscribed", TOPIC, **LONG_POLLS).close)
        before = {name: committed_offsets(session, name) for name in kept}
        now = {name: group_now(session, name) for name in kept}
        with ExitStack() as first:
            if release == PINNED:
                first.enter_context(streams_member(session, "kept-live-streams", [OTHER], jars=kafka_jars)).commit(
                    {KEY: 7}
                )
            done = keep(config, NOT_KEPT)
        joins = [name for name, kind in kept.items() if kind in ("classic", "connect")]
        would = {"keep": len(kept) - len(joins), "join": 2, "refused": 1}
        assert done["would"] == would | ({"group_has_members": 1} if release == PINNED else {})
        assert done["counts"] == {"done": len(kept)}
        assert {row["group_id"] for row in done["offsets"] if row["what"] == "join"} == {*joins}
        assert done["operation"] == "keep"
        left = {**{f"lost-{kind}": kind for kind in kinds}, "held-simple": "simple"}
        lost = [*left]
        gone = runs = 0

        def has_passed() -> bool:
            """One more run; beside it one more of the groups that go."""
            nonlocal gone, runs
            assert set(keep(config, 0, NOT_KEPT)["counts"]) == {"done"}  # what is beyond its log expires
            runs += 1
            if left:
                made(*left.popitem())
            elif not committed_offsets(session, "control"):
                gone += 1
                commit_when_ready(session, "control", {KEY: (7, 0, "")})
            return gone > retentions

        until(has_passed, within_s=(retentions + 2) * 600, every_s=1)
        tell(f"Kafka {release}: {', '.join(kinds)} kept for {retentions} retentions in {runs} runs")
        assert not any(committed_offsets(session, name) for name in lost)
        for name in kept:
            assert committed_offsets(session, name) == before[name]
            assert group_now(session, name) == now[name]
        assert committed_offsets(session, "kept-subscribed")[KEY].committed_offset == 7


@pytest.mark.full
def test_a_hold_with_an_end_ends(
    tmp_path: Path, java: JavaHome, kafka_jars: list[Path], keep: Callable[..., dict[str, Any]]
) -> None:
    """However often it was kept: our own commits and joins are no activity. Then the broker expires it."""
    names = [f"brief-{kind}" for kind in ("simple", "classic")]
    runs: list[dict[str, Any]] = []

    with cluster(tmp_path / "broker", PINNED, java, kafka_jars) as config, ClusterSession(config) as session:

        def is_over() -> bool:
            runs.append(keep(config, 0, rules=BRIEF))
            return runs[-1]["counts"] == {} and any("2 offsets" in text for text in runs[-1]["warnings"])

        for name in names:
            make(config, session, name.partition("-")[2], name, kafka_jars)
        before = {name: committed_offsets(session, name) for name in names}
        until(is_over, within_s=600)
        kept = [one["counts"]["done"] for one in runs[:-1] if one["counts"]]
        assert len(kept) >= 2
        assert kept[0] == 2
        assert {name: committed_offsets(session, name) for name in names} == before
        until(lambda: not any(committed_offsets(session, name) for name in names), within_s=600, every_s=1)
