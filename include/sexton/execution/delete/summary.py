"""The result of an apply: counts by outcome, items that need attention, and the lengths of the windows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sexton.execution.status import PlanStatus
from sexton.execution.windows import Windows
from sexton.ledger.entries import Item, ItemId, Result
from sexton.plans.plan import Plan
from sexton.tables.apply_ledger import RETRYABLE_OUTCOMES

Sink = Literal["dry_run", "coordinator", "log"]
SHOWN_ITEMS = 1_000
"""Maximum number of items that a summary lists; the ledger has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOutcome:
    """An item that is not simply done, or that has a remark."""

    group_id: str
    topic: str | None
    partition: int | None
    log_partition: int
    position: int
    outcome: str
    error: str | None

    @classmethod
    def of(cls, item: Item, result: Result) -> "ItemOutcome":
        place = {name: getattr(item, name) for name in ("group_id", "topic", "partition", "log_partition", "position")}
        return cls(**place, outcome=result.outcome, error=result.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySummary:
    """The result of a plan over all attempts. `attempt` is the last one, 0 without an attempt.

    `counts` are items by outcome; `would_be_done` in a dry run. `restored` counts the values that were put back after a
    race, by outcome. `notable` are the items that need attention.
    """

    plan_id: str
    sink: str
    attempt: int
    items: int
    counts: dict[str, int]
    restored: dict[str, int]
    windows: Windows
    notable: tuple[ItemOutcome, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def left(self) -> int:
        """Items that may be tried again."""
        return sum(self.counts.get(outcome, 0) for outcome in (*RETRYABLE_OUTCOMES, "unknown", "left"))

    @property
    def exit_code(self) -> int:
        """0 for a dry run and when no item may be tried again (an item that has changed may not); else 1."""
        return 1 if self.left and self.sink != "dry_run" else 0

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "left": self.left, "exit_code": self.exit_code}


def summarize(plan: Plan, status: PlanStatus, *, sink: str, attempt: int, warnings: Sequence[str] = ()) -> ApplySummary:
    """The summary of a plan, from its ledger."""
    counts = status.counts()
    planned = plan.tombstones.num_rows
    beyond = sum(item_id not in status.restored for item_id in status.results) - sum(
        (row["log_partition"], row["position"]) in status.results
        for row in plan.tombstones.select(["log_partition", "position"]).to_pylist()
    )
    if left := planned + beyond - counts.total():
        counts["left"] = left
    restored = Counter(str(status.results[item_id].outcome) for item_id in status.restored if item_id in status.results)
    notable = _notable(status)[:SHOWN_ITEMS]
    return ApplySummary(
        plan_id=plan.record.plan_id,
        sink=sink,
        attempt=attempt,
        items=planned,
        counts=dict(sorted(counts.items())),
        restored=dict(sorted(restored.items())),
        windows=Windows.of(status.windows_ms),
        notable=tuple(ItemOutcome.of(status.items[item_id], result) for item_id, result in notable),
        warnings=(*warnings, *_warnings(counts, restored)),
    )


def _notable(status: PlanStatus) -> list[tuple[ItemId, Result]]:
    """The results that need attention, `raced` first; done items only if they have a remark."""
    found = [
        (item_id, result)
        for item_id, result in status.results.items()
        if (result.outcome != "done" or result.error is not None)
        and not (item_id in status.restored and result.outcome == "gone")
    ]
    return sorted(found, key=lambda each: (each[1].outcome != "raced", each[0]))


def _warnings(counts: Counter[str], restored: Counter[str]) -> list[str]:
    found = []
    if counts["raced"]:
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(restored.items())) or "none"
        found.append(
            f"{counts['raced']} offsets were committed again right before they were deleted; put back: {outcomes}"
        )
    if counts["changed_since"]:
        found.append(f"{counts['changed_since']} items have changed since the plan was made, and were left alone")
    if counts["refused"]:
        found.append(f"{counts['refused']} items were refused")
    return found
