"""What the cleaner leaves: against a real cleaner's output, and against the model of the campaign."""

from random import Random

import pytest

from sexton.coordinator.cleaning import CleanableLog, read_cleanable
from tests.campaign.compaction import compact
from tests.campaign.histories import history
from tests.campaign.packs import pack
from tests.coordinator.golden import GOLDEN
from tests.log_builder import ABORT, COMMIT, BatchSpec, encode_log
from tests.record_fields import encode_key

CAP_BYTES = 1 << 26
_FILLER = frozenset({44, 45})
"""Log offsets of commits that came before the cleaning of the recording, and not before its copy."""


def cleanable(data: bytes) -> CleanableLog:
    return read_cleanable([data], cap_bytes=CAP_BYTES, end=1 << 40)


def log_offsets(name: str) -> set[int]:
    files = sorted((GOLDEN / "upgrades" / name / "__consumer_offsets-1").glob("*.log"))
    return {one.log_offset for path in files for one in cleanable(path.read_bytes()).records}


def test_what_a_cleaner_of_4_2_0_has_left() -> None:
    """The later commits of plain1 replace one of its records, which the copy from before them still has."""
    log = cleanable((GOLDEN / "upgrades/4.2.0-before-cleaning/__consumer_offsets-1" / f"{0:020d}.log").read_bytes())
    left = {one.log_offset for one in log.records} - log.gone(1 << 40, without_tombstones=1 << 40)
    assert left - {2} == log_offsets("4.2.0-cleaned") - _FILLER


KEY, OTHER = (encode_key(1, {"group_id": "g", "topic": "t", "partition": number}) for number in (0, 1))
PRODUCER = {"producer_id": 7, "transactional": True}


@pytest.mark.parametrize(
    "batches, gone, below",
    [
        ([[(KEY, b"1")], [(KEY, b"2")]], {0}, 9),
        ([[(KEY, b"1")], [(KEY, b"2")]], set(), 1),
        ([[(KEY, b"1")], [(KEY, None)]], {0, 1}, 9),
        ([[(None, b"1")]], {0}, 9),
    ],
    ids=["the newest stays", "in the active segment", "a tombstone", "no key"],
)
def test_which_records_go(batches, gone, below) -> None:
    log = cleanable(encode_log([BatchSpec(entries=entries) for entries in batches]))
    assert log.gone(below, without_tombstones=below) == gone


@pytest.mark.parametrize("control, gone", [((COMMIT,), {0}), ((ABORT,), {1}), (None, set())])
def test_transactions(control, gone) -> None:
    """An aborted value hides nothing, and nothing is cleaned from an open transaction on."""
    end = [] if control is None else [BatchSpec(control=control, **PRODUCER)]
    specs = [BatchSpec(entries=[(KEY, b"1")]), BatchSpec(entries=[(KEY, b"2")], **PRODUCER), *end]
    log = cleanable(encode_log([*specs, BatchSpec(entries=[(OTHER, b"1")]), BatchSpec(entries=[(OTHER, b"2")])]))
    others = {3} if end else set()
    assert log.gone(99, without_tombstones=0) == gone | others


@pytest.mark.parametrize("index", range(120))
def test_it_is_the_model_that_brokers_have_confirmed(index: int, seed: int) -> None:
    whole = pack([history(seed, index)], Random(index))
    if not whole.placed[0].history.is_clean:
        return
    left = compact(whole, Random(index), is_thorough=True)
    log, kept = cleanable(whole.log), {one.log_offset for one in cleanable(left.log).records}
    assert {one.log_offset for one in log.records} - log.gone(log.end, without_tombstones=log.end) == kept
