"""JoinGroup: who is taken, which group is made, and what becomes of it, by release."""

import dataclasses

import pytest

from sexton.coordinator.api.coordinator import LOADING, Coordinator
from sexton.coordinator.api.errors import Error
from sexton.coordinator.api.join import Join, JoinAnswer, join_group
from sexton.coordinator.profiles import of_broker
from sexton.log.message_set import encode_message_set
from tests.coordinator.api.broker import WAYS, coordinator_of, one_log
from tests.coordinator.golden import RELEASES, data_batches
from tests.coordinator.group_records import consumer_member_fields
from tests.log_builder import classic_fields, commit, group_entry, subscription
from tests.record_fields import decode_value, encode_key, encode_value

RELEASED = ("0.9", "0.10.0", "0.10.1", "0.11", "1.1", "2.1", "2.2", "2.3", "2.8", "3.9", "4.0", "4.3.1")
MEMBER = ("m", subscription("t"))


def joined(release, *written, way="plain", **request):
    """The answer of a broker whose log has these records; fields are those of the group's record of type 2."""
    profile = of_broker(release)
    entries = [
        (encode_key(2, {"group_id": "g"}), encode_value(2, profile.group_value_version, one))
        if isinstance(one, dict)
        else one
        for one in written
    ]
    if profile.record_format < 2:
        log = encode_message_set(entries, base_offset=0, magic=profile.record_format) if entries else b""
        broker = coordinator_of({0: log}, profile=profile, partition_count=1, way=way)
    else:
        broker = one_log(*entries, profile=profile, way=way)
    how = {name: request.pop(name) for name in ("syncing", "at_ms") if name in request}
    return join_group(broker, Join(group_id="g", **request), **how)


def stable(*members, instance_id=None, generation=5):
    """A group of generation 5 whose protocol is range; its leader is m."""
    return classic_fields(*members, generation=generation, instance_id=instance_id)


def told(answer: JoinAnswer):
    """(error, state, generation) of an answer."""
    state, generation = (None, None) if answer.group is None else (answer.group.state, answer.group.generation)
    return answer.error.name, state, generation


@pytest.mark.parametrize("release", RELEASED)
def test_a_group_that_is_not_there_is_made_for_a_new_member_alone(release):
    known = joined(release, member_id="m")
    assert (told(known), known.is_new) == (("UNKNOWN_MEMBER_ID", None, None), False)
    new = joined(release, api_version=3)
    first = ("CompletingRebalance", 1) if release in RELEASED[:3] else ("PreparingRebalance", 0)  # KIP-134
    assert (told(new), new.is_new, new.writes_record) == (("NONE", *first), True, release.startswith("4"))


@pytest.mark.parametrize("release", RELEASED)
def test_from_2_2_on_a_new_member_has_to_bring_the_id_that_it_is_given(release):
    """KIP-394, by the version of JoinGroup; a static member has none to bring (KIP-345, 2.3)."""
    asks = RELEASED.index(release) >= RELEASED.index("2.2")
    answer = joined(release, api_version=4)
    assert (answer.error is Error.MEMBER_ID_REQUIRED, answer.is_new) == (asks, True)
    if asks:
        assert told(answer)[1:] == ("Empty", 0)
    fixed = joined(release, api_version=5, group_instance_id="i")
    assert (fixed.error is Error.MEMBER_ID_REQUIRED) == (release == "2.2")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("release", ["0.9", "1.1", "2.8", "4.3.1"])
def test_members_of_a_stable_group(release, way):
    group = stable(MEMBER)
    ask = {"way": way, "api_version": 3}
    assert told(joined(release, group, member_id="x", **ask)) == ("UNKNOWN_MEMBER_ID", "Stable", 5)
    assert told(joined(release, group, **ask)) == ("NONE", "PreparingRebalance", 5)
    assert joined(release, group, **ask).group.member_count == 2
    assert told(joined(release, group, member_id="m", **ask)) == ("NONE", "CompletingRebalance", 6)
    for other in ({"protocols": ("roundrobin",)}, {"protocol_type": "connect"}):
        wrong = joined(release, group, member_id="x", **other, **ask)
        assert told(wrong) == ("INCONSISTENT_GROUP_PROTOCOL", "Stable", 5)
    assert not wrong.is_new


@pytest.mark.parametrize("release", ["0.9", "2.8", "4.3.1"])
def test_a_follower_that_rejoins_starts_no_rebalance_and_the_leader_does(release):
    group = stable(MEMBER, ("n", subscription("t")))
    assert told(joined(release, group, member_id="n")) == ("NONE", "Stable", 5)
    assert told(joined(release, group, member_id="m")) == ("NONE", "PreparingRebalance", 5)


@pytest.mark.parametrize("release", ["2.3", "2.8", "3.9", "4.3.1"])
def test_static_members(release):
    group = stable(MEMBER, instance_id="i")
    assert told(joined(release, group, member_id="x", group_instance_id="i"))[0] == "FENCED_INSTANCE_ID"
    assert told(joined(release, group, member_id="m", group_instance_id="j"))[0] == "UNKNOWN_MEMBER_ID"
    assert told(joined(release, group, group_instance_id="i")) == ("NONE", "Stable", 5)
    assert told(joined(release, group, group_instance_id="j")) == ("NONE", "PreparingRebalance", 5)


def waiting(answer: JoinAnswer):
    """(waits in SyncGroup, its answer, when the session ends) of each member; None for a session that cannot end."""
    return [(o.awaits_sync, o.sync_error, None if o.is_kept_alive else o.session_ends_at_ms) for o in answer.members]


@pytest.mark.parametrize("release", ["0.9", "0.10.0", "0.10.1", "1.1", "2.8", "3.9", "4.3.1"])
def test_who_waits_in_syncgroup_is_told_of_the_rebalance_that_a_new_member_starts(release):
    """prepareRebalance; a member that rejoins starts none, and who has not asked has a session."""
    group = stable(MEMBER, ("n", subscription("t")))
    session_ms = group["members"][0]["session_timeout_ms"]
    ask = {"api_version": 3, "syncing": ["n"], "at_ms": 1_000}
    again = joined(release, group, member_id="m", **ask)
    assert told(again) == ("NONE", "CompletingRebalance", 6)
    assert waiting(again) == [(False, None, 1_000 + session_ms), (True, None, None)]
    new = joined(release, group, **ask)
    assert (told(new), new.group.member_count) == (("NONE", "PreparingRebalance", 6), 3)
    assert waiting(new) == [(False, None, 1_000 + session_ms), (False, "REBALANCE_IN_PROGRESS", 1_000 + session_ms)]
    assert told(joined(release, group, **{**ask, "protocols": ("x",)})) == (
        "INCONSISTENT_GROUP_PROTOCOL", "CompletingRebalance", 6,
    )  # fmt: skip


@pytest.mark.parametrize(
    "release, state",
    [
        ("2.3", "CompletingRebalance"),
        ("2.4", "CompletingRebalance"),
        ("2.5", "PreparingRebalance"),
        ("4.3.1", "PreparingRebalance"),
    ],
)
def test_a_new_process_of_a_static_member_fences_the_one_that_waits(release, state):
    """replaceStaticMember; from 2.5 on the others are told to join again (updateStaticMemberAndRebalance)."""
    group = stable(MEMBER, ("n", subscription("t")), instance_id="i")
    group["members"][1]["group_instance_id"] = None
    answer = joined(release, group, group_instance_id="i", syncing=["m", "n"])
    assert (told(answer), answer.group.member_count) == (("NONE", state, 6), 2)
    rest = (True, None) if state == "CompletingRebalance" else (False, "REBALANCE_IN_PROGRESS")
    assert [one[:2] for one in waiting(answer)] == [(False, "FENCED_INSTANCE_ID"), rest]


def test_only_members_of_a_classic_group_wait_in_syncgroup():
    member = group_entry(5, "g", consumer_member_fields(rack_id=None), member_id="m")
    for written in ((), (stable(MEMBER),), (group_entry(3, "g", {"epoch": 5, "metadata_hash": 0}), member)):
        with pytest.raises(ValueError, match="not members of a classic group"):
            joined("4.3.1", *written, syncing=["x"])


def test_offsets_make_a_group_to_join_from_0_10_1_on():
    assert joined("0.10.0", commit("g", version=1), api_version=0).is_new
    for release in ("0.10.1", "2.8", "4.3.1"):
        assert not joined(release, commit("g", version=1), api_version=1).is_new


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_group_of_another_kind_becomes_a_classic_one(way):
    epoch = group_entry(3, "g", {"epoch": 5, "metadata_hash": 0})
    made = joined("4.3.1", epoch, way=way, protocol_type="connect", protocols=("p",))
    assert (made.error, made.group.group_type, made.is_new) == (Error.MEMBER_ID_REQUIRED, "Classic", True)
    member = group_entry(5, "g", consumer_member_fields(rack_id=None), member_id="m")
    ask = {"way": way, "group_instance_id": None}
    assert told(joined("4.3.1", member, epoch, protocol_type="connect", **ask))[0] == "INCONSISTENT_GROUP_PROTOCOL"
    assert told(joined("4.3.1", member, epoch, **ask))[0] == "MEMBER_ID_REQUIRED"
    assert told(joined("4.3.1", member, epoch, member_id="any", **ask)) == ("NONE", None, None)
    share = group_entry(11, "g", {"epoch": 5, "metadata_hash": 0})
    assert told(joined("4.3.1", share, **ask))[0] == "INCONSISTENT_GROUP_PROTOCOL"


@pytest.mark.parametrize("release, is_new", [("4.1", False), ("4.2", True), ("4.3.1", True)])
def test_an_empty_streams_group_becomes_a_classic_one_from_4_2_on(release, is_new):
    answer = joined(release, group_entry(17, "g", {"epoch": 5, "metadata_hash": 0}))
    assert (answer.error is Error.MEMBER_ID_REQUIRED, answer.is_new) == (is_new, is_new)


def test_what_is_not_served_is_not_made():
    profile = of_broker("2.8")
    empty = coordinator_of({0: b""}, profile=profile, partition_count=1)
    assert told(join_group(empty, Join(group_id=""))) == ("INVALID_GROUP_ID", None, None)
    loading = dataclasses.replace(empty, shards={0: LOADING})
    assert told(join_group(loading, Join(group_id="g"))) == ("COORDINATOR_LOAD_IN_PROGRESS", None, None)
    elsewhere = Coordinator(profile=profile, partition_count=1, shards={})
    assert told(join_group(elsewhere, Join(group_id="g"))) == ("NOT_COORDINATOR", None, None)
    assert told(joined("0.8.2")) == ("UNSUPPORTED_VERSION", None, None)


@pytest.mark.parametrize("name, release", RELEASES.items())
def test_recorded_brokers_wrote_a_new_group_where_the_answer_says_so(name, release):
    """Records of generation 0: every 4.x broker wrote them for its first classic members, no Scala broker did."""
    profile = of_broker(release)
    values = [
        decode_value(2, record.value)[1]
        for _, records in data_batches(name)
        for record in records
        if record.key[:2] == b"\0\2" and record.value is not None
    ]
    new = [value for value in values if value["generation"] == 0]
    assert values
    answer = join_group(coordinator_of({0: b""}, profile=profile, partition_count=1), Join(group_id="g"))
    assert answer.writes_record == bool(new)
    assert {(value["protocol_type"], value["protocol"], len(value["members"])) for value in new} <= {("", None, 0)}
