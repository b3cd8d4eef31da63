"""Commits between their request and the log's answer."""

import pytest

from sexton.coordinator.commits_in_flight import JavaCommits, Outcome, ScalaCommits, commits_after
from sexton.coordinator.offsets import StoredOffset
from sexton.coordinator.profiles import profile_of

KEY, OTHER = ("t", 0), ("t", 1)


def value(number, log_offset=0):
    rest = {"metadata": "", "commit_timestamp_ms": 0, "producer_id": -1}
    rest |= dict.fromkeys(("leader_epoch", "expire_timestamp_ms", "topic_id"))
    return StoredOffset(log_offset=log_offset, committed_offset=number, **rest)


def test_scala_stores_once_the_log_has_appended():
    group = ScalaCommits()
    group.prepare_offset_commit({KEY: value(1)})
    assert (group.offsets, group.is_unstable(KEY), group.is_unstable(OTHER)) == ({}, True, False)
    group.on_offset_commit_append(KEY, value(1), log_offset=5)
    assert (group.offsets[KEY], group.is_unstable(KEY)) == (value(1, 5), False)


def test_scala_keeps_the_older_value_when_the_append_fails():
    group = ScalaCommits(offsets={KEY: value(1, 5)})
    group.prepare_offset_commit({KEY: value(2)})
    group.fail_pending_offset_write(KEY, value(2))
    assert (group.offsets[KEY], group.is_unstable(KEY)) == (value(1, 5), False)


def test_scala_waits_for_the_newest_of_two():
    """GroupMetadataTest.testOffsetCommitWithAnotherPending."""
    group = ScalaCommits()
    group.prepare_offset_commit({KEY: value(1)})
    group.prepare_offset_commit({KEY: value(2)})
    group.on_offset_commit_append(KEY, value(1), log_offset=5)
    assert (group.offsets[KEY], group.is_unstable(KEY)) == (value(1, 5), True)
    group.on_offset_commit_append(KEY, value(2), log_offset=6)
    assert (group.offsets[KEY], group.is_unstable(KEY)) == (value(2, 6), False)


def test_scala_stores_the_later_of_two_that_are_answered_in_the_other_order():
    group = ScalaCommits()
    group.prepare_offset_commit({KEY: value(1)})
    group.prepare_offset_commit({KEY: value(2)})
    group.pending[KEY] = value(1)
    group.offsets[KEY] = value(2, 6)
    group.on_offset_commit_append(KEY, value(1), log_offset=5)
    assert group.offsets[KEY] == value(2, 6)


def test_scala_drops_a_commit_whose_topic_was_deleted_meanwhile():
    group = ScalaCommits()
    group.on_offset_commit_append(KEY, value(1), log_offset=5)
    assert group.offsets == {}


def test_scala_calls_what_a_transaction_holds_unstable():
    group = ScalaCommits(offsets={KEY: value(1, 3)}, transactional={7: {KEY: value(2, 4)}})
    assert (group.is_unstable(KEY), group.is_unstable(OTHER)) == (True, False)


def test_java_answers_what_is_replicated():
    group = JavaCommits(committed={KEY: value(1, 3)})
    group.append(KEY, value(2), log_offset=5)
    assert group.committed[KEY] == value(1, 3)
    group.replicate(5)
    assert (group.committed[KEY], len(group.in_flight)) == (value(1, 3), 1)
    group.replicate(6)
    assert (group.committed[KEY], group.in_flight) == (value(2, 5), [])


def test_java_takes_back_what_came_after_a_failed_write():
    group = JavaCommits(committed={KEY: value(1, 3)})
    for number, log_offset in ((2, 5), (3, 6), (4, 7)):
        group.append(KEY, value(number), log_offset=log_offset)
    group.fail(6)
    group.replicate(9)
    assert group.committed[KEY] == value(2, 5)


def test_scala_calls_a_commit_of_a_transaction_unstable_until_its_marker():
    group = ScalaCommits(offsets={KEY: value(1, 3)})
    group.prepare_txn_offset_commit(7, {KEY: value(2)})
    assert (group.is_unstable(KEY), group.is_unstable(OTHER)) == (True, False)
    group.on_txn_offset_commit_append(7, KEY, value(2), log_offset=5)
    assert (group.is_unstable(KEY), group.fetchable) == (True, {KEY: value(1, 3)})
    group.complete_pending_txn_offset_commit(7, is_commit=True)
    assert (group.is_unstable(KEY), group.fetchable) == (False, {KEY: value(2, 5)})


def test_scala_keeps_a_later_plain_commit_over_that_of_a_transaction():
    group = ScalaCommits(offsets={KEY: value(1, 6)}, transactional={7: {KEY: value(2, 5)}, 8: {OTHER: value(3, 7)}})
    group.complete_pending_txn_offset_commit(7, is_commit=True)
    group.complete_pending_txn_offset_commit(8, is_commit=False)
    assert (group.fetchable, group.transactional) == ({KEY: value(1, 6)}, {})


def test_scala_has_no_offset_to_commit_before_the_log_has_answered():
    """The first of two appends of a producer does not answer for the second; a marker that comes now throws."""
    group = ScalaCommits()
    group.prepare_txn_offset_commit(7, {KEY: value(1)})
    group.prepare_txn_offset_commit(7, {KEY: value(2)})
    group.on_txn_offset_commit_append(7, KEY, value(1), log_offset=5)
    with pytest.raises(ValueError, match="producer 7"):
        group.complete_pending_txn_offset_commit(7, is_commit=True)


SCALA, JAVA = "group_metadata_manager:3.9", "group_coordinator:4.3.1"


@pytest.mark.parametrize("profile", [SCALA, JAVA])
@pytest.mark.parametrize(
    "outcome, is_unstable, fetched",
    [
        (Outcome.WAITING, True, 1),
        (Outcome.APPENDED, True, 1),
        (Outcome.FAILED, False, 1),
        (Outcome.COMMITTED, False, 2),
        (Outcome.ABORTED, False, 1),
    ],
)
def test_what_becomes_of_a_commit_of_a_transaction(profile, outcome, is_unstable, fetched):
    stored, flying = {KEY: value(1, 3)}, {KEY: value(2)}
    rules = profile_of(profile)
    group = commits_after(stored, flying, outcome, transactional={}, profile=rules, producer_id=7)
    assert (group.is_unstable(KEY), group.fetchable[KEY].committed_offset) == (is_unstable, fetched)
    assert group.waits == (profile == JAVA and outcome is Outcome.WAITING)


@pytest.mark.parametrize("profile", [SCALA, JAVA])
def test_a_marker_ends_what_the_log_held_too_and_only_of_its_producer(profile):
    held = {7: {OTHER: value(5, 8)}, 8: {KEY: value(6, 9)}}
    rules = profile_of(profile)
    group = commits_after({}, {KEY: value(2)}, Outcome.COMMITTED, transactional=held, profile=rules, producer_id=7)
    assert group.fetchable == {KEY: value(2, 10), OTHER: value(5, 8)}
    assert (group.is_unstable(KEY), group.is_unstable(OTHER)) == (True, False)


@pytest.mark.parametrize("producer_id", [None, 7])
@pytest.mark.parametrize("outcome", [Outcome.APPENDED, Outcome.FAILED])
def test_a_group_that_died_meanwhile_stores_nothing_and_frees_nothing(outcome, producer_id):
    arguments = {"transactional": {}, "producer_id": producer_id, "is_dead": True}
    group = commits_after({}, {KEY: value(2)}, outcome, profile=profile_of("group_metadata_manager:0.11"), **arguments)
    assert (group.offsets, group.fetchable, group.is_unstable(KEY)) == ({}, {}, False)
    assert (group.pending, group.transactional) == (
        ({KEY: value(2)}, {}) if producer_id is None else ({}, {7: {KEY: value(2, -1)}})
    )


def test_offsets_of_no_group_do_not_die_with_it():
    rules = profile_of("offset_manager:0.9")
    group = commits_after({}, {KEY: value(2)}, Outcome.APPENDED, transactional={}, profile=rules, is_dead=True)
    assert group.fetchable == {KEY: value(2)}
