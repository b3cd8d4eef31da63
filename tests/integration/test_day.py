"""A scripted day of four short hours: each past interval, run in any order, tells what the broker told at that time."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.integration.day import (
    Lived,
    Published,
    compare_compaction,
    compare_disappearances,
    compare_groups,
    compare_offsets,
    compare_runs,
    compare_values,
    live_a_day,
    published,
)
from tests.integration.day_clock import TooSlow

HOURS, HOUR_S = 4, 30

pytestmark = [pytest.mark.full, pytest.mark.timeout(7_200)]


@dataclass
class Told:
    lived: Lived
    found: dict[int, Published]


@pytest.fixture(scope="module")
def told(
    tmp_path_factory: pytest.TempPathFactory, drawn: int, needs_broker: None, needs_airflow: None
) -> Iterator[Told]:
    with ExitStack() as closing:

        def lived_day() -> Lived:
            home = tmp_path_factory.mktemp("day")
            day = live_a_day(home, intervals=HOURS, hour_s=HOUR_S, rng=random.Random(drawn), say=print)
            return closing.enter_context(day)

        try:
            lived = lived_day()
        except TooSlow as error:
            print(f"{error}: another day")
            lived = lived_day()
        yield Told(lived=lived, found=published(lived))


def test_every_interval_was_run_whenever_that_was(told: Told) -> None:
    assert compare_runs(told.lived, told.found) == HOURS


def test_offsets_are_what_the_broker_answered(told: Told) -> None:
    assert compare_offsets(told.lived, told.found) > 40 * HOURS


def test_groups_are_what_the_broker_answered(told: Told) -> None:
    assert compare_groups(told.lived, told.found) > 15 * HOURS
    types = {row["group_type"] for one in told.found.values() for row in one.tables["groups"]}
    assert types == {"Classic", "Consumer", "Share"}


def test_values_that_were_set(told: Told) -> None:
    assert compare_values(told.lived, told.found) > 15 * HOURS


def test_each_disappearance_has_its_cause_or_is_ambiguous(told: Told) -> None:
    kinds = compare_disappearances(told.lived, told.found)
    assert set(kinds) == {"expired", "deleted", "group_deleted", "topic_deleted", "ambiguous"}
    assert kinds.total() > 12 * HOURS


def test_the_broker_could_not_tell_any_more(told: Told) -> None:
    gone, left = compare_compaction(told.lived, told.found)
    assert gone > 20 * HOURS
    assert left  # what nothing has replaced
