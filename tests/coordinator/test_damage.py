"""What a broker makes of bytes that are not as it left them: whether its load fails, and what it reads on with.

CoordinatorLoaderImpl, ByteBufferLogInputStream and FileRecords.searchForOffsetFromPosition. Brokers of 4.3.1 loaded
each of 85 logs with a doubled batch and of 53 with two neighbours swapped, and 11 with bytes between two batches.
"""

import struct

import pytest

from sexton.coordinator.profile import LOADED
from sexton.coordinator.profiles import NEWEST
from sexton.kernels.fold import merge_all
from tests.coordinator.golden import CAP_BYTES
from tests.fates import load
from tests.kernels.compare import assert_equal, fold_bytes, fold_segments
from tests.log_builder import BatchSpec, commit, encode_batches

ONE, TWO, THREE, FOUR = encode_batches([BatchSpec(entries=(commit(name, 1),)) for name in "abcd"])
NOT_COORDINATOR = NEWEST.after_failure.value


AGAIN = encode_batches([BatchSpec(entries=(commit("a", 9),))])[0]


def head(size, magic=2, offset=0):
    return struct.pack(">qiib", offset, size, 0, magic) + b"\1" * 3


@pytest.mark.parametrize(
    "data, reason, outcome",
    [
        pytest.param(ONE + TWO + TWO + THREE, "out_of_order", LOADED, id="doubled"),
        pytest.param(ONE + THREE + TWO + FOUR, "out_of_order", LOADED, id="swapped"),
        pytest.param(ONE + head(1 << 20) + TWO, "skipped_bytes", LOADED, id="head of a batch behind the segment's end"),
        pytest.param(ONE + head(1 << 20, magic=3) + TWO, "malformed_batch", NOT_COORDINATOR, id="of no format"),
        pytest.param(ONE + head(13) + TWO, "malformed_batch", NOT_COORDINATOR, id="smaller than any"),
        pytest.param(ONE + head(-1) + TWO, "malformed_batch", NOT_COORDINATOR, id="of negative size"),
        pytest.param(ONE + head(30) + TWO, "malformed_batch", NOT_COORDINATOR, id="of a batch that is none"),
        pytest.param(ONE + b"\xff" * 40 + TWO, "malformed_batch", NOT_COORDINATOR, id="ones"),
        pytest.param(ONE + bytes(40) + TWO, "malformed_batch", NOT_COORDINATOR, id="zeros"),
    ],
)
def test_damage_in_a_segment(data, reason, outcome):
    plain = load([data], cap_bytes=CAP_BYTES)
    assert_equal(fold_bytes(data), plain)
    assert [row.reason for row in plain.undecodable] == [reason]
    assert plain.load_outcome == outcome
    assert bool(plain.failures) == (outcome != LOADED)


@pytest.mark.parametrize("data", [ONE + TWO + AGAIN + THREE, ONE + TWO + AGAIN], ids=["followed", "at the end"])
def test_a_batch_out_of_order_is_replayed_where_it_lies(data):
    """Its base offset is 0, as that of the first: a coordinator does not compare them and has what it read last."""
    for replays, offset in ((False, 1), (True, 9)):
        loaded = load([data], cap_bytes=CAP_BYTES, replays_out_of_order=replays)
        assert loaded.offsets["a", "t", 0].committed_offset == offset
        assert [row.reason for row in loaded.undecodable] == ["out_of_order"]


@pytest.mark.parametrize(
    "segments, reasons, outcome",
    [
        pytest.param([ONE + bytes(100), TWO], ["zeros"], NOT_COORDINATOR, id="zeros"),
        pytest.param([ONE + bytes(12), TWO], ["zeros"], NOT_COORDINATOR, id="as many as a batch's head begins with"),
        pytest.param([ONE + bytes(11), TWO], [], LOADED, id="fewer"),
        pytest.param([ONE, TWO + bytes(100)], [], LOADED, id="in the newest segment"),
        pytest.param([ONE + TWO[:-1], THREE], ["torn_segment"], LOADED, id="half a batch"),
        pytest.param([ONE + TWO[:-7], b"", THREE[:-7], FOUR], ["torn_segment"], LOADED, id="two, one after the other"),
        pytest.param([ONE[:-7], TWO + THREE[:-7], FOUR], ["torn_segment"] * 2, LOADED, id="two apart"),
        pytest.param([ONE, TWO + THREE[:-7]], [], LOADED, id="in the newest segment, half a batch"),
    ],
)
@pytest.mark.parametrize("target_bytes", [1, 1 << 20], ids=["merged", "at once"])
def test_the_end_of_a_segment(segments, reasons, outcome, target_bytes):
    plain = load(segments, cap_bytes=CAP_BYTES)
    assert_equal(merge_all(fold_segments(segments, target_bytes=target_bytes)), plain)
    assert [row.reason for row in plain.undecodable] == reasons
    assert plain.load_outcome == outcome
