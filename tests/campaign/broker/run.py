"""A campaign before a broker: so many histories of a seed, thousands at each load; what differs is narrowed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

from tests.campaign.broker.judge import Difference, Judge, Verdict
from tests.campaign.broker.logs import Logs, lay_out, moved
from tests.campaign.histories import history
from tests.campaign.packs import pack

PARTITIONS = 1_000
SHARED = 100
"""So many log partitions are of many histories each, the others of one whose load or sweep fails."""
EACH_LOAD = 4_000
_NARROWED = 3
"""Of so many histories that differ the smallest part that does is looked for."""


@dataclass(frozen=True)
class Judged:
    """What came of one load: the verdict, and how many histories were left out, by reason."""

    verdict: Verdict
    left_out: Counter[str]


def run(judge: Judge, seed: int, indices: Sequence[int], *, shared: int = SHARED) -> Iterator[Judged]:
    """The verdicts on the histories of these indices, as they come."""
    waiting = list(indices)
    while waiting:
        some, waiting = waiting[:EACH_LOAD], waiting[EACH_LOAD:]
        logs, left = lay_out(seed, some, judge.place, judge.profile, shared=shared)
        yield Judged(judge.judge(logs), logs.left_out)
        waiting = left + waiting


def narrowed(judge: Judge, seed: int, differences: Sequence[Difference]) -> Iterator[str]:
    """What remains of the first histories that differ when every batch is gone that the difference does not need."""
    for index in list(dict.fromkeys(one.index for one in differences))[:_NARROWED]:
        blocks, last = history(seed, index).blocks, [one for one in differences if one.index == index]
        kept = range(len(blocks))
        while smaller := _smaller(judge, seed, index, kept):
            kept, last = smaller
        shown = "".join(f"\n    {blocks[number]}" for number in kept)
        again = f"python -m tests.campaign --broker --seed {seed} --only {index}"
        yield "\n".join([*map(str, last), f"  reduced to{shown}", f"  again: {again}"])


def _smaller(judge: Judge, seed: int, index: int, kept: Sequence[int]) -> tuple[Sequence[int], list[Difference]] | None:
    """The fewest batches that differ without some neighbours; None when all of `kept` are needed."""
    cuts = sorted(combinations(range(len(kept) + 1), 2), key=lambda cut: cut[0] - cut[1])
    parts = [[*kept[:start], *kept[end:]] for start, end in cuts if end - start < len(kept)][: judge.partition_count]
    logs = Logs(judge.place)
    for number, part in enumerate(parts):
        whole = moved(seed, index, logs.place, number)
        logs.packs[number] = pack([replace(whole, blocks=tuple(whole.blocks[at] for at in part))], Random(0))
    found = judge.judge(logs).differences if parts else []
    if not found:
        return None
    best = min({one.log_partition for one in found}, key=lambda number: len(parts[number]))
    return parts[best], [one for one in found if one.log_partition == best]
