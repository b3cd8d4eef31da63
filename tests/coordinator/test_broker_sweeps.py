"""What a broker's sweep appends to each of its log partitions: plain rules and kernels, by generated logs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import profile_of
from tests.campaign.histories import histories
from tests.coordinator.kafka_says import plans_of_kernels, plans_of_rules
from tests.log_builder import encode_log

COUNT = 3


@pytest.mark.parametrize("release", ["group_metadata_manager:3.9", "group_metadata_manager:2.0", "group_coordinator"])
@settings(max_examples=40)
@given(logs=st.tuples(*[histories(max_size=6, odd=False)] * COUNT))
def test_kernels_append_what_the_plain_rules_append(release, logs):
    """Groups lie anywhere, some in several log partitions; up to 3.9 each key goes once, where its group hashes to."""
    profile = profile_of(release)
    segments = {number: encode_log(log) for number, log in enumerate(logs)}
    plans = plans_of_rules(segments, profile, COUNT)
    assert plans_of_kernels(segments, profile, COUNT) == plans
    if profile.one_cache:
        keys = [tombstone.key for plan in plans.values() for tombstone in plan]
        assert len(keys) == len(set(keys))
        assert all(partition_of(one.group_id, COUNT) == where for where, plan in plans.items() for one in plan)
