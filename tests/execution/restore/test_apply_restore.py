"""Carrying a restore out, over a simulated cluster: whatever comes between two calls, whatever answer gets lost, and
wherever a process dies, nothing newer is lost without a word and every act is in the ledger."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs as pafs

from sexton.errors import BrokerError, Refused
from sexton.execution.engine import Clocks
from sexton.execution.restore.apply_restore import RestoreSummary, apply_restore, is_done
from sexton.execution.restore.diff import make_restore
from sexton.execution.restore.restore_plan import OffsetValue, RestorePlan, Then
from sexton.execution.restore.selection import Selection
from sexton.execution.restore.sources import Source, of_ledger
from sexton.ledger.entries import ClaimProcess, Close, Intent, StepOutcome
from sexton.ledger.ledger import Ledger
from sexton.ledger.recorded_steps import own_actions, recorded_steps
from sexton.plans.basis import BY_LOG, basis_of
from tests.execution.restore.simulated_cluster import Group, SimulatedCluster, Written, value
from tests.killed import Killed

BY_ADMIN = basis_of({"coverage": "admin"})

LOCAL = pafs.LocalFileSystem()
LEASE_MS = 60_000
TOPICS = {"t": ("id", [(0, 100), (0, 100)]), "u": ("id-u", [(0, 100)])}


@dataclass
class World:
    """An archive's folder, a cluster, and a clock that every reading moves on."""

    root: Path
    cluster: SimulatedCluster
    clock: "count[int]" = field(default_factory=lambda: count(1_000_000))

    def plan(self, values: dict[tuple[str, str, int], Then], **options: bool) -> RestorePlan:
        source = Source(
            name="plan 5", cluster_id="cluster", values=values, basis=BY_ADMIN if self.cluster.hides_log else BY_LOG
        )
        return make_restore(source, self.cluster, **options)

    def ledger(self, plan: RestorePlan) -> Ledger:
        """Of a process that nobody can tell is dead: another goes on when its lease is over."""
        process = ClaimProcess(host="elsewhere", pid=1, started="0", token=str(next(self.clock)))
        return Ledger(LOCAL, str(self.root), "cluster", plan.restore_id, process=process)

    def apply(self, plan: RestorePlan) -> RestoreSummary:
        clocks = Clocks(now_ms=lambda: next(self.clock), sleep=lambda _: None)
        own = self.ledger(plan)
        return apply_restore(self.cluster, plan, own, approved_by="ann", lease_ms=LEASE_MS, clocks=clocks)

    def later(self) -> None:
        """Until every lease is over."""
        self.clock = count(next(self.clock) + 2 * LEASE_MS)


def world(tmp_path: Path, *groups: str, **options: object) -> World:
    made = SimulatedCluster(groups={name: Group() for name in groups}, topics_now=dict(TOPICS), **options)
    return World(tmp_path, made)


BY = pytest.mark.parametrize("hides_log", [False, True], ids=["log", "admin"])
"""Without the log looks stand for it."""


def thens(*group_ids: str) -> dict[tuple[str, str, int], Then]:
    """Three offsets of each group."""
    return {
        (group_id, topic, partition): Then(value=value(number + 10, number, "m"), topic_id=TOPICS[topic][0])
        for group_id in group_ids
        for number, (topic, partition) in enumerate([("t", 0), ("t", 1), ("u", 0)])
    }


def offsets_now(cluster: SimulatedCluster) -> dict[tuple[str, str, int], object]:
    return {(name, *key): found for name, group in cluster.groups.items() for key, found in group.offsets.items()}


@BY
def test_everything_is_put_back_and_told(tmp_path: Path, hides_log: bool) -> None:
    own = world(tmp_path, "a", hides_log=hides_log)
    values = thens("a", "b")
    plan = own.plan(values)
    assert RestorePlan.from_bytes(plan.to_bytes()) == plan
    summary = own.apply(plan)
    assert summary.counts() == {"done": 6}
    assert not summary.may_be_tried_again
    assert len(summary.windows_ms) == len(own.cluster.commits) == 2
    assert offsets_now(own.cluster) == {key: then.value for key, then in values.items()}
    kinds = [entry.kind for entry in own.ledger(plan).entries()]
    assert kinds == ["claim", "intent", "outcome", "intent", "outcome", "close"]
    _, restored = own_actions(LOCAL, str(tmp_path), "cluster")
    assert set(restored) == set(values)
    assert of_ledger(own.ledger(plan).entries(), Selection(), {}).basis == (BY_ADMIN if hides_log else BY_LOG)
    stamps = {(owner, *record.key): record.timestamp_ms for owner, record in own.cluster.log if record.value}
    assert hides_log or {key: act.intent_at_ms for key, (act,) in restored.items()} == stamps


@BY
def test_once_more_is_nothing(tmp_path: Path, hides_log: bool) -> None:
    own = world(tmp_path, hides_log=hides_log)
    plan = own.plan(thens("a"))
    own.apply(plan)
    assert is_done(own.ledger(plan), plan)
    entries = own.ledger(plan).entries()
    again = own.apply(plan)
    assert (again.attempt, again.counts(), again.windows_ms) == (0, {"done": 3}, [])
    assert own.ledger(plan).entries() == entries
    assert len(own.cluster.commits) == 1


def meanwhile(cluster: SimulatedCluster, act: Callable[[], None], *, before: str, nth: int = 1) -> None:
    """Let something happen right before the n-th call of a kind from now on."""
    calls = count(1)

    def happen(name: str) -> None:
        if name == before and next(calls) == nth:
            act()

    cluster.between = happen


@pytest.mark.parametrize(
    ("act", "outcome", "error"),
    [
        (lambda c: c.client_commits("a", "t", 0, 99), "changed_since", "nothing when it was shown, now 99"),
        (lambda c: setattr(c.groups["a"], "members", 1), "refused", "UNKNOWN_MEMBER_ID"),
        (lambda c: c.topics_now.pop("t"), "refused", "UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda c: c.topics_now.update(t=("new", [(0, 9), (0, 9)])), "changed_since", "the topic was recreated"),
        (lambda c: c.groups["a"].pending.add(("t", 0)), "refused", "UNSTABLE_OFFSET_COMMIT"),
        (lambda c: c._put("a", ("t", 0), value(10, 0, "m")), "changed_since", "it was there already"),
    ],
    ids=["newer", "members", "topic gone", "topic anew", "pending", "already"],
)
@BY
def test_what_the_diff_showed_must_still_be_so(tmp_path: Path, act, outcome, error, hides_log: bool) -> None:
    own = world(tmp_path, "a", hides_log=hides_log)
    plan = own.plan(thens("a"))
    act(own.cluster)
    before = offsets_now(own.cluster)
    summary = own.apply(plan)
    row, result = summary.results[0]
    assert (row.key, result.outcome, result.error) == (("a", "t", 0), outcome, error)
    assert offsets_now(own.cluster).get(row.key) == before.get(row.key)
    assert summary.may_be_tried_again == (outcome == "refused")


@pytest.mark.parametrize("takes_transactions", [True, False])
def test_members_that_come_last_are_refused(tmp_path: Path, takes_transactions: bool) -> None:
    """After the preflight check: by the coordinator, of a transaction, which has no such guard, by ourselves."""
    own = world(tmp_path, "a", takes_transactions=takes_transactions)
    plan = own.plan(thens("a"))
    before = "pend" if takes_transactions else "commit"
    meanwhile(own.cluster, lambda: setattr(own.cluster.groups["a"], "members", 1), before=before)
    summary = own.apply(plan)
    assert summary.counts() == {"refused": 3}
    assert {result.error for _, result in summary.results} == {"UNKNOWN_MEMBER_ID"}
    assert offsets_now(own.cluster) == {}
    own.cluster.groups["a"].members = 0
    assert own.apply(plan).counts() == {"done": 3}


RIVALS = {
    "commits": lambda c: c.client_commits("a", "t", 0, 99),
    "commits the same": lambda c: c.client_commits("a", "t", 0, 10),
    "pends": lambda c: c.rival_pends("a", "t", 0, 99),
}


@pytest.mark.parametrize("before", ["pend", "written"])
@pytest.mark.parametrize("rival", RIVALS)
def test_a_commit_in_the_window_stays(tmp_path: Path, rival: str, before: str) -> None:
    """Compared and set: what comes before the pended value, or before the log is read, is left alone."""
    own = world(tmp_path, "a")
    plan = own.plan(thens("a"))
    meanwhile(own.cluster, lambda: RIVALS[rival](own.cluster), before=before)
    summary = own.apply(plan)
    own.cluster.rival_ends(committed=True)
    assert summary.counts() == {"changed_since": 1, "done": 2}
    assert summary.warnings == []
    expected = 10 if rival == "commits the same" else 99
    assert offsets_now(own.cluster)["a", "t", 0] == value(expected)
    (_, left), *_ = summary.results
    assert left.error == f"{expected} was committed since"
    assert not summary.may_be_tried_again


def test_a_pending_offset_without_a_value_is_seen(tmp_path: Path) -> None:
    """Pended before the log's end at the look: only OffsetFetch by name tells of it."""
    own = world(tmp_path, "a")
    plan = own.plan(thens("a"))
    own.cluster.rival_pends("a", "t", 0, 99)
    assert own.apply(plan).counts() == {"done": 2, "refused": 1}
    own.cluster.rival_ends(committed=True)
    assert offsets_now(own.cluster)["a", "t", 0] == value(99)


@pytest.mark.parametrize("way", ["request", "answer", "nobody there"])
def test_pending_without_an_answer_is_ended(tmp_path: Path, way: str) -> None:
    own = world(tmp_path, "a", lost_pends=[way])
    plan = own.plan(thens("a"))
    assert own.apply(plan).counts() == {"not_done": 3}
    assert not own.cluster.open
    assert own.apply(plan).counts() == {"done": 3}


def test_the_ledger_knows_the_way(tmp_path: Path) -> None:
    for takes_transactions in (True, False):
        own = world(tmp_path / str(takes_transactions), "a", takes_transactions=takes_transactions)
        plan = own.plan(thens("a"))
        summary = own.apply(plan)
        (intent,) = [entry.body for entry in own.ledger(plan).entries() if isinstance(entry.body, Intent)]
        assert ("producer_id" in intent.checks) == takes_transactions
        assert (summary.warnings == []) == takes_transactions
    assert intent.checks["plain_because"] == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED (allow it)"


def test_a_plain_commit_replaces_nothing_that_was_seen(tmp_path: Path) -> None:
    own = world(tmp_path, "a", takes_transactions=False)
    own.cluster.client_commits("a", "t", 0, 50)
    plan = own.plan(thens("a"), overwrites=True)
    assert len(plan.items) == 3
    summary = own.apply(plan)
    assert summary.counts() == {"done": 2, "refused": 1}
    assert offsets_now(own.cluster)["a", "t", 0] == value(50)
    own.cluster.takes_transactions = True
    assert own.apply(plan).counts() == {"done": 3}
    hidden = world(tmp_path / "hidden", "a", hides_log=True)
    hidden.cluster.client_commits("a", "t", 0, 50)
    assert hidden.plan(thens("a"), overwrites=True).counts() == {"restore": 2, "refused": 1}


def test_a_plain_commit_in_the_window_is_told(tmp_path: Path) -> None:
    """It is replaced, for OffsetCommit cannot compare: but it is known, and its value is in the ledger."""
    own = world(tmp_path, "a", takes_transactions=False)
    plan = own.plan(thens("a"))
    meanwhile(own.cluster, lambda: own.cluster.client_commits("a", "t", 0, 99), before="commit")
    summary = own.apply(plan)
    assert summary.counts() == {"done": 2, "raced": 1}
    (_, raced), *_ = summary.results
    assert raced.found is not None
    assert raced.found.committed_offset == 99
    undone = of_ledger(own.ledger(plan).entries(), Selection(), {})
    assert {key: then.value for key, then in undone.values.items()} == {("a", "t", 0): value(99)}


@BY
def test_a_commit_right_after_is_no_loss(tmp_path: Path, hides_log: bool) -> None:
    own = world(tmp_path, "a", hides_log=hides_log)
    plan = own.plan(thens("a"))
    meanwhile(own.cluster, lambda: own.cluster.client_commits("a", "t", 0, 99), before="group", nth=2)
    summary = own.apply(plan)
    assert summary.counts() == {"done": 3}
    told = ["another offset was committed since"] if hides_log else []
    assert [result.error for _, result in summary.results if result.error] == told
    assert offsets_now(own.cluster)["a", "t", 0] == value(99)


@BY
@pytest.mark.parametrize(("way", "came"), [("request", "not_done"), ("answer", "done"), ("nobody there", "not_done")])
def test_an_answer_that_never_came_is_settled_by_reading(tmp_path: Path, way: str, came: str, hides_log: bool) -> None:
    own = world(tmp_path, "a", lost=[way], hides_log=hides_log)
    plan = own.plan(thens("a"))
    assert own.apply(plan).counts() == {came: 3}
    assert not any(told.is_open for told in recorded_steps(own.ledger(plan).entries()))
    assert own.apply(plan).counts() == {"done": 3}
    assert len(own.cluster.commits) == 1


def test_a_broker_without_an_answer_ends_the_attempt(tmp_path: Path) -> None:
    own = world(tmp_path, "a")
    plan = own.plan(thens("a", "b"))

    def fail() -> None:
        raise BrokerError("no broker answers")

    meanwhile(own.cluster, fail, before="group", nth=6)
    with pytest.raises(BrokerError):
        own.apply(plan)
    own.cluster.between = lambda _: None
    entries = own.ledger(plan).entries()
    assert entries[-1].kind == "close"
    summary = own.apply(plan)
    assert (summary.attempt, summary.counts()) == (2, {"done": 6})
    assert len(own.cluster.commits) == 2


def test_another_cluster_is_refused(tmp_path: Path) -> None:
    own = world(tmp_path, "a")
    plan = own.plan(thens("a"))
    own.cluster.cluster_id = "another"
    with pytest.raises(Refused, match="this is another"):
        own.apply(plan)


def test_large_groups_go_in_pieces(tmp_path: Path) -> None:
    own = world(tmp_path)
    own.cluster.topics_now["wide"] = ("id", [(0, 100)] * 300)
    long = "m" * 4_000
    values = {("a", "wide", part): Then(value=value(5, None, long), topic_id="id") for part in range(300)}
    plan = own.plan(values)
    assert own.apply(plan).counts() == {"done": 300}
    sizes = [sum(len(each.metadata) for each in some.values()) for _, some in own.cluster.commits]
    assert len(sizes) == 4
    assert max(sizes) <= 400_000


def run_with_deaths(own: World, plan: RestorePlan, die_at: int) -> int:
    """Apply until it is over, dying at the n-th call to the cluster; how many calls there were."""
    calls = count()

    def between(_: str) -> None:
        if next(calls) == die_at:
            raise Killed

    own.cluster.between = between
    try:
        own.apply(plan)
    except Killed:
        with pytest.raises(Refused, match="is running"):
            own.apply(plan)
        own.later()
        own.cluster.between = lambda _: None
        own.apply(plan)
    return next(calls)


@BY
def test_it_may_die_before_any_call(tmp_path: Path, hides_log: bool) -> None:
    values = thens("a", "b", "c")
    for die_at in range(100):
        own = world(tmp_path / str(die_at), "a", hides_log=hides_log)
        plan = own.plan(values)
        reached = run_with_deaths(own, plan, die_at)
        entries = own.ledger(plan).entries()
        assert offsets_now(own.cluster) == {key: then.value for key, then in values.items()}
        assert is_done(own.ledger(plan), plan)
        assert not any(told.is_open for told in recorded_steps(entries))
        assert len(own.cluster.commits) == 3, "a step that was done is not done again"
        _, restored = own_actions(LOCAL, str(own.root), "cluster")
        assert set(restored) == set(values)
        if reached <= die_at:
            break
    else:
        pytest.fail("it never came to its end")
    assert die_at > 10


def in_effect(cluster: SimulatedCluster) -> list[tuple[str, Written]]:
    """The offset records of the log without those of transactions that were aborted or never ended."""
    ends: dict[int, bool] = {}
    found = []
    for group_id, record in reversed(cluster.log):
        if record.is_committed is not None:
            ends[record.producer_id] = record.is_committed
        elif record.producer_id == -1 or ends.get(record.producer_id):
            found.append((group_id, record))
    return found[::-1]


LOST = ["lose request", "lose answer", "lose pend"]
OFTEN = ["newer", "newer", "newer", "pend", "pend", "end"]
actions = st.sampled_from([*OFTEN, "member", "leave", "delete", "remake", *LOST, "die"])


@settings(max_examples=100)
@given(
    script=st.dictionaries(st.integers(0, 40), actions, max_size=10),
    held=st.booleans(),
    takes_transactions=st.booleans(),
)
def test_nothing_newer_is_lost(tmp_path_factory, script: dict[int, str], held: bool, takes_transactions: bool) -> None:
    """Anything may happen before any call. In the end: no value of a client was replaced by ours; by plain commits only
    such as are in the ledger. Every commit of ours is in it, too."""
    groups = ["a"] if held else []
    own = world(tmp_path_factory.mktemp("world"), *groups, takes_transactions=takes_transactions)
    values = thens("a", "b")
    plan = own.plan(values)
    calls = count()
    number = count(50)

    def between(_: str) -> None:
        cluster = own.cluster
        match script.get(next(calls)):
            case "newer":
                cluster.client_commits("a", "t", 0, next(number))
            case "pend":
                cluster.rival_pends("a", "t", 0, next(number))
            case "end":
                cluster.rival_ends(committed=True)
            case "lose pend":
                cluster.lost_pends = ["answer"]
            case "member":
                cluster.groups.setdefault("a", Group()).members = 1
            case "leave":
                cluster.groups.setdefault("a", Group()).members = 0
            case "delete":
                cluster.delete_group("a")
            case "remake":
                cluster.topics_now["u"] = ("new", [(0, 9)])
            case "lose request":
                cluster.lost = ["request"]
            case "lose answer":
                cluster.lost = ["answer"]
            case "die":
                raise Killed

    own.cluster.between = between
    for _ in range(len(script) + 2):
        try:
            own.apply(plan)
        except Killed:
            own.later()
    own.cluster.between = lambda _: None
    own.apply(plan)
    entries = own.ledger(plan).entries()
    assert not any(told.is_open for told in recorded_steps(entries))
    told = {
        (item.key, result.found.committed_offset)
        for entry in entries
        if isinstance(entry.body, StepOutcome)
        for result in entry.body.items
        for intent in entries
        if isinstance(intent.body, Intent)
        for item in intent.body.items
        if item.item_id == result.item_id and result.found is not None
    }
    ours = {then.value for then in values.values()}
    last: dict[tuple[str, str, int], OffsetValue | None] = {}
    for group_id, record in in_effect(own.cluster):
        key = (group_id, *record.key)
        replaced, last[key] = last.get(key), record.value
        if record.value in ours and replaced is not None and replaced not in ours:
            assert not takes_transactions
            assert (key, replaced.committed_offset) in told
    _, restored = own_actions(LOCAL, str(own.root), "cluster")
    assert {(group_id, *key) for group_id, some in own.cluster.commits for key in some} <= set(restored)
    assert isinstance(entries[-1].body, Close) or not own.plan(values).items
