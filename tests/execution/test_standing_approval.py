"""The standing approval: what makes it void, and what its limits leave of a restore."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs as pafs
from pydantic import ValidationError

from sexton.as_text import DAY_MS, HOUR_MS
from sexton.errors import Refused, UsageError
from sexton.execution.engine import Clocks
from sexton.execution.restore.apply_restore import RestoreSummary, apply_restore
from sexton.execution.restore.diff import make_restore
from sexton.execution.restore.restore_plan import RestorePlan, Then
from sexton.execution.restore.sources import Source
from sexton.execution.standing_approval import (
    PACED,
    Allowance,
    StandingApproval,
    Terms,
    approval_in_force,
    revoke,
    write_approval,
)
from sexton.ledger.entries import Claim, Intent
from tests.execution.restore.simulated_cluster import Group, SimulatedCluster, value
from tests.execution.restore.test_apply_restore import LEASE_MS, World

LOCAL = pafs.LocalFileSystem()
GIVEN_MS, NOW_MS = 10_000, 1_000_000
POLICY = "a" * 64
TERMS = Terms(
    cluster_id="cluster", policy_sha256=POLICY, patterns=[".*"], max_offsets_per_hour=9, max_joins_per_hour=9, days=1
)
VALUE = value(7, 3, "m\0")


def approval(**terms: object) -> StandingApproval:
    return StandingApproval(
        terms=TERMS.model_copy(update=terms),
        approved_by="bea",
        approved_at_ms=GIVEN_MS,
        dag_id="approve_keep",
        run_id="manual",
        request_sha256="b" * 64,
    )


def in_force(root: Path, approval_id: str, **at: object) -> StandingApproval:
    given = {"policy_sha256": POLICY, "now_ms": NOW_MS, **at}
    return approval_in_force(LOCAL, str(root), "cluster", approval_id, **given)


def file_of(root: Path, approval_id: str) -> Path:
    return root / "cluster" / "approvals" / approval_id / "approval.json"


def test_what_was_given_is_in_force_until_its_end(tmp_path: Path) -> None:
    given = approval()
    approval_id = write_approval(LOCAL, str(tmp_path), given)
    assert write_approval(LOCAL, str(tmp_path), given) == approval_id == given.sha256
    assert in_force(tmp_path, approval_id) == given
    assert in_force(tmp_path, approval_id, now_ms=GIVEN_MS + DAY_MS - 1) == given
    with pytest.raises(Refused, match="has ended"):
        in_force(tmp_path, approval_id, now_ms=GIVEN_MS + DAY_MS)


def widen(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"days": 1', b'"days": 2'))


VOID: dict[str, tuple[Callable[[Path, str], object], str]] = {
    "tampered": (lambda root, name: widen(file_of(root, name)), "was changed after"),
    "another": (
        lambda root, name: file_of(root, name).write_bytes(approval(max_joins_per_hour=10).to_bytes()),
        "was changed after",
    ),
    "revoked": (lambda root, name: revoke(LOCAL, str(root), "cluster", name, at_ms=5), "was revoked"),
    "revoked twice": (
        lambda root, name: [revoke(LOCAL, str(root), "cluster", name, at_ms=at_ms) for at_ms in (5, 6)],
        "was revoked",
    ),
}


@pytest.mark.parametrize("why", VOID)
def test_what_makes_it_void(tmp_path: Path, why: str) -> None:
    act, told = VOID[why]
    approval_id = write_approval(LOCAL, str(tmp_path), approval())
    act(tmp_path, approval_id)
    with pytest.raises(Refused, match=told):
        in_force(tmp_path, approval_id)


def test_it_is_for_one_policy_and_one_cluster(tmp_path: Path) -> None:
    approval_id = write_approval(LOCAL, str(tmp_path), approval())
    with pytest.raises(Refused, match="policy is not the one"):
        in_force(tmp_path, approval_id, policy_sha256="c" * 64)
    of_another = approval(cluster_id="elsewhere")
    file = file_of(tmp_path, of_another.sha256)
    file.parent.mkdir()
    file.write_bytes(of_another.to_bytes())
    with pytest.raises(Refused, match="for cluster elsewhere"):
        in_force(tmp_path, of_another.sha256)


def test_files_alone_make_none(tmp_path: Path) -> None:
    """A forged document has its own id, and what bears a given id has the bytes that were approved."""
    for act in (in_force, lambda root, name: revoke(LOCAL, str(root), "cluster", name, at_ms=5)):
        with pytest.raises(UsageError, match="no such standing approval"):
            act(tmp_path, "d" * 64)
        with pytest.raises(UsageError, match="no approval_id"):
            act(tmp_path, "../../x")


@pytest.mark.parametrize("wrong", [{"days": 91}, {"days": 0}, {"patterns": []}, {"max_joins_per_hour": -1}])
def test_no_approval_goes_beyond_what_one_may_allow(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Terms(**{**TERMS.model_dump(), **wrong})
    made = approval(**wrong)  # not validated, as a program of somebody else would write it
    approval_id = write_approval(LOCAL, str(tmp_path), made)
    with pytest.raises(Refused, match="not a standing approval"):
        in_force(tmp_path, approval_id)


class Kept:
    """Simple groups s0.. with three offsets each and classic groups c0.. with one, all of them due; the later ones
    first."""

    def __init__(self, root: Path, *, simple: int = 0, classic: int = 0) -> None:
        groups = {f"s{number}": Group() for number in range(simple)}
        groups |= {f"c{number}": Group(protocol_type="consumer") for number in range(classic)}
        cluster = SimulatedCluster(groups=groups, topics_now={"t": ("id", [(0, 100)] * 3)}, log_partition_count=1)
        self.root, self.world = root, World(root, cluster)
        keys = [(name, "t", part) for name in groups for part in range(3 if name.startswith("s") else 1)]
        for name, *key in keys:
            groups[name].offsets[tuple(key)] = VALUE
        values = {key: Then(value=VALUE, commit_timestamp_ms=5, topic_id="id") for key in keys}
        self.due_ms = {key: 10_000 - int(key[0][1:]) for key in keys}
        self.source = Source(name="policy p", cluster_id="cluster", values=values, due_ms=self.due_ms)
        self.plan: RestorePlan = make_restore(self.source, cluster, keeps=True)

    def apply(self, given: StandingApproval, *, plan: RestorePlan | None = None) -> RestoreSummary:
        write_approval(LOCAL, str(self.root), given)
        now_ms = next(self.world.clock)
        allowance = Allowance(fs=LOCAL, root=str(self.root), approval=given, due_ms=self.due_ms, now_ms=now_ms)
        clocks = Clocks(now_ms=lambda: next(self.world.clock), sleep=lambda _: None)
        ledger = self.world.ledger(plan or self.plan)
        return apply_restore(
            self.world.cluster, plan or self.plan, ledger, approved_by="bea", lease_ms=LEASE_MS, clocks=clocks,
            allowance=allowance,
        )  # fmt: skip

    @property
    def bodies(self) -> list[object]:
        return [entry.body for entry in self.world.ledger(self.plan).entries()]


def test_every_action_names_its_approval(tmp_path: Path) -> None:
    kept, given = Kept(tmp_path, simple=1, classic=1), approval()
    assert kept.apply(given).counts() == {"done": 4}
    intents = [body for body in kept.bodies if isinstance(body, Intent)]
    assert [(body.checks["approval_id"], body.checks.get("is_join")) for body in intents] == [
        (given.sha256, True), (given.sha256, None)
    ]  # fmt: skip
    (claim,) = [body for body in kept.bodies if isinstance(body, Claim)]
    assert (claim.approved_by, claim.about["approval_id"]) == ("bea", given.sha256)


@pytest.mark.parametrize(("offsets", "joins", "done"), [(9, 9, 8), (4, 0, 4), (0, 1, 1), (0, 0, 0), (5, 1, 6)])
def test_limits_leave_the_rest_for_later(tmp_path: Path, offsets: int, joins: int, done: int) -> None:
    """What expires first comes first, also where a limit divides a group."""
    kept = Kept(tmp_path, simple=2, classic=2)
    given = approval(max_offsets_per_hour=offsets, max_joins_per_hour=joins)
    summary = kept.apply(given)
    assert summary.counts().get("done", 0) == done
    assert {result.error for _, result in summary.results if result.outcome == "not_done"} <= {PACED}
    assert kept.world.cluster.joins == ["c1", "c0"][:joins]
    kept_simple = [row.key[0] for row, result in summary.results if result.outcome == "done" and row.key[0] < "t"
                   and row.key[0].startswith("s")]  # fmt: skip
    assert kept_simple.count("s1") == min(offsets, 3)


def test_what_an_hour_has_used_counts_in_the_next_run(tmp_path: Path) -> None:
    kept, given = Kept(tmp_path, simple=2, classic=1), approval(max_offsets_per_hour=4, max_joins_per_hour=1)
    assert kept.apply(given).counts() == {"done": 5, "not_done": 2}
    again = replace(kept.plan, occurrence=1)
    assert kept.apply(given, plan=again).counts() == {"not_done": 7}
    assert kept.apply(approval(max_offsets_per_hour=5), plan=again).counts()["done"] == 6  # another approval
    kept.world.clock = iter(range(NOW_MS + 2 * HOUR_MS, NOW_MS + 3 * HOUR_MS))
    assert kept.apply(given, plan=replace(kept.plan, occurrence=2)).counts() == {"done": 5, "not_done": 2}


@pytest.mark.parametrize("why", ["revoked", "tampered"])
def test_a_revocation_stops_a_run_between_two_steps(tmp_path: Path, why: str) -> None:
    kept, given = Kept(tmp_path, simple=3), approval()
    seen: list[str] = []

    def between(call: str) -> None:
        seen.append(call)
        if seen.count("end") == 1 and call == "end":
            VOID[why][0](tmp_path, given.sha256)

    kept.world.cluster.between = between
    with pytest.raises(Refused, match=VOID[why][1]):
        kept.apply(given)
    assert len(kept.world.cluster.commits) == 1
