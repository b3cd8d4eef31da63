"""Where a plan stands: what the ledger says of each item, over all attempts."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from sexton.coordinator.offsets import OffsetKey
from sexton.execution.steps import Call
from sexton.ledger.entries import FINAL, WRITTEN, Entry, Intent, Item, Result, StepOutcome
from sexton.ledger.ledger import Told, told_of

PlanPosition = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intended:
    """The calls that may have been made for an item: up to where the log was read before the first, when the last was
    intended, and what was called."""

    since: int
    at_ms: int
    call: Call


@dataclass(slots=True, kw_only=True)
class PlanStatus:
    """What is known of the items of a plan. `results` has what counts of each; `items` all that have one.

    `intended` are items that a call may have been made for, `doubtful` those of which one had no answer; `open` the
    intents whose outcome nobody knew at the begin; `restored` the items that are put back, `returned` by their key from
    which log_offset on nothing needs to be.
    """

    items: dict[PlanPosition, Item] = field(default_factory=dict)
    results: dict[PlanPosition, Result] = field(default_factory=dict)
    intended: dict[PlanPosition, Intended] = field(default_factory=dict)
    restored: set[PlanPosition] = field(default_factory=set)
    returned: dict[OffsetKey, int] = field(default_factory=dict)
    windows_ms: list[float] = field(default_factory=list)
    open: list[Told] = field(default_factory=list)
    doubtful: set[PlanPosition] = field(default_factory=set)
    _raced: set[PlanPosition] = field(default_factory=set)

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "PlanStatus":
        found = cls(open=[told for told in told_of(entries) if told.is_open])
        for entry in entries:
            found.take(entry.body, at_ms=entry.at_ms)
        return found

    def take(self, body: object, *, at_ms: int) -> None:
        """Go on with what another entry says, of `at_ms`."""
        if isinstance(body, Intent):
            self.items |= {item.place: item for item in body.items}
            if body.action == "tombstone":
                self._intend(body, at_ms)
            else:
                self.restored |= {item.place for item in body.items}
                self.returned |= {item.key: int(body.checks.get("log_offset", 0)) for item in body.items if item.key}
        elif isinstance(body, StepOutcome):
            self.items |= {item.place: item for item in body.beyond}
            for result in body.items:
                self._answer(result)
                if _counts_more(result, self.results.get(result.place)):
                    self.results[result.place] = result
                    if result.outcome == "raced":
                        self._raced.add(result.place)
            if body.window_ms is not None:
                self.windows_ms.append(body.window_ms)

    def _intend(self, body: Intent, at_ms: int) -> None:
        call: Call = "delete_group" if body.checks.get("call") == "delete_group" else "delete_offsets"
        since = int(body.checks.get("log_offset", 0))
        for item in body.items:
            if (before := self.intended.get(item.place)) is not None:
                since = min(since, before.since)
                call = before.call if before.call == "delete_group" else call
            self.intended[item.place] = Intended(since=since, at_ms=at_ms, call=call)

    def _answer(self, result: Result) -> None:
        """No call of ours has removed what was refused by an answer, or not called for in the end, unless another call
        for it had no answer."""
        if result.outcome in ("not_done", "unknown"):
            self.doubtful.add(result.place)
        elif result.outcome in ("refused", "changed_since") and result.place not in self.doubtful:
            self.intended.pop(result.place, None)

    def is_final(self, where: PlanPosition) -> bool:
        """Whether nothing is to be done about an item any more."""
        result = self.results.get(where)
        return result is not None and result.outcome in FINAL

    def is_written(self, where: PlanPosition) -> bool:
        """Whether it is known that a call of ours took effect."""
        result = self.results.get(where)
        return result is not None and result.outcome in WRITTEN

    @property
    def is_unsettled(self) -> bool:
        """Whether something was begun of which nobody knows what came, or that has to be put back."""
        return bool(self.open or self.unreturned())

    def unreturned(self) -> list[tuple[Item, Result]]:
        """Items that took a newer commit along, and that no restore was begun for since."""
        return [
            (self.items[place], self.results[place])
            for place in sorted(self._raced)
            if self.results[place].found is not None
            and (self.results[place].written_log_offset or 0) > self._returned_to(self.items[place])
        ]

    def taken_beyond(self) -> defaultdict[str, set[tuple[str | None, int | None, int | None]]]:
        """By group, (topic, partition, log_offset of the tombstone) of what races are known to have taken along."""
        found: defaultdict[str, set[tuple[str | None, int | None, int | None]]] = defaultdict(set)
        for place in self._raced:
            item = self.items[place]
            found[item.group_id].add((item.topic, item.partition, self.results[place].written_log_offset))
        return found

    def _returned_to(self, item: Item) -> int:
        return self.returned.get(item.key, -1) if item.key else -1

    def counts(self) -> Counter[str]:
        """Items by outcome, without what was put back."""
        return Counter(str(result.outcome) for place, result in self.results.items() if place not in self.restored)


def _counts_more(result: Result, known: Result | None) -> bool:
    """That something was written is never forgotten; else what was found last."""
    if known is None or result.outcome in WRITTEN:
        return known is None or known.outcome not in WRITTEN or result.outcome == "raced"
    return known.outcome not in FINAL and result.outcome != "unknown"
