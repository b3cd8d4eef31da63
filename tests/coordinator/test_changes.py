"""Why offsets disappeared, scenario by scenario: what each operation of a coordinator leaves in the log."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from sexton.coordinator.changes.group_removal_causes import possible_removals
from sexton.coordinator.changes.model import Change, ChangeEvidence, OwnAction, TopicsAt
from sexton.coordinator.changes.replay import changes
from sexton.coordinator.loading import load
from sexton.coordinator.profiles import profile_of
from sexton.log.message_set import encode_message_set
from sexton.tables.change_causes import ChangeKind
from tests.log_builder import (
    BASE_MS,
    BatchSpec,
    Entry,
    classic_fields,
    commit,
    encode_batches,
    encode_log,
    group_entry,
    subscription,
    tombstone,
)
from tests.record_fields import encode_value

CAP_BYTES = 1 << 20
MINUTE_MS = 60_000
RETENTION_MS = 10 * MINUTE_MS
LATER_MS = BASE_MS + 20 * MINUTE_MS
"""When what was committed at BASE_MS is due, and what was at YOUNG_MS is not."""
YOUNG_MS = LATER_MS - MINUTE_MS
E, D, G, T = ChangeKind.EXPIRED, ChangeKind.DELETED, ChangeKind.GROUP_DELETED, ChangeKind.TOPIC_DELETED
HERE = TopicsAt(taken_at_ms=BASE_MS, ids={"t": "T1", "u": "U1"})
STILL_HERE = replace(HERE, taken_at_ms=LATER_MS + MINUTE_MS)
GONE = TopicsAt(taken_at_ms=LATER_MS + MINUTE_MS, ids={})
KNOWN = ChangeEvidence(retentions_ms=(RETENTION_MS,), before=HERE, after=STILL_HERE)
NO_FACTS = ChangeEvidence(retentions_ms=(RETENTION_MS,))
TOPICS_GONE = replace(KNOWN, after=GONE)


def young(group_id: str, topic: str = "t", partition: int = 0) -> Entry:
    return commit(group_id, 7, topic, partition, commit_timestamp_ms=YOUNG_MS)


def gone(group_id: str) -> Entry:
    """The tombstone of a classic group."""
    return group_entry(2, group_id, None)


def told(
    history: Sequence[BatchSpec],
    *,
    known: ChangeEvidence = KNOWN,
    profile: str = "group_coordinator:4.3.1",
    starts_at: int = 0,
) -> list[Change]:
    """The changes of a log whose interval begins behind its first `starts_at` batches."""
    is_modern = profile_of(profile).newest_format == 2
    batches = encode_batches(history) if is_modern else old_batches(history)
    loaded = load(batches[:starts_at], cap_bytes=CAP_BYTES, profile=profile_of(profile))
    return changes(loaded, batches[starts_at:], known=known, cap_bytes=CAP_BYTES)


def old_batches(history: Sequence[BatchSpec]) -> list[bytes]:
    """The same records in record format 1."""
    found, base_offset = [], 0
    for spec in history:
        options = {"base_offset": base_offset, "magic": 1, "timestamp_ms": spec.timestamp_ms}
        found.append(encode_message_set(list(spec.entries), **options))
        base_offset += len(spec.entries)
    return found


def causes(history: Sequence[BatchSpec], **options: object) -> dict[str, Sequence[ChangeKind]]:
    """By `group/topic-partition`, what each disappearance is, or may be."""
    return {
        f"{row.key[0]}/{row.key[1]}-{row.key[2]}": row.candidates or (row.kind,)
        for row in told(history, **options)  # type: ignore[arg-type]
        if row.kind is not ChangeKind.SET
    }


def log(before: Sequence[Entry], *writes: Sequence[Entry]) -> list[BatchSpec]:
    """What there was, and then writes of one batch each, a second apart."""
    later = [
        BatchSpec(entries=tuple(entries), timestamp_ms=LATER_MS + 1_000 * number)
        for number, entries in enumerate(writes)
    ]
    return [BatchSpec(entries=tuple(before), timestamp_ms=YOUNG_MS), *later]


def stable(group_id: str, *topics: str, protocol_type: str = "consumer") -> Entry:
    fields = classic_fields(("m1", subscription(*topics)), protocol_type=protocol_type)
    return group_entry(2, group_id, fields)


def empty(group_id: str, *, since_ms: int = BASE_MS, generation: int = 3) -> Entry:
    fields = classic_fields(protocol=None, state_timestamp_ms=since_ms, generation=generation)
    return group_entry(2, group_id, fields)


TWO_DUE = [commit("a"), commit("b"), young("b", "u")]
"""Of a everything is due, of b one offset of two."""


A_GOES, B_GOES = [tombstone("a"), gone("a")], [tombstone("b"), gone("b")]
A_LOSES, B_LOSES = [tombstone("a")], [tombstone("b")]
BOTH_LOSE = [*A_LOSES, *B_LOSES]
A, A_ON_U, B = young("a"), young("a", "u"), young("b")
DUE, DUE_ON_U = commit("a"), commit("a", 1, "u")
LONG_GONE = replace(KNOWN, before=replace(GONE, taken_at_ms=BASE_MS), after=GONE)
NO_LOOK_BEFORE = replace(KNOWN, before=replace(HERE, taken_at_ms=LATER_MS + 1))
NO_LOOK_AFTER = replace(KNOWN, after=replace(HERE, taken_at_ms=LATER_MS - 1))
FOR_EVER = replace(KNOWN, retentions_ms=(1 << 50,))
SOON, LATER = (commit("a", version=1, expire_timestamp_ms=LATER_MS + by) for by in (-1, 1))
HISTORIES = {
    # (what there was, what was written, what is known, causes of a/t-0 and of b/t-0)
    "sweep of a group": ([DUE], [A_GOES], KNOWN, [E, G]),
    "sweep of a whole group and of part of another": (TWO_DUE, [[*A_GOES, tombstone("b")]], KNOWN, [E], [E]),
    "two due groups, by the sweep or by one request": ([DUE, commit("b")], [[*A_GOES, *B_GOES]], KNOWN, [E, G], [E, G]),
    "the one offset that was due, by the sweep or by a request": ([DUE, A_ON_U], [A_LOSES], KNOWN, [E, D]),
    "its topic is long gone, so that no request can name it": ([DUE, A_ON_U], [A_LOSES], LONG_GONE, [E]),
    "a group that was not due": ([A], [A_GOES], NO_FACTS, [G]),
    "one request for a due group and another": ([DUE, B], [[*A_GOES, *B_GOES]], KNOWN, [G], [G]),
    "two writes": ([DUE, B], [A_GOES, B_GOES], KNOWN, [E, G], [G]),
    "an offset that was not due": ([A], [A_LOSES], KNOWN, [D]),
    "all of a topic, which may be gone": ([A], [A_LOSES], NO_FACTS, [D, T]),
    "of a topic that keeps a partition": ([A, young("a", "t", 1)], [A_LOSES], NO_FACTS, [D]),
    "of a topic that another group keeps": ([A, B], [A_LOSES], NO_FACTS, [D]),
    "of a topic, in one write for all groups": ([A, A_ON_U, B], [BOTH_LOSE], NO_FACTS, [T], [T]),
    "two requests within a millisecond, since the topic is still there": ([A, B], [BOTH_LOSE], KNOWN, [D], [D]),
    "a request, and then whatever took the rest of a topic": ([A, B], [A_LOSES, B_LOSES], TOPICS_GONE, [D], [D, T]),
    "a sweep would have deleted the group too": ([DUE], [A_LOSES], KNOWN, [D]),
    "a sweep would have taken the other one too": ([DUE, DUE_ON_U], [A_LOSES], KNOWN, [D]),
    "an active group's topic that it is not subscribed to": (
        [stable("a", "u"), DUE, DUE_ON_U],
        [A_LOSES],
        KNOWN,
        [E, D],
    ),
    "a subscribed topic: nothing but a producer takes that": ([stable("a", "t"), DUE, DUE_ON_U], [A_LOSES], KNOWN, [D]),
    "a subscribed topic that is gone since": ([stable("a", "t"), DUE], [A_LOSES], TOPICS_GONE, [T]),
    "of an active group of another protocol": (
        [stable("a", protocol_type="connect"), DUE, A_ON_U],
        [A_LOSES],
        TOPICS_GONE,
        [T],
    ),
    "a group that has been empty for a minute": ([empty("a", since_ms=YOUNG_MS), DUE], [A_GOES], KNOWN, [G]),
    "a group that has long been empty, whatever was committed since": ([empty("a"), A], [A_GOES], KNOWN, [E, G]),
    "a group that does not say since when it is empty": ([empty("a", since_ms=-1), A], [A_GOES], KNOWN, [E, G]),
    "a group with members: nothing but a producer deletes that": ([stable("a", "u"), A], [A_GOES], KNOWN, [D]),
    "and an offset that was not there: nor that": (
        [DUE],
        [[tombstone("a"), tombstone("a", "t", 1), gone("a")]],
        KNOWN,
        [D],
    ),
    "nobody had looked at the topics yet": ([A], [A_LOSES], NO_LOOK_BEFORE, [D, T]),
    "nobody looked at the topics later": ([A], [A_LOSES], NO_LOOK_AFTER, [D, T]),
    "an explicit expiry": ([SOON], [A_GOES], FOR_EVER, [E, G]),
    "an explicit expiry in the future": ([LATER], [A_GOES], KNOWN, [G]),
}


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_causes(row: tuple[Any, ...]) -> None:
    before, writes, known, *expected = row
    of_groups = {f"{group_id}/t-0": tuple(kinds) for group_id, kinds in zip("ab", expected, strict=False)}
    assert causes(log(before, *writes), known=known) == of_groups


@pytest.mark.parametrize(
    "retentions_ms, expected",
    [((RETENTION_MS,), (E, G)), ((30 * MINUTE_MS,), (G,)), ((30 * MINUTE_MS, RETENTION_MS), (E, G)), (None, (E, G))],
    ids=["due", "not due", "one of two", "unknown"],
)
def test_retention(retentions_ms: tuple[int, ...] | None, expected: Sequence[ChangeKind]) -> None:
    history = log([commit("a")], [tombstone("a"), gone("a")])
    assert causes(history, known=replace(KNOWN, retentions_ms=retentions_ms)) == {"a/t-0": expected}


def test_without_a_retention_no_sweep_takes_the_younger_one_alone() -> None:
    nobody_knows = replace(KNOWN, retentions_ms=None)
    entries = [commit("a"), young("a", "u")]
    assert causes(log(entries, [tombstone("a")]), known=nobody_knows) == {"a/t-0": (E, D)}
    assert causes(log(entries, [tombstone("a", "u")]), known=nobody_knows) == {"a/u-0": (D,)}
    younger = [commit("a"), commit("a", 7, "u", commit_timestamp_ms=LATER_MS - 3 * MINUTE_MS)]
    assert causes(log(younger, [tombstone("a")]), known=nobody_knows) == {"a/t-0": (E, D)}
    just_now = [commit("a", commit_timestamp_ms=LATER_MS - 1), young("a", "u")]
    assert causes(log(just_now, [tombstone("a")]), known=nobody_knows) == {"a/t-0": (D,)}


def test_a_consumer_group_goes_with_all_its_records() -> None:
    records = [group_entry(3, "a", {"epoch": 1}), commit("a"), young("b")]
    removal = [tombstone("a"), *(group_entry(record_type, "a", None) for record_type in (6, 4, 3))]
    assert causes(log(records, removal)) == {"a/t-0": (E, G)}
    assert causes(log(records, [*removal, tombstone("b"), gone("b")])) == {"a/t-0": (G,), "b/t-0": (G,)}


def test_a_topic_of_another_id_stays() -> None:
    """From 4.3 on the deletion of a topic spares what was committed for another one of that name."""
    fields = {"version": 4, "commit_timestamp_ms": YOUNG_MS}
    commits = [commit(group_id, topic_id=UUID(int=number), **fields) for number, group_id in enumerate("ab", 1)]
    history = log(commits, [tombstone("a")])
    assert causes(history, known=TOPICS_GONE) == {"a/t-0": (D, T)}
    assert causes(history, known=TOPICS_GONE, profile="group_coordinator:4.2") == {"a/t-0": (D,)}
    (id_of_a,) = {row.old.topic_id for row in told(history) if row.old is not None}
    now_here = TopicsAt(taken_at_ms=LATER_MS + MINUTE_MS, ids={"t": id_of_a})
    assert causes(history, known=replace(NO_FACTS, after=now_here)) == {"a/t-0": (D,)}


def test_a_pending_offset_keeps_a_group_and_is_cancelled_with_it() -> None:
    pending = BatchSpec(entries=(commit("a", 9, "u"),), producer_id=1, transactional=True, timestamp_ms=YOUNG_MS)
    first, last = log([commit("a")], [tombstone("a")])
    assert causes([first, pending, last]) == {"a/t-0": (E, D)}  # the open transaction keeps the group
    whole = replace(last, entries=(tombstone("a"), tombstone("a", "u"), gone("a")))
    assert causes([first, pending, whole]) == {"a/t-0": (G,)}
    part = replace(last, entries=(tombstone("a"), gone("a")))
    assert causes([first, pending, part]) == {"a/t-0": (D,)}  # nothing leaves the pending one and takes the group


def test_a_sweep_goes_on_in_the_next_batch() -> None:
    first, last = log(TWO_DUE, [tombstone("a"), gone("a"), tombstone("b")])
    for border in (1, 2):
        parts = [replace(last, entries=last.entries[:border]), replace(last, entries=last.entries[border:])]
        assert causes([first, *parts]) == {"a/t-0": (E,), "b/t-0": (E,)}
    parts = [replace(last, entries=last.entries[:1]), replace(last, entries=last.entries[1:2])]
    assert causes([first, *parts]) == {"a/t-0": (E,)}  # a request is never cut in two
    first = replace(first, entries=(commit("a"), commit("a", 1, "t", 1), young("a", "u")))
    parts = [replace(last, entries=(tombstone("a", "t", number),)) for number in (0, 1)]
    assert causes([first, *parts]) == {"a/t-0": (E,), "a/t-1": (E,)}


def test_a_topic_s_deletion_writes_what_is_committed_and_what_is_pending() -> None:
    first, last = log([young("a")], [tombstone("a"), tombstone("a")])
    pending = BatchSpec(entries=(commit("a", 9),), producer_id=1, transactional=True, timestamp_ms=YOUNG_MS)
    assert causes([first, pending, last], known=TOPICS_GONE) == {"a/t-0": (T,)}
    due = replace(first, entries=(commit("a"), young("a", "u")))
    assert causes([due, last]) == {"a/t-0": (D,)}  # a sweep names an offset once, as a request does


def test_tombstones_of_a_producer_are_no_coordinator_s() -> None:
    first, last = log([commit("a")], [tombstone("a"), gone("a")])
    assert causes([first, replace(last, producer_id=5)]) == {"a/t-0": (D,)}
    (row,) = (row for row in told([first, replace(last, producer_id=5)], starts_at=1))
    assert row.evidence is not None
    assert "producer 5" in row.evidence


def test_where_records_are_missing_little_is_ruled_out() -> None:
    first, last = log([young("a"), young("a", "u")], [tombstone("a")])
    assert causes([first, last], known=NO_FACTS) == {"a/t-0": (D, T)}
    assert causes([first, replace(last, gap=1)], known=NO_FACTS) == {"a/t-0": (E, D, T)}
    assert causes([replace(first, gap=1), last], known=NO_FACTS) == {"a/t-0": (E, D, T)}
    odd = BatchSpec(entries=((b"\0\1", b"no value"),), timestamp_ms=YOUNG_MS)
    assert causes([first, odd, last], known=NO_FACTS) == {"a/t-0": (E, D, T)}
    part = replace(last, entries=(tombstone("a", "u"),), gap=1)
    assert causes([first, last, part], known=NO_FACTS) == {"a/t-0": (D, T), "a/u-0": (E, D, T)}
    sweep = log(TWO_DUE, [tombstone("a"), gone("a"), tombstone("b")])
    assert causes([sweep[0], replace(sweep[1], gap=1)], known=KNOWN) == {"a/t-0": (E, G), "b/t-0": (E, D)}
    whole_group = replace(last, entries=(tombstone("a"), gone("a")), gap=1)
    assert causes([first, whole_group], known=NO_FACTS) == {"a/t-0": (E, G)}


OLD = encode_value(2, 0, {**classic_fields(protocol=None, generation=3), "current_state_timestamp_ms": -1})
"""An empty group, in the version that every release reads."""


@pytest.mark.parametrize(
    "profile, expected", [("group_metadata_manager:3.9", {}), ("group_coordinator", {"a/t-0": (D,)})]
)
def test_tombstones_in_a_transaction(profile: str, expected: dict[str, Sequence[ChangeKind]]) -> None:
    """Up to 3.9 they only take what their producer has pending."""
    first, last = log([commit("a")], [tombstone("a")])
    assert causes([first, replace(last, producer_id=1, transactional=True)], profile=profile) == expected


WITH_TOMBSTONE = log([(gone("a")[0], OLD), commit("a", version=0)], [tombstone("a"), gone("a")])
WITHOUT = log([commit("a", version=0)], [tombstone("a")])
"""A group that never had a generation."""
PARTLY = log(
    [commit("a", version=0), commit("a", 7, "t", 1, version=0, commit_timestamp_ms=YOUNG_MS)], [tombstone("a")]
)


@pytest.mark.parametrize(
    "profile, with_tombstone, without, partly",
    [
        ("offset_manager:0.10.0", (E,), (E,), (E,)),
        ("group_metadata_manager:0.10.1", (E,), (E,), (E,)),
        ("group_metadata_manager:0.11", (E, T), (E, T), (E,)),
        ("group_metadata_manager:1.1", (E, G, T), (E, G, T), (E,)),
        ("group_metadata_manager:2.8", (E, D, G, T), (E, D, G, T), (E, D)),
        ("group_metadata_manager:3.9", (E, D, G, T), (E, D, G, T), (E, D)),
        ("group_coordinator:4.0.0", (E, G), (E, D, T), (E, D)),
        ("group_coordinator:4.3.1", (E, G), (D, T), (E, D)),
    ],
)
def test_releases(profile, with_tombstone, without, partly):
    found = [causes(history, known=NO_FACTS, profile=profile) for history in (WITH_TOMBSTONE, WITHOUT, PARTLY)]
    assert found == [{"a/t-0": with_tombstone}, {"a/t-0": without}, {"a/t-0": partly}]


def test_up_to_3_9_each_group_is_a_batch_of_its_own() -> None:
    history = log(TWO_DUE, [tombstone("a")], [tombstone("b")])
    at_once = [*history[:2], replace(history[2], timestamp_ms=LATER_MS)]
    assert causes(history, profile="group_metadata_manager:3.9") == {"a/t-0": (E, D, G), "b/t-0": (E, D)}
    assert causes(at_once, profile="group_metadata_manager:3.9") == {"a/t-0": (E,), "b/t-0": (E,)}


def test_what_a_refused_commit_kept_from_expiring() -> None:
    history = log([commit("a"), commit("a", 1, "t", 1)], [tombstone("a")])
    assert causes(history, profile="group_metadata_manager:3.7.0") == {"a/t-0": (E, D)}
    assert causes(history, profile="group_metadata_manager:3.7.1") == {"a/t-0": (D,)}


def test_a_plan_of_ours() -> None:
    history = log([young("a"), commit("b")], [tombstone("a"), gone("a")], [tombstone("b"), gone("b")])
    act = OwnAction(plan_id="p", intent_at_ms=LATER_MS + 500, outcome_at_ms=LATER_MS + 1_500)
    known = replace(KNOWN, removed={("a", "t", 0): [act], ("b", "t", 0): [act]})
    rows = {row.key[0]: row for row in told(history, known=known, starts_at=1)}
    assert (rows["a"].kind, rows["a"].by_plan_id) == (G, None)  # a second before the plan was applied
    assert (rows["b"].kind, rows["b"].by_plan_id, rows["b"].candidates) == (G, "p", None)


def test_what_was_set() -> None:
    history = [
        BatchSpec(entries=(commit("a", 5), commit("b", 5), commit("c", 5), commit("d", 5)), timestamp_ms=BASE_MS),
        BatchSpec(entries=(commit("a", 6), commit("b", 5), commit("e", 1)), timestamp_ms=LATER_MS),
        BatchSpec(entries=(tombstone("c"), commit("c", 5), commit("a", 7), tombstone("d")), timestamp_ms=LATER_MS),
    ]
    rows = [
        (row.key[0], row.kind.value, row.old and row.old.committed_offset, row.new and row.new.committed_offset)
        for row in told(history, starts_at=1)
    ]
    of_c = [("c", "deleted", 5, None), ("c", "set", None, 5)]
    assert rows == [("a", "set", 5, 7), *of_c, ("d", "deleted", 5, None), ("e", "set", None, 1)]


def test_what_a_plan_of_ours_put_back() -> None:
    act = OwnAction(plan_id="p", intent_at_ms=BASE_MS - 1)
    known = replace(KNOWN, restored={("a", "t", 0): [act]})
    history = log([commit("a"), commit("b")])
    (row, other) = told(history, known=known)
    assert (row.kind, row.by_plan_id, other.kind) == (ChangeKind.RESTORED, "p", ChangeKind.SET)
    known = replace(KNOWN, restored={("a", "t", 0): [replace(act, keeps=True)]})
    (row, other) = told(history, known=known)
    assert (row.kind, row.by_plan_id) == (ChangeKind.SET, None), "a keep repeats the value that a client set"


def test_a_commit_that_a_marker_settles_in_the_interval() -> None:
    history = [
        BatchSpec(entries=(commit("a", 5),), producer_id=1, transactional=True, timestamp_ms=BASE_MS),
        BatchSpec(producer_id=1, transactional=True, control=(1,), timestamp_ms=LATER_MS),
    ]
    (row,) = told(history, starts_at=1)
    assert (row.kind, row.old, row.log_offset) == (ChangeKind.SET, None, 0)


def test_the_evidence_is_told() -> None:
    (row, *_) = told(log(TWO_DUE, [tombstone("a"), gone("a"), tombstone("b")]), starts_at=1)
    assert row.due_at_ms == BASE_MS + RETENTION_MS
    assert row.evidence == "the only offset of the group and the group itself; in one write with 1 other group; due"


@pytest.mark.parametrize("known", [KNOWN, ChangeEvidence()], ids=["retention known", "retention unknown"])
@pytest.mark.parametrize(
    ("value", "due_at_ms", "said"),
    [
        (
            {"version": 1, "commit_timestamp_ms": 0, "expire_timestamp_ms": 86_400_000},
            86_400_000,
            "a timestamp of 1970",
        ),
        ({"version": 1, "commit_timestamp_ms": BASE_MS, "expire_timestamp_ms": BASE_MS + 9}, BASE_MS + 9, ""),
        ({"commit_timestamp_ms": 31_535_999_999}, None, "committed with a timestamp of 1970"),
        ({"commit_timestamp_ms": 31_536_000_000}, None, ""),
    ],
    ids=["1970, with its expiry", "with its expiry", "the last of 1970", "1971"],
)
def test_what_the_value_says_of_its_end(value: dict[str, int], due_at_ms: int | None, said: str, known) -> None:
    (row,) = told(log([commit("g", **value)], [tombstone("g"), gone("g")]), known=known, starts_at=1)
    assert said in str(row.evidence)
    assert ("1970" in str(row.evidence)) == bool(said)
    if due_at_ms is not None or known is not KNOWN:
        assert row.due_at_ms == due_at_ms


def test_another_release_is_suspected_before_a_producer() -> None:
    """A sweep or a request of this release deletes nothing that is not there; another one may."""
    tombstones = (tombstone("g"), tombstone("g", "never committed"))
    log = encode_log([BatchSpec(entries=(commit("g"),)), BatchSpec(entries=tombstones)])
    profile = profile_of("group_coordinator")
    (row,) = changes(load([], cap_bytes=CAP_BYTES, profile=profile), [log], known=ChangeEvidence(), cap_bytes=CAP_BYTES)
    assert "no operation of group_coordinator:4.3.1 writes that: another release did (--profile)" in str(row.evidence)


@pytest.mark.parametrize(
    "profile, operations",
    [
        ("offset_manager:0.9", ["last_member_left"]),
        ("group_metadata_manager:0.10.1", ["expired"]),
        ("group_metadata_manager:0.10.2", ["expired", "topic_deleted"]),
        ("group_metadata_manager:1.1", ["expired", "group_deleted", "topic_deleted"]),
        ("group_metadata_manager:3.9", ["expired", "group_deleted", "deleted", "topic_deleted"]),
        ("group_coordinator:4.3.1", ["expired", "group_deleted"]),
    ],
)
def test_what_removes_an_empty_group_without_offsets(profile: str, operations: list[str]) -> None:
    """Up to 3.9 also what else calls cleanupGroupMetadata; a group that never had a generation has no tombstone."""
    rules = profile_of(profile)
    assert list(possible_removals(rules)) == operations
    without = [one for one in operations if one in ("group_deleted", "last_member_left")]
    assert list(possible_removals(rules, is_swept=False)) == without
