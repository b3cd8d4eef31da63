"""Lists and descriptions: what is hidden, what is loading, what has failed, and who owns a group."""

import dataclasses

import pytest

from sexton.coordinator.api.coordinator import LOADING, Coordinator, CoordinatorShard, Status
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.fetch import AskedPartition, fetch
from sexton.coordinator.api.find_coordinator import FoundCoordinator, find_coordinator
from sexton.coordinator.api.listing import describe_group, describe_groups, list_groups
from sexton.coordinator.api.view import EmptyView
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import profile_of
from sexton.log.message_set import encode_message_set
from tests.coordinator.api.broker import WAYS, coordinator_of, one_log, rows
from tests.log_builder import (
    BatchSpec,
    classic_fields,
    commit,
    encode_log,
    group_entry,
    offset_key,
    offset_value,
    old_group_entry,
    subscription,
)

JAVA, SCALA = profile_of("group_coordinator:4.3.1"), profile_of("group_metadata_manager:2.8")
OLD, OLDEST = profile_of("offset_manager:0.9"), profile_of("offset_manager:0.8.2")
CLASSIC = group_entry(2, "c", classic_fields(("m", subscription("t"))))
UNREADABLE = (offset_key("bad"), b"\x00\x63")


def names(answer):
    return [item.group.group_id for item in answer.groups]


@pytest.mark.parametrize("way", WAYS)
def test_states_and_types_are_filters_in_any_case(way):
    broker = one_log(commit("a"), CLASSIC, group_entry(3, "k", {"epoch": 1}), profile=JAVA, way=way)
    assert names(list_groups(broker)) == ["a", "c", "k"]
    assert names(list_groups(broker, states=["stable"])) == ["c"]
    assert names(list_groups(broker, types=["CONSUMER"])) == ["k"]
    assert names(list_groups(broker, states=[" Empty ", "Dead"], types=["classic"])) == ["a"]


def test_a_list_while_a_log_partition_is_loading():
    """4.x waits for every shard; before it, what is there is told with the error."""
    shards = dict(one_log(commit("a"), profile=JAVA).shards) | {1: LOADING}
    java = Coordinator(profile=JAVA, partition_count=2, shards=shards)
    assert (list_groups(java).error, names(list_groups(java))) == (Error.COORDINATOR_LOAD_IN_PROGRESS, [])
    scala = dataclasses.replace(java, profile=SCALA)
    assert (list_groups(scala).error, names(list_groups(scala))) == (Error.COORDINATOR_LOAD_IN_PROGRESS, ["a"])


def test_a_failed_log_partition_is_passed_over():
    shards = dict(one_log(commit("a"), profile=JAVA).shards) | {
        1: CoordinatorShard(status=Status.FAILED, view=EmptyView())
    }
    answer = list_groups(Coordinator(profile=JAVA, partition_count=2, shards=shards))
    assert (answer.error, names(answer)) == (Error.NONE, ["a"])


@pytest.mark.parametrize("group_id", ["", "a"])
def test_nobody_leads_it(group_id):
    broker = Coordinator(profile=JAVA, partition_count=4, shards={})
    assert fetch(broker, group_id).error is Error.NOT_COORDINATOR
    assert describe_group(broker, group_id).error is Error.NOT_COORDINATOR


@pytest.mark.parametrize("profile, error", [(JAVA, Error.GROUP_ID_NOT_FOUND), (SCALA, Error.NONE), (OLD, Error.NONE)])
def test_a_group_that_is_not_there(profile, error):
    described = describe_group(one_log(profile=profile), "g")
    assert (described.error, described.state, described.group) == (error, "Dead", None)


def old_log(*entries):
    """As 0.9 and before wrote: one entry of record format 0 each."""
    return b"".join(encode_message_set([entry], base_offset=offset, magic=0) for offset, entry in enumerate(entries))


def test_up_to_0_10_0_offsets_make_no_group_that_is_listed():
    entry = (offset_key("a"), offset_value(7, version=1, expire_timestamp_ms=-1))
    broker = coordinator_of({0: old_log(entry)}, profile=OLD, partition_count=1)
    assert names(list_groups(broker)) == []
    assert describe_group(broker, "a").state == "Dead"
    assert rows(fetch(broker, "a")) == {"t-0": [7]}


@pytest.mark.parametrize("profile, error", [(JAVA, Error.NOT_COORDINATOR), (SCALA, Error.NONE)])
def test_after_a_load_that_failed(profile, error):
    broker = one_log(commit("a"), UNREADABLE, commit("b"), profile=profile)
    told = fetch(broker, "a")
    assert (told.error, rows(told), names(list_groups(broker))) == (error, {}, [])


@pytest.mark.parametrize("profile, record_type", [(OLD, 1), (OLDEST, 0)])
def test_before_0_10_1_a_failed_load_leaves_the_offsets_that_came_first_and_no_group(profile, record_type):
    def value(group_id, offset):
        return offset_key(group_id, record_type=record_type), offset_value(offset, version=0, record_type=record_type)

    own = [old_group_entry("c")] if record_type else []
    log = old_log(value("a", 7), *own, (b"\x00\x63", b""), value("b", 8))
    broker = coordinator_of({0: log}, profile=profile, partition_count=1)
    assert rows(fetch(broker, "a")) == {"t-0": [7]}
    assert rows(fetch(broker, "b")) == {}
    assert names(list_groups(broker)) == []
    whole = coordinator_of({0: old_log(value("a", 7), *own)}, profile=profile, partition_count=1)
    assert names(list_groups(whole)) == ["c"] * len(own)


@pytest.mark.parametrize("way", WAYS)
def test_a_share_group_has_no_offsets_to_fetch(way):
    """Not even those that a removed group of its id has left behind."""
    removed = [commit("g", 5), group_entry(2, "g", classic_fields()), group_entry(2, "g", None)]
    broker = one_log(*removed, group_entry(11, "g", {"epoch": 1, "metadata_hash": 0}), profile=JAVA, way=way)
    assert describe_group(broker, "g").group.group_type == "Share"
    asked = [AskedPartition(topic="t", partition=0)]
    assert (rows(fetch(broker, "g")), rows(fetch(broker, "g", partitions=asked))) == ({}, {"t-0": [-1]})


@pytest.mark.parametrize("way", WAYS)
def test_a_misplaced_copy_is_served_from_one_cache_alone(way):
    """Group a belongs to log partition 1 of 2; a copy lies in 0."""
    assert (partition_of("a", 2), partition_of("b", 2)) == (1, 0)
    logs = {0: encode_log([BatchSpec(entries=(commit("a", 5),))]), 1: b""}
    both = logs | {1: encode_log([BatchSpec(entries=(commit("a", 6),))])}

    def told(logs, profile):
        return rows(fetch(coordinator_of(logs, profile=profile, partition_count=2, way=way), "a"))

    assert told(logs, SCALA) == {"t-0": [5]}
    assert told(logs, JAVA) == {}
    assert told(both, SCALA) == told(both, JAVA) == {"t-0": [6]}
    listed = list_groups(coordinator_of(both, profile=SCALA, partition_count=2, way=way)).groups
    assert [(item.group.group_id, item.log_partition) for item in listed] == [("a", 1)]
    listed = list_groups(coordinator_of(both, profile=JAVA, partition_count=2, way=way)).groups
    assert [(item.group.group_id, item.log_partition) for item in listed] == [("a", 0), ("a", 1)]


@pytest.mark.parametrize("profile", [JAVA, SCALA], ids=lambda profile: profile.name)
def test_without_the_number_of_log_partitions_a_group_belongs_where_it_is(profile):
    logs = {0: b"", 3: encode_log([BatchSpec(entries=(commit("a", 5),))])}
    broker = coordinator_of(logs, profile=profile, partition_count=None)
    assert broker.log_partition_of("a") == 3
    assert rows(fetch(broker, "a")) == {"t-0": [5]}
    assert (fetch(broker, "x").error, broker.log_partition_of("x")) == (Error.NONE, None)
    unsure = dataclasses.replace(
        broker, shards={**broker.shards, 4: CoordinatorShard(status=Status.FAILED, view=EmptyView())}
    )
    assert fetch(unsure, "x").error is Error.NOT_COORDINATOR
    assert rows(fetch(unsure, "a")) == {"t-0": [5]}


@pytest.mark.parametrize(
    "leaders, error, leader",
    [(None, Error.NONE, None), ({12: 3}, Error.NONE, 3), ({11: 3}, Error.COORDINATOR_NOT_AVAILABLE, None)],
)
def test_the_owner_of_a_group(leaders, error, leader):
    owner = find_coordinator("my-group", partition_count=50, leaders=leaders)
    assert owner == FoundCoordinator(group_id="my-group", error=error, log_partition=12, leader=leader)


def test_nobody_owns_a_group_before_there_is_a_topic():
    assert find_coordinator("my-group", partition_count=None).error is Error.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("profile, failed", [(JAVA, {"a", "c", "y"}), (SCALA, {"a", "b", "c", "y"})])
def test_a_stable_group_without_a_protocol_fails_what_is_described_with_it(profile, failed, way):
    """Of the log partition in 4.x, of the broker before. Groups a, c and y (not there) belong to 1 of 2, b to 0."""
    assert [partition_of(name, 2) for name in "acyb"] == [1, 1, 1, 0]
    member = ("m", subscription("t"))
    stable = {name: group_entry(2, name, classic_fields(member)) for name in "bc"}
    broken = group_entry(2, "a", classic_fields(member, protocol=None))
    batches = [BatchSpec(entries=entries) for entries in ((stable["b"],), (broken, stable["c"]))]
    logs = {number: encode_log([batch]) for number, batch in enumerate(batches)}
    broker = coordinator_of(logs, profile=profile, partition_count=2, way=way)
    answers = {answer.group_id: answer for answer in describe_groups(broker, "bcya")}
    assert list(answers) == ["b", "c", "y", "a"]
    assert {name for name, answer in answers.items() if answer.error is Error.UNKNOWN_SERVER_ERROR} == failed
    assert {answer.failed_by for name, answer in answers.items() if name in failed} == {"a"}
    assert all(answer.group is None and not answer.members for name, answer in answers.items() if name in failed)
    alone = {answer.group_id: answer for answer in describe_groups(broker, "bcy")}
    assert (alone["c"].state, alone["b"].state, alone["y"].state) == ("Stable", "Stable", "Dead")
