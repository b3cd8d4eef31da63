"""A release given in part means its newest patch, also where rules are dated."""

from dataclasses import replace

import pytest

from sexton.coordinator.dated_rules import group_coordinator, group_metadata_manager, offset_manager
from sexton.coordinator.profiles import profile_of
from sexton.coordinator.releases import reaches

LAST = {module.NAME: module.LAST_RELEASE for module in (group_coordinator, group_metadata_manager, offset_manager)}


@pytest.mark.parametrize(
    "profile, release, holds",
    [
        ("group_coordinator:4.3.1", (4, 3), True),
        ("group_coordinator:4.3", (4, 3, 1), True),
        ("group_coordinator:4.2.1", (4, 3), False),
        ("group_coordinator", (4, 4), False),
        ("group_metadata_manager:0.10", (0, 10, 2), True),
        ("group_metadata_manager:0.10.1", (0, 10, 2), False),
        ("group_metadata_manager:2", (2, 6), True),
        ("group_metadata_manager:2", (3, 0), False),
        ("offset_manager:0.10", (0, 10, 1), False),
        ("offset_manager:0.10.0.1", (0, 10, 1), False),
        ("offset_manager:0.9", (0, 10, 1), False),
        ("offset_manager:0.8.2", (0, 9), False),
    ],
)
def test_reaches(profile, release, holds):
    found = profile_of(profile)
    assert reaches(found.release, release, last=LAST[found.name]) is holds


@pytest.mark.parametrize(
    "part, whole", [("offset_manager:0.10", "offset_manager:0.10.0"), ("group_coordinator:4", "group_coordinator:4.4")]
)
def test_a_release_in_part_is_its_newest_patch(part, whole):
    assert replace(profile_of(part), release=()) == replace(profile_of(whole), release=())
