"""From a pack that fails to the history that does, told so that it can be replayed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.campaign.checks import Difference, check
from tests.campaign.histories import History, history
from tests.campaign.packs import pack

ONLY_TRIES = 200
"""How often histories are checked that were asked for: where the log is cut, and when it is swept, is drawn anew."""
_TRIES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Histories of a seed, mostly one, on which the ways of reading differ."""

    seed: int
    indices: tuple[int, ...]
    difference: str
    reduced: tuple[str, ...]

    def __str__(self) -> str:
        only = ",".join(map(str, self.indices))
        told = "".join(f"\n    {block}" for block in self.reduced)
        return (
            f"{self.difference}\n  reduced to{told}\n  again: python -m tests.campaign --seed {self.seed} --only {only}"
        )


def difference_on(histories: Sequence[History], seed: int, *, tries: int) -> str | None:
    """The first difference on one of several ways to pack, cut and sweep the histories."""
    for attempt in range(tries):
        rng = Random(f"{seed}/{histories[0].index}/{len(histories)}/{attempt}")
        try:
            check(pack(histories, rng), rng)
        except Difference as found:
            return str(found)
        except Exception as error:  # what is thrown is a finding, too
            return f"{type(error).__name__}: {error}"
    return None


def failure_of(histories: Sequence[History], seed: int, *, tries: int = 1) -> Failure | None:
    """What fails on these histories in one log, narrowed to as few of them as can be; None when nothing does."""
    first = difference_on(histories, seed, tries=tries)
    if first is None:
        return None
    kept = _fewest(histories, seed)
    return Failure(
        seed=seed,
        indices=tuple(owner.index for owner in kept),
        difference=difference_on(kept, seed, tries=_TRIES) or first,
        reduced=tuple(f"{owner.index}: {block}" for owner in _reduced(kept, seed) for block in owner.blocks),
    )


def failures_of(indices: Sequence[int], seed: int, *, tries: int = 1) -> list[Failure]:
    """Every failing history among `indices`, which are read in one log: one by one, until the rest agree."""
    left, found = [history(seed, index) for index in indices], []
    while left and (failure := failure_of(left, seed, tries=tries)) is not None:
        found.append(failure)
        left = [owner for owner in left if owner.index not in failure.indices]
    return found


def _fewest(histories: Sequence[History], seed: int) -> Sequence[History]:
    """Fewer and fewer histories that still fail together."""
    size = max(1, len(histories) // 2)
    while len(histories) > 1:
        parts = [histories[at : at + size] for at in range(0, len(histories), size)]
        failing = next((part for part in parts if difference_on(part, seed, tries=_TRIES)), None)
        if failing is not None:
            histories = failing
        elif size == 1:
            break
        size = max(1, min(size, len(histories)) // 2)
    return histories


def _reduced(histories: Sequence[History], seed: int) -> Sequence[History]:
    """The histories without the batches that the failure does not need."""
    for number in range(len(histories)):
        for at in reversed(range(len(histories[number].blocks))):
            owner = histories[number]
            fewer = replace(owner, blocks=owner.blocks[:at] + owner.blocks[at + 1 :])
            changed = [*histories[:number], fewer, *histories[number + 1 :]]
            if fewer.blocks and difference_on(changed, seed, tries=_TRIES):
                histories = changed
    return histories
