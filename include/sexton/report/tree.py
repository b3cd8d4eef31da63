"""What a plan or a what-if removes, as a tree: in total, by owner, then by rule.

The numbers of an owner are the sums of its rules: an offset, and a whole group, count for one rule. Groups are not
summed: one may lose offsets by several rules.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sexton.analysis.what_if import ComparedRule
from sexton.figures import count, some
from sexton.plans.plan import Losses
from sexton.report.meanings import cause_meaning
from sexton.report.names import visible

BROKER = "the broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    cause: str
    owner: str | None
    reason: str | None
    groups: int
    numbers: Counter[str]


def plan_tree(losses: Iterable[Losses]) -> Iterator[str]:
    """Lines: what a plan removes."""
    leaves = [
        _Leaf(
            cause=one.cause,
            owner=one.owner,
            reason=one.reason,
            groups=one.groups,
            numbers=Counter(offsets=one.offsets, whole=one.deleted_groups),
        )
        for one in losses
    ]
    return _tree(leaves, lambda of: f"{some(of['offsets'], 'offset')}, {some(of['whole'], 'whole group')}")


def what_if_tree(rules: Iterable[ComparedRule]) -> Iterator[str]:
    """Lines: what other rules remove, what they remove that the rules in force spare, and the reverse."""
    leaves = [
        _Leaf(
            cause=one.by,
            owner=one.owner,
            reason=one.reason,
            groups=one.groups,
            numbers=Counter(lost=one.lost_proposed, new=one.newly_lost, spared=one.spared, whole=one.whole_groups),
        )
        for one in rules
    ]
    return _tree(
        leaves,
        lambda of: (
            f"{some(of['lost'], 'offset')} lost ({count(of['new'])} newly), {count(of['spared'])} spared, "
            f"{some(of['whole'], 'whole group')}"
        ),
    )


def _tree(leaves: list[_Leaf], text: Callable[[Counter[str]], str]) -> Iterator[str]:
    yield f"in all: {text(_sum(leaves))}"
    owners = sorted({one.owner for one in leaves}, key=lambda owner: owner or "")
    for owner in owners:
        own, is_last = [one for one in leaves if one.owner == owner], owner == owners[-1]
        yield f"{'└─' if is_last else '├─'} {visible(owner or BROKER)}: {text(_sum(own))}"
        for one in own:
            why = "" if one.reason is None else f": {one.reason}"
            by = cause_meaning("broker_retention" if one.cause == "broker" else one.cause)
            said = f"{by}: {text(one.numbers)}, of {some(one.groups, 'group')}{why}"
            yield f"{'   ' if is_last else '│  '}{'└─' if one is own[-1] else '├─'} {visible(said)}"


def _sum(leaves: list[_Leaf]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in leaves:
        found.update(one.numbers)
    return found
