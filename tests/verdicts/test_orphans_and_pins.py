"""What is told of offsets beside the verdict: over whole tables the same as plainly, and right in plain cases.

What turns a verdict is held against the plain rules in tests/campaign/checks.py.
"""

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.coordinator import orphans
from sexton.coordinator.loading import Loaded
from sexton.coordinator.orphans import KnownTopic
from sexton.coordinator.profiles import NEWEST, profile_of
from sexton.records import kafka_uuid
from sexton.tables import TABLES
from sexton.verdicts.expiry import held_offsets
from sexton.verdicts.orphans import TopicsTable, against_topics
from sexton.verdicts.pins import pins
from tests.campaign.histories import histories
from tests.fates import load
from tests.kernels.compare import PROFILES
from tests.log_builder import (
    ABORT,
    BAD_SUBSCRIPTION,
    BASE_MS,
    TOPIC_IDS,
    TOPICS,
    BatchSpec,
    classic_fields,
    commit,
    encode_log,
    group_entry,
    subscription,
)
from tests.oracle import is_behind_log_start, is_beyond_log_end, oracle_tables, pin_of
from tests.verdicts.whole_judge import judge

CAP_BYTES = 1 << 20
RETENTION_MS = 60_000
NOW_MS = BASE_MS + 70_000
INSTANT = {"retention_ms": RETENTION_MS, "now_ms": NOW_MS}
STATE = ("committed_offsets", "unreachable_offsets", "pending_offsets", "groups", "open_transactions")

topics = st.dictionaries(
    st.sampled_from((*TOPICS, "v")),
    st.builds(
        lambda topic_id, starts, end: KnownTopic(
            topic_id=topic_id, log_starts=tuple(starts), log_ends=tuple(max(start, end) for start in starts)
        ),
        st.sampled_from([None, *(kafka_uuid(each) for each in TOPIC_IDS[1:])]),
        st.lists(st.sampled_from([-1, 0, 1 << 39]), min_size=1, max_size=2),
        st.sampled_from([-1, 3, 1 << 39]),
    ),
)
known_topics = st.builds(
    orphans.KnownTopics,
    by_name=topics,
    sees_all=st.booleans(),
    recorded_at_ms=st.sampled_from([None, BASE_MS - 60_000, BASE_MS, BASE_MS + 60_001]),
)


def state_of(loaded: Loaded, partition_count: int | None = None) -> dict[str, pa.Table]:
    rows = oracle_tables(loaded, 0, partition_count)
    return {name: pa.Table.from_pylist(rows[name], schema=TABLES[name].arrow_schema(with_run=False)) for name in STATE}


def as_rows(known: orphans.KnownTopics) -> TopicsTable:
    rows = [
        {
            "topic": name,
            "topic_id": topic.topic_id,
            "partition": number,
            "log_start_offset": start,
            "log_end_offset": topic.log_ends[number] if topic.log_ends else -1,
        }
        for name, topic in known.by_name.items()
        for number, start in enumerate(topic.log_starts)
    ]
    partitions = pa.Table.from_pylist(rows[::-1], schema=TABLES["topic_partitions"].arrow_schema(with_run=False))
    return TopicsTable(partitions=partitions, sees_all=known.sees_all, recorded_at_ms=known.recorded_at_ms)


def told(loaded: Loaded, known: orphans.KnownTopics | None, **options: Any) -> list[dict[str, Any]]:
    """Rows of the kernels, by whole tables."""
    state = state_of(loaded, options.get("partition_count"))
    offsets = held_offsets(state["committed_offsets"], state["unreachable_offsets"])
    judged = judge(offsets, state["groups"], state["pending_offsets"], **INSTANT, profile=loaded.profile)
    for more in (
        against_topics(offsets, None if known is None else as_rows(known)),
        pins(offsets, state["pending_offsets"], state["open_transactions"]),
    ):
        for name in more.column_names:
            judged = judged.append_column(name, more[name])
    return judged.to_pylist()


def plainly(loaded: Loaded, row: dict[str, Any], known: orphans.KnownTopics) -> dict[str, Any]:
    """The same of one offset, by the plain rules."""
    key = (row["group_id"], row["topic"], row["partition"])
    offset = loaded.offsets[key]
    producer_id, first_log_offset, first_timestamp_ms = pin_of(key, loaded) or (None, None, None)
    return {
        "orphan": orphans.orphan_of(key, offset, known),
        "behind_log_start": is_behind_log_start(key, offset, known),
        "beyond_log_end": is_beyond_log_end(key, offset, known),
        "pinned_by_producer_id": producer_id,
        "pinned_first_log_offset": first_log_offset,
        "pinned_since_ms": first_timestamp_ms,
    }


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.text)
@settings(max_examples=25)
@given(histories(max_size=10), known_topics, st.sampled_from([None, 1, 4]))
def test_whole_tables_equal_the_plain_rules(profile, history, known, partition_count):
    loaded = load([encode_log(history)], cap_bytes=CAP_BYTES, profile=profile)
    for row in told(loaded, known, partition_count=partition_count):
        expected = plainly(loaded, row, known)
        assert {name: row[name] for name in expected} == expected


# --- plain cases

R, T0 = RETENTION_MS, NOW_MS
OLD, YOUNG = commit("a", 5, commit_timestamp_ms=T0 - R), commit("a", 5, commit_timestamp_ms=T0)
EXPLICIT = commit("a", 5, version=1, commit_timestamp_ms=T0, expire_timestamp_ms=T0)


def classic(*members: tuple[str, bytes], **fields: Any) -> Any:
    return group_entry(2, "a", classic_fields(*members, **fields))


def of(*entries: Any, profile: str | None = None, more: tuple[BatchSpec, ...] = ()) -> Loaded:
    history = [BatchSpec(entries=entries), *more]
    rules = NEWEST if profile is None else profile_of(profile)
    return load([encode_log(history)], cap_bytes=CAP_BYTES, profile=rules)


PENDING = BatchSpec(entries=(YOUNG,), producer_id=7, transactional=True, timestamp_ms=T0 - 9)


@pytest.mark.parametrize(
    ("loaded", "changes_by"),
    [
        (of(OLD), "commit, subscription"),
        (of(YOUNG), "time"),
        (of(OLD, classic(state_timestamp_ms=T0 - R)), "subscription"),
        (of(EXPLICIT, classic(state_timestamp_ms=T0 - R)), "subscription"),
        (of(EXPLICIT, classic(state_timestamp_ms=T0 - R + 1)), "commit, subscription"),
        (of(OLD, classic(("m", subscription("t")))), "subscription, group_empty"),
        (of(OLD, classic(("m", subscription("u")))), "commit, subscription"),
        (of(OLD, classic(("m", subscription()), protocol_type="connect")), "group_empty"),
        (of(OLD, classic(("m", BAD_SUBSCRIPTION), protocol=None)), "subscription, group_empty"),
        (of(OLD, more=(PENDING,)), "transaction_end"),
        (of(YOUNG, more=(PENDING,)), "time"),
        (of(commit("a", commit_timestamp_ms=1 << 62)), "time"),
        (of(commit("a", commit_timestamp_ms=(1 << 63) - 1)), "commit"),
        (of(commit("a", version=1, commit_timestamp_ms=1), profile="group_metadata_manager:2.0.1"), "commit"),
        (of(OLD, classic(("m", subscription("u"))), profile="group_metadata_manager:2.3.0"), "group_empty"),
    ],
)
def test_what_turns_a_verdict(loaded: Loaded, changes_by: str) -> None:
    (row,) = told(loaded, None)
    assert row["changes_by"] == changes_by


HERE, ANOTHER = UUID(int=7), UUID(int=8)
T = {"t": KnownTopic(topic_id=kafka_uuid(HERE), log_starts=(6,))}


@pytest.mark.parametrize(
    ("by_name", "options", "topic_id", "orphan", "behind"),
    [
        ({"u": T["t"]}, {}, HERE, "topic_gone", None),
        ({}, {}, HERE, "topic_gone", None),
        ({"u": T["t"]}, {"sees_all": False}, HERE, None, None),
        ({"u": T["t"]}, {"recorded_at_ms": T0}, HERE, None, None),
        ({"u": T["t"]}, {"recorded_at_ms": T0 + 1}, HERE, "topic_gone", None),
        (T, {}, HERE, None, True),
        (T, {"sees_all": False}, ANOTHER, "topic_recreated", None),
        (T, {}, UUID(int=0), None, True),
        ({"t": KnownTopic(topic_id=None, log_starts=(5,))}, {}, HERE, None, False),
        ({"t": KnownTopic(topic_id=None, log_starts=(-1,))}, {}, HERE, None, None),
        ({"t": KnownTopic(topic_id=None, log_starts=())}, {}, HERE, "topic_gone", None),
    ],
)
def test_orphans(by_name, options, topic_id, orphan, behind):
    loaded = of(commit("a", 5, version=4, topic_id=topic_id, commit_timestamp_ms=T0))
    (row,) = told(loaded, orphans.KnownTopics(by_name=by_name, **options))
    assert (row["orphan"], row["behind_log_start"]) == (orphan, behind)


@pytest.mark.parametrize(
    ("ends", "options", "topic_id", "beyond"),
    [((4,), {}, HERE, True), ((5,), {}, HERE, False), ((-1,), {}, HERE, None), ((4,), {}, ANOTHER, None),
     ((4,), {"recorded_at_ms": T0}, HERE, None), ((4,), {"recorded_at_ms": T0 + 1}, HERE, True)],
    ids=["beyond", "at the end", "not known", "an orphan", "recorded before the commit", "recorded after it"],
)  # fmt: skip
def test_beyond_the_log_end(ends, options, topic_id, beyond):
    by_name = {"t": KnownTopic(topic_id=kafka_uuid(HERE), log_starts=(0,), log_ends=ends)}
    loaded = of(commit("a", 5, version=4, topic_id=topic_id, commit_timestamp_ms=T0))
    known = orphans.KnownTopics(by_name=by_name, **options)
    (row,) = told(loaded, known)
    assert row["beyond_log_end"] is beyond is plainly(loaded, row, known)["beyond_log_end"]


def test_a_partition_beyond_the_count() -> None:
    loaded = of(*(commit("a", 5, partition=number) for number in (-1, 0, 1)))
    rows = told(loaded, orphans.KnownTopics(by_name=T))
    assert {row["partition"]: row["orphan"] for row in rows} == {-1: "partition_gone", 0: None, 1: "partition_gone"}
    assert len(rows) == 3


def test_without_topics_nothing_is_told_of_them() -> None:
    (row,) = told(of(OLD), None)
    assert (row["orphan"], row["behind_log_start"]) == (None, None)


def test_the_oldest_of_several_transactions_pins() -> None:
    other = BatchSpec(entries=(commit("b"), YOUNG), producer_id=3, transactional=True, timestamp_ms=T0 - 5)
    loaded = of(OLD, commit("b", partition=1), more=(PENDING, other))
    pinned, free = sorted(told(loaded, None), key=lambda row: row["group_id"])
    assert [pinned[f"pinned_{name}"] for name in ("by_producer_id", "first_log_offset", "since_ms")] == [7, 2, T0 - 9]
    assert free["pinned_by_producer_id"] is None
    ended = of(OLD, more=(PENDING, other, BatchSpec(producer_id=7, transactional=True, control=(ABORT,))))
    (row,) = (row for row in told(ended, None) if row["group_id"] == "a")
    assert row["pinned_by_producer_id"] == 3


@pytest.mark.parametrize(
    ("entries", "has_left"),
    [
        ((OLD,), False),
        ((OLD, classic(("m", subscription("t")))), False),
        ((OLD, classic(("m", subscription("u")))), True),
        ((OLD, classic(("m", subscription()), protocol_type="connect")), False),
        ((OLD, group_entry(3, "a", {"epoch": 1})), False),
    ],
)
def test_a_group_that_left_the_topic(entries: tuple[Any, ...], has_left: bool) -> None:
    (row,) = told(of(*entries), None)
    assert row["left_topic"] is has_left
