"""What a plan or a what-if removes, as a tree: in total, by owner, then by rule.

An owner's numbers are the sums over its rules, because an offset or a whole group counts for one rule only. Numbers of
groups are not summed: a group may lose offsets to several rules.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from sexton.analysis.what_if import ComparedRule
from sexton.as_text import count, some
from sexton.plans.plan import Losses
from sexton.report.meanings import cause_meaning
from sexton.report.names import visible

BROKER = "the broker"


_Leaf = tuple[Losses | ComparedRule, str, Counter[str]]
"""What one cause removes: the row, the cause, and the numbers."""


def plan_tree(losses: Iterable[Losses]) -> Iterator[str]:
    """The lines of the tree of what a plan removes."""
    leaves: list[_Leaf] = [(one, one.cause, Counter(offsets=one.offsets, whole=one.deleted_groups)) for one in losses]
    return _tree(leaves, lambda of: f"{some(of['offsets'], 'offset')}, {some(of['whole'], 'whole group')}")


def what_if_tree(rules: Iterable[ComparedRule]) -> Iterator[str]:
    """The lines of the tree of what other rules remove, how much of that is newly lost, and what they spare."""
    leaves: list[_Leaf] = [
        (one, one.by, Counter(lost=one.lost_proposed, new=one.newly_lost, spared=one.spared, whole=one.whole_groups))
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
    owners = sorted({row.owner for row, _, _ in leaves}, key=lambda owner: owner or "")
    for owner in owners:
        own, is_last = [leaf for leaf in leaves if leaf[0].owner == owner], owner == owners[-1]
        yield f"{'└─' if is_last else '├─'} {visible(owner or BROKER)}: {text(_sum(own))}"
        for row, cause, numbers in own:
            why = "" if row.reason is None else f": {row.reason}"
            by = cause_meaning("broker_retention" if cause == "broker" else cause)
            said = f"{by}: {text(numbers)}, of {some(row.groups, 'group')}{why}"
            yield f"{'   ' if is_last else '│  '}{'└─' if row is own[-1][0] else '├─'} {visible(said)}"


def _sum(leaves: list[_Leaf]) -> Counter[str]:
    found: Counter[str] = Counter()
    for _, _, numbers in leaves:
        found.update(numbers)
    return found
