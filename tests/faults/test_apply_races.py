"""Plans applied while everything happens: commits, members, transactions and sweeps between any two calls (row 9), no
answers, late answers and partial errors (row 10), several processes at once and zombies (row 11).

Whatever happens: no newer offset is lost without a word, nothing is deleted that the ledger does not tell, and in the
end nothing is unknown.
"""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sexton.errors import BrokerError, Refused
from sexton.execution.delete import log_watch
from sexton.execution.engine import Answer
from sexton.ledger.entries import Result
from sexton.ledger.ledger import Ledger
from tests.faults.apply_cluster import US, Faults
from tests.faults.apply_worlds import LEASE_MS, LOCAL, World, account, dead_process, final_losses, world

pytestmark = pytest.mark.thorough

Tell = Callable[[str], None]
BY = pytest.mark.parametrize("is_admin", [False, True], ids=["log", "admin"])
"""Plans by the log, and from admin snapshots, which cannot see what comes between the last one and the call."""

INTERLEAVINGS = (
    Faults(interference=150),
    Faults(interference=40, races=400),
    Faults(interference=300, races=100),
    Faults(interference=60, races=150, lost_after=100, delayed=60),
)
AMBIGUOUS = (
    Faults(interference=0, lost_before=300),
    Faults(interference=0, lost_after=500),
    Faults(interference=0, delayed=400),
    Faults(
        interference=30, races=60, lost_before=100, lost_after=100, delayed=100, not_sent=150, denied=60, read_fails=8
    ),
)


def run(made: World, totals: Counter[str]) -> None:
    summary = made.apply_until_done()
    found = account(made)
    assert found.violations == []
    assert final_losses(made) == []
    beyond = sum(place not in _places(made) for place in _raced_beyond(made))
    assert sum(summary.counts.values()) == summary.items + beyond
    totals.update(summary.counts)
    totals.update({"our tombstones": found.ours, "newer ones taken": found.newer, "put back": found.returned})
    totals.update({"no admin snapshot shows": found.unseen} if made.then is not None else {})


def _places(made: World) -> set[tuple[int, int]]:
    return {(row["log_partition"], row["position"]) for row in made.plan.tombstones.to_pylist()}


def _raced_beyond(made: World) -> set[tuple[int, int]]:
    from sexton.execution.status import PlanStatus

    status = PlanStatus.of(made.ledger.entries())
    return {place for place in status.results if place not in status.restored}


@BY
@pytest.mark.parametrize("kind", range(len(INTERLEAVINGS)), ids=["busy", "raced", "wild", "lossy"])
def test_nothing_newer_is_lost_without_a_word(kind, is_admin, full, seed, tmp_path, tell):
    totals: Counter[str] = Counter()
    count = 1_250 if full else 12  # with four kinds and two seeds: 10,000
    for number in range(count):
        name, faults = f"{seed} {kind} {number}", INTERLEAVINGS[kind]
        run(world(name, tmp_path / str(number), faults=faults, is_admin=is_admin), totals)
    lost = "that an admin snapshot has seen " if is_admin else ""
    tell(f"{count} interleavings, 0 newer offsets {lost}lost unreported, 0 unrecorded deletions: {dict(totals)}")
    assert totals["our tombstones"]
    assert totals["done"]
    assert kind != 1 or totals["newer ones taken"]


@BY
@pytest.mark.parametrize("kind", range(len(AMBIGUOUS)), ids=["before", "after", "late", "all"])
def test_what_got_no_answer_is_settled(kind, is_admin, full, seed, tmp_path, tell):
    totals: Counter[str] = Counter()
    count = 125 if full else 8  # with four kinds and two seeds: 1,000
    for number in range(count):
        name, faults = f"{seed} {kind} {number}", AMBIGUOUS[kind]
        run(world(name, tmp_path / str(number), faults=faults, is_admin=is_admin), totals)
    tell(f"{count} clusters that do not answer, 0 unknown at the end: {dict(totals)}")
    assert totals["done"]
    assert not totals["unknown"]


class Stage:
    """Runs several appliers of one plan by turns: at every call of theirs the seed says who goes on."""

    def __init__(self, made: World, count: int, *, rng: Random) -> None:
        self.made, self.rng = made, rng
        self.waiting: dict[int, threading.Event] = {number: threading.Event() for number in range(count)}
        self.outcomes: dict[int, str] = {}
        self._done = threading.Event()

    def run(self) -> dict[int, str]:
        threads = [threading.Thread(target=self._apply, args=(number,), daemon=True) for number in self.waiting]
        for thread in threads:
            thread.start()
        self._next()
        assert self._done.wait(120)
        for thread in threads:
            thread.join(120)
        return self.outcomes

    def _next(self) -> None:
        left = [number for number in self.waiting if number not in self.outcomes]
        if not left:
            self._done.set()
            return
        if self.rng.random() < 0.03:  # everybody sleeps: whoever holds the plan is silent for longer than the lease
            self.made.cluster.now_ms += LEASE_MS + 1
        self.waiting[self.rng.choice(left)].set()

    def _turn(self, number: int) -> None:
        if self.rng.random() < 0.3:
            self._next()
            self.waiting[number].wait()
            self.waiting[number].clear()

    def _apply(self, number: int) -> None:
        self.waiting[number].wait()
        self.waiting[number].clear()
        local = threading.local()
        local.number = number
        try:
            process = dead_process(str(number))
            plan_id = self.made.plan.record.plan_id
            ledger = Ledger(LOCAL, str(self.made.root), self.made.cluster.cluster_id, plan_id, process=process)
            self.made.apply(ledger=ledger, client=_TurningClient(self.made.cluster, lambda: self._turn(number)))
            self.outcomes[number] = "applied"
        except Refused as refused:
            self.outcomes[number] = "refused" if "taken over" in str(refused) else "kept out"
        except BrokerError:
            self.outcomes[number] = "broken"
        except BaseException as error:
            self.outcomes[number] = f"failed: {error!r}"
        finally:
            self._next()


class _TurningClient:
    """The cluster for one of several processes: before every call it may be somebody else's turn, and after it."""

    def __init__(self, cluster: Any, turn: Callable[[], None]) -> None:
        self._cluster, self._turn = cluster, turn

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._cluster, name)

        def turned(*arguments: Any, **named: Any) -> Any:
            self._turn()
            answer = call(*arguments, **named)
            if name != "tail":
                self._turn()
                return answer
            return _TurningTail(answer, self._turn)

        return turned


class _TurningTail:
    def __init__(self, tail: Any, turn: Callable[[], None]) -> None:
        self._tail, self._turn = tail, turn

    @property
    def log_offset(self) -> int:
        return int(self._tail.log_offset)

    def records(self) -> Any:
        self._turn()
        return self._tail.records()


@BY
def test_of_several_appliers_only_one_does_it(is_admin, full, seed, tmp_path, tell):
    outcomes: Counter[str] = Counter()
    count = 500 if full else 12  # with two seeds: 1,000
    for number in range(count):
        faults = Faults(interference=15)
        made = world(f"{seed} {number}", tmp_path / str(number), faults=faults, is_admin=is_admin)
        rng = Random(f"{seed} {number}")
        found = Stage(made, rng.randint(2, 4), rng=rng).run()
        assert not [outcome for outcome in found.values() if outcome.startswith("failed")], found
        made.cluster.faults = Faults(interference=0)
        made.cluster.now_ms += LEASE_MS + 1
        made.apply()
        assert account(made).violations == []
        assert final_losses(made) == []
        assert_one_effect_each(made)
        outcomes.update(found.values())
    tell(f"{count} races: {dict(outcomes)}")
    assert outcomes["applied"]
    assert outcomes["kept out"]


def assert_one_effect_each(made: World) -> None:
    """Of what the plan names everything is removed by us once at most, unless it was put back or committed since."""
    for log in made.cluster.logs:
        alive: dict[Any, bool] = {}
        removed: Counter[Any] = Counter()
        commits: Counter[Any] = Counter()
        for write in log.writes:
            if write.key is None:
                continue
            if write.value is not None:
                commits[write.key] += 1
            elif write.by == US:
                removed[write.key] += alive.get(write.key, False)
            alive[write.key] = write.value is not None
        assert all(count <= commits[key] for key, count in removed.items())


# --- that these tests see anything at all


def _broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: int) -> list[str]:
    violations = []
    for number in range(40):
        made = world(f"broken {number}", tmp_path / str(number), faults=INTERLEAVINGS[kind])
        made.apply_until_done()
        violations += account(made).violations
    return violations


def test_blind_to_races_they_would_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(log_watch, "raced_commits", lambda *_, **__: [])
    assert any("nobody tells" in line for line in _broken(monkeypatch, tmp_path, 1))


def test_an_unanswered_call_taken_for_failed_would_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(log_watch, "NO_ANSWER", Answer(was_sent=False))
    monkeypatch.setattr(log_watch, "_settle", _trusting)
    violations = []
    for number in range(20):
        made = world(f"trusting {number}", tmp_path / str(number), faults=AMBIGUOUS[1])
        made.apply_until_done()
        violations += account(made).violations
    assert any("unrecorded" in line or "no act" in line for line in violations)


def _trusting(attempt: Any, work: Any, rows: Any, answer: Any, *, since: int, call: Any) -> Any:
    outcome = "done" if answer.is_settled else "changed_since"
    told = [{"log_partition": row.item_id[0], "position": row.item_id[1], "outcome": outcome} for row in rows]
    return [Result(**each) for each in told], []
