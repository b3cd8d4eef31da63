"""One attempt to change a cluster, and its steps: intent, preflight check, call, read back, outcome.

Deleting (`delete`) and restoring (`restore`) are the two uses; a Step has what differs between them. A process may die
anywhere: the ledger has the intent before the call and the outcome after it, so the next attempt first settles intents
without an outcome by reading their effects, then continues.

Kafka has no compare-and-delete. A commit may arrive between the preflight check and the call's effect. That window is
measured, from the check to the call's answer, and the log shows afterwards which commits arrived in it. Offsets are put
back without such a window (compare_and_set).
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from sexton.errors import BrokerError, Refused, SextonError
from sexton.execution.kafka_admin import KafkaAdmin
from sexton.execution.status import PlanStatus
from sexton.failpoints import failpoint
from sexton.kafka.admin import GroupError
from sexton.kafka.failures import NotAllowed, TransientError, Unsettled
from sexton.ledger.entries import NO_STEP, Action, Intent, Item, ItemId, Result, StepOutcome
from sexton.ledger.ledger import Ledger

RECHECK_MS = 5_000
"""If a preflight check is older than this before its call, it is repeated: the process may have been suspended."""
TRIES = 3
SETTLE_TRIES = 6
"""How often the effect of an unanswered call is checked, with growing waits: about 6 s in total."""
SETTLE_WAIT_S = 0.1

Progress = Callable[[int, int], bool]
"""Receives the amount done and the total, and returns whether to continue: False ends the attempt between two steps."""


def ticks_now_ms() -> float:
    """A monotonic clock for durations, in ms."""
    return time.perf_counter() * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Time: `now_ms` for what is recorded, `ticks_ms` for durations, `sleep` (seconds) to wait."""

    now_ms: Callable[[], int]
    ticks_ms: Callable[[], float] = ticks_now_ms
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The coordinator's answer to a call: an error per item, and `whole`, an error for all items. Errors have Kafka's
    names; None is success.

    Without `is_settled` the call may have been carried out, or may still be. Without `was_sent` it certainly was not.
    `decided` are results of items that the call itself found must stay unchanged.
    """

    by_item: Mapping[ItemId, str | None] = field(default_factory=dict)
    whole: str | None = None
    is_settled: bool = True
    was_sent: bool = True
    decided: Sequence[Result] = ()

    def error_of(self, item_id: ItemId) -> str | None:
        return self.whole or self.by_item.get(item_id)


NO_ANSWER = Answer(is_settled=False)
"""The answer of a call whose process died before it could record one."""

Preflight = tuple[float, list[Result]]
"""When the cluster was checked (ticks in ms), and results for the items that must not be changed."""
Effects = tuple[list[Result], list[Item]]
"""The effects of a call: all results, and the items among them that no intent names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call: its items, and the three functions in which operations differ.

    `preflight` compares the cluster with `items`. `call` changes the remaining items. `read_back` finds out the
    effects. The window of a step is recorded only if `is_measured`.
    """

    action: Action
    items: Sequence[Item]
    checks: Mapping[str, Any]
    preflight: Callable[[], Preflight]
    call: Callable[[Collection[ItemId]], Answer]
    read_back: Callable[[Collection[ItemId], Answer], Effects]
    is_measured: bool = True


@dataclass(slots=True, kw_only=True)
class ApplyContext:
    """An attempt: its cluster, its ledger, its clocks, and its progress."""

    client: KafkaAdmin
    ledger: Ledger
    clocks: Clocks
    status: PlanStatus
    steps: Iterator[int] = field(default_factory=count)
    """The numbers of the next steps."""

    def intend(self, intent: Intent) -> None:
        """Record what the next call is about to do; Refused when another attempt has begun."""
        at_ms = self.clocks.now_ms()
        self.ledger.intent(intent, at_ms=at_ms)
        self.status.take(intent, at_ms=at_ms)

    def conclude(
        self,
        results: Sequence[Result],
        *,
        step: int = NO_STEP,
        of_attempt: int | None = None,
        window_ms: float | None = None,
        beyond: Sequence[Item] = (),
    ) -> None:
        """Record results."""
        outcome = StepOutcome(
            step=step,
            of_attempt=self.ledger.attempt if of_attempt is None else of_attempt,
            items=list(results),
            window_ms=None if window_ms is None else round(window_ms, 3),
            beyond=list(beyond),
        )
        at_ms = self.clocks.now_ms()
        self.ledger.outcome(outcome, at_ms=at_ms)
        self.status.take(outcome, at_ms=at_ms)


@contextmanager
def attempt(
    context: ApplyContext,
    *,
    counts: Callable[[], Mapping[str, int]],
    closes_on: type[SextonError] | tuple[type[SextonError], ...],
    **claim: Any,
) -> Iterator[None]:
    """Claim an attempt (`claim` are arguments of Ledger.claim), run the block, and close the attempt with its `counts`.

    An error of a type in `closes_on` closes the attempt as well, so that the next attempt may begin immediately. After
    any other error the attempt stays open until its process has ended or its lease is over.
    """
    context.status = PlanStatus.of(context.ledger.claim(at_ms=context.clocks.now_ms(), **claim))
    try:
        yield
    except closes_on:
        with suppress(Refused):
            context.ledger.close(counts(), at_ms=context.clocks.now_ms())
        raise
    failpoint("apply.ended")
    context.ledger.close(counts(), at_ms=context.clocks.now_ms())
    failpoint("apply.closed")


def execute_step(context: ApplyContext, step: Step) -> list[Result]:
    """Carry out a step, record it, and return its results.

    Refused when the ledger has a newer claim; then nothing was called.
    """
    number = next(context.steps)
    context.intend(Intent(step=number, action=step.action, items=list(step.items), checks=dict(step.checks)))
    failpoint("apply.intended")
    checked_ms, results = _preflight_check(context, step)
    left = _left(step, results)
    window_ms: float | None = None
    beyond: list[Item] = []
    if left:
        failpoint("apply.preflight")
        answer = _answer(step, left)
        window_ms = context.clocks.ticks_ms() - checked_ms if step.is_measured else None
        failpoint("apply.called")
        results = [*results, *answer.decided]
        if left := _left(step, results):
            effects, beyond = step.read_back(left, answer)
            results += effects
    failpoint("apply.seen")
    context.conclude(results, step=number, window_ms=window_ms, beyond=beyond)
    failpoint("apply.recorded")
    return results


def read_until_settled(context: ApplyContext, answer: Answer, read: Callable[[], list[Result]]) -> list[Result]:
    """Read the effects of a call. If it had no answer, read until none is `unknown`, at most SETTLE_TRIES times."""
    for number in range(SETTLE_TRIES):
        results = read()
        if answer.is_settled or not any(result.outcome == "unknown" for result in results):
            break
        context.clocks.sleep(SETTLE_WAIT_S * 2**number)
    return results


def error_text(error: GroupError | NotAllowed) -> str:
    """Kafka's name for a refusal, with the missing ACL if there is one."""
    is_about_rights = error.fix and error.error_name.endswith("AUTHORIZATION_FAILED")
    return f"{error.error_name} ({error.fix})" if is_about_rights else error.error_name


def _preflight_check(context: ApplyContext, step: Step) -> Preflight:
    """Check the claim, then the cluster once more. A check that took too long is repeated."""
    for _ in range(TRIES):
        context.ledger.check_claim()
        checked_ms, results = step.preflight()
        left = _left(step, results)
        if not left or context.clocks.ticks_ms() - checked_ms <= RECHECK_MS:
            return checked_ms, results
    too_slow = "the cluster answers too slowly for a preflight check"
    return checked_ms, [
        *results,
        *(Result.of(item.item_id, "not_done", too_slow) for item in step.items if item.item_id in left),
    ]


def _left(step: Step, results: Sequence[Result]) -> list[ItemId]:
    decided = {result.item_id for result in results}
    return [item.item_id for item in step.items if item.item_id not in decided]


def _answer(step: Step, left: Collection[ItemId]) -> Answer:
    try:
        return step.call(left)
    except (GroupError, NotAllowed) as error:
        return Answer(whole=error_text(error))
    except Unsettled:
        return Answer(whole="no answer came", is_settled=False)
    except TransientError as error:
        return Answer(whole=error.message, was_sent=False)
    except BrokerError as error:
        return Answer(whole=error.message, is_settled=False)
