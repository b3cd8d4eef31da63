"""requireStable and its two halves: open transactions, and commits that the log has not answered yet."""

from dataclasses import replace

import pytest

from sexton.cli.fetch_in_flight import in_flight_offsets
from sexton.coordinator.api.coordinator import LOADING
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import AskedPartition, fetch
from sexton.coordinator.commits_in_flight import Outcome
from sexton.coordinator.profiles import profile_of
from tests.coordinator.api.broker import one_log
from tests.log_builder import BatchSpec, commit

HELD = BatchSpec(entries=(commit("g", partition=1),), producer_id=7, transactional=True)
FLYING = in_flight_offsets({("t", 0): 42})


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
    assert answers(profile, in_flight={}) == ([NONE, UNSTABLE, NONE], False)


@pytest.mark.parametrize("profile", ["group_metadata_manager:3.9", "group_coordinator:4.3.1"])
@pytest.mark.parametrize(
    "outcome, offsets", [(Outcome.WAITING, [1, 1]), (Outcome.APPENDED, [42, 1, 7]), (Outcome.FAILED, [1, 1])]
)
def test_what_becomes_of_commits_in_flight(profile, outcome, offsets):
    """An ordinary fetch finds them once they are in the log, and what was there before where they fail."""
    broker = one_log(commit("g", 1), commit("g", 1, partition=1), profile=profile_of(profile))
    flying = in_flight_offsets({("t", 0): 42, ("new", 3): 7})
    found = fetch(broker, "g", in_flight=flying, outcome=outcome)
    assert sorted(one.committed_offset for one in found.offsets) == sorted(offsets)
    stable = fetch(broker, "g", in_flight=flying, outcome=outcome, require_stable=True)
    is_settled = outcome is not Outcome.WAITING
    assert (stable.waits, {one.error for one in stable.offsets} == {NONE}) == (
        not is_settled and profile.startswith("group_coordinator"),
        is_settled or profile.startswith("group_coordinator"),
    )


@pytest.mark.parametrize(
    "shards, error", [({}, Error.NOT_COORDINATOR), ({0: LOADING}, Error.COORDINATOR_LOAD_IN_PROGRESS)]
)
@pytest.mark.parametrize(
    "profile, of_the_group",
    [
        ("offset_manager:0.8.2", False),
        ("offset_manager:0.9", False),
        ("group_metadata_manager:0.10.1", False),
        ("group_metadata_manager:0.10.2", True),
        ("group_coordinator:4.3.1", True),
    ],
)
def test_up_to_0_10_1_only_partitions_have_errors(profile, of_the_group, shards, error):
    """One for each that is asked for; who asks for all of them gets an empty answer (KIP-88)."""
    broker = replace(one_log(profile=profile_of(profile)), shards=shards)
    asked = [AskedPartition(topic="t", partition=number) for number in (0, 4)]
    named, every = fetch(broker, "g", partitions=asked), fetch(broker, "g")
    told = [(one.topic, one.partition, one.committed_offset, one.metadata, one.error) for one in named.offsets]
    assert told == ([] if of_the_group else [("t", 0, -1, "", error), ("t", 4, -1, "", error)])
    assert named.error is every.error is (error if of_the_group else Error.NONE)
    assert every.offsets == ()
