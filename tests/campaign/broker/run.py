"""A campaign before a broker: so many histories of a seed, thousands at each load; what differs is narrowed."""

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import combinations
from multiprocessing import get_context
from queue import SimpleQueue
from random import Random
from typing import Any

from tests.campaign.broker.judge import Difference, Judge, Verdict
from tests.campaign.broker.logs import Logs, Place, lay_out, moved
from tests.campaign.histories import history
from tests.campaign.packs import pack

SHARED = 32
"""So many log partitions are of many histories each, the others of one whose load or sweep fails."""
MAX_EACH_LOAD = 15_000
_FEWEST_PARTITIONS = 256
_APART = 0.26
"""No more than this share of the histories, of thousands, needs a log partition of its own."""
_NARROWED = 3
"""Of so many histories that differ the smallest part that does is looked for."""


def each_load(count: int, processes: int) -> int:
    """How many of `count` histories go into one load."""
    return min(MAX_EACH_LOAD, -(-count // processes))


def partitions_for(histories: int) -> int:
    """The number of log partitions of a broker that loads so many histories."""
    return max(_FEWEST_PARTITIONS, 1 << (SHARED + int(histories * _APART) - 1).bit_length())


def run(judge: Judge, seed: int, indices: Sequence[int], *, processes: int = 1) -> Iterator[Verdict]:
    """The verdicts on the histories of these indices, as they come; other processes have copies of the judge."""
    size = each_load(len(indices), processes)
    loads = [indices[start : start + size] for start in range(0, len(indices), size)]
    if processes == 1:
        for load in loads:
            yield from _judged(judge, seed, load)
        return
    context = get_context("spawn")
    judges = context.SimpleQueue()
    for number in range(processes):
        own = copy(judge)
        own.folder = judge.folder.with_name(f"{judge.folder.name}-{number}")
        shutil.copytree(judge.folder, own.folder)
        judges.put(own)
    with ProcessPoolExecutor(processes, context, initializer=_take_judge, initargs=(judges, context.Lock())) as pool:
        try:
            for done in as_completed([pool.submit(_judged_here, seed, load) for load in loads]):
                yield from done.result()
        finally:
            pool.shutdown(cancel_futures=True)


_judge_here: Judge


def _take_judge(judges: "SimpleQueue[Judge]", turn: AbstractContextManager[Any]) -> None:
    global _judge_here
    _judge_here = judges.get()
    _judge_here.turn = turn


def _judged_here(seed: int, indices: Sequence[int]) -> list[Verdict]:
    return [one.without_answers() for one in _judged(_judge_here, seed, indices)]


def _judged(judge: Judge, seed: int, indices: Sequence[int]) -> Iterator[Verdict]:
    """One load mostly, another one of what has found no place in it."""
    while indices:
        verdict = judge.judge(partial(lay_out, seed, indices, profile=judge.profile, shared=SHARED))
        yield verdict
        indices = verdict.unplaced


def narrowed(judge: Judge, seed: int, differences: Sequence[Difference]) -> Iterator[str]:
    """What remains of the first histories that differ when every batch is gone that the difference does not need.

    First each is judged alone, by the plain rules.
    """
    for index in list(dict.fromkeys(one.index for one in differences))[:_NARROWED]:
        blocks, last = history(seed, index).blocks, [one for one in differences if one.index == index]
        if not judge.judge(partial(_alone, seed, index, [range(len(blocks))])).differences:
            yield "\n".join([*map(str, last), "  judged alone, by the plain rules, it does not differ"])
            continue
        kept = range(len(blocks))
        while smaller := _smaller(judge, seed, index, kept):
            kept, last = smaller
        shown = "".join(f"\n    {blocks[number]}" for number in kept)
        again = f"python -m tests.campaign --broker --seed {seed} --only {index}"
        yield "\n".join([*map(str, last), f"  reduced to{shown}", f"  again: {again}"])


def _alone(seed: int, index: int, parts: Sequence[Sequence[int]], place: Place) -> Logs:
    """Parts of a history, each the numbers of its batches, in a log partition each."""
    logs = Logs(place)
    for number, part in enumerate(parts):
        whole = moved(seed, index, place, number)
        logs.packs[number] = pack([replace(whole, blocks=tuple(whole.blocks[at] for at in part))], Random(0))
    return logs


def _smaller(judge: Judge, seed: int, index: int, kept: Sequence[int]) -> tuple[Sequence[int], list[Difference]] | None:
    """The fewest batches that differ without some neighbours; None when all of `kept` are needed."""
    cuts = sorted(combinations(range(len(kept) + 1), 2), key=lambda cut: cut[0] - cut[1])
    parts = [[*kept[:start], *kept[end:]] for start, end in cuts if end - start < len(kept)][: judge.partition_count]
    found = judge.judge(partial(_alone, seed, index, parts)).differences if parts else []
    if not found:
        return None
    best = min({one.log_partition for one in found}, key=lambda number: len(parts[number]))
    return parts[best], [one for one in found if one.log_partition == best]
