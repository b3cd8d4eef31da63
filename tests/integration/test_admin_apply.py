"""Plans from admin snapshots on a real broker: the principal that plans, applies and restores may not read the offsets
topic.

One broker and two plans for all tests, in their order. A principal that may read the log says what was really done.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclPermissionType
from pyarrow import fs as pafs

from sexton.as_text import now_ms
from sexton.execution.delete.apply_plan import apply_plan
from sexton.execution.delete.preconditions import Rules
from sexton.execution.delete.recorded import watch_of
from sexton.execution.engine import Clocks
from sexton.execution.kafka_admin import connected
from sexton.execution.status import PlanStatus
from sexton.java import JavaHome
from sexton.kafka.admin_snapshot import snapshot_group
from sexton.kafka.client import ClientConfig
from sexton.kafka.failures import NotAllowed
from sexton.kafka.group_state import committed_offsets
from sexton.kafka.session import ClusterSession
from sexton.kafka.tail import TailReader
from sexton.kafka.topics import describe_topic
from sexton.ledger.ledger import Ledger
from sexton.plans.plan import Plan
from sexton.plans.read_plan import read_plan
from sexton.settings import environment
from sexton.topics import OFFSETS_TOPIC
from tests.clients import joined, make_topics
from tests.faults.apply_worlds import ANY, HOUR_MS
from tests.faults.test_apply_broker import Rival, Watched
from tests.integration.secure_broker import APPLIER, READER, SEEING, SecureCluster, grant, secure_cluster
from tests.integration.stages import snapshot as take_snapshot
from tests.record_fields import decode_key

LOCAL = pafs.LocalFileSystem()
BEHIND_MS = 63_000
"""So much the clock of the first admin snapshots is behind: a retention, and something for the admin snapshots
themselves."""
QUIET_BROKER = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": str(24 * HOUR_MS),
    "group.initial.rebalance.delay.ms": "0",
}
"""What is due by the broker's own retention, which does not sweep while the tests run."""
EVERY_GROUP = {"SEXTON_MAX_SHARE_OF_GROUPS": "1"}
PLAIN, RACED = 12, 25
OFFSETS = {("kept", 0): (5, 0, "five"), ("kept", 1): (6, 0, "м"), ("kept", 2): (7, 0, "")}
SPECIAL = ("changed", "active", "again", "not-mine")
POLICY = """\
version: 1
limits: {{max_offsets: 1000, max_groups: 1000, max_share_of_groups: 1.0, max_share_of_owner: 1.0}}
rules:
  - {{name: some, match: {{regex: '{regex}'}}, retention: 1m, owner: us, reason: a minute is enough, ticket: T-1}}
"""

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


@dataclass
class World:
    """A broker that hides its log from who plans and who deletes, and two plans from admin snapshots."""

    cluster: SecureCluster
    folder: Path
    plans: dict[str, Plan] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)

    @property
    def archive(self) -> Path:
        return self.folder / "archive"

    def ledger(self, plan: Plan) -> Ledger:
        return Ledger(LOCAL, str(self.archive), plan.record.cluster_id, plan.record.plan_id)

    def sexton(self, *argv: str, by: str | None = None, **variables: str) -> tuple[int, dict[str, Any], str]:
        """A command in a process of its own: its exit code, what it printed as JSON, and its errors."""
        command = [str(Path(sys.executable).with_name("sexton")), *argv, "--json", f"--archive={self.archive}"]
        command += [f"--client-config={self.folder / f'{by}.properties'}"] if by else []
        variables = {**EVERY_GROUP, **variables, "SEXTON_HOME": str(self.folder)}
        done = subprocess.run(
            command, env=environment(**variables), capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr

    def apply(self, name: str, *options: str, **variables: str) -> tuple[int, dict[str, Any]]:
        plan = self.plans[name].record.plan_id
        policy = f"--policy={self.folder / f'{name}.yaml'}"
        code, told, errors = self.sexton("apply", plan, policy, *options, by=APPLIER, **variables)
        assert code in (0, 1, -signal.SIGKILL), errors
        return code, told

    def offsets(self) -> dict[str, Any]:
        """What is committed, by group; groups without an offset are left out."""
        with ClusterSession(self.cluster.all_powerful) as session:
            found = {name: committed_offsets(session, name) for name in self.before or group_ids()}
        return {
            name: {key: one.as_committed for key, one in offsets.items()} for name, offsets in found.items() if offsets
        }


def group_ids() -> list[str]:
    return [*(f"plain-{n}" for n in range(PLAIN)), *(f"raced-{n}" for n in range(RACED)), *SPECIAL]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, java: JavaHome, kafka_jars: list[Path]) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("admin")
    with secure_cluster(folder / "broker", java=java, jars=kafka_jars, settings=QUIET_BROKER) as cluster:
        for name in (READER, APPLIER):
            lines = (f"{key}={value}\n" for key, value in cluster.properties(name).items())
            (folder / f"{name}.properties").write_text("".join(lines), encoding="utf-8")
        made = World(cluster=cluster, folder=folder)
        make_topics(cluster.all_powerful, {"kept": 3, "other": 1})
        grant(cluster.all_powerful, READER, *SEEING)
        grant(cluster.all_powerful, APPLIER, *SEEING, ("TOPIC", "kept", "READ"), ("GROUP", "*", "READ DELETE"))
        deny = AclPermissionType.DENY
        grant(cluster.all_powerful, APPLIER, ("GROUP", "not-mine", "DELETE"), permission=deny)
        come_and_go(cluster.all_powerful, "first")  # with it the offsets topic is made
        snapshot_earlier(made)
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda name: come_and_go(cluster.all_powerful, name), group_ids()))
        made.before = made.offsets()
        assert made.before.keys() == set(group_ids())
        snapshot_earlier(made)
        snapshot(made)
        for name, regex in (("plain", "plain-.*|changed|active|again|not-mine"), ("raced", "raced-.*")):
            made.plans[name] = planned(made, name, regex)
        yield made


def come_and_go(config: ClientConfig, group_id: str) -> None:
    """A member of a group that commits and leaves; every second group is of the new protocol."""
    with member(config, group_id) as consumer:
        offsets = [TopicPartition(*key, offset, text, epoch) for key, (offset, epoch, text) in OFFSETS.items()]
        consumer.commit(offsets=offsets, asynchronous=False)


def member(config: ClientConfig, group_id: str) -> closing:
    """A member of a group that has its partitions, until the block ends."""
    protocol = "consumer" if sum(group_id.encode()) % 2 else "classic"
    return closing(joined(config, group_id, "kept", protocol=protocol))


def snapshot(made: World) -> None:
    code, told, errors = made.sexton("snapshot", by=READER)
    assert code == 0, errors
    assert told["coverage"] == "admin"


def snapshot_earlier(made: World) -> None:
    """An admin snapshot whose instants are those of more than a retention ago. It has no others: by Admin API nothing
    has any."""
    taken = take_snapshot(made.cluster.config(READER), made.archive, now_ms=lambda: now_ms() - BEHIND_MS)
    assert taken.coverage == "admin"


def planned(made: World, name: str, regex: str) -> Plan:
    policy = made.folder / f"{name}.yaml"
    policy.write_text(POLICY.format(regex=regex), encoding="utf-8")
    code, told, errors = made.sexton("plan", f"--policy={policy}", f"--out={made.folder / name}")
    assert (code, told["not_kept_because"]) == (0, None), errors
    return read_plan(LOCAL, str(made.archive), None, told["plan_id"])


def told_of(told: dict[str, Any]) -> dict[str, set[str]]:
    """What is said of each group's items."""
    found: dict[str, set[str]] = {}
    for each in told["notable"]:
        found.setdefault(each["group_id"], set()).add(f"{each['outcome']}: {each['error']}")
    return found


def tombstones(world: World) -> dict[Any, tuple[int, Any]]:
    """The newest tombstone of each offset in the log, with the value right before it, as who may read it sees them."""
    found: dict[Any, tuple[int, Any]] = {}
    with ClusterSession(world.cluster.all_powerful) as session:
        for part in range(len(describe_topic(session, OFFSETS_TOPIC).leaders)):
            last: dict[Any, Any] = {}
            for record in TailReader(session, OFFSETS_TOPIC, part, from_log_offset=0).records():
                record_type, key = decode_key(record.key or b"")
                about = key.get("group_id"), key.get("topic"), key.get("partition")
                if record.is_control or record_type > 1:
                    continue
                if record.value is None:
                    found[about] = record.timestamp_ms, last.get(about)
                else:
                    last[about] = record.timestamp_ms
    return found


def test_the_plan_is_kept_with_its_coverage(world: World) -> None:
    plan = world.plans["plain"]
    assert plan.record.coverage == "admin"
    assert plan.record.admin_snapshot is not None
    assert {row["group_id"] for row in plan.undo.to_pylist()} == {*(f"plain-{n}" for n in range(PLAIN)), *SPECIAL}
    code, shown, _ = world.sexton("show", "plan", plan.record.plan_id)
    assert (code, shown["coverage"]) == (0, "admin")


def test_nobody_of_them_may_read_the_log(world: World) -> None:
    for name in (READER, APPLIER):
        with ClusterSession(world.cluster.config(name)) as session, pytest.raises(NotAllowed):
            TailReader(session, OFFSETS_TOPIC, 0, from_log_offset=0).records()


def test_what_a_look_at_one_group_says(world: World) -> None:
    with ClusterSession(world.cluster.config(APPLIER)) as session:
        seen = {
            kind: snapshot_group(session, "plain-0", kind, [("kept", 0), ("gone", 0)])
            for kind in ("Classic", "Consumer")
        }
        nobody = snapshot_group(session, "nobody", "Classic", [("kept", 0)])
    right = next(one for one in seen.values() if one.state is not None)
    assert (right.state, right.error, right.member_count) == ("Empty", None, 0)
    assert right.offsets == world.before["plain-0"]
    (wrong,) = [one for one in seen.values() if one is not right]
    assert (wrong.state, wrong.offsets, wrong.error) == (None, right.offsets, None)
    assert (nobody.state, nobody.offsets, nobody.error) == (None, {}, None)


def test_it_dies_in_the_middle_and_goes_on_past_a_restart(world: World) -> None:
    """A commit since the plan, a member that stays, one that came and went as an admin snapshot saw, a group that is
    not ours."""
    config = world.cluster.all_powerful
    with member(config, "changed") as consumer:
        consumer.commit(offsets=[TopicPartition("kept", 1, 99, "newer")], asynchronous=False)
    with member(config, "again"):
        snapshot(world)  # which sees it active; then everything is as it was
    options = ("--sink=coordinator", "--approved-by=ann", f"--plan-sha256={world.plans['plain'].sha256}")
    with member(config, "active"):
        assert world.apply("plain", *options, SEXTON_FAILPOINT="apply.intended:2")[0] == -signal.SIGKILL
        assert world.apply("plain", *options, SEXTON_FAILPOINT="apply.called:3")[0] == -signal.SIGKILL
        world.cluster.broker.stop()
        world.cluster.broker.start()
        code, told = world.apply("plain", *options)
    assert code == 1  # the group that is not ours
    assert told["counts"] == {"changed_since": 9, "done": 3 * PLAIN, "refused": 3}
    why = told_of(told)
    assert "was 6, now 99" in str(why["changed"]) or "active since the plan" in str(why["changed"])
    assert "changed_since: the group is" in str(why["active"])
    assert "by the admin snapshot of" in str(why["again"]) or "active since the plan" in str(why["again"])
    assert "GROUP_AUTHORIZATION_FAILED" in str(why["not-mine"])
    assert told["attempt"] == 3
    left = {name: offsets for name, offsets in world.before.items() if not name.startswith("plain-")}
    left["changed"] = {**left["changed"], ("kept", 1): (99, None, "newer\0")}  # the client sends C's end of a string
    assert world.offsets() == left


def test_who_may_read_the_log_finds_exactly_that(world: World) -> None:
    ours = {key for key in tombstones(world) if key[0] in world.before}
    assert ours == {(f"plain-{n}", *key) for n in range(PLAIN) for key in OFFSETS}


def test_applying_it_again_does_nothing_more(world: World) -> None:
    before = world.offsets()
    code, told = world.apply("plain", "--sink=coordinator", "--approved-by=ann")
    assert (code, told["counts"]) == (1, {"changed_since": 9, "done": 3 * PLAIN, "refused": 3})
    assert world.offsets() == before


def test_restore_puts_back_exactly_what_was_deleted(world: World) -> None:
    plan_id = world.plans["plain"].record.plan_id
    code, shown, errors = world.sexton("restore", f"--from-plan={plan_id}", "--pattern=plain-.*", by=APPLIER)
    assert (code, shown["counts"]) == (0, {"beyond_log_end": 3 * PLAIN}), errors  # the topic is empty
    code, done, errors = world.sexton(
        "restore", f"--id={shown['restore_id']}", "--apply", "--approved-by=ann", by=APPLIER
    )
    assert (code, done["counts"]) == (0, {"done": 3 * PLAIN}), errors
    after = world.offsets()
    assert {name: after[name] for name in after if name.startswith("plain-")} == {
        name: world.before[name] for name in world.before if name.startswith("plain-")
    }
    code, shown, _ = world.sexton("restore", f"--from-ledger={plan_id}", by=APPLIER)
    assert shown["counts"] == {"same": 3 * PLAIN}


def test_commits_in_the_very_moment(world: World, drawn: int, tell: Callable[[str], None]) -> None:
    """Somebody commits around and within the calls. What is deleted unseen lies in a window, which the ledger has."""
    rng = Random(drawn)
    plan, ledger = world.plans["raced"], world.ledger(world.plans["raced"])
    rules = Rules(
        approved_by="ann",
        plan_sha256=plan.sha256,
        policy_sha256=plan.record.policy_sha256,
        max_age_ms=HOUR_MS,
        lease_ms=600_000,
        limits=ANY,
    )
    watch = watch_of(LOCAL, str(world.archive), plan)
    rival = Rival(world.cluster.all_powerful, rng)
    for number in range(RACED):
        if rng.random() < 0.4:
            rival.later(f"raced-{number}", rng.uniform(0, 0.08 * RACED))
    with connected(world.cluster.config(APPLIER)) as client:
        watched = Watched(client, rival, rng)
        summary = apply_plan(
            watched,  # type: ignore[arg-type]
            plan,
            ledger,
            sink="coordinator",
            rules=rules,
            clocks=Clocks(now_ms=now_ms),
            watch=watch,
        )
    rival.close()
    entries = ledger.entries()
    status = PlanStatus.of(entries)
    assert not status.open
    done = {status.items[place].key for place, result in status.results.items() if result.outcome == "done"}
    intended = {item.key: entry.at_ms for entry in entries if entry.kind == "intent" for item in entry.body.items}  # type: ignore[union-attr]
    found = {key: each for key, each in tombstones(world).items() if str(key[0]).startswith("raced-")}
    assert found.keys() == done
    began_ms = entries[0].at_ms
    unseen = [key for key, (_, value_ms) in found.items() if value_ms is not None and value_ms >= began_ms]
    for key in unseen:
        assert found[key][1] >= intended[key], "a commit before the intent was not seen"
    tell(
        f"{RACED} groups: {summary.counts}, {len(unseen)} commits deleted unseen, each within a window: p50 "
        f"{summary.windows.p50_ms:.1f} ms, p99 {summary.windows.p99_ms:.1f} ms, max {summary.windows.max_ms:.1f} ms"
    )
    assert summary.counts["done"]
    assert "was deleted unseen, if there was one" in " ".join(summary.warnings)
