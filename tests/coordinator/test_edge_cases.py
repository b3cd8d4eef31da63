"""Histories made by hand, row by row of the list of edge cases, against what Kafka 4.3.1 and 2.8.2 answered to them."""

import pytest

from sexton.coordinator.loading import LOADED
from sexton.coordinator.profile import AfterFailure
from tests.coordinator.golden import edge_cases

JAVA, SCALA = edge_cases("4.3.1"), edge_cases("2.8.2")
CASES = [*JAVA.values(), *SCALA.values()]
ANSWERED = [case for case in CASES if "ERR" not in case.answers["fetch"]]
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
UNSTABLE = [-1, "UNSTABLE"]


def name_of(case):
    return f"{case.profile.text}-{case.name}"


def _fetch(case):
    """OffsetFetch of all topics: [offset, leader epoch?, metadata?] by topic-partition, absent parts left out."""
    loaded = case.load()
    if loaded.load_outcome == AfterFailure.EMPTY:
        return {}
    unreachable = loaded.unreachable(log_partition=case.log_partition, partition_count=case.partition_count)
    return {
        f"{topic}-{partition}": [
            offset.committed_offset,
            *([] if offset.leader_epoch is None else [offset.leader_epoch]),
            *([offset.metadata] if offset.metadata else []),
        ]
        for (group_id, topic, partition), offset in loaded.offsets.items()
        if group_id == case.group_id and (group_id, topic, partition) not in unreachable
    }


def _fetch_stable(case):
    held = {f"{topic}-{partition}" for group_id, topic, partition in case.load().state.pending_keys()}
    return {key: UNSTABLE if key in held else value for key, value in _fetch(case).items()}


def _as_recorded(answers):
    """The recorder kept the first ten characters of long metadata (row 54)."""
    return {key: [part[:10] if isinstance(part, str) else part for part in value] for key, value in answers.items()}


@pytest.mark.parametrize("case", ANSWERED, ids=name_of)
def test_a_client_fetches_what_the_broker_answered(case):
    assert _as_recorded(_fetch(case)) == case.answers["fetch"]
    assert _as_recorded(_fetch_stable(case)) == case.answers["fetch_stable"]


@pytest.mark.parametrize("case", ANSWERED, ids=name_of)
def test_groups_are_listed_as_the_broker_listed_them(case):
    loaded = case.load()
    group = None if loaded.load_outcome == AfterFailure.EMPTY else loaded.groups.by_id.get(case.group_id)
    if group is None:
        assert case.answers["listed"] is None
        return
    group_type, protocol_type, state = case.answers["listed"]
    assert (protocol_type, state) == (group.protocol_type or "", group.state)
    assert group_type in ("?", group.group_type.lower())  # a 2.8 broker does not tell


@pytest.mark.parametrize("failed, cases", [(FAILED_IN_JAVA, JAVA), (FAILED_IN_SCALA, SCALA)], ids=["4.3.1", "2.8.2"])
def test_a_load_fails_where_the_broker_s_did(failed, cases):
    """All others load, so that this tells every answer of an empty cache from one of a group without offsets."""
    failures = {name: case.load().failures for name, case in cases.items()}
    assert {name for name, told in failures.items() if told} == failed.keys()
    for name, message in failed.items():
        assert message in failures[name][0], name


def test_4_3_1_serves_nothing_of_a_failed_load():
    assert {case.name for case in JAVA.values() if case not in ANSWERED} == FAILED_IN_JAVA.keys()
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
