"""Verdicts: scenario by scenario, and over thousands of simulated transactions that are read while they run."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from sexton.kafka.replicas import ReplicaTransaction as OpenProducer
from sexton.transactions.rows import transaction_rows
from sexton.transactions.states import LoadedStates, TransactionalId, TransactionState
from sexton.transactions.verdicts import (
    NO_TIMEOUT_MS,
    Judged,
    KnownStates,
    OffsetsTransaction,
    TransactionClocks,
    judge_all,
)
from tests.transactions.logs import BASE_MS, OFFSETS

MINUTE = 60_000
NOW = BASE_MS + 60 * MINUTE
SLACK = MINUTE
OPEN = OffsetsTransaction(
    log_partition=3, producer_id=1, producer_epoch=5, first_log_offset=10, last_log_offset=12, since_ms=BASE_MS,
    group_ids=["g"],
)  # fmt: skip


def owner(state: TransactionState, *, epoch: int = 5, listed: bool = True, **fields: int | None) -> TransactionalId:
    known: dict[str, Any] = {"producer_id": 1, "timeout_ms": 120 * MINUTE, "previous_producer_id": None}
    known |= {"next_producer_id": None, "updated_at_ms": BASE_MS, "started_at_ms": BASE_MS, **fields}
    partitions = {OFFSETS: (3,)} if listed else {"t": (3,)}
    place = {"transactional_id": "payments", "log_partition": 0, "log_offset": 1}
    return TransactionalId(**place, producer_epoch=epoch, state=state, partitions=partitions, **known)


def states(*ids: TransactionalId, count: int | None = 1, **rest: object) -> KnownStates:
    part = LoadedStates(log_partition=0, ids={one.transactional_id: one for one in ids}, leader_epoch=4)
    for name, given in rest.items():
        setattr(part, name, given)
    return KnownStates(partitions=[part], partition_count=count, read_at_ms=NOW)


def judge(known: KnownStates | None, one: OffsetsTransaction = OPEN, *, read_until_ms: int = NOW) -> Judged:
    (judged,) = judge_all([one], known, TransactionClocks(read_until_ms=read_until_ms, slack_ms=SLACK)).judged
    return judged


ENDED_LONG_AGO = {"updated_at_ms": BASE_MS - MINUTE}
SCENARIOS = {
    "running": (owner(TransactionState.ONGOING), "running", "ongoing"),
    "two-phase": (owner(TransactionState.ONGOING, timeout_ms=NO_TIMEOUT_MS), "two_phase", "no_timeout"),
    "commit decided": (owner(TransactionState.PREPARE_COMMIT), "completing", "markers_due"),
    "abort decided": (owner(TransactionState.PREPARE_ABORT), "completing", "markers_due"),
    "commit of KIP-890 bumps the epoch": (owner(TransactionState.PREPARE_COMMIT, epoch=6), "completing", "markers_due"),
    "fenced and aborted": (owner(TransactionState.PREPARE_ABORT, epoch=7), "completing", "markers_due"),
    "its epoch ran out": (owner(TransactionState.PREPARE_COMMIT, next_producer_id=8), "completing", "markers_due"),
    "ended": (owner(TransactionState.COMPLETE_COMMIT, **ENDED_LONG_AGO), "hanging", "ended"),
    "ended, id used anew": (owner(TransactionState.EMPTY, epoch=6, **ENDED_LONG_AGO), "hanging", "ended"),
    "another producer id since": (
        owner(TransactionState.EMPTY, producer_id=2, previous_producer_id=1, **ENDED_LONG_AGO), "hanging", "ended"
    ),
    "not announced": (owner(TransactionState.ONGOING, listed=False), "hanging", "not_listed"),
    "decided without it": (owner(TransactionState.PREPARE_COMMIT, listed=False), "hanging", "not_listed"),
    "left over from an older epoch": (owner(TransactionState.ONGOING, epoch=6), "hanging", "other_epoch"),
    "its markers are too old": (owner(TransactionState.PREPARE_COMMIT, epoch=4), "hanging", "other_epoch"),
    "nobody's": (owner(TransactionState.ONGOING, producer_id=2), "hanging", "unknown_producer"),
}  # fmt: skip


@pytest.mark.parametrize(("state", "verdict", "reason"), SCENARIOS.values(), ids=SCENARIOS)
def test_verdict(state: TransactionalId, verdict: str, reason: str) -> None:
    judged = judge(states(state))
    assert (judged.verdict, judged.reason) == (verdict, reason)
    assert (judged.transactional_id is None) == (reason == "unknown_producer")
    assert (judged.abort_arguments() is None) == (verdict != "hanging")


@pytest.mark.parametrize(
    "known",
    [None, states(count=2), states(count=None), states(failure="a record that cannot be read"), states(skipped=1)],
    ids=["topic not read", "a partition missing", "number unknown", "load ended early", "unknown versions"],
)
def test_a_producer_that_may_be_elsewhere_is_unknown(known: KnownStates | None) -> None:
    assert (judge(known).verdict, judge(known).reason) == ("unknown", "not_read")


@pytest.mark.parametrize(
    "broken",
    [{"failure": "a record that cannot be read"}, {"skipped": 1}],
    ids=["load ended early", "unknown versions"],
)
@pytest.mark.parametrize(
    "older",
    [
        owner(TransactionState.COMPLETE_COMMIT, **ENDED_LONG_AGO),
        owner(TransactionState.ONGOING, listed=False),
        owner(TransactionState.ONGOING, epoch=6),
    ],
    ids=["ended", "not listed", "other epoch"],
)
def test_a_state_after_which_not_all_was_read_proves_nothing(older: TransactionalId, broken: dict[str, object]) -> None:
    """A later record may list the log partition. What is broken in another partition does not matter."""
    judged = judge(states(older, **broken))
    assert (judged.verdict, judged.reason, judged.abort_arguments()) == ("unknown", "not_read", None)
    (row,) = transaction_rows([judged], {}, None).to_pylist()
    said = f"the newest state of its producer was not read: payments was {older.state} with producer id 1, epoch "
    assert row["evidence"] == f"{said}{older.producer_epoch}"
    other = replace(states(**broken).partitions[0], log_partition=1)
    known = states(older, count=2)
    assert judge(replace(known, partitions=[*known.partitions, other])).verdict == "hanging"


@pytest.mark.parametrize(
    ("known", "one", "read_until_ms"),
    [
        (states(owner(TransactionState.COMPLETE_COMMIT, updated_at_ms=NOW)), OPEN, NOW - 5 * MINUTE),
        (states(owner(TransactionState.COMPLETE_COMMIT, updated_at_ms=NOW - 30_000)), OPEN, NOW),
        (states(owner(TransactionState.ONGOING, listed=False, started_at_ms=NOW)), OPEN, NOW),
        (states(owner(TransactionState.ONGOING, epoch=6, started_at_ms=NOW)), OPEN, NOW),
        (states(), replace(OPEN, since_ms=NOW - 30_000), NOW),
        (states(), replace(OPEN, since_ms=None), NOW),
    ],
    ids=["ended later", "clocks", "next transaction", "next epoch", "began later", "no timestamp"],
)
def test_what_changed_while_the_logs_were_read_is_not_hanging(known, one, read_until_ms):
    assert (judge(known, one, read_until_ms=read_until_ms).verdict) == "unknown"
    assert judge(known, one, read_until_ms=read_until_ms).reason == "recent"


def test_a_broker_that_is_asked_afterwards_decides() -> None:
    known, clocks = (
        states(owner(TransactionState.COMPLETE_COMMIT, updated_at_ms=NOW)),
        TransactionClocks(read_until_ms=NOW, slack_ms=SLACK),
    )
    still = OpenProducer(producer_id=1, producer_epoch=5, start_offset=9)
    again = OpenProducer(producer_id=1, producer_epoch=6, start_offset=13)

    def asked(*producers: OpenProducer) -> tuple[list[tuple[str, int, bool]], int]:
        found = judge_all([OPEN], known, clocks, producers={3: producers})
        return [(one.verdict, one.start_offset, one.is_confirmed) for one in found.judged], len(found.ended)

    assert asked(still) == ([("hanging", 9, True)], 0)
    assert asked() == ([], 1)
    assert asked(again) == ([], 1)  # its next transaction
    assert [one.verdict for one in judge_all([OPEN], known, clocks, producers={}).judged] == ["unknown"]


def test_when_it_ends_and_whether_it_should_have() -> None:
    running = judge(states(owner(TransactionState.ONGOING)))
    assert (running.ends_at_ms, running.is_overdue) == (BASE_MS + 120 * MINUTE, False)
    assert judge(states(owner(TransactionState.ONGOING, timeout_ms=MINUTE))).is_overdue
    assert judge(states(owner(TransactionState.PREPARE_COMMIT))).is_overdue
    assert not judge(states(owner(TransactionState.PREPARE_COMMIT, updated_at_ms=NOW))).is_overdue


def test_the_arguments_of_old_brokers_name_the_producer_and_the_coordinator() -> None:
    hanging = judge(states(owner(TransactionState.COMPLETE_COMMIT, **ENDED_LONG_AGO)))
    where = f"abort --topic {OFFSETS} --partition 3"
    assert hanging.abort_arguments((4, 3, 1)) == hanging.abort_arguments() == f"{where} --start-offset 10"
    old = f"{where} --producer-id 1 --producer-epoch 5 --coordinator-epoch 4"
    assert hanging.abort_arguments((2, 8, 2)) == old


@dataclass
class Life:
    """A transaction as it really went: announced, written, decided, marker, complete."""

    producer_id: int
    begun_ms: int
    written_ms: int
    decided_ms: int
    marker_ms: int
    complete_ms: int
    hangs: bool

    def log_at(self, at_ms: int) -> OffsetsTransaction | None:
        """What the offsets log shows of it at an instant."""
        if at_ms < self.written_ms or (at_ms >= self.marker_ms and not self.hangs):
            return None
        return replace(OPEN, producer_id=self.producer_id, since_ms=self.written_ms)

    def state_at(self, at_ms: int, skew_ms: int) -> TransactionalId:
        """And what its coordinator's log shows; the clock of that broker is off."""
        common = {"producer_id": self.producer_id, "started_at_ms": self.begun_ms + skew_ms, "listed": not self.hangs}
        if at_ms < self.begun_ms:
            state, since_ms = TransactionState.EMPTY, self.begun_ms - MINUTE
        elif at_ms < self.decided_ms:
            state, since_ms = TransactionState.ONGOING, self.begun_ms
        elif at_ms < self.complete_ms:
            state, since_ms = TransactionState.PREPARE_COMMIT, self.decided_ms
        else:
            state, since_ms = TransactionState.COMPLETE_COMMIT, self.complete_ms
        found = owner(state, **common, updated_at_ms=since_ms + skew_ms)  # type: ignore[arg-type]
        return replace(found, transactional_id=f"id-{self.producer_id}")


def life(rng: Random, producer_id: int) -> Life:
    at = [BASE_MS + rng.randrange(20 * MINUTE)]
    for _ in range(4):
        at.append(at[-1] + rng.choice([1, 50, 2_000, 5 * MINUTE]))
    return Life(producer_id, *at, hangs=rng.random() < 0.05)


def test_none_that_runs_is_called_hanging_and_all_that_hang_are() -> None:
    """10,000 transactions, read at instants of their lives; the states up to 3 minutes after the offsets log."""
    rng = Random(7)
    verdicts: dict[tuple[bool, str], int] = {}
    for _ in range(20):
        lives = [life(rng, number) for number in range(500)]
        read_ms = BASE_MS + rng.randrange(2 * MINUTE, 40 * MINUTE)
        states_ms = read_ms + rng.randrange(3 * MINUTE)
        skew_ms = rng.randrange(-SLACK // 2, SLACK // 2)
        known = replace(states(*(one.state_at(states_ms, skew_ms) for one in lives)), read_at_ms=states_ms)
        logs = [(one, found) for one in lives if (found := one.log_at(read_ms)) is not None]
        clocks = TransactionClocks(read_until_ms=read_ms, slack_ms=SLACK)
        judged = judge_all([found for _, found in logs], known, clocks).judged
        for (one, _), each in zip(logs, judged, strict=True):
            key = one.hangs, each.verdict
            verdicts[key] = verdicts.get(key, 0) + 1
            is_old = max(one.written_ms, one.complete_ms) < read_ms - 2 * SLACK
            assert (each.verdict == "hanging") <= one.hangs
            assert each.verdict == "hanging" or not (one.hangs and is_old)
    assert {(False, "running"), (False, "completing"), (False, "unknown"), (True, "hanging")} <= verdicts.keys()
