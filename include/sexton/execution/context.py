"""One attempt at a plan while it goes on: its cluster, its ledger, its clocks, and how far it has come."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sexton.execution.cluster_protocol import ClusterPort
from sexton.execution.guards import Rules
from sexton.execution.status import PlanStatus
from sexton.execution.steps import GroupWork
from sexton.execution.watch import LogWatch
from sexton.ledger.entries import NO_STEP, Intent, Item, Result, StepOutcome
from sexton.ledger.ledger import Ledger
from sexton.plans.record import Plan

RELOOK_MS = 5_000
"""A look that is older than this when its call is about to be made is made again: this process may have been asleep."""
TRIES = 3
SETTLE_TRIES = 6
"""How often the log is read for what an unanswered call may have done, with growing waits: about 6 s in all."""
SETTLE_WAIT_S = 0.1


def _ticks_ms() -> float:
    return time.perf_counter() * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Time: `now_ms` for what is written down, `ticks_ms` for spans, `sleep` (seconds) to wait."""

    now_ms: Callable[[], int]
    ticks_ms: Callable[[], float] = _ticks_ms
    sleep: Callable[[float], None] = time.sleep


@dataclass(slots=True, kw_only=True)
class ApplyContext:
    """What the parts of an attempt share."""

    port: ClusterPort
    plan: Plan
    ledger: Ledger
    rules: Rules
    clocks: Clocks
    work: Sequence[GroupWork]
    max_batch_bytes: int
    status: PlanStatus
    unsettled: set[tuple[int, int]] = field(default_factory=set)
    """Items with a call that had no answer: it may still be carried out."""
    _watches: dict[int, LogWatch] = field(default_factory=dict)
    _step: int = 0
    _positions: dict[int, int] = field(default_factory=dict)

    def watch(self, log_partition: int) -> LogWatch:
        """The tail of a log partition, opened when it is first needed."""
        if log_partition not in self._watches:
            own = {group.group_id for group in self.work if group.log_partition == log_partition}
            cut = self.plan.record.cuts[log_partition]
            self._watches[log_partition] = LogWatch(self.port, log_partition, cut=cut, group_ids=own)
        return self._watches[log_partition]

    def next_position(self, log_partition: int) -> int:
        """A position that no item has yet, behind those of the plan: for what is put back."""
        if log_partition not in self._positions:
            planned = sum(len(group.rows) for group in self.work if group.log_partition == log_partition)
            used = [position for part, position in self.status.items if part == log_partition]
            self._positions[log_partition] = max([planned - 1, *used])
        self._positions[log_partition] += 1
        return self._positions[log_partition]

    def intend(self, intent: Intent) -> None:
        at_ms = self.clocks.now_ms()
        self.ledger.intent(intent, at_ms=at_ms)
        self.status.take(intent, at_ms=at_ms)

    def next_step(self) -> int:
        self._step += 1
        return self._step - 1

    def conclude(
        self,
        results: Sequence[Result],
        *,
        step: int = NO_STEP,
        of_attempt: int | None = None,
        window_ms: float | None = None,
        beyond: Sequence[Item] = (),
    ) -> None:
        """Write results down, and go on from them."""
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
