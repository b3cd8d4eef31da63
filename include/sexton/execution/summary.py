"""What an apply came to: counts by outcome, what needs a look, and how wide the window was."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sexton.execution.status import PlanStatus
from sexton.ledger.entries import Item, Result
from sexton.plans.record import Plan

TOLD_ITEMS = 1_000
"""So many items that were not done are told one by one; the ledger has them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An item that somebody should look at."""

    group_id: str
    topic: str | None
    partition: int | None
    log_partition: int
    position: int
    outcome: str
    error: str | None

    @classmethod
    def of(cls, item: Item, result: Result) -> "Told":
        return cls(
            group_id=item.group_id,
            topic=item.topic,
            partition=item.partition,
            log_partition=item.log_partition,
            position=item.position,
            outcome=result.outcome,
            error=result.error,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """How long the windows between last look and answer were, in ms; all 0 where there was none."""

    steps: int = 0
    sum_ms: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0

    @classmethod
    def of(cls, windows_ms: Sequence[float]) -> "Windows":
        if not windows_ms:
            return cls()
        ordered = sorted(windows_ms)
        return cls(
            steps=len(ordered),
            sum_ms=round(sum(ordered), 3),
            p50_ms=ordered[(len(ordered) - 1) // 2],
            p99_ms=ordered[-(-99 * len(ordered) // 100) - 1],
            max_ms=ordered[-1],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySummary:
    """What became of a plan, over all attempts at it. `attempt` is the last one, 0 where none was made.

    `counts` are items by outcome; `would_be_done` with sink plan, where nothing was done. `restored` counts what a race
    took along, by what came of putting it back. `told` are the items that are not simply done.
    """

    plan_id: str
    sink: str
    attempt: int
    items: int
    counts: dict[str, int]
    restored: dict[str, int]
    windows: Windows
    told: tuple[Told, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def left(self) -> int:
        """Items that may be tried again."""
        return sum(self.counts.get(outcome, 0) for outcome in ("refused", "not_done", "unknown", "left"))

    @property
    def exit_code(self) -> int:
        """0 when nothing is left to try, also where items had changed; else 1."""
        return 1 if self.left and self.sink != "plan" else 0

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "left": self.left, "exit_code": self.exit_code}


def summarize(plan: Plan, status: PlanStatus, *, sink: str, attempt: int, warnings: Sequence[str] = ()) -> ApplySummary:
    """The summary of a plan by what its ledger says."""
    counts = status.counts()
    planned = plan.tombstones.num_rows
    beyond = sum(place not in status.restored for place in status.results) - sum(
        (row["log_partition"], row["position"]) in status.results
        for row in plan.tombstones.select(["log_partition", "position"]).to_pylist()
    )
    if left := planned + beyond - counts.total():
        counts["left"] = left
    restored = Counter(str(status.results[place].outcome) for place in status.restored if place in status.results)
    return ApplySummary(
        plan_id=plan.record.plan_id,
        sink=sink,
        attempt=attempt,
        items=planned,
        counts=dict(sorted(counts.items())),
        restored=dict(sorted(restored.items())),
        windows=Windows.of(status.windows_ms),
        told=tuple(Told.of(status.items[place], result) for place, result in _notable(status)[:TOLD_ITEMS]),
        warnings=(*warnings, *_warnings(counts, restored)),
    )


def _notable(status: PlanStatus) -> list[tuple[tuple[int, int], Result]]:
    found = [
        (place, result)
        for place, result in status.results.items()
        if result.outcome != "done" and not (place in status.restored and result.outcome == "gone")
    ]
    return sorted(found, key=lambda each: (each[1].outcome != "raced", each[0]))


def _warnings(counts: Counter[str], restored: Counter[str]) -> list[str]:
    found = []
    if counts["raced"]:
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(restored.items())) or "none"
        found.append(f"{counts['raced']} offsets were committed anew right before they were deleted; put back: {told}")
    if counts["changed_since"]:
        found.append(f"{counts['changed_since']} items have changed since the plan was made, and were left alone")
    if counts["refused"]:
        found.append(f"{counts['refused']} items were refused")
    return found
