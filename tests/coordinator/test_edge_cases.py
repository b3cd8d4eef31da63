"""Histories made by hand, row by row of the list of edge cases: what fails the load in Kafka 4.3.1 and 2.8.2, and why.

What these answered once they had loaded them is in api/test_edge_cases.py.
"""

import pytest

from sexton.coordinator.profile import LOADED, AfterFailure
from tests.coordinator.golden import edge_cases

JAVA, SCALA = edge_cases("4.3.1"), edge_cases("2.8.2")
FAILED_IN_BOTH = {
    "28b-nullkey": "null_key",
    "28c-shortkey": "short_key",
    "28d-truncval": "Could not read record with version 3 from value's buffer",
    "44": "Tried to allocate a collection of size 255, but there are only 1 bytes remaining.",
    "44d-v0arrneg": "non-nullable field topics was serialized as null",
    "44e-strlong": "Error reading byte array of 127 byte(s): only 1 byte(s) available",
    "44g-userdata": "malformed_subscription",
}
FAILED_IN_JAVA = {
    **FAILED_IN_BOTH,
    "28": "Found an unknown record version 5 for 1 type",
    "28f-type2v5": "Found an unknown record version 5 for 2 type",
    "29e-0v1": "Found an unknown record version 1 for 0 type",
    "29f-0v3": "Found an unknown record version 3 for 0 type",
    "33": "Group r33-23 is not a consumer group",
    "34": "member m but did not receive ConsumerGroupCurrentMemberAssignmentValue tombstone.",
    "34c-T3members": "Received a tombstone record to delete group r34c-T3members-44 but the group still has 1 members.",
    "34d-T6target": "delete target assignment of r34d-T6target-197 but the assignment still has 1 members.",
    "35": "Group r35-196 is not a share group.",
    "36b-T11": "Group r36b-T11-12 is not a share group.",
    "36c-T15": "Group r36c-T15-126 is not a share group.",
}
FAILED_IN_SCALA = {
    **FAILED_IN_BOTH,
    "28": "Unknown offset message version: 5",
    "28f-type2v5": "Unknown group metadata message version: 5",
    "51": "Unknown offset message version: 4",
    **{
        name: f"Unknown group metadata message version: {record_type}"
        for record_type, names in {
            3: ["32", "33", "33b-withT2", "46"],
            4: ["36"],
            5: ["34", "34b-order", "34c-T3members", "34d-T6target", "34e-allT", "46b-emptyed", "47", "47b-names"],
            11: ["35", "36b-T11", "50"],
            15: ["36c-T15"],
            17: ["35b-streams"],
            99: ["27", "36d-T99"],
        }.items()
        for name in names
    },
}


@pytest.mark.parametrize("failed, cases", [(FAILED_IN_JAVA, JAVA), (FAILED_IN_SCALA, SCALA)], ids=["4.3.1", "2.8.2"])
def test_a_load_fails_where_the_broker_s_did(failed, cases):
    """All others load, so that this tells every answer of an empty cache from one of a group without offsets."""
    failures = {name: case.load().failures for name, case in cases.items()}
    assert {name for name, told in failures.items() if told} == failed.keys()
    for name, message in failed.items():
        assert message in failures[name][0], name


def test_4_3_1_serves_nothing_of_a_failed_load():
    assert {name for name, case in JAVA.items() if "ERR" in case.answers["fetch"]} == FAILED_IN_JAVA.keys()
    for name, case in JAVA.items():
        assert case.load().load_outcome == (AfterFailure.NOTHING if name in FAILED_IN_JAVA else LOADED)


@pytest.mark.parametrize("cases", [JAVA, SCALA], ids=["4.3.1", "2.8.2"])
def test_a_bad_crc_is_told_but_fails_no_load(cases):
    loaded = cases["55"].load()
    assert [row.reason for row in loaded.undecodable] == ["bad_crc"]
    assert not loaded.load_would_fail


def test_unknown_types_are_counted():
    assert JAVA["27"].load().unknown_types == {99: 1}
    assert JAVA["36d-T99"].load().unknown_types == {99: 1}
