"""What must hold for every history: the account of fates, segments, cuts, and that a load may go on after a failure.

The closed form, merged pieces and compaction are in tests/campaign.
"""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.coordinator.loading import load
from sexton.log.batch import read_batches
from tests.campaign.compaction import without
from tests.campaign.histories import History, histories
from tests.campaign.packs import pack
from tests.coordinator.golden import CAP_BYTES
from tests.kernels.compare import PROFILES
from tests.oracle import oracle_tables
from tests.strategies import BASE_MS, encode_batches, encode_log

quick = settings(max_examples=60)
profiles = st.sampled_from(PROFILES)


def _load(data, profile, **options):
    return load([data] if isinstance(data, bytes) else data, cap_bytes=CAP_BYTES, profile=profile, **options)


@quick
@given(histories(), profiles)
def test_every_offset_value_has_one_fate(history, profile):
    loaded = _load(encode_log(history), profile)
    fates = loaded.fates(log_partition=0, partition_count=3)
    assert fates.total() == loaded.counters["read_values"]
    tables = oracle_tables(loaded, 0, 3)
    assert fates["live"] == len(tables["committed_offsets"])
    assert fates["unreachable"] == len(tables["unreachable_offsets"])
    assert fates["pending"] == len(tables["pending_offsets"])


@quick
@given(histories(), profiles, st.integers(0, 20))
def test_a_cut_reads_the_batches_before_the_first_that_is_too_late(history, profile, step):
    as_of_ms = BASE_MS + step * 1_000
    batches = encode_batches(history)
    stamps = [next(iter(read_batches(batch))).max_timestamp_ms for batch in batches]
    late = next((index for index, stamp in enumerate(stamps) if stamp >= as_of_ms), len(batches))
    cut = _load(b"".join(batches), profile, as_of_ms=as_of_ms)
    before = _load(b"".join(batches[:late]), profile)
    assert oracle_tables(cut, 0, 3) == oracle_tables(before, 0, 3)
    if late < len(batches):
        assert cut.cut == next(iter(read_batches(batches[late]))).base_offset
    else:
        assert cut.cut == cut.next_log_offset


@quick
@given(histories(max_size=20), profiles)
def test_a_record_that_throws_leaves_no_trace(history, profile):
    whole = pack([History(index=0, blocks=tuple(history), is_clean=False)], Random(0))
    loaded = _load(whole.log, profile)
    undecodable = {row.log_offset for row in loaded.undecodable} - {None}  # a bad CRC is gone with its batch
    thrown = {int(failure.split(":")[0].removeprefix("log_offset ")) for failure in _transitions(loaded)}
    again = _load(without(whole, thrown).log, profile)
    assert not _transitions(again)
    assert {row.log_offset for row in again.undecodable} - {None} == undecodable
    tables, expected = oracle_tables(again, 0, 3), oracle_tables(loaded, 0, 3)
    for name in ("committed_offsets", "unreachable_offsets", "pending_offsets", "groups", "members"):
        assert tables[name] == expected[name]


def _transitions(loaded):
    """Failures that are no undecodable records, and not those of a group at the end of the load."""
    told = Counter(str(row) for row in loaded.undecodable)
    failures = (Counter(loaded.failures) - told).elements()
    return [failure for failure in failures if not failure.startswith("after the last record: ")]
