"""A load may go on after a failure, whatever the history.

Fates, the closed form, merged pieces and compaction are in tests/campaign, cuts in tests/kernels.
"""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.campaign.compaction import without
from tests.campaign.histories import History, histories
from tests.campaign.packs import pack
from tests.coordinator.golden import CAP_BYTES
from tests.fates import load
from tests.kernels.compare import PROFILES
from tests.oracle import oracle_tables


def _load(data, profile):
    return load([data], cap_bytes=CAP_BYTES, profile=profile)


@settings(max_examples=60)
@given(histories(max_size=20), st.sampled_from(PROFILES))
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
