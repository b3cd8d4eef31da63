"""The status of a plan or a restore: the result of each item, computed from all entries of the ledger."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sexton.coordinator.offsets import OffsetKey
from sexton.ledger.entries import FINAL, WRITTEN, Entry, Intent, Item, ItemId, Result, StepOutcome
from sexton.ledger.recorded_steps import RecordedStep, recorded_steps

Call = Literal["delete_offsets", "delete_group"]


def call_of(checks: Mapping[str, Any]) -> Call:
    """The deletion call of an intent; a tombstone of the log sink has the effect of delete_offsets."""
    return "delete_group" if checks.get("call") == "delete_group" else "delete_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intended:
    """The calls that may have been made for an item.

    `since` is where the log ended before the first call, `at_ms` is when the last call was intended.
    """

    since: int
    at_ms: int
    call: Call


@dataclass(slots=True, kw_only=True)
class PlanStatus:
    """The known state of the items. `results` has the effective result of each, `items` every item with a result.

    `open` are the intents without an outcome when the attempt began. For a deletion: `intended` are items for which a
    call may have been made, `doubtful` items with an unanswered call, `restored` the items that put a value back.
    `returned` maps an offset to a log_offset: values that tombstones up to there removed need not be put back.
    """

    items: dict[ItemId, Item] = field(default_factory=dict)
    results: dict[ItemId, Result] = field(default_factory=dict)
    intended: dict[ItemId, Intended] = field(default_factory=dict)
    restored: set[ItemId] = field(default_factory=set)
    returned: dict[OffsetKey | None, int] = field(default_factory=dict)
    windows_ms: list[float] = field(default_factory=list)
    open: list[RecordedStep] = field(default_factory=list)
    doubtful: set[ItemId] = field(default_factory=set)
    _raced: set[ItemId] = field(default_factory=set)

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "PlanStatus":
        status = cls(open=[step for step in recorded_steps(entries) if step.is_open])
        for entry in entries:
            status.take(entry.body, at_ms=entry.at_ms)
        return status

    def take(self, body: object, *, at_ms: int) -> None:
        """Add another entry, written at `at_ms`."""
        if isinstance(body, Intent):
            self.items |= {item.item_id: item for item in body.items}
            if body.action == "tombstone":
                self._intend(body, at_ms)
            else:
                self.restored |= {item.item_id for item in body.items}
                self.returned |= {item.key: int(body.checks.get("log_offset", 0)) for item in body.items if item.key}
        elif isinstance(body, StepOutcome):
            self.items |= {item.item_id: item for item in body.beyond}
            for result in body.items:
                self._answer(result)
                if _replaces(result, self.results.get(result.item_id)):
                    self.results[result.item_id] = result
                    if result.outcome == "raced":
                        self._raced.add(result.item_id)
            if body.window_ms is not None:
                self.windows_ms.append(body.window_ms)

    def _intend(self, body: Intent, at_ms: int) -> None:
        call, since = call_of(body.checks), int(body.checks.get("log_offset", 0))
        for item in body.items:
            if (before := self.intended.get(item.item_id)) is not None:
                since = min(since, before.since)
                call = before.call if before.call == "delete_group" else call
            self.intended[item.item_id] = Intended(since=since, at_ms=at_ms, call=call)

    def _answer(self, result: Result) -> None:
        """Forget the intent of an item that an answer refused, or for which no call was made in the end, unless another
        call for it had no answer."""
        if result.outcome in ("not_done", "unknown"):
            self.doubtful.add(result.item_id)
        elif result.outcome in ("refused", "changed_since") and result.item_id not in self.doubtful:
            self.intended.pop(result.item_id, None)

    def is_final(self, item_id: ItemId) -> bool:
        """Whether nothing remains to be done for an item."""
        result = self.results.get(item_id)
        return result is not None and result.outcome in FINAL

    def is_written(self, item_id: ItemId) -> bool:
        """Whether a call of Sexton is known to have taken effect."""
        result = self.results.get(item_id)
        return result is not None and result.outcome in WRITTEN

    @property
    def is_unsettled(self) -> bool:
        """Whether a deletion has an intent without an outcome, or a value to put back."""
        return bool(self.open or self.unreturned())

    def unreturned(self) -> list[tuple[Item, Result]]:
        """Items whose deletion removed a newer commit, at a known log position, if no restore has begun since."""
        return [
            (self.items[item_id], self.results[item_id])
            for item_id in sorted(self._raced)
            if self.results[item_id].found is not None
            and (written := self.results[item_id].written_log_offset) is not None
            and written > self.returned.get(self.items[item_id].key, -1)
        ]

    def raced_tombstones(self) -> defaultdict[str, set[tuple[str | None, int | None, int | None]]]:
        """By group, (topic, partition, log_offset) of the tombstones that are known to have removed a newer commit."""
        found: defaultdict[str, set[tuple[str | None, int | None, int | None]]] = defaultdict(set)
        for item_id in self._raced:
            item = self.items[item_id]
            found[item.group_id].add((item.topic, item.partition, self.results[item_id].written_log_offset))
        return found

    def counts(self) -> Counter[str]:
        """Items by outcome, without items that put a value back."""
        return Counter(str(result.outcome) for item_id, result in self.results.items() if item_id not in self.restored)


def _replaces(result: Result, known: Result | None) -> bool:
    """Whether a result replaces the known one. An outcome in WRITTEN replaces all others, and `raced` also `done`. Any
    other outcome, except `unknown`, replaces one that is not in FINAL."""
    if known is None or result.outcome in WRITTEN:
        return known is None or known.outcome not in WRITTEN or result.outcome == "raced"
    return known.outcome not in FINAL and result.outcome != "unknown"
