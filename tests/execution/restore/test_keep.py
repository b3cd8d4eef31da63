"""Keeping offsets alive over a simulated cluster: what is done for which kind of group, and what is left alone."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from sexton.errors import Refused
from sexton.execution.restore.diff import make_restore
from sexton.execution.restore.keep import due_under_holds
from sexton.execution.restore.restore_plan import RestorePlan, Then, What
from sexton.execution.restore.sources import Source
from sexton.ledger.entries import Intent
from sexton.ledger.publish import rows_of
from sexton.ledger.recorded_steps import keep_steps, own_actions
from sexton.policy import parse_policy
from sexton.policy.field_types import FOREVER_MS
from tests.execution.restore.simulated_cluster import Group, SimulatedCluster, value
from tests.execution.restore.test_apply_restore import World

LOCAL = pafs.LocalFileSystem()
KEY = ("t", 0)
VALUE = value(7, 3, "m\0")
COMMITTED_MS, EMPTY_MS = 500, 600


def world(tmp_path: Path, group: Group, **options: object) -> World:
    made = SimulatedCluster(groups={"g": group}, topics_now={"t": ("id", [(0, 100)])}, **options)
    group.offsets[KEY] = VALUE
    return World(tmp_path, made)


def plan(own: World, then: Then | None = None) -> RestorePlan:
    then = then or Then(value=VALUE, commit_timestamp_ms=COMMITTED_MS, topic_id="id", empty_since_ms=EMPTY_MS)
    source = Source(name="policy p", cluster_id="cluster", values={("g", *KEY): then})
    return make_restore(source, own.cluster, keeps=True)


KINDS = {
    "simple": (Group(), What.KEEP),
    "classic": (Group(protocol_type="consumer"), What.JOIN),
    "connect": (Group(protocol_type="connect"), What.JOIN),
    "live classic": (Group(members=2, protocol_type="consumer", subscribed=frozenset({"u"})), What.KEEP),
    "subscribed to nothing": (Group(members=1, protocol_type="consumer", subscribed=frozenset()), What.KEEP),
    "live consumer": (Group(group_type="Consumer", members=1, subscribed=frozenset({"u"})), What.KEEP),
    "consumer": (Group(group_type="Consumer", protocol_type="consumer"), What.KEEP),
    "streams": (Group(group_type="Streams", protocol_type="streams"), What.KEEP),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_kept_by_what_moves_its_base(tmp_path: Path, kind: str) -> None:
    group, what = KINDS[kind]
    own = world(tmp_path, replace(group, offsets={}))
    made = plan(own)
    assert [row.what for row in made.rows] == [what]
    assert RestorePlan.from_bytes(made.to_bytes()) == made
    summary = own.apply(made)
    assert summary.counts() == {"done": 1}
    assert own.cluster.groups["g"].offsets == {KEY: VALUE}
    assert (len(own.cluster.joins), len(own.cluster.commits)) == ((1, 0) if what is What.JOIN else (0, 1))
    (intent,) = [entry.body for entry in own.ledger(made).entries() if isinstance(entry.body, Intent)]
    assert intent.action == "keep"
    ((_, result),) = summary.results
    steps = keep_steps(LOCAL, str(tmp_path), "cluster")
    assert steps.commits == {(("g", *KEY), 1): COMMITTED_MS}
    assert steps.states == ({("g", result.written_log_offset): EMPTY_MS} if what is What.JOIN else {})
    assert {key: (step.outcome, step.error) for key, step in steps.last.items()} == {("g", *KEY): ("done", None)}
    removed, restored = own_actions(LOCAL, str(tmp_path), "cluster")
    assert (removed, list(restored)) == ({}, [("g", *KEY)])


def test_what_is_put_back_is_not_left_alone(tmp_path: Path) -> None:
    own = world(tmp_path, Group())
    own.cluster.groups["g"].offsets.clear()
    then = Then(value=VALUE, commit_timestamp_ms=COMMITTED_MS, topic_id="id")
    source = Source(name="p", cluster_id="cluster", values={("g", *KEY): then}, swept=frozenset({("g", *KEY)}))
    made = make_restore(source, own.cluster, keeps=True)
    assert [row.what for row in made.rows] == [What.RESTORE]
    assert made.left_alone == []
    assert own.apply(made).counts() == {"done": 1}


LEFT = {
    "members": (lambda c: setattr(c.groups["g"], "members", 1), What.GROUP_HAS_MEMBERS),
    "subscribed": (
        lambda c: c.groups.update(g=replace(c.groups["g"], members=1, subscribed=frozenset("t"))),
        What.GROUP_HAS_MEMBERS,
    ),
    "another protocol type": (lambda c: setattr(c.groups["g"], "protocol_type", "sr"), What.REFUSED),
    "share": (lambda c: c.groups.update(g=Group(group_type="Share")), What.SHARE_GROUP),
    "committed since": (lambda c: c.client_commits("g", "t", 0, 8), What.NEWER_NOW),
    "gone": (lambda c: c.groups["g"].offsets.clear(), What.REFUSED),
    "topic gone": (lambda c: c.topics_now.clear(), What.TOPIC_GONE),
    "topic anew": (lambda c: c.topics_now.update(t=("new", [(0, 100)])), What.TOPIC_RECREATED),
    "data gone": (lambda c: c.topics_now.update(t=("id", [(9, 100)])), What.REFUSED),
    "pending": (lambda c: c.groups["g"].pending.add(KEY), What.PENDING_TRANSACTION),
}


@pytest.mark.parametrize("why", LEFT)
def test_what_cannot_be_kept_is_left_alone(tmp_path: Path, why: str) -> None:
    """In the plan, and where it happens only afterwards."""
    own = world(tmp_path, Group())
    shown = plan(own)
    act, what = LEFT[why]
    act(own.cluster)
    made = plan(own)
    assert ([row.what for row in made.rows], made.items) == ([what], [])
    (row,) = made.rows
    assert row.error is not None or what in (What.NEWER_NOW, What.TOPIC_RECREATED)
    assert set(own.apply(shown).counts()) <= {"refused", "changed_since"}
    assert (own.cluster.joins, own.cluster.commits) == ([], [])
    own.apply(made)
    last = keep_steps(LOCAL, str(tmp_path), "cluster").last.get(("g", *KEY))
    if what is What.NEWER_NOW:  # it does not fall due, and was only noticed by the step that was shown before
        assert last is None or last.outcome == "changed_since"
        return
    assert last is not None
    assert last.error
    (table_row,) = rows_of(own.ledger(made).entries(), as_of_ms=0)
    assert (last.outcome, table_row["action"], table_row["outcome"]) == ("refused", "keep", "refused")
    assert own.apply(made).results == [], "and at every later attempt"


@pytest.mark.parametrize("when", ["pend", "members"])
def test_a_member_that_comes_to_subscribe_is_spared(tmp_path: Path, when: str) -> None:
    """Between the preflight check and the end of the transaction, which reads the subscriptions once more."""
    live = Group(members=1, protocol_type="consumer", subscribed=frozenset({"u"}))
    own = world(tmp_path, live)
    made = plan(own)
    calls = []

    def subscribe(call: str) -> None:
        calls.append(call)
        if call == when and "pend" in calls:
            live.subscribed = frozenset({"t", "u"})

    own.cluster.between = subscribe
    assert [(result.outcome, result.error) for _, result in own.apply(made).results] == [
        ("refused", "UNKNOWN_MEMBER_ID")
    ]
    assert own.cluster.commits == []


def test_a_restore_never_writes_among_members(tmp_path: Path) -> None:
    own = world(tmp_path, Group(members=1, protocol_type="consumer", subscribed=frozenset({"u"})))
    source = Source(name="p", cluster_id="cluster", values={("g", *KEY): Then(value=value(9))})
    assert [row.what for row in make_restore(source, own.cluster, overwrites=True).rows] == [What.GROUP_HAS_MEMBERS]


def test_an_expiry_that_a_client_chose_is_left_alone(tmp_path: Path) -> None:
    own = world(tmp_path, Group())
    assert plan(own, Then(value=VALUE, expire_timestamp_ms=9)).items == []


def test_without_a_transaction_nothing_is_committed(tmp_path: Path) -> None:
    own = world(tmp_path, Group(), takes_transactions=False)
    assert own.apply(plan(own)).counts() == {"refused": 1}
    assert own.cluster.commits == []


def test_releases_that_were_not_tried_are_refused(tmp_path: Path) -> None:
    own = world(tmp_path, Group(), broker_version="2.0.1")
    with pytest.raises(Refused, match=r"before 2\.1"):
        plan(own)


@pytest.mark.parametrize(("way", "joins"), [("request", 1), ("answer", 1)])
def test_a_join_without_an_answer_is_settled_by_the_log(tmp_path: Path, way: str, joins: int) -> None:
    own = world(tmp_path, Group(protocol_type="consumer"), lost=[way])
    made = plan(own)
    assert own.apply(made).counts() == {"not_done" if way == "request" else "done": 1}
    assert own.apply(made).counts() == {"done": 1}
    assert len(own.cluster.joins) == joins


POLICY = """
version: 1
holds:
  - {name: for-ever, match: {group: for-ever}, kind: legal, owner: o, reason: r, keep: true}
"""


@dataclass
class Tables:
    """A run with one offset per hold, each due at 1,000."""

    holds: tuple[str, ...]
    base_ms: int = COMMITTED_MS
    client_ms: tuple[int | None, int | None] = (None, None)
    row: ClassVar[dict[str, str]] = {"cluster_id": "cluster"}

    def read(self, name: str, columns: object = None) -> pa.Table:
        key = [{"log_partition": 0, "group_id": hold, "topic": "t", "partition": 0} for hold in self.holds]
        if name == "offset_verdicts":
            own = [
                {
                    "policy_verdict": "hold",
                    "policy_rule": hold,
                    "broker_expires_at_ms": 1_000 if hold != "never" else None,
                    "kept_until_ms": 60_500 if hold == "brief" else FOREVER_MS,
                    "base_timestamp_ms": self.base_ms,
                    "client_commit_timestamp_ms": self.client_ms[0],
                    "client_state_timestamp_ms": self.client_ms[1],
                }
                for hold in self.holds
            ]
        else:
            own = [
                {"committed_offset": 7, "leader_epoch": 3, "metadata": "m", "commit_timestamp_ms": COMMITTED_MS,
                 "expire_timestamp_ms": None, "topic_id": "id", "log_offset": 5}
                for _ in self.holds
            ]  # fmt: skip
        return pa.Table.from_pylist([{**a, **b} for a, b in zip(key, own, strict=True)])


def due(names: str, **given: object) -> list[str]:
    hold = "{{name: {0}, match: {{group: {0}}}, kind: legal, owner: o, reason: r{1}}}"
    keeps = {"for-ever": ", keep: true", "brief": ", keep: 1m", "stops": "", "never": ", keep: true"}
    holds = "".join(f"  - {hold.format(name, keeps[name])}\n" for name in names.split())
    policy = parse_policy(f"version: 1\nholds:\n{holds}", where="p")
    options = {"before_ms": 1_001, "now_ms": 900, **given}
    source = due_under_holds(Tables(tuple(names.split())), policy, **options)
    return [*(group_id for group_id, _, _ in source.values), *source.warnings]


def test_what_is_due_under_a_hold_that_keeps() -> None:
    assert due("for-ever brief stops never") == ["for-ever", "brief"]
    assert due("for-ever", before_ms=1_000) == []
    assert due("brief", now_ms=60_500) == [
        "1 offsets fall due and are kept no longer: hold brief keeps them for 1m after the last commit"
    ]


def test_what_clients_did_goes_on_into_the_next_ledger() -> None:
    """Ours hide it from the log: the commit of an offset, or when a group became Empty."""
    policy = parse_policy(POLICY, where="p")
    for base_ms, client_ms, then in (
        (COMMITTED_MS, (None, None), (COMMITTED_MS, None)),
        (COMMITTED_MS, (300, None), (300, None)),
        (EMPTY_MS, (None, None), (COMMITTED_MS, EMPTY_MS)),
        (EMPTY_MS, (None, 400), (COMMITTED_MS, 400)),
    ):
        source = due_under_holds(Tables(("for-ever",), base_ms, client_ms), policy, before_ms=1_001, now_ms=900)
        (found,) = source.values.values()
        assert (found.commit_timestamp_ms, found.empty_since_ms) == then
