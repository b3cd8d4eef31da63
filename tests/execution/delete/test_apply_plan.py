"""What applying does in one place after another: guards, looks, steps, and a commit at every moment of a call."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sexton.errors import BrokerError, Refused
from sexton.execution.delete import log_sink
from sexton.execution.delete.group_calls import PlannedGroup, planned_groups
from sexton.execution.kafka_admin import BrokerTime, ClusterIdentity
from sexton.execution.windows import Windows
from sexton.kafka.admin import GroupError
from sexton.kafka.failures import NotAllowed, Unsettled
from sexton.ledger.ledger import Ledger
from sexton.policy import DefaultLimits
from tests.faults.apply_cluster import START_MS, US, SimCluster
from tests.faults.apply_worlds import HOUR_MS, LEASE_MS, LOCAL, World, account, by_admin, dead_process, plan_for

GROUP = "g"


def made(tmp_path: Path, *, partitions: int = 2, kind: str = "simple", group_id: str = GROUP) -> World:
    """A cluster with one group, and a plan of all of it."""
    cluster = SimCluster(1)
    cluster.topics = {"t0": 3, "t1": 3}
    if kind == "classic":
        cluster.classic(group_id)
    for number in range(partitions):
        cluster.commit(group_id, "t1", number, 10 + number, metadata="m", leader_epoch=1)
    cluster.now_ms += HOUR_MS
    plan = plan_for(cluster)
    cluster.now_ms += 1_000
    return World(cluster=cluster, plan=plan, root=tmp_path)


def of_groups(tmp_path: Path, *group_ids: str) -> World:
    """A cluster with groups of one offset, and a plan of all of them."""
    cluster = SimCluster(1)
    cluster.topics = {"t1": 1}
    for group_id in group_ids:
        cluster.commit(group_id, "t1", 0, 1)
    return World(cluster=cluster, plan=plan_for(cluster), root=tmp_path)


def only_offsets(world: World) -> World:
    """The same plan without the group itself."""
    keep = [row["record_type"] == 1 for row in world.plan.tombstones.to_pylist()]
    return replace(world, plan=replace(world.plan, tombstones=world.plan.tombstones.filter(keep)))


def outcomes(world: World) -> dict[str, int]:
    return world.apply(sink="coordinator").counts


@pytest.mark.parametrize("kind", ["simple", "classic"])
def test_a_group_goes_as_a_whole(tmp_path: Path, kind: str) -> None:
    world = made(tmp_path, kind=kind)
    assert outcomes(world) == {"done": 3}
    assert world.cluster.group_ids() == []
    assert [call for call in world.cluster.calls if call.startswith("delete")] == ["delete_group"]
    assert [write.by for write in world.cluster.log_of(GROUP).writes if write.value is None] == [US] * 3
    end, entries = world.cluster.log_of(GROUP).end, world.ledger.entries()
    assert world.apply(sink="coordinator").warnings[0] == "nothing is left to do"
    assert (world.cluster.log_of(GROUP).end, world.ledger.entries()) == (end, entries)


def test_offsets_go_and_their_group_stays(tmp_path: Path) -> None:
    world = only_offsets(made(tmp_path))
    assert outcomes(world) == {"done": 2}
    assert world.cluster.group_ids() == [GROUP]
    assert "delete_group" not in world.cluster.calls


CHANGES = ["commit", "the same again", "another topic", "pending", "aborted", "member", "came and went"]


def change(world: World, what: str) -> None:
    cluster = world.cluster
    match what:
        case "commit":
            cluster.commit(GROUP, "t1", 0, 99)
        case "the same again":
            cluster.commit(GROUP, "t1", 0, 10, metadata="m", leader_epoch=1)
        case "another topic":
            cluster.commit(GROUP, "t0", 0, 5)
        case "pending":
            cluster.commit(GROUP, "t1", 0, 99, producer_id=7)
        case "aborted":
            cluster.commit(GROUP, "t1", 0, 99, producer_id=7)
            cluster.log_of(GROUP).end_transaction(7, committed=False, now_ms=cluster.now_ms)
        case "member":
            cluster.classic(GROUP, "t1", members=1)
        case "came and went":
            cluster.classic(GROUP, "t1", members=1)
            cluster.classic(GROUP)


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "offsets"])
def test_a_group_that_did_something_is_left_alone(tmp_path: Path, what: str, is_whole: bool) -> None:
    world = made(tmp_path) if is_whole else only_offsets(made(tmp_path))
    change(world, what)
    before = world.cluster.offsets()
    assert outcomes(world) == {"changed_since": world.plan.tombstones.num_rows}
    assert world.cluster.offsets() == before
    assert not [call for call in world.cluster.calls if call.startswith("delete")]


@pytest.mark.parametrize("planned", [only_offsets, by_admin], ids=["log", "admin"])
def test_what_somebody_else_removed_is_gone(tmp_path: Path, planned: Callable[[World], World]) -> None:
    world = planned(made(tmp_path))
    world.cluster.remove(GROUP, [("t1", 0)], by="others")
    assert outcomes(world) == {"done": 1, "gone": 1}


def test_what_is_not_shown_is_not_taken_for_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker leaves out the offsets of topics that this principal may not describe."""
    world = only_offsets(made(tmp_path))
    ask = world.cluster.committed

    def but_one(*a: Any, **k: Any) -> dict[Any, Any]:
        return {key: one for key, one in ask(*a, **k).items() if key != ("t1", 0)}

    monkeypatch.setattr(world.cluster, "committed", but_one)
    summary = world.apply(sink="coordinator")
    assert summary.counts == {"done": 1, "refused": 1}
    assert "DESCRIBE" in str(summary.notable[0].error)


@pytest.mark.parametrize("call", ["committed", "group_now", "delete_group", "delete_offsets"])
@pytest.mark.parametrize("error", [GroupError, NotAllowed])
def test_a_group_out_of_reach_is_refused_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: type[BrokerError]
) -> None:
    is_admin = call == "delete_offsets"  # which deletes whole groups otherwise
    world = of_groups(tmp_path, "mine", "theirs")
    world, cluster = by_admin(world) if is_admin else world, world.cluster
    ask = getattr(cluster, call)

    def answer(group_id: str, *arguments: Any, **named: Any) -> Any:
        if group_id == "theirs":
            raise error("no", fix="allow User:a DELETE on group theirs", error_name="GROUP_AUTHORIZATION_FAILED")
        return ask(group_id, *arguments, **named)

    monkeypatch.setattr(cluster, call, answer)
    summary = world.apply(sink="coordinator")
    each = 1 if is_admin else 2  # the offset, and the group itself
    assert (summary.counts, summary.exit_code) == ({"done": each, "refused": each}, 1)
    told = "GROUP_AUTHORIZATION_FAILED (allow User:a DELETE on group theirs)"
    assert {each.error for each in summary.notable} == {told}


@pytest.mark.parametrize("planned", [only_offsets, by_admin], ids=["log", "admin"])
def test_a_commit_at_every_moment_of_a_call(tmp_path: Path, planned: Callable[[World], World]) -> None:
    """From the claim to the close: it is seen before the call, or found after it and put back. Only between the last
    look and the call is it too late for the first; and from admin snapshots nobody sees it then, which the summary
    says."""
    seen: Counter[str] = Counter()
    too_late = []
    whole = planned(made(tmp_path / "count", partitions=1))
    whole.apply(sink="coordinator")
    for at in range(len(whole.cluster.calls) + 1):
        world = planned(made(tmp_path / str(at), partitions=1))

        def between(name: str, world: World = world, at: int = at) -> None:
            if len(world.cluster.calls) == at + 1:
                world.cluster.commit(GROUP, "t1", 0, 99)

        world.cluster.between = between
        summary = world.apply(sink="coordinator")
        found = account(world)
        assert found.violations == []
        left = world.cluster.offsets().get((GROUP, "t1", 0), (99,))[0]
        assert left == 99 or not found.newer or found.unseen
        seen.update(summary.counts)
        if found.unseen:
            too_late.append(world.cluster.calls[at])
            assert (planned, summary.counts) == (by_admin, {"done": 1})
            assert "deleted unseen, if there was one" in summary.warnings[0]
        if summary.counts.get("raced"):
            too_late.append(world.cluster.calls[at])
            assert (planned, summary.restored, left) == (only_offsets, {"done": 1}, 99)
    assert too_late == ["delete_offsets"]
    assert seen["changed_since"] > 3


def right_before(world: World, call: str, act: Callable[[], object]) -> None:
    """Let something happen before every call of a kind."""
    world.cluster.between = lambda name: act() if name == call else None


@pytest.mark.parametrize(
    ("takes_transactions", "call", "restored"),
    [(True, "pend_offsets", {"changed_since": 1}), (False, "commit_offsets", {"done": 2})],
)
def test_a_commit_while_one_is_put_back(
    takes_transactions: bool, call: str, restored: dict[str, int], tmp_path: Path
) -> None:
    """It stays; by plain commits it is put back in turn."""
    world = only_offsets(made(tmp_path, partitions=1))
    world.cluster.takes_transactions = takes_transactions

    def between(name: str) -> None:
        if name == "delete_offsets":
            world.cluster.commit(GROUP, "t1", 0, 98)
        if name == call and world.cluster.calls.count(name) == 1:
            world.cluster.commit(GROUP, "t1", 0, 99)

    world.cluster.between = between
    summary = world.apply(sink="coordinator")
    assert summary.restored == restored
    assert world.cluster.offsets()[GROUP, "t1", 0][0] == 99
    assert any("TRANSACTIONAL_ID" in warning for warning in summary.warnings) != takes_transactions
    assert account(world).violations == []


def test_a_commit_between_somebody_elses_deletion_and_ours(tmp_path: Path) -> None:
    """Two tombstones in the window: which is ours cannot be told, but the commit between them is gone by one."""
    world = only_offsets(made(tmp_path, partitions=1))

    def others() -> None:
        world.cluster.remove(GROUP, [("t1", 0)], by="others")
        world.cluster.commit(GROUP, "t1", 0, 99)

    right_before(world, "delete_offsets", others)
    summary = world.apply(sink="coordinator")
    assert (summary.counts, summary.restored) == ({"raced": 1}, {"done": 1})
    assert world.cluster.offsets()[GROUP, "t1", 0][0] == 99
    assert account(world).violations == []


def test_a_late_deletion_between_two_series_of_one_attempt_that_dies(tmp_path: Path) -> None:
    """It is done just as the offset is looked at anew; the attempt dies, and the next one still knows whose it was."""
    world = only_offsets(made(tmp_path, partitions=1))
    late: list[int] = []

    def between(name: str) -> None:
        calls = world.cluster.calls
        if name == "delete_offsets" and not late:
            late.append(len(calls))
            raise Unsettled("no answer")
        if late and name == "group_now":
            world.cluster.remove(GROUP, [("t1", 0)], by=US)
        if late and len(calls) > late[0] + 6 and name == "group_now":
            late.append(0)
        if len(late) > 1 and name == "tail":
            world.cluster.between = lambda name: None
            raise BrokerError("no broker answers")

    world.cluster.between = between
    with pytest.raises(BrokerError, match="no broker"):
        world.apply(sink="coordinator", ledger=ledger_of_a_dead_process(world))
    world.cluster.now_ms += LEASE_MS + 1
    assert world.apply(sink="coordinator").counts == {"done": 1}
    assert account(world).violations == []


def ledger_of_a_dead_process(world: World) -> Ledger:
    plan_id = world.plan.record.plan_id
    return Ledger(LOCAL, str(world.root), world.cluster.cluster_id, plan_id, process=dead_process())


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "offsets"])
def test_an_answer_that_never_came_and_a_deletion_that_came_late(tmp_path: Path, is_whole: bool) -> None:
    """It is done after it was given up, and a commit that came in meanwhile goes with it."""
    world = made(tmp_path, partitions=1) if is_whole else only_offsets(made(tmp_path, partitions=1))
    late: list[Any] = []

    def between(name: str) -> None:
        calls = world.cluster.calls
        if name.startswith("delete") and not late:
            late.append(len(calls))
            raise Unsettled("no answer")
        if late and len(calls) == late[0] + 8:  # it was looked for, six times, and is looked at anew
            world.cluster.commit(GROUP, "t1", 0, 99)
            if is_whole:
                world.cluster.commit(GROUP, "t0", 1, 98)
                world.cluster.remove_group(GROUP, by=US)
            else:
                world.cluster.remove(GROUP, [("t1", 0)], by=US)

    world.cluster.between = between
    summary = world.apply(sink="coordinator")
    assert account(world).violations == []
    assert summary.counts["raced"] == (2 if is_whole else 1)
    assert world.cluster.offsets()[GROUP, "t1", 0][0] == 99
    assert not is_whole or world.cluster.offsets()[GROUP, "t0", 1][0] == 98


def test_a_pending_commit_cannot_be_put_back_and_is_told(tmp_path: Path) -> None:
    world = only_offsets(made(tmp_path, partitions=1))
    right_before(world, "delete_offsets", lambda: world.cluster.commit(GROUP, "t1", 0, 99, producer_id=7))
    summary = world.apply(sink="coordinator")
    assert summary.counts == {"raced": 1}
    assert summary.restored == {"refused": 1}
    assert any("transaction" in str(told.error) for told in summary.notable)


def test_a_group_deleted_with_an_offset_nobody_knew(tmp_path: Path) -> None:
    world = made(tmp_path, partitions=1)
    right_before(world, "delete_group", lambda: world.cluster.commit(GROUP, "t0", 2, 77))
    summary = world.apply(sink="coordinator")
    assert summary.counts == {"done": 2, "raced": 1}
    assert world.cluster.offsets() == {(GROUP, "t0", 2): (77, None, "")}
    assert account(world).violations == []


def test_large_groups_go_in_pieces(tmp_path: Path) -> None:
    cluster = SimCluster(1)
    cluster.topics = {"t1": 200}
    for number in range(200):
        cluster.commit(GROUP, "t1", number, number)
    world = World(cluster=cluster, plan=plan_for(cluster), root=tmp_path)
    cluster.max_message_bytes = 1_500
    cluster.now_ms += 1_000
    assert outcomes(world) == {"done": 201}
    ours = cluster.log_of(GROUP).batches[200:]
    assert len(ours) > 5
    assert max(map(len, ours)) <= 1_500
    *pieces, last = (call for call in cluster.calls if call.startswith("delete"))
    assert (pieces, last) == (["delete_offsets"] * (len(ours) - 1), "delete_group")


def test_every_row_is_in_one_step(tmp_path: Path) -> None:
    (group,) = planned_groups(made(tmp_path, partitions=3).plan)
    for limit in (80, 150, 200, 1 << 20):
        steps = list(group.calls(group.rows, max_batch_bytes=limit))
        assert [row.item_id for _, rows in steps for row in rows] == [row.item_id for row in group.rows]
        assert steps[-1][0] == "delete_group"
        assert isinstance(group, PlannedGroup)


# --- guards


def refused(world: World, **rules: Any) -> str:
    with pytest.raises(Refused) as error:
        world.apply(sink=rules.pop("sink", "coordinator"), **rules)
    assert not [write for log in world.cluster.logs for write in log.writes if write.by == US]
    assert world.ledger.entries() == []
    return str(error.value)


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"plan_sha256": "6" * 64}, "was changed since it was approved"),
        ({"max_age_ms": 500}, "h old, allowed are"),
        ({"policy_sha256": "7" * 64}, "in force is 777"),
        ({"approved_by": "  "}, "plan not approved (pass --approved-by)"),
        ({"sink": "log", "allow_log_sink": False}, "needs --allow-log-sink"),
        ({"recorded_retention_ms": 2 * HOUR_MS}, "the broker keeps offsets for 2h, as the snapshot recorded it"),
        ({"limits": DefaultLimits(max_offsets=1)}, "2 offsets would be deleted; SEXTON_MAX_OFFSETS is 1"),
        (
            {"limits": DefaultLimits()},
            "1 of 1 groups would lose offsets or be deleted; SEXTON_MAX_SHARE_OF_GROUPS is 0.05",
        ),
    ],
)
def test_what_an_apply_is_held_to(tmp_path: Path, rules: dict[str, Any], told: str) -> None:
    assert told in refused(made(tmp_path), **rules)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"code_version": "0.0.1"}, "version 0.0.1 made it"),
        ({"over_limits": ["too many groups"]}, "over its limits: too many groups"),
        ({"broker_retention_ms": 2 * HOUR_MS}, "the broker keeps offsets for 2h, as plan.json says"),
        ({"as_of_ms": START_MS + 90 * HOUR_MS}, "ahead of this clock"),
        ({"cluster_id": "other"}, "for cluster other"),
        ({"topic_id": "AAAAAAAAAAAAAAAAAAAACQ"}, "was recreated"),
    ],
)
def test_what_a_plan_must_be(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    world = made(tmp_path)
    record = world.plan.record.model_copy(update=changes)
    if "cluster_id" in changes:
        world.cluster.cluster_id = "sim"
    assert told in refused(replace(world, plan=replace(world.plan, record=record)))


@pytest.mark.parametrize("sink", ["coordinator", "log"])
@pytest.mark.parametrize(
    ("live_ms", "told"), [(2 * HOUR_MS, "for 2h, as the broker says now"), (None, "the broker's retention is unknown")]
)
def test_the_broker_has_the_last_word_on_its_retention(
    tmp_path: Path, sink: str, live_ms: int | None, told: str
) -> None:
    world = made(tmp_path)
    world.cluster.retention_ms = live_ms
    assert told in refused(world, sink=sink)
    summary = world.apply(sink="dry_run")
    assert (summary.counts, told in " ".join(summary.warnings)) == ({"would_be_done": 3}, True)


def test_where_the_broker_does_not_say_it_the_snapshots_record_will_do(tmp_path: Path) -> None:
    world = made(tmp_path)
    world.cluster.retention_ms = None
    assert world.apply(sink="dry_run", recorded_retention_ms=HOUR_MS).warnings == ()
    assert world.apply(sink="coordinator", recorded_retention_ms=HOUR_MS).counts == {"done": 3}


@pytest.mark.parametrize(
    ("time", "told"),
    [
        (lambda now: BrokerTime(at_least_ms=-1, now_ms=now + 61_000), "61 s behind the brokers'"),
        (lambda now: BrokerTime(at_least_ms=now + 61_000, now_ms=None), "61 s behind the brokers'"),
        (lambda now: BrokerTime(at_least_ms=-1, now_ms=now - 61_000), "61 s ahead of the brokers'"),
        (lambda now: BrokerTime(at_least_ms=now - 2 * HOUR_MS, now_ms=None), "nothing shows that the brokers' clock"),
    ],
    ids=["asked", "stamped", "behind", "quiet"],
)
def test_clocks_that_disagree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: Any, told: str) -> None:
    world = made(tmp_path)
    monkeypatch.setattr(world.cluster, "broker_time", lambda: time(world.cluster.now_ms))
    assert told in refused(world)
    assert "nothing shows" in told or told in refused(by_admin(world))


def test_a_broker_that_stamps_another_time_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = of_groups(tmp_path, *"abcde")
    cluster = world.cluster
    cluster.now_ms += 1_000
    cluster.skew_ms = 120_000
    monkeypatch.setattr(cluster, "broker_time", lambda: BrokerTime(at_least_ms=-1, now_ms=cluster.now_ms))
    with pytest.raises(Refused, match=r"the broker stamped our tombstone .* 1\d\d s apart"):
        world.apply(sink="coordinator")
    assert len(cluster.group_ids()) == 4
    assert account(world).violations == []
    assert world.ledger.entries()[-1].kind == "close"


def test_another_number_of_log_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = made(tmp_path, group_id="grown-7")
    told = ClusterIdentity(cluster_id="sim", topic_id=world.cluster.topic_id, partition_count=7, max_message_bytes=None)
    monkeypatch.setattr(world.cluster, "identity", lambda **_: told)
    assert "belongs to" in refused(world)


def test_what_was_begun_is_settled_though_the_plan_is_too_old_by_now(tmp_path: Path) -> None:
    world = made(tmp_path)
    world.cluster.faults.lost_after = 1_000
    world.cluster.between = _dies_after("delete_group", world)
    with pytest.raises(BrokerError, match="no broker answers"):
        world.apply(sink="coordinator")
    world.cluster.between = lambda name: None
    world.cluster.now_ms += 48 * HOUR_MS
    with pytest.raises(Refused, match="h old"):
        world.apply(sink="coordinator", max_age_ms=24 * HOUR_MS)
    assert account(world).violations == []
    assert world.apply(sink="coordinator", max_age_ms=24 * HOUR_MS).counts == {"done": 3}


def _dies_after(call: str, world: World) -> Any:
    def between(name: str) -> None:
        if call in world.cluster.calls[:-1]:
            raise BrokerError("no broker answers")

    return between


def test_a_log_that_was_cut_off_is_not_the_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sexton.kafka.fetch import LogChangedError
    from tests.faults.apply_cluster import SimTail

    world = made(tmp_path)

    def changed(tail: SimTail) -> Any:
        raise LogChangedError("the log was committed up to 9, now to 4")

    monkeypatch.setattr(SimTail, "records", changed)
    with pytest.raises(Refused, match="not the one that the plan was made from"):
        world.apply(sink="coordinator")


def test_a_dry_run_makes_no_call_and_no_ledger(tmp_path: Path) -> None:
    world = made(tmp_path)
    summary = world.apply(sink="dry_run")
    assert (summary.counts, summary.exit_code) == ({"would_be_done": 3}, 0)
    assert not Path(world.ledger.folder).exists()
    change(world, "commit")
    assert world.apply(sink="dry_run").counts == {"changed_since": 3}


def test_asked_to_end_it_ends_between_groups(tmp_path: Path) -> None:
    from sexton.execution.delete.apply_plan import apply_plan

    world = of_groups(tmp_path, *"abcd")
    own = {
        "watch": world.watch,
        "rules": world.rules(),
        "clocks": world.clocks,
        "progress": lambda done, total: done < 2,
    }
    summary = apply_plan(world.cluster, world.plan, world.ledger, sink="coordinator", **own)
    assert summary.counts == {"done": 4, "left": 4}
    assert summary.exit_code == 1
    assert world.apply(sink="coordinator").counts == {"done": 8}


# --- the log itself


def orphaned(tmp_path: Path) -> World:
    world = only_offsets(made(tmp_path))
    del world.cluster.topics["t1"]
    return world


def test_only_the_log_sink_removes_orphans(tmp_path: Path) -> None:
    world = orphaned(tmp_path)
    summary = world.apply(sink="coordinator")
    assert (summary.counts, summary.exit_code) == ({"refused": 2}, 1)
    assert summary.notable[0].error == log_sink.TOPIC_GONE
    assert world.apply(sink="log").counts == {"done": 2}
    assert len(world.cluster.offsets()) == 2  # the coordinator has not heard of it
    for log in world.cluster.logs:
        log.reload()
    assert world.cluster.offsets() == {}


def test_the_log_sink_leaves_groups_with_members_alone(tmp_path: Path) -> None:
    cluster = SimCluster(1)
    cluster.topics = {"t0": 3, "t1": 3}
    cluster.commit(GROUP, "t1", 0, 10)
    cluster.classic(GROUP, "t0", members=1)
    world = World(cluster=cluster, plan=plan_for(cluster), root=tmp_path)
    del cluster.topics["t1"]
    summary = world.apply(sink="log")
    assert summary.counts == {"refused": 1}
    assert "only written to for groups without members" in str(summary.notable[0].error)
    assert "append_tombstones" not in cluster.calls


def test_windows() -> None:
    assert Windows.of([]) == Windows()
    found = Windows.of([float(number) for number in range(1, 101)])
    assert (found.steps, found.sum_ms, found.p50_ms, found.p99_ms, found.max_ms) == (100, 5050.0, 50.0, 99.0, 100.0)
    assert Windows.of([7.0]).p99_ms == 7.0
