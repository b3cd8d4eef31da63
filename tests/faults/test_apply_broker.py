"""A plan applied to a real broker while somebody else commits to its groups, some of them in the very moment of the
call: nothing newer is lost without a word, and how long the window is in which that can happen (row 9)."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from sexton.as_text import now_ms
from sexton.coordinator.loading import Loaded, load
from sexton.errors import BrokerError
from sexton.execution.delete.apply_plan import apply_plan
from sexton.execution.delete.log_watch import LogWatch
from sexton.execution.delete.preconditions import Rules
from sexton.execution.engine import Clocks
from sexton.execution.kafka_admin import KafkaAdmin, connected
from sexton.execution.status import PlanStatus
from sexton.execution.windows import Windows
from sexton.java import find_java
from sexton.kafka import jars
from sexton.kafka.admin import commit_offsets, group_now
from sexton.kafka.client import ClientConfig, client_config
from sexton.kafka.session import ClusterSession
from sexton.kafka.tail import TailReader
from sexton.ledger.ledger import Ledger
from sexton.plans.plan import Plan
from sexton.settings import settings, variable
from sexton.topics import OFFSETS_TOPIC
from sexton_dev.broker import EmbeddedBroker
from sexton_dev.ports import free_port
from tests.clients import commit_when_ready, make_topics
from tests.faults.apply_worlds import ANY, HOUR_MS, LOCAL, plan_of
from tests.plain_sweep import Tombstone, group_tombstones, in_plan_order, offset_tombstone
from tests.record_fields import decode_key

pytestmark = pytest.mark.thorough

GROUPS_A_ROUND = 25
OFFSETS = {("kept", 0): (5, -1, ""), ("kept", 1): (6, 2, "m")}
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, needs_broker: None) -> Iterator[ClientConfig]:
    java = find_java(settings().cache, variable("JAVA_HOME"), variable("PATH"))
    directory = tmp_path_factory.mktemp("broker")
    kafka = jars.ensure(settings().cache, "kafka")
    with EmbeddedBroker(directory, port=free_port(), java=java, jars=kafka) as broker:
        found = client_config({}, bootstrap_servers=broker.bootstrap_servers)
        make_topics(found, {"kept": 2})
        yield found


class Rival:
    """Commits to groups at moments of its own, from a thread and a session of its own."""

    def __init__(self, config: ClientConfig, rng: Random) -> None:
        self._session = ClusterSession(config)
        self._rng = rng
        self._due: list[tuple[float, str]] = []
        self._lock = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.commits: dict[str, int] = {}

    def later(self, group_id: str, after_s: float) -> None:
        with self._lock:
            self._due.append((time.monotonic() + after_s, group_id))
            self._due.sort()
            self._lock.notify()

    def close(self) -> None:
        with self._lock:
            self._is_over = True
            self._lock.notify()
        self._thread.join(TIMEOUT_S)
        self._session.close()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    if self._is_over:
                        return
                    self._lock.wait(1)
                    continue
                at, group_id = self._due[0]
                if (left := at - time.monotonic()) > 0:
                    self._lock.wait(left)
                    continue
                self._due.pop(0)
            offset = 1_000 + self._rng.randrange(1_000)
            try:
                found = commit_offsets(self._session, group_id, {("kept", 0): (offset, -1, "rival")})
            except BrokerError:
                continue
            if found == {("kept", 0): None}:
                self.commits[group_id] = offset


class Watched:
    """The cluster, whose every second deletion wakes the rival just before it."""

    def __init__(self, cluster: KafkaAdmin, rival: Rival, rng: Random) -> None:
        self._cluster, self._rival, self._rng = cluster, rival, rng

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def _nudge(self, group_id: str) -> None:
        if self._rng.random() < 0.5:
            self._rival.later(group_id, self._rng.choice((0, 0, 0.001, 0.003)))

    def delete_offsets(self, group_id: str, partitions: Any) -> Any:
        self._nudge(group_id)
        return self._cluster.delete_offsets(group_id, partitions)

    def delete_group(self, group_id: str) -> Any:
        self._nudge(group_id)
        return self._cluster.delete_group(group_id)


def loaded_logs(config: ClientConfig, cluster: KafkaAdmin) -> dict[int, tuple[Loaded, int]]:
    found = {}
    with ClusterSession(config) as session:
        for part in range(cluster.identity().partition_count):
            tail = TailReader(session, OFFSETS_TOPIC, part, from_log_offset=0)
            found[part] = load([tail.read()], cap_bytes=1 << 26), tail.log_offset
    return found


def plan_of_round(config: ClientConfig, cluster: KafkaAdmin, prefix: str, rng: Random) -> Plan:
    rows: list[tuple[int, Tombstone]] = []
    values: dict[Any, Any] = {}
    logs = loaded_logs(config, cluster)
    for part, (held, _) in logs.items():
        found = []
        for group_id, group in held.groups.by_id.items():
            if group_id.startswith(prefix):
                own = {key: one for key, one in held.offsets.items() if key[0] == group_id}
                values |= own
                found += [offset_tombstone(key, one, cause="broker_retention") for key, one in own.items()]
                found += group_tombstones(group) if rng.random() < 0.5 else []
        rows += [(part, one) for one in in_plan_order(found)]
    identity = cluster.identity()
    return plan_of(
        rows, values, cluster_id=identity.cluster_id, topic_id=identity.topic_id, as_of_ms=now_ms() - 1,
        cuts={part: end for part, (_, end) in logs.items()}, retention_ms=168 * HOUR_MS,
    )  # fmt: skip


def commit_all(config: ClientConfig, group_ids: list[str]) -> None:
    with ClusterSession(config) as session:
        for group_id in group_ids:
            commit_when_ready(session, group_id, OFFSETS)
            group_now(session, group_id)


def taken_along(config: ClientConfig, plan: Plan) -> list[tuple[Any, int]]:
    """Every newer value that lies right below a tombstone of its key, by the log: (key, its log_offset)."""
    found = []
    with ClusterSession(config) as session:
        for part, cut in plan.record.cuts.items():
            last: dict[Any, int] = {}
            for record in TailReader(session, OFFSETS_TOPIC, part, from_log_offset=cut).records():
                if record.is_control:
                    continue
                record_type, key = decode_key(record.key or b"")
                if record_type != 1:
                    continue
                about = key["group_id"], key["topic"], key["partition"]
                if record.value is not None:
                    last[about] = record.log_offset
                elif about in last:
                    found.append((about, last.pop(about)))
    return found


def test_commits_in_the_very_moment(config, full, seed, tmp_path, tell):
    rng = Random(seed)
    rounds, windows_ms, totals = 10 if full else 1, [], Counter[str]()  # with two seeds: 500 groups
    for number in range(rounds):
        prefix = f"{seed}-{number}-"
        group_ids = [f"{prefix}{each}" for each in range(GROUPS_A_ROUND)]
        commit_all(config, group_ids)
        with connected(config) as cluster:
            plan = plan_of_round(config, cluster, prefix, rng)
            rival = Rival(config, rng)
            for group_id in group_ids:
                if rng.random() < 0.4:
                    rival.later(group_id, rng.uniform(0, 0.06 * GROUPS_A_ROUND))
            ledger = Ledger(LOCAL, str(tmp_path), plan.record.cluster_id, plan.record.plan_id)
            rules = Rules(
                approved_by="ann", plan_sha256=plan.sha256, policy_sha256=None, max_age_ms=HOUR_MS, lease_ms=600_000,
                limits=ANY,
            )  # fmt: skip
            summary = apply_plan(
                Watched(cluster, rival, rng),  # type: ignore[arg-type]
                plan,
                ledger,
                watch=LogWatch(),
                sink="coordinator",
                rules=rules,
                clocks=Clocks(now_ms=now_ms),
            )
            rival.close()
        status = PlanStatus.of(ledger.entries())
        windows_ms += status.windows_ms
        totals.update({**summary.counts, **{f"put back: {name}": n for name, n in summary.restored.items()}})
        told = {
            (status.items[place].key, result.found.log_offset)
            for place, result in status.results.items()
            if result.outcome == "raced" and result.found is not None
        }
        lost = [each for each in taken_along(config, plan) if each not in told]
        assert lost == [], "newer offsets were deleted and nobody tells"
        assert not status.is_unsettled
    found = Windows.of(windows_ms)
    tell(
        f"{rounds * GROUPS_A_ROUND} groups, 0 newer offsets lost unreported: {dict(totals)}; window of {found.steps} "
        f"calls: p50 {found.p50_ms:.1f} ms, p99 {found.p99_ms:.1f} ms, max {found.max_ms:.1f} ms"
    )
    assert totals["done"]
