"""The documented commands that need a broker, in the order in which somebody comes to them.

What is told of other commands is in tests/docs.
"""

import re
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sexton.java import JavaHome
from sexton.kafka.admin import group_now
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.session import ClusterSession
from sexton.policy import parse_policy
from sexton.settings import settings
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.approvals import give_approval
from tests.clients import commit_for, commit_when_ready, joined, make_topics
from tests.commands import sexton as told
from tests.docs.pages import Command
from tests.docs.running import run
from tests.docs.sorting import sexton_commands

GROUPS = ("my-group", "orders-service", "team-a-1")
IDLE = "idle-1"
ORDERS = {("orders", number): (10 + number, 0, "") for number in range(4)}
CLICKS = {("clicks", 0): (7, 0, "a note")}
INSTANT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
POLICY = f"""\
version: 1
limits: {{max_share_of_groups: 1.0, max_share_of_owner: 1.0}}
holds:
  - {{name: kept, match: {{group: kept-1}}, kind: legal, owner: us, reason: nobody has it, ticket: T-1, keep: true}}
rules:
  - {{name: idle, match: {{group: {IDLE}}}, retention: 1m, owner: us, reason: it never read anything}}
"""

pytestmark = pytest.mark.timeout(1_200)


def rank(command: Command) -> tuple[int, int]:
    """Snapshots before what is applied, looks before acts, restores last."""
    words = command.words
    order = ["doctor", "groups", "snapshot", "replicas", "transactions", "lag", "keep", "apply", "restore", "show"]
    return order.index(words[1]), int("--apply" in words or "--sink" in words)


class World:
    """A folder with an archive, a broker, and what placeholders stand for."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.config: ClientConfig = client_config({}, bootstrap_servers=f"127.0.0.1:{port}")
        address = self.config.bootstrap_servers
        self.names = {"kafka-1:9092": address, "broker:9092": address}
        for name in ("client.properties", "applier.properties", "keeper.properties"):
            (folder / name).write_text(f"bootstrap.servers={address}\n")
        (folder / "policy.yaml").write_text(POLICY)

    def fill(self) -> None:
        """Groups whose offsets have expired, one that has none, and the instant at which they all had them."""
        make_topics(self.config, {"orders": 4, "clicks": 1})
        joined(self.config, IDLE, "orders").close()
        with ClusterSession(self.config) as session:
            for group_id in GROUPS:
                commit_when_ready(session, group_id, ORDERS | CLICKS)
                commit_for(session, group_id, {place: (offset, "") for place, (offset, _, _) in ORDERS.items()})
            assert group_now(session, IDLE).state == "Empty"
        time.sleep(1.1)  # instants are told in whole seconds
        self.instant = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        time.sleep(1.1)

    def plan(self) -> None:
        """One plan of what the broker would sweep, one of the policy's: each is applied under its own rules."""
        broker = told("plan", "--archive", "archive", "--out", "plan")
        policy = told("plan", "--archive", "archive", "--policy", "policy.yaml", "--out", "plan-by-policy")
        assert broker["counts"]["offsets"] == len(GROUPS) * len(ORDERS)
        assert (policy["counts"]["tombstones"], policy["over_limits"]) == (1, [])
        self.plans = {False: broker, True: policy}

    def names_for(self, command: Command) -> dict[str, str]:
        names = {**self.names, **dict.fromkeys(INSTANT.findall(command.text), getattr(self, "instant", ""))}
        if plans := getattr(self, "plans", None):
            plan = plans["--policy" in command.words]
            names |= dict.fromkeys(("PLAN_ID", "3f9c...", "3f2a..."), plan["plan_id"])
            names |= dict.fromkeys(("PLAN_SHA256", "5b1e..."), plan["plan_sha256"])
        if restore := getattr(self, "restore_id", None):
            names |= dict.fromkeys(("RESTORE_ID", "9c41..."), restore)
        return names


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path], needs_broker: None
) -> Iterator[World]:
    folder, port = tmp_path_factory.mktemp("documented"), free_port()
    (folder / ".cache").symlink_to(settings().cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in {
            "SEXTON_HOME": str(folder),
            "SEXTON_ARCHIVE": "archive",
            "SEXTON_BOOTSTRAP_SERVERS": f"127.0.0.1:{port}",
            "SEXTON_SETTLE_MS": "1000",
            "SEXTON_MAX_SHARE_OF_GROUPS": "1",  # it is a small cluster, and all but one of its groups have expired
        }.items():
            patch.setenv(name, value)
        settings.cache_clear()
        with EmbeddedBroker(folder / "kafka", port=port, java=java, jars=kafka_jars):
            yield World(folder, port)
    settings.cache_clear()


def test_in_the_order_of_a_life(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = sorted(sexton_commands(of_a_cluster=True), key=rank)
    kinds = {command.words[1] for command in commands}
    assert kinds == {
        *("doctor", "groups", "snapshot", "replicas", "transactions", "lag", "keep", "apply", "restore", "show")
    }

    def each(*words: str) -> Iterator[str]:
        for command in commands:
            if tuple(command.words[1 : 1 + len(words)]) == words:
                yield run(command, world.names_for(command), monkeypatch, capsys)

    def approve() -> None:
        """After a snapshot, so that the archive has its cluster."""
        archive = world.folder / "archive"
        (cluster_id,) = (path.name for path in archive.iterdir())
        policy_sha256 = parse_policy(POLICY, where="policy.yaml").sha256
        approval_id = give_approval(
            str(archive), cluster_id=cluster_id, policy_sha256=policy_sha256, at_ms=time.time_ns() // 1_000_000
        )
        world.names |= {"APPROVAL_ID": approval_id, "7d20...": approval_id}

    world.fill()
    assert len(list(each("doctor"))) >= 2
    assert any(IDLE in out for out in each("groups", "list"))
    assert len(list(each("snapshot"))) >= 5
    assert list(each("replicas", "probe"))
    for _ in each("replicas", "copy"):
        shutil.rmtree(world.folder / "replicas")  # the next one is not mixed with it
    assert all("no open transaction" in out or '"counts"' in out for out in each("transactions"))
    assert list(each("lag"))
    approve()
    assert len(list(each("keep"))) >= 4
    world.plan()
    applied = list(each("apply"))
    assert any("would be done" in out for out in applied)
    assert any(re.search(r"\bdone \d", out) for out in applied)
    for out in each("restore"):
        if found := re.findall(r"^restore ([0-9a-f]{64})$", out, flags=re.MULTILINE):
            world.restore_id = found[-1]
    assert list(each("show"))
    with ClusterSession(world.config) as session:
        assert group_now(session, "my-group").state == "Empty", "it came back"


def test_every_command_is_of_a_kind_that_is_run() -> None:
    for command in sexton_commands(of_a_cluster=True):
        words = command.words[1:]
        assert words[0] in ("doctor", "snapshot", "transactions", "lag", "keep", "apply", "restore") or words[:2] in (
            ["show", "restore"], ["groups", "list"], ["replicas", "probe"],
            ["replicas", "copy"],
        ), command  # fmt: skip
