"""When a sweep may have looked at a group, from the stamps of what the sweeps of a round wrote."""

from dataclasses import replace

import pytest

from sexton.coordinator.profiles import profile_of
from tests.campaign.broker.logs import RETENTION_MS, Place
from tests.campaign.broker.sweeps import Clock, Round, Sweep, instants

NEWEST, WITH_ONE_CACHE = profile_of("group_coordinator:4.3.1"), profile_of("group_metadata_manager:3.9")
PLACE = Place(partition_count=4, topic_ids={}, base_ms=0, step_ms=20_000)
"""Something falls due at 100 s, at 120 s, ..."""
CLOCK = Clock(started_s=80.0, interval_s=15)


@pytest.mark.parametrize(
    "profile, stamps_s, expected_s",
    [
        (NEWEST, {0: 97}, [97]),
        (NEWEST, {0: 102}, [102, 99.999]),
        (NEWEST, {0: 107}, [107]),
        (WITH_ONE_CACHE, {0: 107}, [107, 99.999]),
        (NEWEST, {1: 102, 2: 107}, [107, 99.999]),
        (NEWEST, {1: 97}, [97]),
        (NEWEST, {}, [95]),
    ],
    ids=[
        "at its stamp", "or before what fell due just now", "or later", "up to 3.9 since the round began",
        "where nothing was written at any time of the round", "before anything fell due", "of a round without any",
    ],
)  # fmt: skip
def test_instants(profile, stamps_s, expected_s) -> None:
    sweeps: Round = {number: Sweep(at_s * 1_000) for number, at_s in stamps_s.items()}
    found = instants(sweeps, 0, begins_ms=CLOCK.begins_ms(1), place=PLACE, profile=profile)
    assert list(found) == [int(at_s * 1_000) for at_s in expected_s]


def test_a_retention_is_no_whole_number_of_steps() -> None:
    place = replace(PLACE, step_ms=RETENTION_MS - 10_000)
    stamp_ms, *before = instants({0: Sweep(102_000)}, 0, begins_ms=0, place=place, profile=WITH_ONE_CACHE)
    assert stamp_ms == 102_000
    assert {at_ms + 1 for at_ms in before} == {50_000, 100_000, 10_000, 60_000}


def test_rounds_are_an_interval_apart() -> None:
    stamps = (94_000, 95_000, 109_999, 110_000, 125_000)
    assert [CLOCK.round_of(stamp_ms) for stamp_ms in stamps] == [1, 1, 1, 2, 3]
