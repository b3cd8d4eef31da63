"""Commits between their request and the log's answer."""

from sexton.coordinator.commits_in_flight import JavaCommits, ScalaCommits
from sexton.coordinator.offsets import StoredOffset

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
    group = ScalaCommits(offsets={KEY: value(1, 3)}, transactional=frozenset({KEY}))
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
