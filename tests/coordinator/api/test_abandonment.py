"""What follows when the members of a loaded group never come back."""

import pytest

from sexton.coordinator.api.abandonment import abandonment
from sexton.coordinator.expiry import SweepBlock
from sexton.coordinator.profiles import profile_of
from tests.coordinator.api.broker import WAYS, one_log
from tests.coordinator.api.test_commit import consumer
from tests.log_builder import (
    BASE_MS,
    BatchSpec,
    classic_fields,
    commit,
    group_entry,
    offset_key,
    offset_value,
    subscription,
)
from tests.record_fields import encode_key, encode_value

DAY_MS = 86_400_000
LOADED_MS = BASE_MS + 1_000_000
JAVA, SCALA = "group_coordinator:4.3.1", "group_metadata_manager:2.8"


def members(*timeouts):
    """The value of a classic group; (session, rebalance, instance) of each member."""
    fields = classic_fields(*((f"m{number}", subscription("t")) for number in range(len(timeouts))))
    for own, (session_ms, rebalance_ms, instance) in zip(fields["members"], timeouts, strict=True):
        own |= {"session_timeout_ms": session_ms, "rebalance_timeout_ms": rebalance_ms, "group_instance_id": instance}
    return fields


def asked(*entries, profile=JAVA, way="plain", group_id="g"):
    broker = one_log(*entries, profile=profile_of(profile), way=way)
    told = {"loaded_at_ms": LOADED_MS, "retention_ms": DAY_MS, "profile": broker.profile}
    return abandonment(broker.view_of(group_id), group_id, **told)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("profile", [JAVA, SCALA])
def test_a_classic_group_expires_from_when_it_is_empty(profile, way):
    group = group_entry(2, "g", members((10_000, 60_000, None), (30_000, 60_000, None)))
    found = asked(group, commit("g", commit_timestamp_ms=BASE_MS), profile=profile, way=way)
    steps = [(step.at_ms - LOADED_MS, step.state, step.member_count) for step in found.steps]
    assert steps == [(10_000, "PreparingRebalance", 1), (30_000, "Empty", 0)]
    assert found.expires_at_ms == {("t", 0): LOADED_MS + 30_000 + DAY_MS}


def test_a_rebalance_that_ends_empties_the_group_sooner():
    found = asked(group_entry(2, "g", members((10_000, 5_000, None), (30_000, 5_000, None))))
    assert found.empty_at_ms - LOADED_MS == 15_000


def test_static_members_last_as_long_as_their_sessions():
    found = asked(group_entry(2, "g", members((10_000, 5_000, None), (30_000, 5_000, "i"))))
    assert found.empty_at_ms - LOADED_MS == 30_000


def test_before_kip_211_only_the_stamp_counts():
    fields = members((10_000, 60_000, None))
    group = encode_key(2, {"group_id": "g"}), encode_value(2, 1, fields)
    value = offset_value(1, version=1, commit_timestamp_ms=BASE_MS, expire_timestamp_ms=BASE_MS + 5)
    found = asked(group, (offset_key("g", "t", 0), value), profile="group_metadata_manager:2.0.1")
    assert found.expires_at_ms == {("t", 0): BASE_MS + 6}


@pytest.mark.parametrize("way", WAYS)
def test_a_consumer_group_expires_by_its_commits(way):
    """KIP-848: no grace from being empty; the 45 s are Kafka's default of group.consumer.session.timeout.ms."""
    found = asked(*consumer(), commit("g", commit_timestamp_ms=BASE_MS - DAY_MS), way=way)
    assert (found.empty_at_ms - LOADED_MS, found.steps[-1].state) == (45_000, "Empty")
    assert found.expires_at_ms == {("t", 0): LOADED_MS + 45_000}
    young = asked(*consumer(), commit("g", commit_timestamp_ms=BASE_MS), way=way)
    assert young.expires_at_ms == {("t", 0): BASE_MS + DAY_MS}


def test_what_an_open_transaction_holds_does_not_expire():
    group = group_entry(2, "g", members((10_000, 60_000, None)))
    held = BatchSpec(entries=(commit("g"),), producer_id=7, transactional=True)
    assert asked(group, commit("g"), held).expires_at_ms == {("t", 0): None}


@pytest.mark.parametrize("entries", [(), (commit("g"),), (group_entry(2, "g", classic_fields()),)])
def test_without_members_nothing_is_said(entries):
    assert asked(*entries) is None


LEFT = group_entry(7, "g", {"topic_partitions": []}, member_id="gone")
"""A target assignment of somebody who is no member: the group cannot be deleted."""


@pytest.mark.parametrize("way", WAYS)
def test_a_sweep_that_fails_expires_nothing(way):
    """Another group makes the sweep of the log partition fail, from some instant on or always."""
    commits = commit("g", commit_timestamp_ms=BASE_MS), commit("g", 1, "u", commit_timestamp_ms=LOADED_MS)
    broker = one_log(*consumer(), *commits, profile=profile_of(JAVA), way=way)

    def told(block):
        told = {"loaded_at_ms": LOADED_MS, "retention_ms": DAY_MS, "profile": broker.profile}
        return abandonment(broker.view_of("g"), "g", **told, block=block)

    due = {("t", 0): BASE_MS + DAY_MS, ("u", 0): LOADED_MS + DAY_MS}
    assert (told(None).expires_at_ms, told(None).block) == (due, None)
    for from_ms in (None, BASE_MS):
        block = SweepBlock(group_id="other", from_ms=from_ms)
        assert (told(block).expires_at_ms, told(block).block) == (dict.fromkeys(due), block)
    later = SweepBlock(group_id="other", from_ms=LOADED_MS + DAY_MS)
    assert told(later).expires_at_ms == {**due, ("u", 0): None}


@pytest.mark.parametrize("way", WAYS)
def test_a_group_that_cannot_be_deleted_blocks_the_sweep_that_would_delete_it(way):
    """With a target left, the sweep that takes its last offset fails; those before it work."""
    entries = (*consumer(), LEFT)
    old, new = commit("g", commit_timestamp_ms=BASE_MS), commit("g", 1, "u", commit_timestamp_ms=LOADED_MS)
    found = asked(*entries, old, new, way=way)
    assert found.expires_at_ms == {("t", 0): BASE_MS + DAY_MS, ("u", 0): None}
    assert found.block == SweepBlock(group_id="g", from_ms=LOADED_MS + DAY_MS)
    assert asked(*entries, way=way).block == SweepBlock(group_id="g", from_ms=LOADED_MS + 45_000)
    held = BatchSpec(entries=(commit("g"),), producer_id=7, transactional=True)
    assert asked(*entries, old, held, way=way).block is None
