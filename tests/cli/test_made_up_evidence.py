"""A kind of evidence that is neither log nor Admin API: samples of a monitoring system, offsets of some moment in the
first half of a minute, states of one in the second. Whatever answers from admin snapshots answers by these as soon as
their series is one of KINDS."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sexton.archive.admin_snapshots import GROUPS, MEMBERS, OFFSETS, AdminSnapshot, SnapshotSeries
from sexton.archive.cluster_metadata import ClusterMetadata
from sexton.errors import UsageError
from sexton.execution.delete.apply_plan import apply_plan
from sexton.execution.delete.recorded import watch_of
from sexton.ledger.ledger import Ledger
from sexton.plans.read_plan import read_plan
from sexton.runs import admin_tables
from sexton.verdicts.intervals import CLOCK_SLACK_MS
from tests.archived import CLUSTER, Archive
from tests.faults.apply_cluster import START_MS, SimCluster
from tests.faults.apply_worlds import LOCAL, World

MINUTE_MS, HALF_MS = 60_000, 30_000
NOW_MS = START_MS // MINUTE_MS * MINUTE_MS
Asked = Callable[..., Any]
Sample = dict[str, tuple[str, dict[int, int]]]
"""By group its state, and its offsets by partition of topic t1."""


class Samples(SnapshotSeries):
    """A sample a minute, in memory."""

    coverage, source = "samples", "by samples of every minute"
    taken: dict[int, Sample] = {}  # noqa: RUF012

    @property
    def instants(self) -> list[int]:
        return sorted(self.taken)

    def manifest(self, taken_at_ms: int) -> AdminSnapshot:
        settings = {"offsets.retention.minutes": "10"}
        topics = [{"topic": "t1", "id": None, "partitions": [[0, 99]] * 3}]
        return AdminSnapshot(
            cluster_id=self.cluster_id, taken_at_ms=taken_at_ms, finished_at_ms=taken_at_ms + MINUTE_MS - 1,
            reason="nobody may read it", sees_all_groups=True, sha256={"samples": f"{taken_at_ms:064x}"},
            metadata=ClusterMetadata(
                taken_at_ms=taken_at_ms, cluster_id=self.cluster_id, broker_version="4.3", settings=settings,
                topic_id="unknown", partition_count=2, topics=topics, sees_all_topics=True,
            ),
        )  # fmt: skip

    def read_table(self, snapshot: AdminSnapshot, name: str) -> pa.Table:
        sample, until_ms = self.taken[snapshot.taken_at_ms], snapshot.finished_at_ms
        half_ms = snapshot.taken_at_ms + HALF_MS
        asked = {"asked_ms": half_ms, "answered_ms": until_ms}
        asked |= {"offsets_asked_ms": snapshot.taken_at_ms, "offsets_answered_ms": half_ms}
        kind = {"group_type": "Classic", "protocol_type": "consumer", "subscription_known": True, "member_count": 0}
        kind["subscribed_topics"] = ["t1"]
        groups = [{**kind, **asked, "group_id": one, "state": state} for one, (state, _) in sample.items()]
        value = {"topic": "t1", "metadata": "", "is_unstable": False}
        offsets = [
            {**value, "group_id": one, "partition": partition, "committed_offset": offset}
            for one, (_, held) in sample.items() for partition, offset in held.items()
        ]  # fmt: skip
        rows, schema = {"groups": (groups, GROUPS), "members": ([], MEMBERS), "offsets": (offsets, OFFSETS)}[name]
        return pa.Table.from_pylist(rows, schema=schema)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """`old` is Empty for twelve minutes, `edge` for as long as offsets are kept, `busy` has members."""

    def state(ago: int, since: int) -> str:
        return "Empty" if ago <= since else "Stable"

    ago = range(20, -1, -1)
    monkeypatch.setattr(Samples, "taken", {
        NOW_MS - each * MINUTE_MS: {
            "old": (state(each, 12), {0: 5, 1: 6} if each > 5 else {0: 5}),
            "edge": (state(each, 10), {0: 7}),
            "busy": ("Stable", {0: 20 - each}),
        }
        for each in ago
    })  # fmt: skip
    monkeypatch.setattr(admin_tables, "KINDS", [*admin_tables.KINDS, Samples])
    return Archive(tmp_path / "archive").root


def test_a_run_explain_and_diff(archive: str, asked: Asked, tmp_path: Path) -> None:
    found = asked("audit", "--archive", archive, "--cluster-id", CLUSTER, "--out", tmp_path / "run")
    assert (found["exit_code"], found["run"]["coverage"]) == (0, "samples")
    assert found["expiring"]["unknown"] == {"between_snapshots": 1}
    told = asked("explain", "old", "--archive", archive, "--cluster-id", CLUSTER)
    assert [event["what"] for event in told["events"]] == ["appeared", "committed", "became", "deleted"]
    assert {event["log_offset"] for event in told["events"]} == {-1}
    (left,) = told["next"]
    assert left["expires_at_ms"] - left["due_after_ms"] == 3 * HALF_MS - 1 + 2 * CLOCK_SLACK_MS
    ends = (NOW_MS - 7 * MINUTE_MS, NOW_MS)
    told = asked("diff", *ends, "--archive", archive, "--cluster-id", CLUSTER)
    assert (told["coverage"], told["admin_snapshots"], told["counts"]["offsets"]["disappeared"]) == ("samples", 8, 1)
    (gone,) = (row for row in told["offsets"] if row["after"] is None)
    assert gone["changed_after_ms"] == NOW_MS - 6 * MINUTE_MS
    assert gone["changed_by_ms"] == NOW_MS - 5 * MINUTE_MS + HALF_MS


def test_a_plan_and_its_dry_run(archive: str, asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the samples plan is compared with the cluster like any plan without the log."""
    made = asked("plan", "--archive", archive, "--cluster-id", CLUSTER, "--out", tmp_path / "run")
    plan = read_plan(LOCAL, archive, CLUSTER, made["plan_id"])
    assert plan.tombstones["group_id"].to_pylist() == ["old"]
    cluster = SimCluster(1)
    cluster.cluster_id, cluster.topics, cluster.now_ms = CLUSTER, {"t1": 3}, NOW_MS + 2 * MINUTE_MS
    cluster.classic("old")
    cluster.commit("old", "t1", 0, 5)
    world = World(cluster=cluster, plan=plan, root=tmp_path)

    def dry_run() -> dict[str, int]:
        ledger = Ledger(LOCAL, archive, CLUSTER, plan.record.plan_id)
        watch = watch_of(LOCAL, archive, plan)
        own = {"rules": world.rules(), "clocks": world.clocks, "watch": watch}
        return apply_plan(cluster, plan, ledger, sink="dry_run", **own).counts

    assert dry_run() == {"would_be_done": 1}
    cluster.commit("old", "t1", 0, 6)
    assert dry_run() == {"changed_since": 1}
    monkeypatch.setattr(admin_tables, "KINDS", admin_tables.KINDS[:1])
    with pytest.raises(UsageError, match="coverage samples"):
        dry_run()
