"""Which commits are taken: by type of group, member, epoch, size of metadata and release."""

import dataclasses

import pytest

from sexton.cli.fetch_in_flight import in_flight_offsets
from sexton.coordinator.api.commit import Commit, CommitPartition, group_made, validate_commit
from sexton.coordinator.api.coordinator import LOADING, Coordinator, CoordinatorShard, Status
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.view import EmptyView, LoadedGroup, LoadedMember
from sexton.coordinator.commits_in_flight import ScalaCommits
from sexton.coordinator.profiles import of_broker, profile_of
from sexton.log.message_set import encode_message_set
from sexton.records import kafka_uuid
from tests.coordinator.api.broker import WAYS, coordinator_of, one_log
from tests.coordinator.group_records import (
    CLASSIC_MEMBER,
    STREAMS,
    assigned,
    consumer_member_fields,
    streams_member,
    topology,
)
from tests.log_builder import TOPIC_IDS, classic_fields, commit, group_entry, offset_key, offset_value, subscription

NEWEST = "group_coordinator:4.3.1"
TOPIC_ID = kafka_uuid(TOPIC_IDS[1])
PARTITION = CommitPartition(topic="t", partition=0)


def asked(broker, *partitions, group_id="g", **fields):
    """The one outcome of all `partitions`."""
    outcome = validate_commit(broker, Commit(group_id=group_id, partitions=partitions or (PARTITION,), **fields))
    (error,) = set(outcome.values())
    return error


def stable(*, instance_id=None):
    """A classic group of generation 5 with the member m."""
    members = ("m", subscription("t"))
    return group_entry(2, "g", classic_fields(members, generation=5, instance_id=instance_id))


def consumer(*, epoch=5, classic=None):
    """A group of KIP-848 with the member m, which has t-0."""
    member = consumer_member_fields(rack_id=None, classic_member_metadata=classic)
    assignment = {
        "member_epoch": epoch,
        "previous_member_epoch": epoch - 1,
        "state": 0,
        "assigned_partitions": [{"topic_id": TOPIC_IDS[1], "partitions": [0]}],
        "partitions_pending_revocation": [],
    }
    return [
        group_entry(3, "g", {"epoch": epoch}),
        group_entry(5, "g", member, member_id="m"),
        group_entry(8, "g", assignment, member_id="m"),
    ]


def member(generation, **fields):
    return {"generation": generation, "member_id": "m", **fields}


SHARE = [group_entry(11, "g", {"epoch": 1, "metadata_hash": 0})]
O_0_8, O_0_9 = "offset_manager:0.8.2", "offset_manager:0.9"
G_1_1, G_2_0, G_2_4, G_2_8, G_3_0, G_3_2, G_3_3, G_3_9 = (
    f"group_metadata_manager:{it}" for it in ("1.1", "2.0", "2.4", "2.8", "3.0", "3.2", "3.3", "3.9")
)
C_3_9, C_4_0, C_4_2, C_4_4 = (f"group_coordinator:{it}" for it in ("3.9", "4.0.0", "4.2", "4.4"))
WITHOUT_GENERATION = {G_2_8: 0, G_3_0: 25, G_3_2: 25, G_3_3: 0, NEWEST: 0}  # KAFKA-14201
IN_TRANSACTION = {"is_transactional": True}
CLASSIC_ON_848 = consumer(classic=CLASSIC_MEMBER)
OLD_STATIC = {"generation": 5, "member_id": "old", "group_instance_id": "i"}
STRANGER = {**IN_TRANSACTION, "member_id": "x", "generation": 5}
NOBODY_S_GENERATION = {**IN_TRANSACTION, "generation": 1}
V6 = {**IN_TRANSACTION, "api_version": 6}
CASES = [
    # (what is there, how it is asked, release -> error)
    ("nothing, no member", [], {}, {NEWEST: 0, G_2_8: 0, O_0_9: 0}),
    ("nothing, a generation", [], member(1), {NEWEST: 69, G_3_9: 22, O_0_9: 22, O_0_8: 0}),
    ("nothing, old request", [], member(1, api_version=8), {NEWEST: 22}),
    ("nothing, in a transaction", [], member(1, **V6), {NEWEST: 22, C_4_4: 69, G_3_9: 25, G_2_8: 25, G_2_4: 0}),
    ("nothing, a generation in a transaction", [], NOBODY_S_GENERATION, {G_3_9: 25, G_2_8: 22, G_2_4: 0}),
    ("nothing, generation 0 in a transaction", [], {**IN_TRANSACTION, "generation": 0}, {G_3_9: 25, G_2_8: 0}),
    ("no group id", [], {"group_id": ""}, {NEWEST: 0, G_2_8: 0}),
    ("no group id, in a transaction", [], {**IN_TRANSACTION, "group_id": ""}, {NEWEST: 24, G_2_0: 24, G_1_1: 0}),
    ("nothing, a member without a generation", [], member(-1), WITHOUT_GENERATION),
    ("simple, no member", [commit("g")], {}, {NEWEST: 0, G_2_8: 0, G_3_2: 0}),
    ("simple, a member without a generation", [commit("g")], member(-1), WITHOUT_GENERATION),
    ("simple, an instance without a generation", [commit("g")], {"group_instance_id": "i"}, WITHOUT_GENERATION),
    ("simple, request of version 1", [commit("g")], {"api_version": 1}, {G_3_9: 0, C_3_9: 0, C_4_0: 35}),
    ("simple, a member", [commit("g")], member(0), {NEWEST: 25, G_2_8: 25}),
    ("stable, no member", [stable()], {}, {NEWEST: 25, G_2_8: 25}),
    ("stable, its member", [stable()], member(5), {NEWEST: 0, G_3_9: 0, G_2_8: 0}),
    ("stable, an older generation", [stable()], member(4), {NEWEST: 22, G_3_9: 22, G_2_8: 22}),
    ("stable, another instance", [stable()], member(5, group_instance_id="i"), {NEWEST: 25, G_3_9: 25, G_2_8: 0}),
    ("static, fenced", [stable(instance_id="i")], OLD_STATIC, {NEWEST: 82, G_3_9: 82, G_2_8: 82}),
    ("stable, in a transaction of nobody", [stable()], IN_TRANSACTION, {NEWEST: 0, G_3_9: 0, G_2_8: 0}),
    ("stable, in a transaction of a stranger", [stable()], STRANGER, {NEWEST: 25, G_3_9: 25, G_2_8: 25, G_2_4: 0}),
    ("KIP-848, no member", consumer(), {}, {NEWEST: 25, C_4_0: 25}),
    ("KIP-848 without members", consumer()[:1], {}, {NEWEST: 0}),
    ("KIP-848, its epoch", consumer(), member(5), {NEWEST: 0}),
    ("KIP-848, old request", consumer(), member(5, api_version=8), {NEWEST: 35}),
    ("KIP-848, newer epoch", consumer(), member(6), {NEWEST: 113}),
    ("KIP-848, older epoch", consumer(), member(4), {NEWEST: 113, C_4_2: 113}),
    ("KIP-848, older epoch, in a transaction", consumer(), member(4, **V6), {NEWEST: 22, C_4_4: 113}),
    ("KIP-848, nobody in a transaction", consumer(), IN_TRANSACTION, {NEWEST: 0, C_4_0: 0, C_3_9: 25}),
    ("KIP-848, a classic member with an old request", CLASSIC_ON_848, member(5, api_version=8), {NEWEST: 0}),
    ("KIP-848, a classic member's older generation", CLASSIC_ON_848, member(4), {NEWEST: 22, C_4_2: 22}),
    ("share", SHARE, {}, {NEWEST: 69}),
    ("share, in a transaction", SHARE, IN_TRANSACTION, {NEWEST: 69}),
]
OUTCOMES = [
    pytest.param(entries, request, profile, Error(code), way, id=f"{name}, {profile}, {way}")
    for name, entries, request, by_profile in CASES
    for profile, code in by_profile.items()
    for way in WAYS
]


@pytest.mark.parametrize("entries, request_fields, profile, error, way", OUTCOMES)
def test_outcome(entries, request_fields, profile, error, way):
    assert asked(one_log(*entries, profile=profile_of(profile), way=way), **request_fields) is error


@pytest.mark.parametrize("fields, error", [({}, 0), ({"generation": 0, "member_id": "m"}, 22)])
def test_in_0_9_offsets_make_no_group(fields, error):
    log = encode_message_set([(offset_key("g"), offset_value(7, version=1))], base_offset=0, magic=0)
    assert asked(coordinator_of({0: log}, profile=profile_of(O_0_9), partition_count=1), **fields) == error


@pytest.mark.parametrize(
    "status, fields, error",
    [
        (LOADING, {}, Error.COORDINATOR_LOAD_IN_PROGRESS),
        (LOADING, {"is_transactional": True, "api_version": 3}, Error.COORDINATOR_LOAD_IN_PROGRESS),
        (LOADING, {"is_transactional": True, "api_version": 1}, Error.COORDINATOR_NOT_AVAILABLE),
        (CoordinatorShard(status=Status.FAILED, view=EmptyView()), {}, Error.NOT_COORDINATOR),
        (None, {}, Error.NOT_COORDINATOR),
    ],
)
def test_a_log_partition_that_is_not_served(status, fields, error):
    shards = {} if status is None else {0: status}
    assert asked(Coordinator(profile=profile_of(NEWEST), partition_count=1, shards=shards), **fields) is error


def test_metadata_counts_utf_16_units():
    """Row 53: 4096 astral characters are 8192 units; the other partitions of the commit go on."""
    broker = one_log(profile=profile_of(NEWEST))
    texts = ["x" * 4096, "x" * 4097, "日" * 4096, "😀" * 2048, "😀" * 4096, None]
    partitions = tuple(CommitPartition(topic="t", partition=n, metadata=text) for n, text in enumerate(texts))
    outcome = validate_commit(broker, Commit(group_id="g", partitions=partitions))
    assert [int(outcome["t", n]) for n in range(len(texts))] == [0, 12, 0, 0, 12, 0]
    short = validate_commit(broker, Commit(group_id="g", partitions=partitions), max_metadata_length=10)
    assert [int(error) for error in short.values()] == [12, 12, 12, 12, 12, 0]


NOT_THERE = [("t", 1), ("gone", 0), ("gone", 1)]


def test_partitions_that_do_not_exist():
    broker = one_log(stable(), profile=profile_of(NEWEST))
    partitions = tuple(CommitPartition(topic=topic, partition=n) for topic in ("t", "gone") for n in (0, 1))
    outcome = validate_commit(broker, Commit(group_id="g", partitions=partitions), partition_counts={"t": 1})
    of_the_whole = {("t", 0): 25}  # what is wrong with the whole commit
    assert {place: int(error) for place, error in outcome.items()} == of_the_whole | dict.fromkeys(NOT_THERE, 3)


class OneMember(EmptyView):
    """A consumer group of the member m at epoch 5 that has t-0 since epoch 3 and t-1 since 5."""

    def group(self, group_id):
        fields = {"group_type": "Consumer", "state": "Stable", "protocol_type": "consumer", "member_count": 1}
        fields |= dict.fromkeys(("protocol", "leader", "current_state_timestamp_ms"))
        return LoadedGroup(group_id=group_id, **fields, generation=5, log_offset=1)

    def members(self, group_id):
        names = {"member_id": "m", "group_instance_id": None, "client_id": "c", "client_host": "/h"}
        since = {"session_timeout_ms": None, "member_epoch": 5}
        assigned = {"assignment": (f"{TOPIC_ID}-0", f"{TOPIC_ID}-1")}
        epochs = {(TOPIC_ID, 0): 3, (TOPIC_ID, 1): 5}
        return (LoadedMember(**names, **since, **assigned, assignment_epochs=epochs),)


OLDER_EPOCHS = [(4, [0], 0), (3, [0], 0), (2, [0], 113), (4, [1], 113), (5, [1], 0), (4, [0, 1], 113)]


@pytest.mark.parametrize("epoch, partitions, code", [*OLDER_EPOCHS, (4, [2], 113), (6, [0], 113)])
def test_an_older_epoch_is_taken_where_the_partition_was_already_its(epoch, partitions, code):
    """KIP-1251, from 4.3 on; one partition that is refused refuses the commit."""
    shards = {0: CoordinatorShard(status=Status.ACTIVE, view=OneMember())}
    places = [CommitPartition(topic="t", partition=n, topic_id=TOPIC_ID) for n in partitions]
    broker = Coordinator(profile=profile_of(NEWEST), partition_count=1, shards=shards)
    assert asked(broker, *places, member_id="m", generation=epoch) == code
    older = dataclasses.replace(broker, profile=profile_of("group_coordinator:4.2.1"))
    assert asked(older, *places, member_id="m", generation=epoch) == (0 if epoch == 5 else 113)
    nameless = [CommitPartition(topic="t", partition=n) for n in partitions]
    assert asked(broker, *nameless, member_id="m", generation=epoch) == (0 if epoch == 5 else 113)


def tasks(subtopology_id, **since):
    """Tasks by partition, `p3=5`: 3 since epoch 5."""
    partitions = [int(name[1:]) for name in since]
    return [{"subtopology_id": subtopology_id, "partitions": partitions, "assignment_epochs": [*since.values()]}]


@pytest.mark.parametrize("way", WAYS)
def test_an_older_epoch_is_taken_where_the_task_was_already_active(way):
    """StreamsGroup.createAssignmentEpochValidator, from 4.2 on: by the topics that the task's subtopology reads."""
    held = {"active": tasks("0", p0=3, p1=5), "standby": tasks("0", p2=1), "revoking": tasks("0", p3=2)}
    records = [STREAMS, streams_member(), assigned(epoch=5, **held)]
    broker = one_log(*records, topology(), profile=profile_of("group_coordinator:4.2.2"), way=way)
    places = {
        (4, "t", 0): 0, (3, "t", 0): 0, (2, "t", 0): 113, (4, "t", 1): 113, (5, "t", 1): 0, (2, "t", 3): 0,
        (4, "t", 2): 113, (4, "t", 9): 113, (4, "repartition", 0): 0, (4, "sink", 0): 113, (6, "t", 0): 113,
    }  # fmt: skip

    def answers(broker):
        return {
            (epoch, topic, n): int(asked(broker, CommitPartition(topic=topic, partition=n), **member(epoch)))
            for epoch, topic, n in places
        }

    assert answers(broker) == places
    only_current = {place: 0 if place[0] == 5 else 113 for place in places}
    assert answers(one_log(*records, profile=broker.profile, way=way)) == only_current  # without a topology
    before = one_log(*records, topology(), profile=profile_of("group_coordinator:4.1.2"), way=way)
    assert answers(before) == only_current


def test_one_too_large_partition_does_not_hide_a_stale_epoch():
    broker = one_log(*consumer(), profile=profile_of(NEWEST))
    large = CommitPartition(topic="t", partition=0, topic_id=TOPIC_ID, metadata="x" * 5000)
    small = CommitPartition(topic="t", partition=1, topic_id=TOPIC_ID)
    fields = {"member_id": "m", "generation": 4}
    assert asked(broker, large, small, **fields) is Error.STALE_MEMBER_EPOCH
    assert asked(broker, large, **fields) is Error.OFFSET_METADATA_TOO_LARGE


@pytest.mark.parametrize("way", WAYS)
def test_of_two_members_of_one_instance_the_last_has_it_where_that_may_be(way):
    """Up to 2.8; the order is that of the record, not of the ids."""
    members = [("n", subscription("t")), ("m", subscription("t"))]
    both = group_entry(2, "g", classic_fields(*members, generation=5, instance_id="i"))
    broker = one_log(both, profile=profile_of("group_metadata_manager:2.8"), way=way)
    static = {"generation": 5, "group_instance_id": "i"}
    assert asked(broker, member_id="m", **static) is Error.NONE
    assert asked(broker, member_id="n", **static) is Error.FENCED_INSTANCE_ID


def made(release, *entries, partitions=(PARTITION,), partition_counts=None, **request):
    """The group that the commit makes, as (state, generation, log_offset)."""
    broker = one_log(*entries, profile=of_broker(release))
    asked_for = Commit(group_id="g", partitions=partitions, **request)
    outcome = validate_commit(broker, asked_for, partition_counts=partition_counts)
    group = group_made(broker, asked_for, outcome)
    return None if group is None else (group.state, group.generation, group.log_offset)


@pytest.mark.parametrize(
    "release, plain, of_a_member, transactional",
    [
        ("0.8.2", False, False, False), ("0.9", False, False, False), ("0.10.0", False, False, False),
        ("0.10.1", True, False, False), ("1.1", True, False, True), ("2.8", True, False, True),
        ("3.9", True, False, True), ("4.0", True, False, False), ("4.3.1", True, False, False),
    ],
)  # fmt: skip
def test_a_commit_makes_the_group_that_is_not_there(release, plain, of_a_member, transactional):
    """A plain commit without a generation does from 0.10.1 on, and from 0.11 to 3.9 any commit in a transaction."""
    new = ("Empty", 0, None)
    assert made(release) == (new if plain else None)
    member = {"member_id": "m", "generation": 3}
    assert made(release, **member) == (new if of_a_member else None)
    assert made(release, is_transactional=True, **member) == (new if transactional else None)


def test_which_refused_commits_make_a_group():
    """Scala coordinators make it before they look at the metadata; no coordinator sees topics that do not exist."""
    long = CommitPartition(topic="t", partition=0, metadata="x" * 5000)
    assert made("2.8", partitions=(long,)) == ("Empty", 0, None)
    assert made("4.3.1", partitions=(long,)) is None
    for release in ("2.8", "4.3.1"):
        assert made(release, partition_counts={}) is None
        assert made(release, commit("g")) is None  # it is there


def test_what_is_left_of_a_transaction_is_unstable_until_its_marker():
    """KAFKA-16371; a marker ABORT frees it, COMMIT throws (completePendingTxnOffsetCommit)."""
    left = ("t", 1)
    for is_commit in (False, True):
        group, flying = ScalaCommits(), in_flight_offsets(dict.fromkeys([("t", 0), left], 5))
        group.prepare_txn_offset_commit(7, flying)
        group.on_txn_offset_commit_append(7, ("t", 0), flying["t", 0], log_offset=3)
        assert group.is_unstable(left)
        if is_commit:
            with pytest.raises(ValueError, match="producer 7"):
                group.complete_pending_txn_offset_commit(7, is_commit=True)
        else:
            group.complete_pending_txn_offset_commit(7, is_commit=False)
        assert not group.is_unstable(left)
