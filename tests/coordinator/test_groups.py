"""Transitions of groups: states after a load, what throws and with which words, and that a throw changes nothing."""

from uuid import UUID

import pytest

from sexton.coordinator.api.view import LoadedMember
from sexton.coordinator.groups.groups import GROUP_RECORD_TYPES
from sexton.errors import LogError
from sexton.records import RECORD_TYPES, kafka_uuid
from tests.coordinator.group_records import (
    SHARE,
    STREAMS,
    assert_throws,
    classic,
    consumer_member,
    feed,
    gone,
    owns,
    record,
    replay,
    rows,
    share_member,
    streams_member,
    streams_task,
    target,
    topology,
)
from tests.log_builder import BAD_SUBSCRIPTION, SHORT_SUBSCRIPTION, classic_fields, group_entry, subscription

CONSUMER = record(3, epoch=1)
NEWEST_TYPES = {number for number, declared in RECORD_TYPES.items() if declared.is_read_by((4, 3))} - {0, 1}


def test_every_type_that_the_newest_coordinator_reads_is_replayed():
    assert GROUP_RECORD_TYPES - {9} == NEWEST_TYPES  # which 4.0 alone reads


YOUNGER_STREAMS = record(17, epoch=5, metadata_hash=0, validated_topology_epoch=0)
BEHIND = (record(3, epoch=2), record(6, assignment_epoch=2))
STATES = {
    "classic without members": ("Empty", classic()),
    "classic with members": ("Stable", classic(("m", subscription()))),
    "consumer without members": ("Empty", CONSUMER),
    "consumer at the initial epochs": ("Stable", consumer_member(), owns(epoch=1)),
    "consumer with a younger group epoch": ("Assigning", consumer_member(), record(3, epoch=2)),
    "consumer with a member behind": ("Reconciling", consumer_member(), *BEHIND, owns(epoch=1)),
    "consumer, unreleased partitions": ("Reconciling", consumer_member(), owns(epoch=1, state=2)),
    "consumer, state unknown": ("Reconciling", consumer_member(), owns(epoch=1, state=77)),
    "share without members": ("Empty", SHARE),
    "share, whatever its epochs": ("Stable", share_member(), record(11, epoch=9, metadata_hash=0)),
    "streams without members": ("Empty", STREAMS, topology()),
    "streams without topology": ("NotReady", STREAMS, streams_member()),
    "streams, topology not validated": ("NotReady", STREAMS, streams_member(), topology(1)),
    "streams": ("Stable", STREAMS, streams_member(), topology(), streams_task()),
    "streams, member not assigned yet": ("Reconciling", STREAMS, streams_member(), topology()),
    "streams with a younger group epoch": ("Assigning", YOUNGER_STREAMS, streams_member(), topology()),
}


@pytest.mark.parametrize("row", STATES.values(), ids=STATES)
def test_states_after_a_load(row):
    state, *entries = row
    assert replay(*entries).by_id["g"].state == state


MEMBER, GROUP = (f"Received a tombstone record to delete {what} " for what in ("member m", "group g"))
NO_TOMBSTONE = "but did not receive {}Value tombstone."
NO_EPOCH = NO_TOMBSTONE.format("ConsumerGroupTargetAssignmentMetadata")
NO_ASSIGNMENT = NO_TOMBSTONE.format("ConsumerGroupCurrentMemberAssignment")
NO_TASKS = NO_TOMBSTONE.format("StreamsGroupCurrentMemberAssignment")
NO_MEMBER_EPOCH = (
    'Cannot invoke "java.lang.Integer.intValue()" because the return value of '
    '"org.apache.kafka.coordinator.group.streams.StreamsGroupMember.memberEpoch()" is null'
)
TARGETED = "Received a tombstone record to delete target assignment of g but the assignment still has 1 members."
TARGETS_ALONE = [target(7), record(6, assignment_epoch=-1)]
SHARE_TARGETED = [share_member(), target(13), gone(14, "m")]
OWNED = "Cannot set the epoch of AAAAAAAAAAAAAAAAAAAABw-0 to 2 because the partition is still owned at epoch "
TWICE = "Static member with groupInstanceId=i cannot be added to group g since it is already a member."
M, N = (("m", subscription()), ("n", subscription()))
THROWS = {
    "consumer record on a classic group": ([classic()], record(3, epoch=1), "Group g is not a consumer group"),
    "consumer tombstone on a classic group": ([classic()], gone(8, "m"), "Group g is not a consumer group"),
    "share record on a consumer group": ([CONSUMER], SHARE, "Group g is not a share group."),
    "streams record on a share group": ([SHARE], STREAMS, "Group g is not a streams group."),
    "share tombstone of type 15 on a consumer group": ([CONSUMER], gone(15), "Group g is not a share group."),
    "member with an assignment": ([consumer_member(), owns()], gone(5, "m"), MEMBER + NO_ASSIGNMENT),
    "member with a target": ([consumer_member(), target(7), gone(8, "m")], gone(5, "m"), MEMBER + NO_EPOCH),
    "consumer group with members": ([consumer_member()], gone(3), GROUP + "but the group still has 1 members."),
    "consumer group with targets": (TARGETS_ALONE, gone(3), GROUP + "but the target assignment still has 1 members."),
    "consumer group with a target epoch, which is there from the start": ([CONSUMER], gone(3), GROUP + NO_EPOCH),
    "target epoch with targets": ([target(7)], gone(6), TARGETED),
    "partition both assigned and revoked": ([], owns("m", epoch=2, revoking=(0,)), OWNED + "2"),
    "old owner described anew": ([owns("m", epoch=2), owns("n", epoch=3)], consumer_member("m"), OWNED + "3"),
    "share member with an assignment": ([share_member()], gone(10, "m"), MEMBER + "with invalid leave group epoch."),
    "share member with a target": (SHARE_TARGETED, gone(10, "m"), MEMBER + "but member exists in target assignment."),
    "share group with a target epoch": ([SHARE], gone(11), GROUP + "but target assignment epoch in invalid."),
    "streams member with an assignment": ([streams_member(), streams_task()], gone(19, "m"), MEMBER + NO_TASKS),
    "streams member that never was assigned": ([streams_member()], gone(19, "m"), NO_MEMBER_EPOCH),
    "streams topology below 0": ([], topology(-1), "Topology epoch must be non-negative."),
    "streams topology with a subtopology twice": ([], topology(-1, ("0", "0")), "Duplicate key 0"),
    "streams member with a tag twice": ([], streams_member(("a", "a")), "Duplicate key a"),
    "static member twice": ([], classic(M, N, instance_id="i"), TWICE),
    "classic member three times": ([], classic(M, M, M), "None of the member's protocols can be supported."),
}


@pytest.mark.parametrize("before, entry, message", THROWS.values(), ids=THROWS)
def test_what_throws_changes_nothing(before, entry, message):
    assert_throws(replay(*before), entry, message)


def test_a_malformed_subscription_leaves_the_group_as_it_was():
    groups = replay(classic(("m", subscription("t"))))
    snapshot = rows(groups)
    with pytest.raises(LogError) as caught:
        feed(groups, classic(("m", BAD_SUBSCRIPTION)))
    assert caught.value.reason == "malformed_subscription"
    assert rows(groups) == snapshot


TOO_SHORT = {"topic": "0000 00000001 0005 6162", "before the last topic": "0000 00000009 0001 61"}
ALWAYS_BAD = {"no topic": "0000 00000001 ffff", "user data": "0000 00000000 0000000a 00"}


@pytest.mark.parametrize("name", [*TOO_SHORT, *ALWAYS_BAD])
@pytest.mark.parametrize(
    "release, fails_on",
    [
        ("2.6.3", []), ("2.7.0", ALWAYS_BAD), ("2.8.1", ALWAYS_BAD), ("2.8.2", [*TOO_SHORT, *ALWAYS_BAD]),
        ("3.0.1", ALWAYS_BAD), ("3.0.2", [*TOO_SHORT, *ALWAYS_BAD]), ("3.1.1", ALWAYS_BAD), ("3.2.1", ALWAYS_BAD),
        ("3.2", [*TOO_SHORT, *ALWAYS_BAD]), ("3.9", [*TOO_SHORT, *ALWAYS_BAD]), ("4.2.2", []),
    ],
)  # fmt: skip
def test_which_subscriptions_end_a_load(release, fails_on, name):
    """ByteBufferAccessor.readArray checks sizes since 2.8.2, 3.0.2, 3.1.2 and 3.2.2."""
    entry = classic(("m", bytes.fromhex((TOO_SHORT | ALWAYS_BAD)[name])))
    if name in fails_on:
        with pytest.raises(LogError, match=r"Error reading|Tried to allocate|non-nullable"):
            replay(entry, release=release)
    else:
        assert replay(entry, release=release).by_id["g"].subscribed_topics is None


@pytest.mark.parametrize(
    "fields, known",
    [
        (classic_fields(("m", SHORT_SUBSCRIPTION)), False),
        (classic_fields(("m", BAD_SUBSCRIPTION), protocol_type="connect"), False),
        (classic_fields(("m", BAD_SUBSCRIPTION), protocol=None), False),
        (classic_fields(("m", subscription("t", "u")), ("n", subscription("v"))), True),
        (classic_fields(), True),
    ],
    ids=["too short", "another protocol type", "no protocol chosen", "two members", "no members"],
)
def test_a_subscription_is_known_when_every_member_s_is(fields, known):
    group = replay(group_entry(2, "g", fields)).by_id["g"]
    assert (group.subscribed_topics is not None) == known
    if fields["members"] and known:
        assert group.to_group_row()["subscribed_topics"] == ["t", "u", "v"]
    assert group.is_subscribed("nothing") == (not known and fields["protocol_type"] == "consumer")


GIVES_WAY = {
    "3": (CONSUMER, "Consumer"),
    "4 tombstone": (gone(4), "Consumer"),
    "5 tombstone": (gone(5, "m"), "Consumer"),
    "16 tombstone": (gone(16, regex="x"), "Consumer"),
    "17": (STREAMS, "Streams"),
    "23 tombstone": (gone(23), "Streams"),
    "2": (classic(), "Classic"),
}


@pytest.mark.parametrize("entry, group_type", GIVES_WAY.values(), ids=GIVES_WAY)
def test_a_simple_group_gives_way(entry, group_type):
    assert replay(entry, touched=True).by_id["g"].group_type == group_type


@pytest.mark.parametrize("record_type", sorted(NEWEST_TYPES))
def test_a_tombstone_of_a_group_that_is_not_there_makes_none(record_type):
    needs_member = any(field.name == "member_id" for field in RECORD_TYPES[record_type].key.fields)
    assert replay(gone(record_type, "m" if needs_member else None, "x" if record_type == 16 else None)).by_id == {}


def test_type_2_replaces_and_removes_any_group():
    assert replay(consumer_member(), classic()).by_id["g"].group_type == "Classic"
    assert replay(consumer_member(), gone(2)).by_id == {}


def test_a_group_deleted_in_order_is_gone():
    entries = [record(3, epoch=1), consumer_member(), target(7), owns()]
    assert replay(*entries, gone(8, "m"), gone(7, "m"), gone(6), gone(5, "m"), gone(4), gone(3)).by_id == {}
    entries = [SHARE, share_member(), target(13)]
    assert replay(*entries, gone(14, "m"), gone(13, "m"), gone(12), gone(10, "m"), gone(15), gone(11)).by_id == {}
    entries = [STREAMS, streams_member(), streams_task(), topology()]
    assert replay(*entries, gone(22, "m"), gone(21, "m"), gone(20), gone(19, "m"), gone(17), gone(23)).by_id == {}


def test_a_partition_moves_on_at_a_higher_epoch_or_once_let_go():
    assert replay(owns("m", epoch=2), owns("n", epoch=3)).by_id["g"].member_count == 2
    replay(owns("m", epoch=2), owns("m", epoch=2, partitions=(), revoking=(0,)), gone(8, "m"), owns("n", epoch=1))
    replay(owns("m", epoch=2), consumer_member("m"), gone(8, "m"), gone(5, "m"), owns("n", epoch=1))


def test_streams_topics_are_sources_and_repartitions_while_there_are_members():
    group = replay(STREAMS, topology()).by_id["g"]
    assert group.to_group_row()["subscribed_topics"] == ["repartition", "t"]
    assert not group.is_subscribed("t")
    assert replay(STREAMS, topology(), streams_member()).by_id["g"].is_subscribed("t")


def test_log_offset_is_that_of_the_last_record_of_its_own():
    assert replay(touched=True).by_id["g"].log_offset is None
    assert replay(classic(), classic()).by_id["g"].log_offset == 1
    assert replay(record(3, epoch=1), consumer_member(), gone(8, "m")).by_id["g"].log_offset == 2


def test_member_rows():
    (row,) = replay(consumer_member(topics=("u", "t")), owns(partitions=(1, 0))).by_id["g"].to_member_rows()
    assert row == {
        "group_id": "g",
        "member_id": "m",
        "group_instance_id": None,
        "client_id": "client",
        "client_host": "/h",
        "rack_id": "r",
        "session_timeout_ms": 45,
        "rebalance_timeout_ms": 300,
        "member_epoch": 1,
        "subscribed_topics": ["t", "u"],
        "assignment": ["AAAAAAAAAAAAAAAAAAAABw-0", "AAAAAAAAAAAAAAAAAAAABw-1"],
        "assignment_epochs": ["AAAAAAAAAAAAAAAAAAAABw-0@1", "AAAAAAAAAAAAAAAAAAAABw-1@1"],
        "member_metadata": None,
        "member_assignment": None,
        "static_instance_ids": None,
    }
    (row,) = replay(classic(("m", subscription("t")))).by_id["g"].to_member_rows()
    assert row["assignment"] == ["t-0"]
    assert (row["session_timeout_ms"], row["rebalance_timeout_ms"], row["member_epoch"]) == (45_000, 45_000, None)
    (row,) = replay(streams_member(), streams_task()).by_id["g"].to_member_rows()
    assert row["assignment"] == ["0-0", "0-1", "0 (standby)-0", "0 (standby)-1"]
    (row,) = replay(streams_member(), streams_task(), topology()).by_id["g"].to_member_rows()
    assert row["assignment_epochs"] == ["0-0@1", "0-1@1"]


def parts(number, *partitions, epochs):
    return {"topic_id": UUID(int=number), "partitions": list(partitions), "assignment_epochs": epochs}


@pytest.mark.parametrize(
    "assigned, pending, epochs",
    [
        ([parts(7, 0, 1, epochs=[3, 4])], [parts(7, 2, epochs=[2])], {(7, 0): 3, (7, 1): 4, (7, 2): 2}),
        ([parts(7, 0, 1, epochs=[3])], [], {(7, 0): 5, (7, 1): 5}),
        ([parts(7, 0, epochs=[])], [parts(8, 0, epochs=None)], {(7, 0): 5, (8, 0): 5}),
        ([], [], {}),
    ],
    ids=["told", "one too few", "not told", "nothing"],
)
def test_since_when_a_member_has_its_partitions(assigned, pending, epochs):
    """Utils.assignmentFromTopicPartitions and ConsumerGroup.createAssignmentEpochValidator of Kafka 4.3."""
    entry = owns(epoch=5, assigned=assigned, pending=pending)
    (row,) = replay(entry).by_id["g"].to_member_rows()
    member = LoadedMember.from_row(row)
    assert member.assignment_epochs == {(kafka_uuid(UUID(int=topic)), part): n for (topic, part), n in epochs.items()}
