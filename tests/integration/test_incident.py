"""Who did it, and what to type: a broker with an authorizer that logs requests, and Kafka's own tools.

The broker logs in Kafka's own patterns, by log4j 2 in place of the pinned jars' simple logger, in a time zone that is
not this machine's. Whoever does something logs in; reading and committing are granted, some deletions are refused.
"""

import gzip
import os
import shlex
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from confluent_kafka import Producer, TopicPartition

from sexton.java import JavaHome
from sexton.kafka.admin import commit_offsets, delete_group
from sexton.kafka.client import ClientConfig
from sexton.kafka.group_state import committed_offsets
from sexton.kafka.session import ClusterSession
from sexton_dev.broker import JVM_OPTIONS
from sexton_dev.workload import QUIET, TIMEOUT_S
from tests.clients import commit_for, commit_when_ready, joined, make_topics
from tests.commands import sexton
from tests.environment import with_settings
from tests.integration import stages
from tests.integration.replica_kinds import CLASS_OF
from tests.integration.secure_broker import APPLIER, NOBODY, READER, SecureCluster, grant, secure_cluster
from tests.ui import chromium
from tests.ui.walks import keep_pictures, steps_of

ZONE = "Asia/Kathmandu"
LOG4J = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
appender.audit.type = File
appender.audit.name = audit
appender.audit.fileName = FOLDER/kafka-authorizer.log
appender.audit.layout.type = PatternLayout
appender.audit.layout.pattern = [%d] %p %m (%c)%n
appender.request.type = File
appender.request.name = request
appender.request.fileName = FOLDER/kafka-request.log
appender.request.layout.type = PatternLayout
appender.request.layout.pattern = [%d] %p %m (%c)%n
logger.audit.name = kafka.authorizer.logger
logger.audit.level = debug
logger.audit.additivity = false
logger.audit.appenderRef.file.ref = audit
logger.request.name = kafka.request.logger
logger.request.level = debug
logger.request.additivity = false
logger.request.appenderRef.file.ref = request
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""
"""Kafka's config/log4j2.yaml in the other syntax, with both loggers at DEBUG."""
ORDERS = {("orders", number): (10 + number, -1, "") for number in range(3)}
RECORDS = 30
"""In each partition: Kafka's tool moves offsets beyond the end to it."""
HALF = {("clicks", 0): (5, -1, "")}

LOST = "web-shop"

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class World:
    """A cluster that logs, the folder of its logs, and Kafka's scripts."""

    cluster: SecureCluster
    folder: Path
    scripts: Path

    @property
    def config(self) -> ClientConfig:
        return self.cluster.all_powerful

    def run(self, *lines: str) -> str:
        """Run what was printed in a shell that finds Kafka's scripts."""
        text = "\n".join(lines).replace("HOST:PORT", self.config.bootstrap_servers)
        own = {**os.environ, "PATH": f"{self.scripts}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", "-ec", text], env=own, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def archive(self, folder: Path) -> Path:
        stages.snapshot(self.config, folder / "archive")
        return folder / "archive"


def logging_jars(jars: list[Path]) -> list[Path]:
    """The pinned jars with Spark's log4j 2 behind slf4j, as a distribution of Kafka has one."""
    names = ("slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl")
    ours = [jar for jar in jars if not jar.name.startswith(("slf4j-", "log4j-"))]
    theirs = Path(pyspark.__file__).parent / "jars"
    return ours + [next(theirs.glob(f"{name}-*.jar")) for name in names]


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path], needs_broker: None
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("incident")
    (folder / "log4j2.properties").write_text(LOG4J.replace("FOLDER", str(folder)), "utf-8")
    scripts = folder / "scripts"
    scripts.mkdir()
    for script, name in CLASS_OF.items():
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        words = [str(java.java), *JVM_OPTIONS, quiet, "-cp", os.pathsep.join(map(str, kafka_jars)), name]
        path = scripts / script
        path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', "utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    own = [f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", f"-Duser.timezone={ZONE}"]
    with secure_cluster(folder / "cluster", java=java, jars=logging_jars(kafka_jars), jvm_options=own) as cluster:
        config = cluster.all_powerful
        make_topics(config, {"orders": 3, "clicks": 1})
        producer = Producer({**config.for_confluent(), **QUIET})
        for topic, partition in [*ORDERS, *HALF]:
            for _ in range(RECORDS):
                producer.produce(topic, b"x", partition=partition)
        producer.flush(TIMEOUT_S)
        for name in (APPLIER, READER):
            grant(config, name, ("GROUP", "*", "READ DELETE DESCRIBE"), ("TOPIC", "*", "READ DESCRIBE"))
        grant(config, NOBODY, ("GROUP", "*", "DESCRIBE"))
        yield World(cluster=cluster, folder=folder, scripts=scripts)


def offsets_of(world: World, group_id: str) -> dict[tuple[str, int], int]:
    with ClusterSession(world.config) as session:
        return {key: found.committed_offset for key, found in committed_offsets(session, group_id).items()}


def test_what_a_plan_prints_deletes_what_it_plans(world: World, tmp_path: Path) -> None:
    """And what a restore prints puts it back: typed into a shell, for names that need quoting."""
    names = ["it's due", "half-due"]
    with ClusterSession(world.config) as session:
        for name in names:
            commit_for(session, name, {key: (offset, "") for key, (offset, _, _) in ORDERS.items()})
        commit_when_ready(session, "half-due", HALF)
    time.sleep(0.1)
    archive = world.archive(tmp_path)
    with with_settings(SEXTON_MAX_SHARE_OF_GROUPS="1", SEXTON_BOOTSTRAP_SERVERS=world.config.bootstrap_servers):
        planned = sexton("plan", "--archive", archive, "--out", tmp_path / "plan")
        assert len(planned["kafka_commands"]) == len(names)
        world.run(*planned["kafka_commands"])
        assert [offsets_of(world, name) for name in names] == [{}, {("clicks", 0): 5}]
        restored = sexton("restore", "--from-plan", planned["plan_id"], "--archive", archive)
        world.run(*restored["kafka_commands"])
    every = {key: offset for key, (offset, _, _) in ORDERS.items()}
    assert [offsets_of(world, name) for name in names] == [every, every | {("clicks", 0): 5}]


def sexton_as(world: World, name: str) -> ClusterSession:
    return ClusterSession(world.cluster.config(name))


@pytest.fixture(scope="module")
def lost(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive after one person has reset a group of members that had gone, a second was not allowed to delete it,
    and a third has done so."""
    every = [TopicPartition(topic, number, offset) for (topic, number), (offset, _, _) in ORDERS.items()]
    consumer = joined(world.config, LOST, "orders")
    consumer.commit(offsets=every, asynchronous=False)
    consumer.close()
    with sexton_as(world, APPLIER) as session:
        assert set(commit_offsets(session, LOST, {("orders", 0): (1, -1, "")}).values()) == {None}
    with sexton_as(world, NOBODY) as session:
        assert delete_group(session, LOST) == "GROUP_AUTHORIZATION_FAILED"
    with sexton_as(world, READER) as session:
        assert delete_group(session, LOST) is None
    return world.archive(tmp_path_factory.mktemp("lost"))


def who_of(found: dict[str, Any]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    return [
        (one["what"], one["certainty"], [(each["principal"], each["host"]) for each in one["callers"]])
        for one in found["who"]
    ]


def test_who_did_it(world: World, lost: Path, tmp_path: Path) -> None:
    """By the request log for certain, by the authorizer's likely at best, and in the broker's own time zone alone."""
    requests, audit = world.folder / "kafka-request.log", world.folder / "kafka-authorizer.log"
    packed = tmp_path / "kafka-request.log.gz"
    packed.write_bytes(gzip.compress(requests.read_bytes()))
    asked = ("explain", LOST, "--archive", lost)
    zone = ("--log-time-zone", ZONE)
    people = [("reset", [(f"User:{APPLIER}", "127.0.0.1")]), ("group_deleted", [(f"User:{READER}", "127.0.0.1")])]

    def with_(certainty: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
        return [(what, certainty, callers) for what, callers in people]

    found = sexton(*asked, "--authorizer-log", packed, "--authorizer-log", audit, *zone)
    assert who_of(found) == with_("certain")
    reset = next(event for event in found["events"] if event["what"] == "reset")
    assert reset["detail"] == "while the group had no members: orders-0 10 to 1"
    alone = who_of(sexton(*asked, "--authorizer-log", audit, *zone))
    # The member's own commit, seconds before, was allowed as well: an authorizer does not log what was committed.
    assert alone[0] == ("reset", "candidates", [("User:ANONYMOUS", "127.0.0.1"), *people[0][1]])
    assert alone[1:] == with_("likely")[1:]
    wrong = sexton(*asked, "--authorizer-log", requests)
    assert who_of(wrong) == [(what, "not_logged", []) for what, _ in people]
    assert all("+5.75 h" in one["reason"] for one in wrong["who"])
    without = [line for line in audit.read_text("utf-8").splitlines() if " is Denied " in line]
    assert any("DeleteGroups" in line and NOBODY in line for line in without)
    default = tmp_path / "default.log"
    default.write_text("\n".join(without), "utf-8")
    told = sexton(*asked, "--authorizer-log", default, *zone)
    assert who_of(told) == [(what, "not_logged", []) for what, _ in people]
    assert all("denials alone" in one["reason"] for one in told["who"])


def test_a_post_mortem(
    world: World, lost: Path, tmp_path: Path, needs_browser: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk of docs/how-to/post-mortem.md: the file is made on a terminal, opened without network, and a command
    copied out of it puts the offsets back."""
    monkeypatch.chdir(lost.parent)
    out = tmp_path / "incident.html"
    logs = [
        word for name in ("request", "authorizer") for word in ("--authorizer-log", world.folder / f"kafka-{name}.log")
    ]
    found = sexton("incident", LOST, "--archive", lost.name, *logs, "--log-time-zone", ZONE, "--out", out)
    assert [cause["kinds"] for cause in found["causes"]] == [["group_deleted"], ["reset"]]
    assert {one["certainty"] for one in found["who"]} == {"certain"}
    assert ("broker version", "4.3") in [(one["name"], one["value"][:3]) for one in found["config"]]
    told = chromium.run_script("incident.mjs", tmp_path, walk="post-mortem", file=str(out), command="--reset-offsets")
    assert (told["errors"], told["foreign"]) == ([], [])
    assert told["steps"] == steps_of("post-mortem")
    keep_pictures(tmp_path, "post-mortem")
    assert f"User:{READER}" in told["text"]
    assert "OffsetCommit" in told["evidence"]
    assert offsets_of(world, LOST) == {}
    world.run(told["selected"])
    assert offsets_of(world, LOST) == {("orders", 0): 1, ("orders", 1): 11, ("orders", 2): 12}
