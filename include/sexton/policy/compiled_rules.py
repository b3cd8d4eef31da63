"""A policy compiled for many offsets: each group is matched once, the rest is arithmetic on columns.

`CompiledPolicy.for_group` returns a group's timeline: spans of time in which the same holds and rules apply. Inside a
span the decision only depends on an offset's orphan kind and base timestamp. So a stage groups its rows by orphan kind
and `GroupRules` (groups with the same rules share one object), and compares columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sexton.policy.decision import held_reason, mismatch
from sexton.policy.inputs import LAST_MS, GroupInput
from sexton.policy.model import Hold, Policy, Rule
from sexton.vocabulary import ORPHANS

BEGINNING_MS = -(1 << 63)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOn:
    """A hold that applies: its name, and the verdict's reason (held_legal, held_operational)."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A rule that a group matches. `orphans` are its orphan kinds, None for any offset, orphan or not."""

    rule: str
    retention_ms: int
    orphans: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpan:
    """What applies to a group in [`start_ms`, `end_ms`) if only time passes; `end_ms` None: without end.

    With a hold there are no candidates. The first candidate for an offset's orphan kind decides.
    """

    start_ms: int
    end_ms: int | None
    hold: HoldOn | None
    candidates: tuple[Candidate, ...]

    def candidate(self, orphan: str | None) -> Candidate | None:
        """Return the rule that decides about offsets of this orphan kind."""
        return next((one for one in self.candidates if one.orphans is None or orphan in one.orphans), None)

    @property
    def bare_rule(self) -> str | None:
        """The rule that deletes the group once it has no offset left; None while it stays."""
        return next((one.rule for one in self.candidates if one.orphans is None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRules:
    """The spans of a group, in order and without gaps, from BEGINNING_MS on."""

    spans: tuple[TimeSpan, ...]

    def from_(self, now_ms: int) -> tuple[TimeSpan, ...]:
        """Return the span that contains `now_ms`, and those after it."""
        return tuple(span for span in self.spans if span.end_ms is None or now_ms < span.end_ms)

    def at(self, now_ms: int) -> TimeSpan:
        """Return the span that contains `now_ms`."""
        return self.from_(now_ms)[0]


class CompiledPolicy:
    """A policy with an index of its names. It is not passed to other processes, which compile the policy themselves."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._holds = _Index(policy.holds)
        self._rules = _Index(policy.rules)
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], GroupRules] = {}

    def for_group(self, group: GroupInput) -> GroupRules:
        """Return what applies to a group. All name matching happens here."""
        holds = [self.policy.holds[number] for number in self._holds.matching(group)]
        rules = [self.policy.rules[number] for number in self._rules.matching(group)]
        since_ms = group.idle_since_ms if any(rule.match.idle_ms is not None for rule in rules) else None
        if since_ms is not None:
            return _group_rules(holds, rules, since_ms)
        key = (tuple(hold.name for hold in holds), tuple(rule.name for rule in rules))
        if key not in self._known:
            self._known[key] = _group_rules(holds, rules, None)
        return self._known[key]


def _group_rules(holds: Sequence[Hold], rules: Sequence[Rule], idle_since_ms: int | None) -> GroupRules:
    """Return the spans of a group that matches these holds and rules at some time."""
    ends = {hold.until_ms for hold in holds if hold.until_ms is not None}
    waits = {rule.match.idle_ms for rule in rules if rule.match.idle_ms is not None}
    if idle_since_ms is not None:
        ends |= {idle_since_ms + wait_ms for wait_ms in waits}
    starts = [BEGINNING_MS, *sorted(end_ms for end_ms in ends if end_ms <= LAST_MS)]
    return GroupRules(
        spans=tuple(
            _span(start_ms, end_ms, holds, rules, idle_since_ms)
            for start_ms, end_ms in zip(starts, [*starts[1:], None], strict=True)
        )
    )


def _span(
    start_ms: int, end_ms: int | None, holds: Sequence[Hold], rules: Sequence[Rule], idle_since_ms: int | None
) -> TimeSpan:
    hold = next((hold for hold in holds if hold.is_on(start_ms)), None)
    if hold is not None:
        on = HoldOn(name=hold.name, reason=held_reason(hold))
        return TimeSpan(start_ms=start_ms, end_ms=end_ms, hold=on, candidates=())
    found = []
    for rule in rules:
        wait_ms = rule.match.idle_ms
        if wait_ms is None or (idle_since_ms is not None and start_ms >= idle_since_ms + wait_ms):
            orphans = rule.match.orphan
            kinds = None if orphans is None else frozenset(kind for kind in ORPHANS if kind in orphans)
            found.append(Candidate(rule=rule.name, retention_ms=rule.retention_ms, orphans=kinds))
            if kinds is None:
                break  # later rules are not reached
    return TimeSpan(start_ms=start_ms, end_ms=end_ms, hold=None, candidates=tuple(found))


class _Index:
    """Holds or rules by group id and prefix, so that a group is only compared with entries that may match."""

    def __init__(self, entries: Sequence[Hold] | Sequence[Rule]) -> None:
        # without the keys that depend on time or on an offset
        self._matches = [entry.match.model_copy(update={"idle_ms": None, "orphan": None}) for entry in entries]
        self._by_group: dict[str, list[int]] = {}
        self._by_prefix: dict[str, list[int]] = {}
        self._others: list[int] = []
        for number, match in enumerate(self._matches):
            if match.group is None and match.prefix is None:
                self._others.append(number)
            index = self._by_prefix if match.group is None else self._by_group
            for word in match.group or match.prefix or ():
                index.setdefault(word, []).append(number)
        self._prefix_lengths = sorted({len(prefix) for prefix in self._by_prefix})

    def matching(self, group: GroupInput) -> list[int]:
        """Return the positions of entries that match the group at some time and for some orphan kind, in order."""
        near = {*self._others, *self._by_group.get(group.group_id, ())}
        for length in self._prefix_lengths:
            near.update(self._by_prefix.get(group.group_id[:length], ()))
        return [number for number in sorted(near) if mismatch(self._matches[number], group, None, now_ms=0) is None]
