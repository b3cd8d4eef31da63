"""What a log partition takes with it when it is unloaded, and the Scala coordinator's check at the end of a load."""

import pytest

from sexton.coordinator.api.plain_view import PlainView
from sexton.coordinator.api.unloading import unexpected_unload_text, unexpected_unloads, unload
from sexton.coordinator.loading import load
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import profile_of
from sexton.log.message_set import encode_message_set
from tests.coordinator.api.broker import WAYS, coordinator_of
from tests.coordinator.golden import CAP_BYTES, GOLDEN, lines, segments
from tests.log_builder import (
    COMMIT,
    BatchSpec,
    classic_fields,
    commit,
    encode_log,
    group_entry,
    offset_key,
    offset_value,
    old_group_entry,
    tombstone,
)
from tests.oracle import removed_groups

JAVA, SCALA = profile_of("group_coordinator:4.3.1"), profile_of("group_metadata_manager:2.8")
MEMBERLESS = classic_fields()


def log(*entries):
    return encode_log([entry if isinstance(entry, BatchSpec) else BatchSpec(entries=(entry,)) for entry in entries])


def ids(groups):
    return [group.group_id for group in groups]


@pytest.mark.parametrize("way", WAYS)
def test_a_shard_goes_with_all_that_it_holds(way):
    """Also what no client can reach: b is misplaced in 1, and c has lost its group but not its offset."""
    assert [partition_of(group_id, 2) for group_id in "abc"] == [1, 0, 1]
    removed = [commit("c"), group_entry(2, "c", MEMBERLESS), group_entry(2, "c", None)]
    logs = {0: log(commit("b")), 1: log(commit("a"), commit("a", partition=1), commit("b"), *removed)}
    gone = unload(coordinator_of(logs, profile=JAVA, partition_count=2, way=way), 1)
    assert (ids(gone.groups), gone.offset_count, gone.staying) == (["a", "b"], 4, ())


@pytest.mark.parametrize("way", WAYS)
def test_one_cache_drops_the_groups_that_belong_there(way):
    """d of log partition 0 was loaded from 1 and stays; a, of 1, was loaded from 0 and goes."""
    assert partition_of("d", 2) == 0
    logs = {0: log(commit("a"), commit("b")), 1: log(commit("c"), commit("d"))}
    gone = unload(coordinator_of(logs, profile=SCALA, partition_count=2, way=way), 1)
    assert (ids(gone.groups), gone.offset_count, ids(gone.staying)) == (["a", "c"], 2, ["d"])


def test_of_two_copies_in_one_cache_one_goes():
    logs = {0: log(commit("a"), commit("a", partition=1)), 1: log(commit("a"))}
    gone = unload(coordinator_of(logs, profile=SCALA, partition_count=2), 1)
    assert (ids(gone.groups), gone.offset_count) == (["a"], 1)


def test_0_9_0_0_unloads_every_group_but_only_its_offsets():
    profiles = [profile_of(f"offset_manager:{release}") for release in ("0.9.0.0", "0.9.0.1")]
    first, second = (unload(coordinator_of(_old_logs(), profile=profile, partition_count=2), 1) for profile in profiles)
    assert (ids(first.groups), first.offset_count) == (["b", "a"], 1)
    assert (ids(second.groups), second.offset_count) == (["a"], 1)


def _old_logs():
    def of(group_id):
        entries = [old_group_entry(group_id), (offset_key(group_id), offset_value(1, version=0))]
        return encode_message_set(entries, base_offset=0, magic=0)

    return {0: of("b"), 1: of("a")}


def test_a_log_partition_that_is_not_led():
    with pytest.raises(KeyError):
        unload(coordinator_of({}, profile=JAVA, partition_count=2), 1)


PENDING = BatchSpec(entries=(commit("g"),), producer_id=1, transactional=True)
GONE = [group_entry(2, "g", MEMBERLESS), group_entry(2, "g", None)]
SETTLED = [PENDING, BatchSpec(producer_id=1, transactional=True, control=(COMMIT,))]
G_2_8, G_0_10, O_0_9 = "group_metadata_manager:2.8", "group_metadata_manager:0.10.1", "offset_manager:0.9"
HISTORIES = [
    # (history, groups cached before, profile -> whether the check fails)
    ("gone", GONE, (), {G_2_8: False, G_0_10: False}),
    ("gone but cached", GONE, ("g",), {G_2_8: True, O_0_9: True}),
    ("cached and back", [*GONE, GONE[0]], ("g",), {G_2_8: False}),
    ("gone but offsets", [*GONE, commit("g")], ("g",), {G_2_8: False, G_0_10: True, O_0_9: True}),
    ("offsets gone too", [commit("g"), *GONE, tombstone("g")], (), {G_2_8: False}),
    ("gone but pending", [*GONE, PENDING], (), {G_2_8: True, "group_coordinator": False}),
    ("gone and committed", [*GONE, *SETTLED], (), {G_2_8: False}),
]


@pytest.mark.parametrize(
    "entries, cached, profile, fails",
    [
        pytest.param(entries, cached, profile, fails, id=f"{name}, {profile}")
        for name, entries, cached, by_profile in HISTORIES
        for profile, fails in by_profile.items()
    ],
)
def test_unexpected_unload(entries, cached, profile, fails):
    rules, data = profile_of(profile), log(*entries)
    # the rule alone is asked here: what these records are to a loader that is older than they are does not matter
    held = PlainView(load([data], cap_bytes=CAP_BYTES, profile=SCALA))
    removed = removed_groups([data], cap_bytes=CAP_BYTES)
    assert unexpected_unloads(held, removed=removed, profile=rules, cached=cached) == (("g",) if fails else ())


@pytest.mark.parametrize(
    "profile, active, where",
    [
        (G_2_8, "active", "__consumer_offsets-3"),
        (G_0_10, "active", "[__consumer_offsets,3]"),
        ("group_metadata_manager:0.10.2", "active", "__consumer_offsets-3"),
        (O_0_9, "acitve", "[__consumer_offsets,3]"),
    ],
)
def test_as_the_coordinator_spells_it(profile, active, where):
    text = f"Unexpected unload of {active} group g while loading partition {where}"
    assert unexpected_unload_text("g", 3, profile_of(profile)) == text


def test_removed_groups_of_a_recording():
    """Those that a broker's sweeps have deleted are among them; alone they do not trip the check."""
    swept = {
        (batch["log_partition"], key["group"])
        for batch in lines(GOLDEN / "kafka-2.8.2-plain" / "sweeps.jsonl")
        for record_type, key in batch["tombstones"]
        if record_type == 2
    }
    removed = set()
    for log_partition, chunks in segments(GOLDEN / "kafka-2.8.2-plain" / "swept"):
        found = removed_groups(chunks, cap_bytes=CAP_BYTES)
        held = PlainView(load(chunks, cap_bytes=CAP_BYTES, profile=SCALA))
        assert unexpected_unloads(held, removed=found, profile=SCALA) == ()
        removed |= {(log_partition, group_id) for group_id in found}
    assert swept
    assert swept <= removed


def pending(group_id, producer_id, *partitions):
    entries = tuple(commit(group_id, number, partition=number) for number in partitions)
    return BatchSpec(entries=entries, producer_id=producer_id, transactional=True)


@pytest.mark.parametrize("way", WAYS)
def test_what_transactions_hold_goes_with_the_shard(way):
    logs = {0: log(pending("b", 3, 0)), 1: log(commit("a"), pending("a", 9, 0, 2), pending("a", 7, 1))}
    gone = unload(coordinator_of(logs, profile=JAVA, partition_count=2, way=way), 1).pending
    values = {producer: {key: each.committed_offset for key, each in own.items()} for producer, own in gone.items()}
    assert values == {7: {("a", "t", 1): 1}, 9: {("a", "t", 0): 0, ("a", "t", 2): 2}}


@pytest.mark.parametrize("way", WAYS)
def test_one_cache_drops_what_transactions_hold_of_the_groups_that_belong_there(way):
    logs = {0: log(pending("a", 3, 0), pending("b", 3, 1)), 1: log(pending("c", 4, 0))}
    gone = unload(coordinator_of(logs, profile=SCALA, partition_count=2, way=way), 1).pending
    assert {producer: set(own) for producer, own in gone.items()} == {3: {("a", "t", 0)}, 4: {("c", "t", 0)}}
