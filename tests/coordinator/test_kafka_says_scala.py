"""What a real 3.9.1 broker said of generated histories, held against the plain rules and the kernels."""

import pytest

from sexton.coordinator.api.commit import Commit, CommitPartition, validate_commit
from sexton.coordinator.api.listing import list_groups
from tests.coordinator.api.broker import WAYS
from tests.coordinator.kafka_says import kafka_says

CASES = kafka_says("3.9.1")
LOGS = [case for case in CASES.values() if case.segments]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", LOGS, ids=lambda case: case.name)
def test_listed(case, way):
    (group,) = [item.group for item in list_groups(case.coordinator(way)).groups]
    assert [group.group_type.lower(), group.protocol_type, group.state] == case.answers["listed"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", LOGS, ids=lambda case: case.name)
def test_swept(case, way):
    """The tombstone of a misplaced group goes to the log partition that the group hashes to."""
    told = [(int(where), key) for where, swept in case.answers["swept_in"].items() for key, _ in swept]
    assert case.planned(way) == sorted(told)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "asked",
    [("generation 0", "", 0), ("member m", "m", -1), ("member m, generation 0", "m", 0)],
    ids=lambda asked: asked[0],
)
def test_a_transactional_commit_makes_the_group_and_is_validated_against_it(asked, way):
    case = CASES["transactional commit to a group that is not there"]
    name, member_id, generation = asked
    error = _committed(case, way, member_id=member_id, generation=generation, is_transactional=True)
    assert error == case.answers[name]


@pytest.mark.parametrize("way", WAYS)
def test_a_member_that_comes_twice_keeps_its_first_instance(way):
    case = CASES["member named twice, first with an instance"]
    error = _committed(case, way, member_id="m", group_instance_id="i", generation=1)
    assert error == case.answers["commit by m, instance i, generation 1"]


def _committed(case, way, **asked):
    """The code of the error of a commit of one partition."""
    commit = Commit(group_id=case.group_id, partitions=(CommitPartition(topic="t", partition=0),), **asked)
    ((_, error),) = validate_commit(case.coordinator(way), commit).items()
    return error.value
