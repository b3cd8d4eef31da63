"""Rounds of a reconciliation with simulated brokers: drift, groups that only moved on, and what cannot be compared."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sexton.errors import UsageError
from sexton.kafka.client import ClientConfig
from sexton.kafka.group_state import CommittedOffset, GroupListing, Listing
from sexton.kafka.session import TransientError
from sexton.kafka.topics import PartitionLeader, Topic
from sexton.maintenance import group_answers as answers
from sexton.maintenance import reconcile
from sexton.maintenance.group_answers import GroupAnswer, Kind, LiveAnswers, ask
from sexton.maintenance.reconcile import ROUNDS, Reconciliation
from sexton.pipeline.snapshot_log import SnapshotRequest, TakenSnapshot
from sexton.runs.processes import SerialEngine
from tests.archived import CLUSTER, TOPIC, Archive
from tests.log_builder import commit
from tests.pipeline.archive_runs import instant, minute

Play = Callable[..., tuple[Reconciliation, list[list[str]]]]
SIMPLE: Kind = ("classic", "Empty", "")
END = 3
AWAY = "away"
"""In place of a state: the broker that has the group fails."""
CONFIG = ClientConfig(bootstrap_servers="nowhere:1")


def answer(committed_offset: int, *, kind: Kind | None = SIMPLE) -> GroupAnswer:
    return GroupAnswer(kind=kind, offsets={("t", 0): (committed_offset, None, "")})


GONE = GroupAnswer(kind=None, offsets={})
A, B, C = answer(7), answer(8), answer(9)


def said(
    *, moved: Sequence[str] = (), refused: Sequence[str] = (), end: int = END, **settled: GroupAnswer
) -> LiveAnswers:
    return LiveAnswers(settled=settled, moved={*moved}, refused={*refused}, ends={0: end})


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Three groups, and a later commit of the last one: at log_offset 3 its committed_offset is 9, at 4 it is 10."""
    found = Archive(tmp_path / "archive", partitions=1)
    log = minute(1, commit("a", 7), commit("b", 8), commit("c", 9), commit("c", 10), first=0)
    found.snapshot(instant(1), {0: log})
    return found


def played(
    monkeypatch: pytest.MonkeyPatch,
    archive: Archive,
    *rounds: LiveAnswers,
    listed: Sequence[str] = ("a", "b", "c"),
    most_groups: int = 100,
    alerts: Sequence[str] = (),
    unseen: Sequence[str] = (),
    failed: Mapping[int, str] | None = None,
) -> tuple[Reconciliation, list[list[str]]]:
    """The result, and which groups the brokers were asked about in each round; the last round comes again and again."""
    asked: list[list[str]] = []

    def ask_them(_session: object, _topic: str, group_ids: Sequence[str]) -> LiveAnswers:
        asked.append(sorted(group_ids))
        return rounds[min(len(asked), len(rounds)) - 1]

    def snapshot(*_: Any, **__: Any) -> TakenSnapshot:
        numbers = dict.fromkeys(("segments", "batches", "size_bytes", "log_offsets"), 0)
        told = {"cluster_id": CLUSTER, "topic_id": TOPIC, "taken_at_ms": instant(2), "log_partitions": 1}
        return TakenSnapshot(**told, **numbers, alerts=list(alerts))

    monkeypatch.setattr(reconcile, "hidden", lambda _: list(unseen))
    monkeypatch.setattr(reconcile, "ask", ask_them)
    monkeypatch.setattr(reconcile, "kinds", lambda _: (dict.fromkeys(listed, SIMPLE), dict(failed or {})))
    monkeypatch.setattr(reconcile.snapshot_log, "run", snapshot)
    request = SnapshotRequest(config=CONFIG, archive=archive.root)
    with SerialEngine(quiet=True) as engine:
        found = reconcile.run(
            engine,
            request,
            seed=1,
            most_groups=most_groups,
            now_ms=lambda: instant(2),
            connect=lambda _: nullcontext(),  # type: ignore[arg-type,return-value]
        )
    return found, asked


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, archive: Archive) -> Play:
    return partial(played, monkeypatch, archive)


def test_all_is_as_it_should_be(play: Play) -> None:
    found, asked = play(said(a=A, b=B, c=C))
    assert asked == [["a", "b", "c"]]
    assert (found.compared, found.offsets, found.drifted, found.rounds) == (3, 3, 0, 1)
    assert found.alerts == []


def test_each_answer_is_held_against_the_log_up_to_where_it_stood(play: Play) -> None:
    found, _ = play(said(a=A, b=B, c=answer(10), end=END + 1))
    assert found.drifted == 0
    found, _ = play(said(a=A, b=B, c=answer(10), end=END))
    assert [(one.group_id, one.log_offset, one.by_log, one.by_broker) for one in found.differences] == [
        ("c", END, (9, None, ""), (10, None, ""))
    ]


def test_what_differs_once_and_then_no_more_is_no_drift(play: Play) -> None:
    found, asked = play(said(a=A, b=answer(5), c=C), said(b=B))
    assert asked == [["a", "b", "c"], ["b"]]
    assert (found.drifted, found.unsettled, found.alerts) == (0, 0, [])


@pytest.mark.parametrize(
    "wrong, whats",
    [
        (answer(5), ["t"]),
        (answer(8, kind=("consumer", "Empty", "consumer")), [None]),
        (answer(8, kind=("classic", "Stable", "")), [None]),
        (GroupAnswer(kind=SIMPLE, offsets={}), ["t"]),
        (GroupAnswer(kind=SIMPLE, offsets={**B.offsets, ("u", 1): (1, 2, "m")}), ["u"]),
        (GONE, [None, "t"]),
    ],
    ids=["offset", "type", "state", "no offset", "one more", "no group"],
)
def test_what_stays_different_is_drift(play: Play, wrong: GroupAnswer, whats: list[str | None]) -> None:
    found, asked = play(said(a=A, b=wrong, c=C), said(b=wrong), alerts=["the log ends at 5"])
    assert asked == [["a", "b", "c"], *[["b"]] * (ROUNDS - 1)]
    assert [(one.group_id, one.topic) for one in found.differences] == [("b", what) for what in whats]
    assert found.drifted == 1
    broken, drift = found.alerts
    assert broken == "the log ends at 5", "told once, however many snapshots were taken"
    assert drift.startswith("drift: ")
    assert "about 1 of 3 groups" in drift


def test_a_group_that_the_brokers_do_not_list_is_looked_at_too(play: Play) -> None:
    found, asked = play(said(a=A, c=C), said(b=GONE), listed=("a", "c"))
    assert asked[:2] == [["a", "c"], ["b"]]
    assert {one.group_id for one in found.differences} == {"b"}
    found, asked = play(said(a=A, c=C), said(b=B), listed=("a", "c"))
    assert (found.groups, found.compared, found.drifted) == (3, 3, 0)


def test_what_never_stands_still_is_unsettled_and_no_drift(play: Play) -> None:
    found, asked = play(said(a=A, b=B, moved=["c"]), said(moved=["c"]))
    assert len(asked) == ROUNDS
    assert (found.compared, found.unsettled, found.drifted, found.alerts) == (2, 1, 0, [])
    found, _ = play(said(a=A, b=B, c=answer(1)), said(moved=["c"]))
    assert (found.unsettled, found.drifted) == (1, 0), "seen to differ once only"


def test_what_cannot_be_told_is_an_alert(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = play(said(a=A, refused=["b", "c"]))
    assert (found.refused, found.unsettled) == (2, 0)
    assert ["2 groups" in alert for alert in found.alerts] == [True]
    monkeypatch.setattr(reconcile, "by_log", lambda *_: None)
    found, _ = play(said(a=A, b=B, c=C))
    assert found.unloadable == 3
    assert ["no coordinator could load" in alert for alert in found.alerts] == [True]


def test_what_is_hidden_is_said_and_not_compared(play: Play) -> None:
    nothing = LiveAnswers(
        settled={"a": GroupAnswer(kind=SIMPLE, offsets={})}, ends={0: END}, seen_topics=frozenset({"other"})
    )
    found, _ = play(nothing, listed=["a"], unseen=["not every topic can be seen"])
    assert (found.compared, found.drifted, found.alerts) == (1, 0, ["not every topic can be seen"])


def test_some_are_drawn_by_the_seed(play: Play) -> None:
    found, asked = play(said(), most_groups=2)
    assert len(asked[0]) == 2
    assert play(said(), most_groups=2)[1] == asked
    assert found.groups == 3


@pytest.mark.parametrize(
    "live, folded, is_same",
    [
        (("classic", "PreparingRebalance", "consumer"), ("classic", "Stable", "consumer"), True),
        (("classic", "CompletingRebalance", "consumer"), None, True),
        (("classic", "Stable", "consumer"), None, False),
        (("streams", "Stable", "streams"), ("streams", "NotReady", "streams"), True),
        (("consumer", "Stable", "consumer"), ("streams", "NotReady", "streams"), False),
        (None, ("classic", "Stable", "consumer"), False),
        (None, None, True),
    ],
)
def test_what_only_memory_knows_is_not_compared(live: Kind | None, folded: Kind | None, is_same: bool) -> None:
    assert answers._is_same(live, folded) is is_same


class Brokers:
    """Brokers whose answers are scripted call by call; every look at the end moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, offsets: dict[str, list[int | Exception]], states: list[str]):
        self._offsets, self._states, self.end = offsets, states, 0
        topic = Topic(name="o", topic_id="T", leaders={0: PartitionLeader(node_id=1, epoch=0)})
        monkeypatch.setattr(answers, "describe_topic", lambda *_: topic)
        monkeypatch.setattr(answers, "high_watermark", self.high_watermark)
        monkeypatch.setattr(answers, "list_groups", self.list_groups)
        monkeypatch.setattr(answers, "seen_topics", lambda _: None)
        monkeypatch.setattr(answers, "committed_offsets", self.committed_offsets)

    def retrying(self, work: Any) -> Any:
        return work()

    def high_watermark(self, _session: object, _topic: str, _log_partition: int) -> int:
        self.end += 1
        return self.end

    def list_groups(self, _session: object) -> Listing:
        state = self._states.pop(0)
        if state == AWAY:
            return Listing(failed={2: "it gives no answer"})
        return Listing(groups=[GroupListing(group_id="a", group_type="classic", state=state, protocol_type="")])

    def committed_offsets(self, _session: object, group_id: str) -> dict[tuple[str, int], CommittedOffset]:
        told = self._offsets[group_id].pop(0)
        if isinstance(told, Exception):
            raise told
        return {("t", 0): CommittedOffset(committed_offset=told, leader_epoch=None, metadata="")}


def test_an_answer_counts_when_it_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, list[int | Exception]] = {"a": [5, 5], "b": [5, 6], "c": [UsageError("not allowed")]}
    found = ask(Brokers(monkeypatch, told, ["Empty", "Empty"]), "o", ["a", "b", "c"])  # type: ignore[arg-type]
    assert found.settled == {"a": answer(5)}
    assert (found.moved, found.refused, found.ends) == ({"b"}, {"c"}, {0: 1})


def test_a_group_whose_state_changes_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(Brokers(monkeypatch, {"a": [5, 5]}, ["Stable", "Empty"]), "o", ["a"])  # type: ignore[arg-type]
    assert (found.settled, found.moved) == ({}, {"a"})


def test_a_broker_that_is_away_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TransientError):
        ask(Brokers(monkeypatch, {"a": [TransientError("away")]}, ["Empty"]), "o", ["a"])  # type: ignore[arg-type]


def test_a_group_that_a_failing_broker_may_have_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(Brokers(monkeypatch, {"a": [5, 5]}, [AWAY, AWAY]), "o", ["a"])  # type: ignore[arg-type]
    assert (found.settled, found.moved, found.failed) == ({}, {"a"}, {2: "it gives no answer"})


def test_a_broker_that_fails_is_told_once(play: Play) -> None:
    found, _ = play(said(a=A, b=B, c=C), failed={2: "it gives no answer"})
    assert found.alerts == ["broker 2 lists no groups, so its groups are missing: it gives no answer"]
