"""`sexton keep` on a broker that keeps offsets for four minutes: held groups of each kind outlive a retention, and a
group beside each of them, which nobody holds, does not."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from sexton import cli
from sexton.java import JavaHome
from sexton.kafka.admin import commit_offsets, group_now
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.group_state import committed_offsets
from sexton.kafka.session import ClusterSession
from sexton.ports import free_port
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.workload import QUIET, TIMEOUT_S
from tests.clients import joined, make_topics
from tests.integration.streams_client import streams_member
from tests.integration.test_broker import commit
from tests.waiting import until

pytestmark = pytest.mark.full

RETENTION_MINUTES, NOT_KEPT = 4, 6
KINDS = ("simple", "classic", "consumer", "streams")
TOPIC = "t"
KEY = (TOPIC, 0)
METADATA = "m\0\u043c"
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
    "group.initial.rebalance.delay.ms": "3000",
    "group.consumer.min.session.timeout.ms": "1000",
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]) -> Iterator[ClientConfig]:
    folder = tmp_path_factory.mktemp("keep")
    with EmbeddedBroker(folder, port=free_port(), java=java, jars=kafka_jars, settings=SETTINGS) as broker:
        config = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        make_topics(config, {TOPIC: 1, "other": 1})
        producer = Producer({**config.for_confluent(), **QUIET})
        for _ in range(10):
            producer.produce(TOPIC, b"x", partition=0)
        producer.flush(TIMEOUT_S)
        commit(config, group_id="first", count=1)
        yield config


@pytest.fixture
def keep(config: ClientConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    policy = tmp_path / "policy.yaml"

    def run(*more: str, code: int = 0, rules: str = POLICY) -> dict[str, Any]:
        policy.write_text(rules)
        where = ["--policy", str(policy), "--archive", str(tmp_path / "archive"), "--json", "--every", "5m"]
        got = cli.main(["keep", *where, "--bootstrap-servers", config.bootstrap_servers, *more])
        out, err = capsys.readouterr()
        assert got == code, err + out
        return dict(json.loads(out))

    return run


def make(config: ClientConfig, session: ClusterSession, kind: str, group_id: str, jars: list[Path]) -> None:
    """A group of a kind, Empty, with one offset."""
    if kind == "simple":
        assert set(commit_offsets(session, group_id, {KEY: (7, 0, METADATA)}).values()) == {None}
    elif kind == "streams":
        with streams_member(session, group_id, [TOPIC], jars=jars) as member:
            assert set(member.commit({KEY: 7}).values()) == {None}
    else:
        with closing(joined(config, group_id, TOPIC, protocol=kind)) as consumer:
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, 7, "m", 0)], asynchronous=False)
    until(lambda: group_now(session, group_id).state == "Empty")


def test_held_groups_outlive_their_retention(
    config: ClientConfig, kafka_jars: list[Path], keep: Callable[..., dict[str, Any]]
) -> None:
    """And what is left alone is said: a live group that does not subscribe to the topic any more, an offset beyond the
    log."""
    with ClusterSession(config) as session:
        names = [f"{what}-{kind}" for kind in KINDS for what in ("kept", "lost")]
        for name in [*names, "held-simple"]:
            make(config, session, name.partition("-")[2], name, kafka_jars)
        assert set(commit_offsets(session, "kept-live", {KEY: (7, 0, "")}).values()) == {None}
        assert set(commit_offsets(session, "kept-beyond", {KEY: (99, 0, "")}).values()) == {None}
        before = {name: committed_offsets(session, name) for name in names}
        kinds = {name: group_now(session, name) for name in names}
        with closing(joined(config, "kept-live", "other")):
            done = keep("--apply", "--approved-by", "ann", code=NOT_KEPT)
        assert done["would"] == {"keep": 3, "join": 1, "group_has_members": 1, "refused": 1}
        assert done["counts"] == {"done": 4}
        assert {row["group_id"]: row["what"] for row in done["offsets"]} == {
            f"kept-{kind}": "join" if kind == "classic" else "keep" for kind in KINDS
        }
        assert done["operation"] == "keep"
        until(lambda: not any(committed_offsets(session, f"lost-{kind}") for kind in KINDS), within_s=600, every_s=1)
        for kind in KINDS:
            name = f"kept-{kind}"
            assert committed_offsets(session, name) == before[name]
            now = group_now(session, name)
            assert (now.group_type, now.protocol_type) == (kinds[name].group_type, kinds[name].protocol_type)


def test_a_hold_with_an_end_ends(
    config: ClientConfig, kafka_jars: list[Path], keep: Callable[..., dict[str, Any]]
) -> None:
    """However often it was kept: our own commits and joins are no activity. Then the broker expires it."""
    names = [f"brief-{kind}" for kind in ("simple", "classic")]
    runs: list[dict[str, Any]] = []

    def is_over() -> bool:
        runs.append(keep("--apply", "--approved-by", "ann", rules=BRIEF))
        return runs[-1]["counts"] == {} and any("2 offsets" in text for text in runs[-1]["warnings"])

    with ClusterSession(config) as session:
        for name in names:
            make(config, session, name.partition("-")[2], name, kafka_jars)
        before = {name: committed_offsets(session, name) for name in names}
        until(is_over, within_s=600)
        kept = [one["counts"]["done"] for one in runs[:-1] if one["counts"]]
        assert len(kept) >= 2
        assert kept[0] == 2
        assert {name: committed_offsets(session, name) for name in names} == before
        until(lambda: not any(committed_offsets(session, name) for name in names), within_s=600, every_s=1)
