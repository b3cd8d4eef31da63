"""A campaign: so many histories of a seed, a pack at a time, on one or several processes."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.campaign.histories import PACK
from tests.campaign.narrow import Failure, failures_of


def run(seed: int, count: int, *, processes: int = 1) -> Iterator[tuple[int, list[Failure]]]:
    """(histories done so far, failures among the last of them), as they are done."""
    packs = [range(first, min(first + PACK, count)) for first in range(0, count, PACK)]
    done = 0
    for size, failures in _each(partial(_checked, seed), packs, processes):
        done += size
        yield done, failures


def _each(
    work: partial[tuple[int, list[Failure]]], packs: list[range], processes: int
) -> Iterator[tuple[int, list[Failure]]]:
    if processes == 1:
        yield from map(work, packs)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.map(work, packs, chunksize=4)
        finally:
            pool.shutdown(cancel_futures=True)


def _checked(seed: int, indices: range) -> tuple[int, list[Failure]]:
    return len(indices), failures_of(indices, seed)
