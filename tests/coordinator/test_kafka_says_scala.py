"""What a real 3.9.1 broker said of generated histories, held against the plain rules and the kernels."""

import pytest

from sexton.coordinator.questions.listing import list_groups
from tests.coordinator.kafka_says import kafka_says
from tests.coordinator.questions.broker import WAYS

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
