"""A look at groups whose coordinators move, refuse or are down: each group has its answers, or why it has none."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace as Answer
from typing import Any

import pytest

from sexton.archive.admin_snapshots import SCHEMAS
from sexton.errors import BrokerError
from sexton.kafka import admin_snapshot
from sexton.kafka.admin_snapshot import SnapshotOutcome, snapshot_groups
from sexton.kafka.failures import TransientError

NOT_COORDINATOR, REFUSED, NOT_FOUND, UNSTABLE = 16, 30, 69, 88


@dataclass
class Cluster:
    """Brokers by group; what is asked of a group that is not at the broker is answered NOT_COORDINATOR."""

    at: dict[str, int]
    listed_at: dict[str, int] = field(default_factory=dict)
    down: set[int] = field(default_factory=set)
    errors: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    offsets: int = 2
    asked: Counter[str] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)
    unsupported: str = ""

    broker_ids = (1, 2)

    def retrying(self, work: Any) -> Any:
        return work()

    def check(self, error_code: int, call: str, **_: Any) -> None:
        assert not error_code

    def call(self, request: Any, *, node_id: int | None = None) -> Any:
        name = type(request).__name__.removesuffix("Request")
        self.asked[name] += 1
        if name == "FindCoordinator":
            found = [Answer(key=key, node_id=self.at[key], error_code=0) for key in request.coordinator_keys]
            return Answer(coordinators=found)
        if name == "ListGroups":
            here = [group for group, node in (self.listed_at or self.at).items() if node == node_id]
            idle = {"group_state": "Empty", "protocol_type": ""}
            listed = [Answer(group_id=group, group_type=self.kinds.get(group, "classic"), **idle) for group in here]
            return Answer(error_code=0, groups=listed)
        if node_id in self.down:
            raise TransientError(f"broker {node_id} gives no answer")
        if name == self.unsupported:
            raise BrokerError(f"{name} is not known")
        ids = getattr(request, "group_ids", None) or [
            one if isinstance(one, str) else one.group_id for one in request.groups
        ]
        self.sizes.append(len(ids))
        return Answer(groups=[self._group(name, group, node_id, request) for group in ids])

    def _group(self, name: str, group: str, node_id: int | None, request: Any) -> Any:
        error = NOT_COORDINATOR if self.at[group] != node_id else self.errors.get(group, 0)
        if name == "OffsetFetch":
            code = UNSTABLE if request.require_stable else 0
            plain = {"committed_leader_epoch": -1, "metadata": ""}
            partitions = [
                Answer(partition_index=number, committed_offset=number, **plain, error_code=0 if number else code)
                for number in range(self.offsets)
            ]
            return Answer(group_id=group, error_code=error, topics=[Answer(name="t", partitions=partitions)])
        kind = {"protocol_type": "consumer", "protocol_data": "", "group_epoch": 7, "assignor_name": "uniform"}
        return Answer(group_id=group, error_code=error, group_state="Empty", **kind, members=[])


class Sink:
    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}

    def add(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        self.rows[table] += [dict(zip(SCHEMAS[table].names, row, strict=True)) for row in rows]


def snapshot(cluster: Cluster, **options: Any) -> tuple[SnapshotOutcome, dict[str, dict[str, Any]], Sink]:
    sink, clock = Sink(), count(1)
    seen = snapshot_groups(cluster, sink.add, now_ms=lambda: next(clock), sleep=lambda _: None, **options)  # type: ignore[arg-type]
    return seen, {row["group_id"]: row for row in sink.rows["groups"]}, sink


def test_every_group_with_its_offsets() -> None:
    seen, groups, sink = snapshot(Cluster({"a": 1, "b": 2, "s": 1}, kinds={"s": "share", "b": "consumer"}))
    assert (seen.groups, seen.refused, seen.failed_brokers) == (3, 0, {})
    told = {name: (row["group_type"], row["coordinator"]) for name, row in groups.items()}
    assert told == {"a": ("Classic", 1), "b": ("Consumer", 2), "s": ("Share", 1)}
    assert groups["b"]["group_epoch"] == 7
    assert groups["s"]["offsets_answered_ms"] is None  # share groups have no committed offsets
    held = [(row["group_id"], row["partition"], row["is_unstable"]) for row in sink.rows["offsets"]]
    assert held == [("a", 0, True), ("a", 1, False), ("b", 0, True), ("b", 1, False)]
    for row in groups.values():
        assert row["asked_ms"] < row["answered_ms"]
    # What is committed after the offsets were fetched must not count as of before the group was seen Empty.
    assert all(groups[name]["offsets_answered_ms"] < groups[name]["asked_ms"] for name in ("a", "b"))


def test_a_group_that_moved_is_asked_about_where_it_is() -> None:
    seen, groups, sink = snapshot(Cluster({"a": 1, "b": 2}, listed_at={"a": 1, "b": 1}))
    assert seen.refused == 0
    assert groups["b"]["coordinator"] == 2
    assert len(sink.rows["offsets"]) == 4


def test_a_broker_that_is_down_costs_its_groups_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_snapshot, "FIRST_GROUPS", 3)
    cluster = Cluster({**{f"a{n}": 1 for n in range(20)}, **{f"b{n}": 2 for n in range(20)}}, down={2})
    seen, groups, sink = snapshot(cluster)
    assert seen.failed_brokers == {2: "broker 2 gives no answer"}
    assert seen.refused == 20
    assert {row["error"] for name, row in groups.items() if name[0] == "b"} == {"broker 2 gives no answer"}
    assert {row["error"] for name, row in groups.items() if name[0] == "a"} == {None}
    assert {row["group_id"][0] for row in sink.rows["offsets"]} == {"a"}
    assert cluster.asked["FindCoordinator"] < 10  # it is given up after some attempts


def test_refused_and_gone_groups() -> None:
    seen, groups, sink = snapshot(Cluster({"a": 1, "no": 1, "gone": 1}, errors={"no": REFUSED, "gone": NOT_FOUND}))
    assert seen.refused == 1
    assert set(groups) == {"a", "no"}
    assert groups["no"]["error"] == groups["no"]["offsets_error"] == "GROUP_AUTHORIZATION_FAILED"
    assert {row["group_id"] for row in sink.rows["offsets"]} == {"a"}


def test_a_request_that_a_broker_does_not_know() -> None:
    cluster = Cluster({"a": 1, "c": 1}, kinds={"c": "consumer"}, unsupported="ConsumerGroupDescribe")
    seen, groups, _ = snapshot(cluster)
    assert seen.failed_brokers == {}
    assert groups["c"]["error"] == "ConsumerGroupDescribe is not known"
    assert groups["c"]["offsets_error"] is groups["a"]["error"] is None


def test_requests_are_as_large_as_groups_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_snapshot, "OFFSETS_A_REQUEST", 40)
    cluster = Cluster({f"g{number:03}": 1 for number in range(250)}, offsets=10)
    seen, _, sink = snapshot(cluster)
    assert seen.groups == 250
    assert max(cluster.sizes[3:]) == 4  # 40 offsets, after the first request of 100 groups
    assert len(sink.rows["offsets"]) == 2_500


def test_a_pace() -> None:
    waits: list[float] = []
    sink = Sink()
    cluster = Cluster({f"g{number}": 1 for number in range(250)})
    snapshot_groups(cluster, sink.add, now_ms=lambda: 1, sleep=waits.append, groups_per_second=100)  # type: ignore[arg-type]
    assert 2 < max(waits) <= 2.5
