"""Histories made by hand, row by row of the list of edge cases, against what Kafka 4.3.1 answered to them."""

import pytest

from tests.coordinator.golden import edge_cases

CASES = edge_cases("4.3.1")
ANSWERED = [case for case in CASES.values() if "ERR" not in case.answers["fetch"]]
FAILED = {
    "28": "Found an unknown record version 5 for 1 type",
    "28b-nullkey": "null_key",
    "28c-shortkey": "short_key",
    "28d-truncval": "Could not read record with version 3 from value's buffer",
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
    "44": "Tried to allocate a collection of size 255, but there are only 1 bytes remaining.",
    "44d-v0arrneg": "non-nullable field topics was serialized as null",
    "44e-strlong": "Error reading byte array of 127 byte(s): only 1 byte(s) available",
    "44g-userdata": "malformed_subscription",
}
UNSTABLE = [-1, "UNSTABLE"]


def _fetch(case):
    """OffsetFetch of all topics: [offset, leader epoch?, metadata?] by topic-partition, absent parts left out."""
    loaded = case.load()
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


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case.name)
def test_a_client_fetches_what_the_broker_answered(case):
    assert _as_recorded(_fetch(case)) == case.answers["fetch"]
    stable = {
        key: value if value == UNSTABLE else _as_recorded({key: value})[key]
        for key, value in _fetch_stable(case).items()
    }
    assert stable == case.answers["fetch_stable"]


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case.name)
def test_groups_are_listed_as_the_broker_listed_them(case):
    loaded = case.load()
    assert not loaded.load_would_fail
    group = loaded.groups.by_id.get(case.group_id)
    listed = None if group is None else [group.group_type.lower(), group.protocol_type or "", group.state]
    assert listed == case.answers["listed"]


@pytest.mark.parametrize("name, message", FAILED.items(), ids=FAILED)
def test_a_load_fails_where_the_broker_s_did(name, message):
    loaded = CASES[name].load()
    assert loaded.load_would_fail
    assert [message in failure for failure in loaded.failures] == [True]


def test_every_case_is_either_answered_or_failed():
    assert {case.name for case in ANSWERED} | FAILED.keys() == CASES.keys()


def test_a_bad_crc_is_told_but_fails_no_load():
    loaded = CASES["55"].load()
    assert [row.reason for row in loaded.undecodable] == ["bad_crc"]
    assert not loaded.load_would_fail


def test_unknown_types_are_counted():
    assert CASES["27"].load().unknown_types == {99: 1}
    assert CASES["36d-T99"].load().unknown_types == {99: 1}
