"""What changed for groups from release to release: each rule with a history that shows it on either side.

Read in the sources of every release named here; what brokers of 4.0.0, 4.1.2 and later made of such histories is in
test_recordings.py and test_edge_cases.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from sexton.coordinator.groups.groups import Groups
from sexton.coordinator.profiles import of_broker, profile_of
from sexton.records import ZERO_UUID
from tests.coordinator.golden import GOLDEN
from tests.coordinator.group_records import (
    SHARE,
    STREAMS,
    TOPIC_ID,
    assert_throws,
    assigned,
    classic,
    consumer_member,
    feed,
    gone,
    owns,
    record,
    replay,
    share_member,
    streams_member,
    streams_task,
    target,
    topology,
)
from tests.fates import load
from tests.kernels.compare import assert_equal, fold_bytes
from tests.log_builder import BatchSpec, encode_log
from tests.oracle import oracle_tables
from tests.record_fields import encode_key, encode_value

OF_4_0 = ["4.0.0", "4.0.1", "4.0.2"]
OF_4_1 = ["4.1.0", "4.1.1", "4.1.2"]
OF_4_2 = ["4.2.0", "4.2.1", "4.2.2"]
FROM_4_3 = ["4.3.0", "4.3.1", "4.3.2", "4.4.0"]
FROM_4_1 = [*OF_4_1, *OF_4_2, *FROM_4_3]
RELEASES = (*OF_4_0, *FROM_4_1)
BEFORE_19862 = ["4.0.0", "4.0.1", "4.1.0", "4.1.1"]
"""Releases without KAFKA-19862."""
ID = "AAAAAAAAAAAAAAAAAAAABw"
NO_PARTITION = [{"topic_id": TOPIC_ID, "partitions": []}]


@dataclass
class Rule:
    """`entry` after `before` throws `message` in some releases, and is taken in the others."""

    entry: tuple
    message: str = ""
    throws_in: Sequence[str] = ()
    before: Sequence[tuple] = ()
    touched: bool = False
    releases: Sequence[str] = RELEASES


def of_streams(entry, message="", before=(), *, throws_in=("4.1.0", "4.1.1"), touched=False):
    """A rule about records that 4.0 does not know."""
    return Rule(entry, message, throws_in if message else (), before, touched, FROM_4_1)


def topics(record_type, *, topic_id=TOPIC_ID, name="t", num_partitions=1):
    """The topics of types 4 and 9, as 4.0 wrote them."""
    topic = {"topic_id": topic_id, "topic_name": name, "num_partitions": num_partitions, "partition_metadata": []}
    return record(record_type, topics=[topic])


def owns_twice():
    return owns(assigned=[{"topic_id": TOPIC_ID, "partitions": [number]} for number in (0, 1)])


def owns_nothing_of(member_id, *, epoch=1):
    """A current assignment with a topic and no partition of it."""
    return owns(member_id, epoch=epoch, assigned=NO_PARTITION)


def share_state(release=None):
    fields = {"initializing_topics": [], "initialized_topics": [], "deleting_topics": []}
    return encode_key(15, {"group_id": "g"}), encode_value(15, 0, fields, release=release)


def share_assignment(member_id="m"):
    return record(14, member_id, member_epoch=1, previous_member_epoch=0, state=0, assigned_partitions=[])


def tasks(*partitions, subtopology_id="0", epochs=()):
    return {"subtopology_id": subtopology_id, "partitions": list(partitions), "assignment_epochs": list(epochs)}


def runs(member_id, process_id):
    """A streams member in a process."""
    return streams_member(member_id=member_id, process_id=process_id)


def configs(*keys):
    told = [{"key": key, "value": "v"} for key in keys]
    return record(17, epoch=1, metadata_hash=0, validated_topology_epoch=0, last_assignment_configs=told)


NOT_FOUND = "Share group g not found."
UNKNOWN_MEMBER = "Member m is not a member of group g."
TYPE_15 = "Received an unknown record type 15"
OWNED = f"Cannot set the epoch of {ID}-0 to {{}} because the partition is still owned at epoch 2"
NO_EPOCH = f"Cannot remove the epoch {{}} from {ID} because it does not have any epoch"
NO_STREAMS = "Group g is not a streams group."
OF_P = "Cannot set the process ID of 0-0 to {} because the partition is still owned by process ID p"
NO_PROCESS = "Cannot remove the process ID null from 0 because it does not have any process"
KEPT = "Cannot remove the process ID {} from task 0_0 because the task is not owned by this process ID"
KEPT_BY_P = (
    "Cannot remove the process ID null from task 0_0 because the partition is still owned at a different process ID p"
)
NULL_SET = (
    'Cannot invoke "java.util.Set.remove(Object)" because the return value of '
    '"org.apache.kafka.timeline.TimelineHashMap.get(Object)" is null'
)
FEW_EPOCHS = "Assignment epochs must be provided for all partitions. Subtopology 0 has 2 partitions but 1 epochs"
ACTIVE, STANDBY, WARMUP = (assigned("m", **{kind: [tasks(0)]}) for kind in ("active", "standby", "warmup"))
BOTH_TASKS = assigned("m", active=[tasks(0)], standby=[tasks(1)])
M_IN_P, N_IN_P, N_IN_Q = runs("m", "p"), runs("n", "p"), runs("n", "q")
SHARE_NEEDS_GROUP = {
    "topics": topics(9),
    "target epoch": record(12, assignment_epoch=1),
    "target": target(13),
    "assignment": share_assignment(),
    **{f"tombstone of type {number}": gone(number) for number in (9, 11, 12)},
    **{f"tombstone of type {number}": gone(number, "m") for number in (10, 13, 14)},
}
SHARE_NEEDS_MEMBER = {
    "assignment": share_assignment(),
    "tombstone of its assignment": gone(14, "m"),
    "tombstone of the member": gone(10, "m"),
}
BAD_TOPICS = {
    "without an id": ({"topic_id": ZERO_UUID, "name": ""}, "Topic id cannot be ZERO_UUID."),
    "without a name": ({"name": "", "num_partitions": -1}, "Topic name cannot be empty."),
    "without partitions": ({"num_partitions": -1}, "Number of partitions cannot be negative."),
}
NEGATIVE_EPOCH = "The assignment epoch must be non-negative or -1."
NEGATIVE_STAMP = "The assignment timestamp must be non-negative."
RULES = {
    **{
        f"share, no group: {name}": Rule(
            entry, NOT_FOUND, OF_4_0, releases=OF_4_0 if entry[0][:2] == b"\x00\x09" else RELEASES
        )
        for name, entry in SHARE_NEEDS_GROUP.items()
    },
    **{
        f"share, no member: {name}": Rule(entry, UNKNOWN_MEMBER, OF_4_0, [SHARE])
        for name, entry in SHARE_NEEDS_MEMBER.items()
    },
    "share over a simple group": Rule(SHARE, "Group g is not a share group.", RELEASES, touched=True),
    "share state, value": Rule(share_state((4, 0)), TYPE_15, OF_4_0, releases=OF_4_0),
    "share state, tombstone": Rule(gone(15), TYPE_15, OF_4_0),
    **{
        f"topics of type {number}, {what}": Rule(
            topics(number, **fields), message, OF_4_0, before, releases=RELEASES if number == 4 else OF_4_0
        )
        for number, before in ((4, []), (9, [SHARE]))
        for what, (fields, message) in BAD_TOPICS.items()
    },
    "partition taken at a higher epoch": Rule(owns("n", epoch=3), OWNED.format(3), BEFORE_19862, [owns("m", epoch=2)]),
    "partition taken at the same epoch": Rule(owns("n", epoch=2), OWNED.format(2), RELEASES, [owns("m", epoch=2)]),
    "no partition of a topic that another member had none of": Rule(
        gone(8, "n"), NO_EPOCH.format(1), BEFORE_19862, [owns_nothing_of("m"), owns_nothing_of("n"), gone(8, "m")]
    ),
    "last partition given back, and none to be given back": Rule(
        consumer_member("m"), NO_EPOCH.format(1), BEFORE_19862, [owns("m", pending=NO_PARTITION)]
    ),
    "member removed whose topic nobody has": Rule(
        gone(5, "m"),
        NO_EPOCH.format(-1),
        BEFORE_19862,
        [owns_nothing_of("m", epoch=-1), owns_nothing_of("n"), gone(8, "n")],
    ),
    "topic twice in a current assignment": Rule(owns_twice(), f"Duplicate key {ID}", [*OF_4_0, *OF_4_1, *OF_4_2]),
    "topic twice in a target": Rule(target(7, topic_ids=(TOPIC_ID, TOPIC_ID)), f"Duplicate key {ID}", RELEASES),
    "target epoch of type 6": Rule(record(6, assignment_epoch=-2), NEGATIVE_EPOCH, FROM_4_3),
    "target epoch of type 12": Rule(record(12, assignment_epoch=-2), NEGATIVE_EPOCH, FROM_4_3, [SHARE]),
    "target epoch of type 20": of_streams(record(20, assignment_epoch=-2), NEGATIVE_EPOCH, throws_in=FROM_4_3),
    "target timestamp": Rule(record(6, assignment_epoch=1, assignment_timestamp=-1), NEGATIVE_STAMP, FROM_4_3),
    "streams over a simple group": of_streams(STREAMS, NO_STREAMS, throws_in=[*OF_4_1, "4.2.0"], touched=True),
    "streams tombstone over a simple group": of_streams(
        gone(23), NO_STREAMS, throws_in=[*OF_4_1, "4.2.0"], touched=True
    ),
    "subtopology twice in a current assignment": of_streams(
        assigned(standby=[tasks(0), tasks(1)]), "Duplicate key 0", throws_in=OF_4_1
    ),
    "assignment config twice": of_streams(configs("k", "k"), "Duplicate key k", throws_in=[*OF_4_2, *FROM_4_3]),
    "epochs that are not as many as the tasks": of_streams(
        assigned(revoking=[tasks(0, 1, epochs=[1])]), FEW_EPOCHS, throws_in=OF_4_2
    ),
    "epochs of standby tasks": of_streams(assigned(standby=[tasks(0, 1, epochs=[1])])),
    "active task of another process": of_streams(
        assigned("n", active=[tasks(0)], epoch=2), OF_P.format("q"), [M_IN_P, ACTIVE, N_IN_Q]
    ),
    "active task of the same process": of_streams(
        assigned("n", revoking=[tasks(0)]), OF_P.format("p"), [M_IN_P, ACTIVE, N_IN_P]
    ),
    "standby task of another process": of_streams(assigned("n", standby=[tasks(0)]), before=[M_IN_P, STANDBY, N_IN_Q]),
    "process told after its active tasks": of_streams(M_IN_P, NO_PROCESS + "Id", [ACTIVE]),
    "process told after its standby tasks": of_streams(M_IN_P, NO_PROCESS + " ID", [STANDBY]),
    "tasks told and taken before the process": of_streams(gone(22, "m"), NO_PROCESS + "Id", [ACTIVE]),
    "process told after an active task that another has": of_streams(
        N_IN_Q, KEPT_BY_P, [M_IN_P, ACTIVE, assigned("n", active=[tasks(0)])]
    ),
    "process told after an active task beside those of another": of_streams(
        N_IN_Q, before=[M_IN_P, ACTIVE, assigned("n", active=[tasks(1)])]
    ),
    "process told after a warm-up task that another has": of_streams(
        N_IN_Q, KEPT.format("null"), [M_IN_P, WARMUP, assigned("n", warmup=[tasks(0)])]
    ),
    "process told after a warm-up task beside those of another": of_streams(
        N_IN_Q, NULL_SET, [M_IN_P, WARMUP, assigned("n", warmup=[tasks(1)])]
    ),
    "standby task of a process twice": of_streams(
        assigned("n"), KEPT.format("p"), [M_IN_P, STANDBY, N_IN_P, assigned("n", standby=[tasks(0)]), gone(22, "m")]
    ),
    "active tasks handed over in order": of_streams(
        assigned("n", active=[tasks(0)]), before=[M_IN_P, BOTH_TASKS, assigned("m"), N_IN_Q, M_IN_P]
    ),
    "member removed in order": of_streams(gone(19, "m"), before=[M_IN_P, ACTIVE, gone(22, "m")]),
}
CASES = [(name, release) for name, rule in RULES.items() for release in rule.releases]


@pytest.mark.parametrize("name, release", CASES)
def test_what_throws_in_some_releases(name, release):
    rule = RULES[name]
    groups = replay(*rule.before, release=release, touched=rule.touched)
    if release in rule.throws_in:
        assert_throws(groups, rule.entry, rule.message)
    else:
        feed(groups, rule.entry)


PREVIEW = [profile_of(f"group_coordinator:{release}") for release in ("3.8.1", "3.9.1")]
IN_ORDER = [consumer_member(), record(3, epoch=1), target(7), record(6, assignment_epoch=1), owns(epoch=1)]
NEEDS_GROUP = {
    **{f"type {number}": entry for number, entry in zip((7, 6, 8), IN_ORDER[2:], strict=True)},
    **{f"tombstone of type {number}": gone(number) for number in (3, 4, 6)},
    **{f"tombstone of type {number} ": gone(number, "m") for number in (5, 7, 8)},
}


@pytest.mark.parametrize("profile", PREVIEW, ids=lambda profile: profile.text)
@pytest.mark.parametrize("entry", NEEDS_GROUP.values(), ids=NEEDS_GROUP)
def test_the_preview_takes_no_record_before_its_group(profile, entry):
    """From 4.0 on such a record makes the group, and such a tombstone is passed over."""
    assert_throws(Groups(profile), entry, "Consumer group g not found.")
    replay(entry, release="4.0.0")


@pytest.mark.parametrize("profile", PREVIEW, ids=lambda profile: profile.text)
def test_the_preview_of_consumer_groups(profile):
    groups = Groups(profile)
    for entry in (owns(epoch=1), gone(8, "m"), gone(5, "m")):
        feed(groups, record(3, epoch=1))
        assert_throws(groups, entry, "Member m is not a member of group g.")
    for entry in IN_ORDER:
        feed(groups, entry)
    assert groups.by_id["g"].state == "Stable"
    for entry in (gone(8, "m"), gone(7, "m"), gone(6), gone(5, "m"), gone(4), gone(3)):
        feed(groups, entry)
    assert groups.by_id == {}


@pytest.mark.parametrize("entry", [IN_ORDER[0], IN_ORDER[1], gone(8, "m")])
def test_the_preview_replaces_no_simple_group(entry):
    """KAFKA-17306: what a cleaned log has of a group that was classic."""
    groups = Groups(PREVIEW[1])
    groups.ensure_simple_group("g")
    assert_throws(groups, entry, "Group g is not a consumer group.")
    replay(entry, release="4.0.0", touched=True)


@pytest.mark.parametrize("release", RELEASES)
def test_first_epochs(release):
    """Without records of types 3 and 6 a member at epoch 1 has what its group wants from 4.3 on alone."""
    state = replay(consumer_member(), owns(epoch=1), release=release).by_id["g"].state
    assert state == ("Reconciling" if release < "4.3" else "Stable")
    assert replay(consumer_member(), owns(epoch=0), release=release).by_id["g"].state == (
        "Stable" if release < "4.3" else "Reconciling"
    )
    group = replay(record(6, assignment_epoch=1), release=release).by_id["g"]
    assert group.to_group_row()["generation"] == (0 if release < "4.3" else 1)
    assigning = replay(consumer_member(), record(3, epoch=1), release=release).by_id["g"]
    assert assigning.state == ("Assigning" if release < "4.3" else "Reconciling")


@pytest.mark.parametrize("release", FROM_4_1)
def test_streams_groups_and_their_topology(release):
    """4.1 does not write which topology was validated; 4.4 takes none for validated where nothing is told."""
    known = replay(
        STREAMS, streams_member(), topology(0), streams_task(), record(20, assignment_epoch=1), release=release
    )
    assert known.by_id["g"].state == ("NotReady" if release < "4.2" else "Stable")
    assert known.by_id["g"].is_subscribed("t") == (release >= "4.2")
    row = known.by_id["g"].to_group_row()
    assert row["subscribed_topics"] == (None if release < "4.2" else ["repartition", "t"])
    untold = replay(streams_member(), topology(0), release=release).by_id["g"]
    assert untold.state == ("Reconciling" if "4.2" <= release < "4.4" else "NotReady")


@pytest.mark.parametrize("release", RELEASES)
def test_tombstones_of_a_share_group(release):
    group = replay(SHARE, share_member(), release=release).by_id["g"]
    topics_type = 9 if release < "4.1" else 15
    assert [part.record_type for part in group.tombstones()] == [14, 13, 12, 10, topics_type, 11]


def test_the_last_repeat_holds_where_repeats_are_taken():
    (row,) = replay(owns_twice(), release="4.3.0").by_id["g"].to_member_rows()
    assert row["assignment"] == [f"{ID}-1"]
    (row,) = replay(assigned(active=[tasks(0), tasks(1)]), release="4.2.0").by_id["g"].to_member_rows()
    assert row["assignment"] == ["0-1"]


def failures_of(release, *entries):
    data = encode_log([BatchSpec(entries=entries)])
    return load([data], cap_bytes=1 << 20, profile=of_broker(release)).failures


def test_a_log_of_the_early_access_is_of_no_use_to_4_1():
    epoch = encode_value(11, 0, {"epoch": 3}, release=(4, 0))
    entry = (encode_key(11, {"group_id": "g"}), epoch)
    assert failures_of("4.0.2", entry, topics(9)) == []
    (failure,) = failures_of("4.1.0", entry, topics(9))
    assert failure.startswith("log_offset 0: malformed_value: Could not read record with version 0")


def test_a_4_0_coordinator_decodes_type_15_before_it_fails():
    assert failures_of("4.0.0", share_state((4, 0))) == ["log_offset 0: Received an unknown record type 15"]
    (failure,) = failures_of("4.0.0", share_state())
    assert failure.startswith("log_offset 0: malformed_value")
    assert failures_of("4.1.0", share_state()) == []


def test_streams_records_are_unknown_to_4_0():
    assert failures_of("4.0.2", STREAMS, gone(19, "m"), topology(-1)) == []
    assert failures_of("4.1.0", topology(-1)) == ["log_offset 0: Topology epoch must be non-negative."]


NO_TIMEOUT = (
    'after the last record: member m of streams group g: Cannot invoke "java.lang.Integer.intValue()" because the '
    "return value of "
    '"org.apache.kafka.coordinator.group.streams.StreamsGroupMember.rebalanceTimeoutMs()" is null'
)


@pytest.mark.parametrize("release", ["4.1.2", "4.2.2", "4.3.1", "4.4.0"])
@pytest.mark.parametrize(
    "entries, failures",
    [
        pytest.param([streams_task(state=2)], [NO_TIMEOUT], id="never described"),
        pytest.param([streams_task(state=2), gone(22, "m")], [NO_TIMEOUT], id="assignment deleted, state kept"),
        pytest.param([streams_task(state=2), streams_member()], [], id="described"),
        pytest.param([streams_task(state=3)], [], id="waits for others"),
        pytest.param([streams_task(state=2), gone(22, "m"), gone(19, "m")], [], id="gone"),
        pytest.param([streams_task(state=2), classic()], [], id="group replaced"),
    ],
)
def test_a_streams_member_to_give_up_tasks_needs_a_rebalance_timeout(release, entries, failures):
    """GroupMetadataManager.onLoaded sets its timer when all has been read."""
    data = encode_log([BatchSpec(entries=(entry,)) for entry in entries])
    assert failures_of(release, *entries) == failures
    plain = load([data], cap_bytes=1 << 20, profile=of_broker(release))
    assert_equal(fold_bytes(data, profile=of_broker(release)), plain)
    (failure,) = failures or [None]
    assert oracle_tables(plain, 0, None)["load_profile"][0]["load_failure"] == failure


@pytest.mark.parametrize("name", ["4.2.0-before-cleaning", "4.2.0-cleaned", "4.3.1"])
@pytest.mark.parametrize("profile", PREVIEW, ids=lambda profile: profile.text)
def test_the_kernels_load_recordings_as_the_preview_does(profile, name):
    for folder in sorted((GOLDEN / "upgrades" / name).iterdir()):
        data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
        assert_equal(fold_bytes(data, profile=profile), load([data], cap_bytes=1 << 20, profile=profile))
