"""`sexton keep` over an archive and a simulated cluster: under a standing approval, and what a sweep has taken."""

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from sexton import cli
from sexton.cli import keep as keep_command
from sexton.cli import restore as restore_command
from sexton.execution import kafka_admin as real
from sexton.execution.standing_approval import PACED
from sexton.ledger.entries import Intent
from sexton.ledger.ledger import Ledger
from sexton.policy import parse_policy
from sexton.settings import settings
from tests.approvals import give_approval
from tests.archived import Archive
from tests.execution.restore.simulated_cluster import Group, SimulatedCluster, value
from tests.log_builder import commit, group_entry, tombstone
from tests.pipeline.archive_runs import instant, minute

NOT_KEPT = 6
POLICY = """
version: 1
holds:
  - {name: kept, match: {prefix: kept-}, kind: operational, owner: o, reason: r, keep: true, restore: true}
  - {name: brief, match: {prefix: brief-}, kind: operational, owner: o, reason: r, keep: 5m, restore: true}
  - {name: no-more, match: {prefix: lost-}, kind: operational, owner: o, reason: r, keep: true}
"""
SETTINGS = {"offsets.retention.minutes": "10", "offsets.retention.check.interval.ms": "60000"}
SWEPT, STALE = ("kept-swept", "brief-swept", "lost-swept"), "kept-stale"
NOW = 13


def swept(group_id: str) -> list[Any]:
    return [tombstone(group_id), group_entry(2, group_id, None)]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """The broker keeps offsets for ten minutes. Those of minute 1 were swept in minute 12, those of minute 5 are due
    soon, and one was deleted by hand."""
    made = Archive(tmp_path / "archive", topics=[{"topic": "t", "id": "id", "partitions": [[0, 100], [0, 100]]}],
                   settings=SETTINGS)  # fmt: skip
    at = {"commit_timestamp_ms": instant(1) - 10_000, "metadata": "m\0", "leader_epoch": 2}
    early = [*(commit(name, 7, **at) for name in (*SWEPT, STALE))]
    made.snapshot(instant(1) + 2_000, {0: minute(1, *early, first=0)})
    due = {**at, "commit_timestamp_ms": instant(5) - 10_000}
    deleted = [commit("kept-deleted", 3, **due), commit("kept-deleted", 4, partition=1, **due)]
    made.snapshot(
        instant(5) + 2_000,
        {
            0: minute(
                5, commit(STALE, 8, **at), commit("kept-a", 7, **due), commit("kept-b", 7, **due), *deleted, first=4
            )
        },
    )
    first = len(early) + 5
    made.snapshot(instant(8) + 2_000, {0: minute(8, tombstone("kept-deleted"), first=first)})
    gone = [entry for name in (*SWEPT, STALE) for entry in swept(name)]
    made.snapshot(instant(12) + 2_000, {0: minute(12, *gone, first=first + 1)})
    return made


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SimulatedCluster]:
    made = SimulatedCluster(
        groups={
            **{name: Group(offsets={("t", 0): value(7, 2, "m\0")}) for name in ("kept-a", "kept-b")},
            "kept-deleted": Group(offsets={("t", 1): value(4, 2, "m\0")}),
        },
        topics_now={"t": ("id", [(0, 100), (0, 100)])},
        log_partition_count=1,
    )
    monkeypatch.setattr(real, "connected", lambda config: nullcontext(made))
    for module in (keep_command, restore_command):
        monkeypatch.setattr(module, "now_ms", lambda: instant(NOW))
    monkeypatch.setenv("SEXTON_HOME", str(tmp_path))  # there is no lake
    settings.cache_clear()
    yield made
    settings.cache_clear()


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


@pytest.fixture
def keep(
    capsys: pytest.CaptureFixture[str], archive: Archive, cluster: SimulatedCluster, policy: Path
) -> Callable[..., Any]:
    def run(*more: str, code: int = 0, given: tuple[str, ...] | None = None) -> Any:
        place = ("--policy", str(policy), "--bootstrap-servers", "b:1", "--every", "1m", "--no-snapshot")
        got = cli.main(["keep", "--archive", archive.root, "--json", *(place if given is None else given), *more])
        out, err = capsys.readouterr()
        assert got == code, err + out
        return json.loads(out or err.strip().splitlines()[-1])

    return run


@pytest.fixture
def approve(archive: Archive, policy: Path) -> Callable[..., str]:
    def give(**terms: Any) -> str:
        sha256 = parse_policy(policy.read_text(), where="p").sha256
        return give_approval(archive.root, cluster_id="cluster", policy_sha256=sha256, at_ms=instant(NOW) - 5, **terms)

    return give


def what_of(found: dict[str, Any], name: str = "what") -> dict[str, str]:
    return {row["group_id"]: row[name] for row in found["offsets"]}


def test_what_a_sweep_took_is_put_back_where_the_hold_says_so(
    keep: Callable[..., Any], cluster: SimulatedCluster
) -> None:
    """Not what was deleted by hand, not what a hold keeps no longer, and nothing of a hold that does not say so."""
    shown = keep()
    assert what_of(shown) == {
        "kept-a": "keep", "kept-b": "keep", "kept-deleted": "keep", "kept-stale": "restore", "kept-swept": "restore"
    }  # fmt: skip
    warnings = [one for one in shown["warnings"] if "not restored" in one]
    assert warnings == [
        "1 offsets are gone and not restored: deleted, not swept",
        "1 offsets are gone and not restored: no longer kept by their hold",
    ]
    assert cluster.commits == []
    done = keep("--apply", "--approved-by", "ann")
    assert done["counts"] == {"done": 5}
    assert cluster.groups["kept-swept"].offsets == {("t", 0): value(7, 2, "m\0")}
    assert cluster.groups["kept-stale"].offsets == {("t", 0): value(8, 2, "m\0")}, "as of the next snapshot"
    assert set(cluster.groups) == {"kept-a", "kept-b", "kept-deleted", "kept-stale", "kept-swept"}
    assert cluster.groups["kept-deleted"].offsets == {("t", 1): value(4, 2, "m\0")}


def test_a_client_that_commits_meanwhile_is_spared(keep: Callable[..., Any], cluster: SimulatedCluster) -> None:
    def between(call: str) -> None:
        if call == "written":
            cluster.between = lambda _: None
            cluster.client_commits("kept-swept", "t", 0, 50)

    shown = keep()
    cluster.groups |= {"kept-swept": Group(offsets={("t", 0): value(9)})}
    assert what_of(keep())["kept-swept"] == "newer_now"
    del cluster.groups["kept-swept"]
    for name in ("kept-a", "kept-b", "kept-deleted"):
        cluster.groups[name].offsets[next(iter(cluster.groups[name].offsets))] = value(8)
    cluster.between = between
    done = keep("--apply", "--approved-by", "ann")
    assert done["counts"] == {"changed_since": 1, "done": 1}
    assert cluster.groups["kept-swept"].offsets == {("t", 0): value(50)}
    assert shown["would"] == {"restore": 2, "keep": 3}


def test_under_a_standing_approval(
    keep: Callable[..., Any], approve: Callable[..., str], archive: Archive, cluster: SimulatedCluster
) -> None:
    approval_id = approve(patterns=["kept-(a|sw).*"])
    done = keep("--apply", "--approval", approval_id)
    assert done["counts"] == {"done": 2}
    assert what_of(done) == {"kept-a": "keep", "kept-swept": "restore"}
    assert [one for one in done["warnings"] if "cover" in one] == [
        "3 offsets belong to groups that the standing approval does not cover, and are left alone"
    ]
    entries = Ledger(archive.fs, archive.root, "cluster", done["restore_id"]).entries()
    assert {entry.body.checks["approval_id"] for entry in entries if isinstance(entry.body, Intent)} == {approval_id}
    assert [entry.body.action for entry in entries if isinstance(entry.body, Intent)] == ["keep", "restore"]
    assert entries[0].body.approved_by == "bea"


@pytest.mark.parametrize(("limit", "code"), [(3, 0), (2, NOT_KEPT), (0, NOT_KEPT)])
def test_what_its_limits_leave_waits_unless_it_would_be_lost(
    keep: Callable[..., Any], approve: Callable[..., str], monkeypatch: pytest.MonkeyPatch, limit: int, code: int
) -> None:
    """What is gone already can wait, what expires before the next run cannot."""
    monkeypatch.setattr(keep_command, "now_ms", lambda: instant(NOW) + 30_000)
    done = keep("--apply", "--approval", approve(max_offsets_per_hour=limit), code=code)
    assert done["counts"].get("done", 0) == limit
    left = {row["group_id"] for row in done["offsets"] if row["error"] == PACED}
    assert "kept-swept" in left
    assert len(left) == 5 - limit


def test_what_is_due_only_after_the_next_run_can_wait(
    keep: Callable[..., Any], approve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_command, "now_ms", lambda: instant(12) + 30_000)
    done = keep("--apply", "--approval", approve(max_offsets_per_hour=0))
    assert done["counts"] == {"not_done": 5}


def test_an_approval_that_is_not_in_force_does_nothing(
    keep: Callable[..., Any], approve: Callable[..., str], policy: Path, cluster: SimulatedCluster
) -> None:
    approval_id = approve()
    whole = policy.read_text()
    policy.write_text(whole.replace("keep: true, restore: true", "keep: 9m, restore: true"))
    assert "policy is not the one" in keep("--apply", "--approval", approval_id, code=6)["error"]
    policy.write_text(whole)
    assert keep("--revoke", approval_id, given=()) == {"operation": "revoke", "approval_id": approval_id}
    assert "was revoked" in keep("--apply", "--approval", approval_id, code=6)["error"]
    assert (cluster.commits, cluster.joins) == ([], [])


@pytest.mark.parametrize(
    "given", [("--approval", "a" * 64), ("--approval", "a" * 64, "--apply", "--approved-by", "ann"), ("--apply",),
              ("--revoke", "a" * 64)]
)  # fmt: skip
def test_what_does_not_go_together(keep: Callable[..., Any], given: tuple[str, ...]) -> None:
    keep(*given, code=2)
