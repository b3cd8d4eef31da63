"""The plain replay and the kernels' tables fill one view: on generated histories every question is answered alike."""

import pytest
from hypothesis import HealthCheck, assume, given, settings

from sexton.coordinator.api.commit import Commit, CommitPartition, validate_commit
from sexton.coordinator.api.fetch import AskedPartition, fetch
from sexton.coordinator.api.listing import describe_group, list_groups
from sexton.coordinator.api.unloading import unload
from sexton.coordinator.profile import AfterFailure
from tests.campaign.histories import histories
from tests.coordinator.api.broker import WAYS, coordinator_of
from tests.kernels.compare import PROFILES
from tests.log_builder import GROUP_IDS, MEMBER_IDS, PARTITIONS, TOPICS, encode_log

SOME = settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
ASKED = [AskedPartition(topic=topic, partition=partition) for topic in TOPICS for partition in PARTITIONS]
COMMITTED = tuple(CommitPartition(topic=topic, partition=0) for topic in TOPICS)
LOG_PARTITIONS = 2


def _answers(broker):
    """What the broker says to everything there is to ask about few groups."""
    told = [list_groups(broker), *(unload(broker, log_partition) for log_partition in broker.shards)]
    for group_id in GROUP_IDS:
        told += [describe_group(broker, group_id), fetch(broker, group_id)]
        told += [fetch(broker, group_id, partitions=ASKED, require_stable=stable) for stable in (False, True)]
        told += [fetch(broker, group_id, member_id=MEMBER_IDS[0], member_epoch=epoch) for epoch in (0, 1)]
        for member_id in ("", *MEMBER_IDS):
            for generation in (-1, 1, 2):
                commit = Commit(group_id=group_id, partitions=COMMITTED, member_id=member_id, generation=generation)
                told.append(validate_commit(broker, commit))
    return told


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.text)
@SOME
@given(histories(), histories(max_size=4))
def test_both_ways_answer_alike(profile, history, other):
    logs = {0: encode_log(history), 1: encode_log(other)}
    plain, tables = (coordinator_of(logs, profile=profile, partition_count=LOG_PARTITIONS, way=way) for way in WAYS)
    if profile.after_failure is AfterFailure.PREFIX:  # the kernels have no prefix: a failed load is replayed plainly
        whole = list_groups(tables)
        assume([item.group.group_id for item in whole.groups] == [i.group.group_id for i in list_groups(plain).groups])
    assert _answers(tables) == _answers(plain)
