"""Cuts: found where a replay that stops at the instant would stop, settled once, used ever after."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexton.archive.cut_search import FUTURE_MS, find_cut, is_whole, segments_between, start_of
from sexton.archive.cuts import newest_cuts, settled_cuts, store_cuts
from sexton.archive.log_position import LogPosition
from sexton.coordinator.loading import FUTURE_MS as LOADED_FUTURE_MS
from sexton.coordinator.loading import load
from sexton.errors import NoCoverage, UsageError
from sexton.log.batch import encode_batch
from sexton.log.message_set import encode_message_set
from tests.archived import Archive
from tests.campaign.histories import histories
from tests.log.samples import pairs
from tests.log_builder import BASE_MS, BatchSpec, encode_batches

MINUTE_MS = 60_000
SETTLE_MS = MINUTE_MS
AS_OF_MS = BASE_MS + 10 * MINUTE_MS


def batch(base_offset: int, stamp_ms: int, *, records: int = 2) -> bytes:
    return encode_batch(pairs(records), base_offset=base_offset, timestamp_ms=stamp_ms)


def log_of(*stamps_ms: int, first: int = 0) -> bytes:
    """Batches of two records, one for each stamp."""
    return b"".join(batch(first + 2 * number, stamp) for number, stamp in enumerate(stamps_ms))


def cut_of(archive: Archive, as_of_ms: int = AS_OF_MS, settle_ms: int = SETTLE_MS) -> int:
    found = settled_cuts(archive.fs, archive.root, cluster_id="cluster", as_of_ms=as_of_ms, settle_ms=settle_ms)
    return store_cuts(archive.fs, archive.root, found).cuts[0].cut


def test_the_same_hour_counts_as_the_future_everywhere() -> None:
    assert FUTURE_MS == LOADED_FUTURE_MS


@pytest.mark.parametrize(
    "stamps, cut",
    [
        ([-2, -1, 0, 1], 4),
        ([-2, 1, -1], 2),
        ([0, -1], 0),
        ([-3, -2, -1], 6),
        ([-1, 61, -1], 2),
        ([-1, 90, -1, 0, 1], 6),
        ([-1, 90], 4),
    ],
    ids=["first that reaches it", "not in order", "all after", "all before", "almost future", "future", "future last"],
)
def test_the_cut(archive: Archive, stamps: list[int], cut: int) -> None:
    archive.snapshot(AS_OF_MS + 2 * MINUTE_MS, {0: log_of(*(AS_OF_MS + step * MINUTE_MS for step in stamps))})
    assert cut_of(archive) == cut


def test_batches_are_in_the_future_of_their_own_snapshot(archive: Archive) -> None:
    """A later snapshot does not make a batch believable that was not when it came."""
    archive.snapshot(AS_OF_MS - 10 * MINUTE_MS, {0: log_of(AS_OF_MS - 12 * MINUTE_MS, AS_OF_MS + 90 * MINUTE_MS)})
    archive.snapshot(AS_OF_MS + 2 * MINUTE_MS, {0: log_of(AS_OF_MS - MINUTE_MS, AS_OF_MS, first=4)})
    archive.snapshot(AS_OF_MS + 90 * MINUTE_MS)
    assert cut_of(archive) == 6
    assert cut_of(archive, AS_OF_MS + 60 * MINUTE_MS) == 8


def test_what_comes_after_the_settling_snapshot_changes_nothing(archive: Archive, tmp_path: Path) -> None:
    archive.snapshot(AS_OF_MS + SETTLE_MS, {0: log_of(AS_OF_MS - 5)})
    late = log_of(AS_OF_MS - 1, first=2)
    archive.snapshot(AS_OF_MS + 2 * SETTLE_MS, {0: late})
    assert cut_of(archive) == 2  # the late append is the next interval's
    assert cut_of(archive, AS_OF_MS + 1) == 4
    kept = tmp_path / "cluster" / "cuts" / "topic" / f"{AS_OF_MS}.json"
    before = kept.read_bytes()
    archive.snapshot(AS_OF_MS + 3 * SETTLE_MS, {0: log_of(AS_OF_MS - 1, first=4)})
    assert cut_of(archive, settle_ms=5) == 2
    assert kept.read_bytes() == before


def test_a_stored_cut_is_used_ever_after(archive: Archive, tmp_path: Path) -> None:
    archive.snapshot(AS_OF_MS + SETTLE_MS, {0: log_of(AS_OF_MS - 5, AS_OF_MS)})
    assert cut_of(archive) == 2
    for file in (tmp_path / "cluster" / "cluster_metadata").iterdir():
        file.unlink()  # snapshots may be thinned
    assert cut_of(archive) == 2
    archive.remake("topic-2")
    archive.snapshot(AS_OF_MS + 5 * SETTLE_MS, {0: log_of(AS_OF_MS - 9)})
    assert cut_of(archive) == 2


def test_without_a_snapshot_that_settles_it_there_is_no_coverage(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(NoCoverage, match="holds no snapshot"):
        cut_of(archive)
    archive.snapshot(AS_OF_MS + SETTLE_MS - 1, {0: log_of(AS_OF_MS - 5)})
    with pytest.raises(NoCoverage, match=f"59999 ms after as_of.*at {AS_OF_MS + SETTLE_MS} ms or later"):
        cut_of(archive)
    archive.snapshot(AS_OF_MS + SETTLE_MS, {0: log_of(AS_OF_MS, first=2)}, facts=False)
    with pytest.raises(NoCoverage):  # its writer died
        cut_of(archive)
    assert not (tmp_path / "cluster" / "cuts").exists()
    archive.snapshot(AS_OF_MS + SETTLE_MS)
    assert cut_of(archive) == 2


def test_a_settled_cut_of_an_earlier_instant_is_where_the_search_begins(archive: Archive, tmp_path: Path) -> None:
    archive.snapshot(AS_OF_MS + 5 * MINUTE_MS, {0: log_of(AS_OF_MS - 5, AS_OF_MS + 3, AS_OF_MS + 7)})
    assert cut_of(archive, AS_OF_MS) == 2
    stored = tmp_path / "cluster" / "cuts" / "topic" / f"{AS_OF_MS}.json"
    told = json.loads(stored.read_text())
    told["cuts"]["0"] |= {"cut": 4, "position": len(log_of(1, 2))}  # to see that it is believed
    stored.write_text(json.dumps(told))
    assert cut_of(archive, AS_OF_MS + 2) == 4
    archive.snapshot(AS_OF_MS + 9 * MINUTE_MS)
    assert cut_of(archive, AS_OF_MS - 1) == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cuts": {"0": {}}}', "nonsense"])
def test_bad_stored_cuts_are_told(archive: Archive, tmp_path: Path, text: str) -> None:
    archive.snapshot(AS_OF_MS + SETTLE_MS, {0: log_of(AS_OF_MS - 5)})
    assert cut_of(archive) == 2
    (tmp_path / "cluster" / "cuts" / "topic" / f"{AS_OF_MS}.json").write_text(text)
    with pytest.raises(UsageError, match=str(AS_OF_MS)):
        cut_of(archive)


def test_lost_files_are_no_coverage(archive: Archive) -> None:
    archive.snapshot(AS_OF_MS - MINUTE_MS, {0: log_of(AS_OF_MS - 5)})
    archive.snapshot(AS_OF_MS + SETTLE_MS, {0: log_of(AS_OF_MS - 1, first=2)})
    for file in Path(archive.history().folder).glob("*-*-*.json"):
        if file.name.startswith("00000000000000000002"):
            file.unlink()
    with pytest.raises(NoCoverage, match="up to log_offset 4, but now it ends at 2"):
        cut_of(archive)


def test_snapshots_side_by_side(archive: Archive) -> None:
    """A segment that a later snapshot wrote first reaches across the end of the one that settles the instant."""
    archive.snapshot(AS_OF_MS + 2 * SETTLE_MS, {0: log_of(AS_OF_MS - 5, AS_OF_MS - 4, AS_OF_MS - 3)})
    lineage, end = archive.current[0]
    archive.current[0] = lineage, 2
    archive.snapshot(AS_OF_MS + SETTLE_MS)
    archive.current[0] = lineage, end
    found = settled_cuts(archive.fs, archive.root, cluster_id="cluster", as_of_ms=AS_OF_MS, settle_ms=SETTLE_MS)
    assert (found.cuts[0].cut, found.taken_at_ms) == (2, AS_OF_MS + SETTLE_MS)
    (segment,) = segments_between(archive.history(), found.cuts[0])
    assert segment.stop_byte == len(log_of(1))
    (rest,) = segments_between(archive.history(), LogPosition(lineage=lineage.name, cut=6, segment=6, position=0),
                               after=found.cuts[0])  # fmt: skip
    assert (rest.start_byte, rest.stop_byte) == (segment.stop_byte, segment.size_bytes)


def test_old_formats_without_timestamps_end_where_the_archive_does(archive: Archive) -> None:
    archive.snapshot(AS_OF_MS + SETTLE_MS, {0: encode_message_set(pairs(3), base_offset=0, magic=0, timestamp_ms=-1)})
    assert cut_of(archive) == 3
    history = archive.history()
    assert is_whole(archive.fs, history, 0, 3)


def test_the_newest_cuts_are_the_ends_of_the_newest_snapshot(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(NoCoverage):
        newest_cuts(archive.fs, archive.root, cluster_id="cluster")
    archive.snapshot(AS_OF_MS, {0: log_of(1, 2), 3: log_of(1)})
    archive.snapshot(AS_OF_MS + 1, {3: log_of(5, first=2)})
    archive.snapshot(AS_OF_MS + 2, {0: log_of(6, first=4)}, facts=False)
    found = newest_cuts(archive.fs, archive.root, cluster_id="cluster")
    assert {part: place.cut for part, place in found.cuts.items()} == {0: 4, 3: 4}
    assert not (tmp_path / "cluster" / "cuts").exists()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    history=histories(max_size=16), codec=st.integers(0, 4), step=st.integers(0, 20),
    taken=st.sampled_from([-3_595, -3_585, 120]), random=st.randoms(use_true_random=False),
)  # fmt: skip
def test_the_cut_is_where_a_replay_would_stop(tmp_path_factory, history, codec, step, taken, random):
    batches = encode_batches(history, codec=codec)
    if not batches:
        return
    archive = Archive(tmp_path_factory.mktemp("archive"))
    taken_at_ms = BASE_MS + taken * 1_000
    data = b"".join(batches)
    rest = batches
    while rest:
        size = random.randrange(1, len(rest) + 1)
        archive.snapshot(taken_at_ms, {0: b"".join(rest[:size])})
        rest = rest[size:]
    as_of_ms = BASE_MS + step * 1_000
    lineage = archive.history()
    end = lineage.next_log_offset
    found = find_cut(archive.fs, lineage, start_of(lineage), end=end, as_of_ms=as_of_ms)
    plain = load([data], cap_bytes=1 << 20, as_of_ms=as_of_ms, taken_at_ms=taken_at_ms)
    assert found.cut == plain.cut
    if all(spec.crc_ok for spec in history):
        assert is_whole(archive.fs, lineage, 0, end) == all(map(_is_dense, history))


def _is_dense(spec: BatchSpec) -> bool:
    """Whether a batch and what is before it has lost no record."""
    has_records = bool(spec.entries or spec.control)
    return has_records and not spec.gap and not any(spec.holes[: len(spec.entries)])
