"""What compiles ahead of time is all that a comparison needs."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from sexton.replicas import fingerprints
from sexton.replicas.warm_up import warm_up
from tests.replicas.recordings import compared, unpack

ENTRIES = [fingerprints._fingerprints, fingerprints._find, fingerprints._hash]


def test_a_comparison_compiles_nothing_more(recorded: Path) -> None:
    """In a process of its own: other tests call these, too."""
    root = unpack("resurrected", recorded)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        ahead, then = pool.submit(_signatures, root).result()
    assert ahead == then == [1] * len(ENTRIES)


def _signatures(root: Path) -> tuple[Sequence[int], Sequence[int]]:
    """How many kinds of arrays each is compiled for: ahead of time, and after a comparison."""
    warm_up()
    ahead = _counts()
    assert compared(root).differences.num_rows
    return ahead, _counts()


def _counts() -> list[int]:
    return [len(entry.nopython_signatures) for entry in ENTRIES]
