"""A log that ends anywhere: what was written to its end is kept, the rest is a torn tail, and both readers agree.

Full: every cut of a file of 2^20 bytes; else every cut of a short log that holds every kind of batch, and a sample of
the large one. The plain replay is a function of the batches that it is given, and the tables are one of the fold: so
at most cuts it is those that are compared, and the whole replay at each end of a batch and at some cuts between.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from random import Random

import numpy as np
import pytest

from sexton.coordinator.decoding import TORN_SEGMENT
from sexton.coordinator.loading import load
from sexton.kernels import layout as L
from sexton.kernels.fold import PartialFold, merge_all
from sexton.log.batch import Batch, TornTail, read_batches
from tests.faults.logs import every_kind, one_mebibyte
from tests.kernels.compare import CAP_BYTES, assert_equal, fold_bytes, fold_segments, fold_slices, loaded
from tests.seeds import FIXED_SEED
from tests.strategies import BatchSpec, commit, encode_batches

pytestmark = pytest.mark.thorough

WHOLE_REPLAYS = 300


class Expected:
    """What a log must give when it ends within one of its batches: computed once for all such ends."""

    def __init__(self, log: bytes) -> None:
        batches = [entry for entry in read_batches(log) if isinstance(entry, Batch)]
        self.starts = [*(batch.position for batch in batches), batches[-1].position + batches[-1].size_bytes]
        self.offsets = [0, *(batch.next_offset for batch in batches)]
        self._log = log
        self._whole = -1
        self._fold = PartialFold.empty()

    def whole_batches(self, cut: int) -> int:
        return bisect_right(self.starts, cut) - 1

    def fold(self, whole: int) -> PartialFold:
        """The fold of the first batches, which equals the plain replay of them in every row."""
        if whole != self._whole:
            data = self._log[: self.starts[whole]]
            self._whole, self._fold = whole, fold_bytes(data)
            assert_equal(self._fold, loaded(data), partition_count=3)
        return self._fold


def is_same(left: PartialFold, right: PartialFold) -> bool:
    """Whether two folds are the same, by what is used of their arrays or else by the bytes they are stored in."""
    is_alike = (
        np.array_equal(left.batch_counters, right.batch_counters)
        and left.undecodable == right.undecodable
        and np.array_equal(left.state.counts, right.state.counts)
        and all(np.array_equal(used(left, name), used(right, name)) for name in L.ROW_TABLES | L.ARENAS)
    )
    return is_alike or left.to_bytes() == right.to_bytes()


def used(fold: PartialFold, name: str) -> np.ndarray:
    """What is used of an array; the place of a text is any number where there is no text."""
    filled = getattr(fold.state, name)[: fold.state.counts[(L.ROW_TABLES | L.ARENAS)[name]]]
    if name in ("keys", "pending"):
        filled = filled.copy()
        filled[filled[:, L.TEXT_SIZE] == 0, L.TEXT_AT] = 0
    return filled


def check_cuts(log: bytes, cuts: Iterable[int], *, replayed: frozenset[int] = frozenset()) -> int:
    """Cut `log` at every one of `cuts`, in ascending order; those in `replayed` are replayed by both readers."""
    expected = Expected(log)
    count = 0
    for cut in cuts:
        whole = expected.whole_batches(cut)
        start = expected.starts[whole]
        part = memoryview(log)[:cut]
        tail = list(read_batches(part, start=start, floor_offset=expected.offsets[whole]))
        assert tail == ([TornTail(position=start, size_bytes=cut - start)] if cut > start else []), cut
        fold = fold_bytes(part)
        assert fold.batch_counters[L.READ_TORN] == (cut - start if any(part[start:]) else 0), cut
        fold.batch_counters[L.READ_TORN] = 0
        assert is_same(fold, expected.fold(whole)), cut
        if cut in replayed:
            assert_equal(merge_all(fold_slices(log[:cut], [cut // 3, cut - 1])), loaded(log[:cut]), partition_count=3)
        count += 1
    return count


def around_the_ends(log: bytes) -> Iterator[int]:
    for batch in read_batches(log):
        yield from (batch.position - 1, batch.position, batch.position + 1)


def test_every_cut_of_every_kind_of_batch() -> None:
    log = every_kind()
    replayed = frozenset(Random(FIXED_SEED).sample(range(1, len(log)), 100))
    assert check_cuts(log, range(len(log) + 1), replayed=replayed) == len(log) + 1


def test_cuts_of_a_mebibyte(full: bool, seed: int, tell) -> None:
    log = one_mebibyte()
    random = Random(seed)
    replayed = frozenset(random.sample(range(1, len(log)), WHOLE_REPLAYS if full else 3))
    if full and seed != FIXED_SEED:
        pytest.skip("every cut was made with the fixed seed")
    cuts = range(len(log) + 1) if full else sorted({*random.sample(range(len(log)), 30), *replayed})
    tell(f"{check_cuts(log, cuts, replayed=replayed):,} cuts")


def test_around_the_ends_of_batches(full: bool, tell) -> None:
    log = one_mebibyte()
    near = sorted({cut for cut in around_the_ends(log) if 0 <= cut <= len(log)})
    tell(f"{check_cuts(log, near if full else near[:: len(near) // 24]):,} cuts")


BATCHES = encode_batches([BatchSpec(entries=(commit("g", n, partition=n),)) for n in range(4)])
HALF = [batch[:-7] for batch in BATCHES]
ZEROS = bytes(100)


@pytest.mark.parametrize(
    "segments, torn",
    [
        ([BATCHES[0] + HALF[1], BATCHES[2]], 1),
        ([BATCHES[0] + HALF[1], b"", HALF[2], BATCHES[3]], 1),
        ([HALF[0], BATCHES[1] + HALF[2], BATCHES[3]], 2),
        ([BATCHES[0] + HALF[1], b"junk" * 30 + BATCHES[3]], 1),
        ([BATCHES[0] + ZEROS, BATCHES[1]], 0),
        ([BATCHES[0] + HALF[1], ZEROS], 0),
        ([BATCHES[0], BATCHES[1] + HALF[2]], 0),
    ],
    ids=["half", "twice half", "two", "damage behind", "zeros", "zeros behind", "at the end"],
)
@pytest.mark.parametrize("target_bytes", [1, 1 << 20])
def test_half_a_batch_is_told_where_more_follows(segments: list[bytes], torn: int, target_bytes: int) -> None:
    """A broker cuts its log at half a batch when it starts, so one in the middle is the mark of a bad copy."""
    plain = load(segments, cap_bytes=CAP_BYTES)
    assert [row.reason for row in plain.undecodable].count(TORN_SEGMENT) == torn
    assert_equal(merge_all(fold_segments(segments, target_bytes=target_bytes)), plain)
