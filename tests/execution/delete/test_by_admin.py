"""A plan from admin snapshots, applied where no log is read: every guard by a fresh admin snapshot, and what admin
snapshots cannot show is said."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sexton.errors import Refused
from sexton.execution.delete.apply_plan import apply_plan
from sexton.execution.kafka_admin import BrokerTime
from sexton.execution.restore.selection import Selection
from sexton.execution.restore.sources import of_ledger
from sexton.kafka.failures import Unsettled
from sexton.plans.basis import BY_LOG
from sexton.plans.check_content import check_content
from tests.execution.delete.test_apply_plan import GROUP, change, made, right_before
from tests.faults.apply_cluster import US, SimCluster
from tests.faults.apply_worlds import HOUR_MS, World, account, by_admin, plan_for


def seen(tmp_path: Path, **options: Any) -> World:
    """A cluster with one group, and a plan from admin snapshots of all its offsets; the log must not be read."""
    world = by_admin(made(tmp_path, **options))

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("the log is hidden")

    for name in ("tail", "committed", "group_now", "append_tombstones", "commit_offsets"):
        setattr(world.cluster, name, never)
    return world


def errors(world: World) -> set[str]:
    return {str(each.error) for each in world.summaries[-1].notable}


@pytest.mark.parametrize("kind", ["simple", "classic"])
def test_what_is_as_it_was_goes(tmp_path: Path, kind: str) -> None:
    world = seen(tmp_path, kind=kind)
    assert world.apply(sink="dry_run").counts == {"would_be_done": 2}
    assert world.ledger.entries() == []
    summary = world.apply()
    assert (summary.counts, summary.notable) == ({"done": 2}, ())
    assert world.cluster.offsets() == {}
    assert "was deleted unseen, if there was one: 1 calls" in summary.warnings[0]
    assert [call for call in world.cluster.calls if call.startswith("delete")] == ["delete_offsets"]
    claim, intent, *_ = world.ledger.entries()
    assert claim.body.about["coverage"] == "admin"  # type: ignore[union-attr]
    assert intent.body.checks["state"] == "Empty"  # type: ignore[union-attr]
    assert world.apply().warnings[0] == "nothing is left to do"


@pytest.mark.parametrize("what", ["commit", "another topic", "member"])
@pytest.mark.parametrize("nth", [1, 2], ids=["before", "preflight check"])
def test_a_group_that_did_something_is_left_alone(tmp_path: Path, what: str, nth: int) -> None:
    world = seen(tmp_path)
    world.cluster.between = at_snapshot(nth, lambda: change(world, what))
    assert world.apply().counts == {"changed_since": 2}
    assert not [call for call in world.cluster.calls if call.startswith("delete")]


def at_snapshot(nth: int, act: Callable[[], None]) -> Callable[[str], None]:
    """Let something happen right before the n-th snapshot."""
    snapshots = count(1)

    def between(name: str) -> None:
        if name == "snapshot" and next(snapshots) == nth:
            act()

    return between


@pytest.mark.parametrize("nth", [1, 2], ids=["before", "preflight check"])
def test_what_a_transaction_holds_is_left_alone(tmp_path: Path, nth: int) -> None:
    world = seen(tmp_path)
    world.cluster.between = at_snapshot(nth, lambda: change(world, "pending"))
    assert world.apply().counts == {"changed_since": 1, "done": 1}
    assert errors(world) == {"a transaction that is open may change it"}


def test_a_group_that_came_and_went_shows_it_by_its_epoch(tmp_path: Path) -> None:
    cluster = SimCluster(1)
    cluster.topics = {"t1": 1}
    cluster.consumer(GROUP, epoch=3)
    cluster.commit(GROUP, "t1", 0, 10)
    cluster.now_ms += HOUR_MS
    world = by_admin(World(cluster=cluster, plan=plan_for(cluster), root=tmp_path))
    cluster.now_ms += 1_000
    cluster.consumer(GROUP, epoch=5)
    assert world.apply().counts == {"changed_since": 1}
    assert errors(world) == {"the group has been active since the plan was made: group epoch 3 then, 5 now"}


def test_what_a_snapshot_since_the_plan_saw_counts(tmp_path: Path) -> None:
    world = seen(tmp_path)
    assert world.then is not None
    stable = {"changed": "the group is Stable (by the admin snapshot of 5 ms)"}
    world = replace(world, then={name: replace(one, **stable) for name, one in world.then.items()})
    assert world.apply().counts == {"changed_since": 2}


def test_what_is_hidden_is_not_taken_for_gone(tmp_path: Path) -> None:
    world = seen(tmp_path)
    world.cluster.hidden = {("t1", 0)}
    assert world.apply().counts == {"done": 1, "refused": 1}
    assert "TOPIC_AUTHORIZATION_FAILED" in errors(world)


def test_what_cannot_be_looked_at_is_left_alone_and_said(tmp_path: Path) -> None:
    world = seen(tmp_path)
    world.cluster.faults.read_fails = 0
    right_before(world, "snapshot", lambda: setattr(world.cluster.faults, "read_fails", 1_000))
    summary = world.apply()
    assert (summary.counts, summary.exit_code) == ({"refused": 2}, 1)
    assert errors(world) == {"its group cannot be read: no broker answers"}
    world.cluster.between = lambda name: None
    world.cluster.faults.read_fails = 0
    assert world.apply().counts == {"done": 2}


def test_no_answer_and_no_snapshot_afterwards_is_settled_by_the_next_attempt(tmp_path: Path) -> None:
    world = seen(tmp_path)
    right_before(world, "delete_offsets", lambda: setattr(world.cluster.faults, "read_fails", 1_000))
    summary = world.apply()
    assert (summary.counts, summary.exit_code) == ({"unknown": 2}, 1)
    world.cluster.between = lambda name: None
    world.cluster.faults.read_fails = 0
    again = world.apply()
    assert (again.counts, again.attempt, again.exit_code) == ({"done": 2}, 2, 0)
    assert world.cluster.calls.count("delete_offsets") == 1
    assert account(world).violations == []


def test_a_group_that_became_active_during_the_call_says_so(tmp_path: Path) -> None:
    world = seen(tmp_path)
    right_before(world, "delete_offsets", lambda: world.cluster.commit(GROUP, "t0", 0, 5))
    summary = world.apply()
    assert summary.counts == {"done": 2}
    assert errors(world) == {"the group was active during the call: a commit in that moment may be deleted as well"}


def after_the_call(world: World, happens: Callable[[], object]) -> None:
    """Let something happen at the first call after the deletion."""
    called: list[int] = []

    def between(name: str) -> None:
        if name == "delete_offsets":
            called.append(0)
        elif len(called) == 1:
            called.append(0)
            happens()

    world.cluster.between = between


def test_a_commit_right_after_the_call_is_kept(tmp_path: Path) -> None:
    world = seen(tmp_path, partitions=1)
    after_the_call(world, lambda: world.cluster.commit(GROUP, "t1", 0, 99))
    assert world.apply().counts == {"done": 1}
    assert world.cluster.offsets()[GROUP, "t1", 0][0] == 99
    assert errors(world) == {"another offset was committed since"}


def test_the_same_value_again_right_after_the_call_is_left_alone(tmp_path: Path) -> None:
    world = seen(tmp_path, partitions=1)
    after_the_call(world, lambda: world.cluster.commit(GROUP, "t1", 0, 10, metadata="m", leader_epoch=1))
    assert world.apply().counts == {"changed_since": 1}
    assert world.apply().warnings[0] == "nothing is left to do"
    assert world.cluster.offsets()[GROUP, "t1", 0][0] == 10


def test_a_deletion_that_came_late_and_took_a_newer_commit(tmp_path: Path) -> None:
    """It had no answer, a newer commit was seen, and then it was gone: told with its value, which can be put back."""
    world = seen(tmp_path, partitions=1)
    snapshots: list[int] = []

    def between(name: str) -> None:
        if name == "delete_offsets" and not snapshots:
            snapshots.append(0)
            raise Unsettled("no answer")
        if snapshots and name == "snapshot":
            snapshots.append(0)
            if len(snapshots) == 9:  # it was looked for, and is looked at anew
                world.cluster.commit(GROUP, "t1", 0, 99)
            if len(snapshots) == 13:
                world.cluster.remove(GROUP, [("t1", 0)], by=US)

    world.cluster.between = between
    summary = world.apply()
    assert account(world).violations == []
    assert summary.counts == {"raced": 1}
    (told,) = summary.notable
    assert told.error == "a call that had no answer removed a newer commit"
    values = of_ledger(world.ledger.entries(), Selection(), {})
    assert values.basis == world.plan.record.basis != BY_LOG
    assert [then.value.committed_offset for then in values.values.values()] == [99]


def test_the_log_itself_is_out_of_reach(tmp_path: Path) -> None:
    world = seen(tmp_path)
    own = {"rules": world.rules(), "clocks": world.clocks, "watch": world.watch}
    with pytest.raises(Refused, match="no known place in the log"):
        apply_plan(world.cluster, world.plan, world.ledger, sink="log", **own)  # type: ignore[arg-type]


def test_a_plan_by_admin_has_no_group(tmp_path: Path) -> None:
    world = made(tmp_path)
    snapshots = by_admin(world)
    whole = replace(world.plan, record=snapshots.plan.record)
    with pytest.raises(Refused):
        check_content(whole, {})


def test_a_broker_that_tells_no_time_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All instants of a plan from admin snapshots are by the clock of who looked."""
    world = seen(tmp_path)
    monkeypatch.setattr(world.cluster, "broker_time", lambda: BrokerTime(at_least_ms=-1, now_ms=None))
    assert world.apply().counts == {"done": 2}
