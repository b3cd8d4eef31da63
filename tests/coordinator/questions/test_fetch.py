"""requireStable and its two halves: open transactions, and commits that the log has not answered yet."""

import pytest

from sexton.coordinator.profiles import profile_of
from sexton.coordinator.questions.errors import Error
from sexton.coordinator.questions.fetch import fetch
from tests.coordinator.questions.broker import one_log
from tests.strategies import BatchSpec, commit

HELD = BatchSpec(entries=(commit("g", partition=1),), producer_id=7, transactional=True)
FLYING = {("t", 0)}


def answers(profile, *, in_flight=FLYING, require_stable=True):
    broker = one_log(commit("g"), commit("g", partition=1), commit("g", partition=2), HELD, profile=profile_of(profile))
    found = fetch(broker, "g", require_stable=require_stable, in_flight=in_flight)
    return [offset.error for offset in found.offsets], found.waits


NONE, UNSTABLE = Error.NONE, Error.UNSTABLE_OFFSET_COMMIT


@pytest.mark.parametrize(
    "profile, errors, waits",
    [
        ("group_metadata_manager:2.5", [UNSTABLE, UNSTABLE, NONE], False),
        ("group_metadata_manager:3.9", [UNSTABLE, UNSTABLE, NONE], False),
        ("group_metadata_manager:2.4", [NONE, NONE, NONE], False),
        ("group_coordinator:4.3.1", [NONE, UNSTABLE, NONE], True),
    ],
)
def test_a_stable_fetch_over_commits_in_flight(profile, errors, waits):
    assert answers(profile) == (errors, waits)


@pytest.mark.parametrize("profile", ["group_metadata_manager:3.9", "group_coordinator:4.3.1"])
def test_only_stable_fetches_mind(profile):
    assert answers(profile, require_stable=False) == ([NONE, NONE, NONE], False)
    assert answers(profile, in_flight=()) == ([NONE, UNSTABLE, NONE], False)
