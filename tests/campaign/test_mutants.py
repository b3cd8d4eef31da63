"""Changed recordings, a million with full counts, and where a log ends whose last batch ends before it begins."""

from collections.abc import Callable

import pytest

from sexton.kernels.partial_fold import PartialFold
from tests.campaign import mutants
from tests.fates import load
from tests.kernels.compare import CAP_BYTES, assert_equal, fold_bytes, fold_slices, loaded
from tests.log_builder import BASE_MS, commit
from tests.log_encoding import encode_batch

SEED = 20_261_128
QUICK = {"log": 2_400, "transactions": 1_200, "snapshots": 600, "checkpoints": 400, "metadata": 600}
FULL = {"log": 1_000_000, **dict.fromkeys(("transactions", "snapshots", "checkpoints", "metadata"), 100_000)}


@pytest.mark.parametrize("of", QUICK)
def test_of_a_mutant_every_reader_tells_the_same(of: str) -> None:
    assert [*mutants.failures(of, SEED, range(QUICK[of]))] == []


@pytest.mark.full
@pytest.mark.timeout(0)
@pytest.mark.parametrize("of", FULL)
def test_of_very_many_mutants(of: str, drawn: int, tell: Callable[[str], None]) -> None:
    wrong = [line for _, found in mutants.run(of, drawn, FULL[of], processes=2) for line in found]
    assert wrong == []
    tell(f"{FULL[of]} mutants of {of}")


def log_that_ends_at(end: int) -> bytes:
    """A commit at log_offset 10, and an empty batch whose header ends at `end`, with the CRC that it should have."""
    first = encode_batch([commit("g")], base_offset=10, timestamp_ms=BASE_MS)
    return first + encode_batch([], base_offset=11, timestamp_ms=BASE_MS, last_offset_delta=end - 1 - 11)


@pytest.mark.parametrize("end, left", [(-8, 0), (-(1 << 31) + 12, 0), (0, 1), (7, 1), (12, 1)])
def test_the_end_of_a_log_is_that_of_its_last_batch(end: int, left: int) -> None:
    """As brokers of 4.3.1 and 2.8.2 have it that were started with such logs: after a clean shutdown they take the end
    of the last batch for that of the log, and delete all of a log that ends below its start ("Deleting all segments
    because logEndOffset (-8) is smaller than logStartOffset 0"). The load that follows is one of an empty log. After
    an unclean shutdown neither starts. ("Split operation is only permitted for segments with overflow".)"""
    data = log_that_ends_at(end)
    plain = loaded(data)
    assert (plain.next_log_offset, plain.cut, len(plain.offsets)) == (max(end, 0), max(end, 0), left)
    assert bool(plain.undecodable) is (end < 0)
    assert not plain.load_would_fail
    assert_equal(fold_bytes(data).as_kept_by_broker(), plain)
    for border in range(0, len(data) + 1, 5):
        left_piece, right_piece = (PartialFold.from_bytes(one.to_bytes()) for one in fold_slices(data, [border]))
        assert_equal(mutants.merge(left_piece, right_piece).as_kept_by_broker(), plain)


def test_before_its_last_batch_the_log_is_as_it_was() -> None:
    data = log_that_ends_at(-8) + encode_batch([commit("h")], base_offset=12, timestamp_ms=BASE_MS + 1)
    plain = load([data], cap_bytes=CAP_BYTES)
    assert (plain.next_log_offset, len(plain.offsets)) == (13, 2)
    assert_equal(fold_bytes(data).as_kept_by_broker(), plain)
    cut = load([log_that_ends_at(-8)], cap_bytes=CAP_BYTES, as_of_ms=BASE_MS)
    assert (cut.cut, cut.undecodable) == (10, [])
