"""Verdicts of intervals: whatever the truth in an interval is, they do not contradict it."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.coordinator.profiles import NEWEST
from sexton.runs.admin_tables import with_nulls
from sexton.tables import TABLES
from sexton.verdicts.expiry import judge_unblocked
from sexton.verdicts.intervals import CLOCK_SLACK_MS, judge_between

NOW_MS, RETENTION_MS, SWEEP_MS = 1_790_000_000_000, 600_000, 60_000
DUE_MS = NOW_MS - RETENTION_MS
"""What was committed then is due now."""


def tables(*, group: dict[str, Any], offset: dict[str, Any]) -> tuple[pa.Table, pa.Table]:
    groups = {
        "group_id": "g",
        "group_type": "Classic",
        "state": "Empty",
        "protocol_type": "consumer",
        "member_count": 0,
        "subscription_known": True,
        "subscribed_topics": [],
        **group,
    }
    offsets = {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 1, "is_unstable": False, **offset}
    return _table("committed_offsets", offsets), _table("groups", groups)


def _table(name: str, row: dict[str, Any]) -> pa.Table:
    schema = pa.schema([TABLES[name].column(column).field for column in row])
    return with_nulls(pa.Table.from_pylist([row], schema=schema), TABLES[name].columns)


def judged(*, group: dict[str, Any] | None = None, sweep_ms: int | None = None, **offset: Any) -> dict[str, Any]:
    offsets, groups = tables(group=group or {}, offset=offset)
    found = judge_between(
        offsets, groups, retention_ms=RETENTION_MS, now_ms=NOW_MS, seen_ms=NOW_MS, sweep_ms=sweep_ms, profile=NEWEST
    )
    (row,) = found.to_pylist()
    return row


def between(after_ms: int | None, by_ms: int) -> dict[str, Any]:
    """An Empty group since then, whose offset was committed then."""
    empty = {"empty_after_ms": after_ms, "empty_by_ms": by_ms}
    return {"group": empty, "commit_after_ms": after_ms, "commit_by_ms": by_ms}


@pytest.mark.parametrize(
    ("after_ms", "by_ms", "verdict", "reason"),
    [
        (DUE_MS - 50_000, DUE_MS - 10_000, "expire", "expired"),
        (None, DUE_MS - 10_000, "expire", "expired"),
        (DUE_MS - 10_000, DUE_MS + 10_000, "unknown", "between_snapshots"),
        (None, DUE_MS + 10_000, "unknown", "between_snapshots"),
        (DUE_MS + 10_000, DUE_MS + 20_000, "keep", "not_due"),
        (DUE_MS - 50_000, DUE_MS, "unknown", "between_snapshots"),
        (DUE_MS, DUE_MS + 20_000, "unknown", "between_snapshots"),
    ],
    ids=["due", "long-due", "straddles", "no-lower-bound", "not-due", "slack-above", "slack-below"],
)
def test_a_verdict_needs_both_ends(after_ms: int | None, by_ms: int, verdict: str, reason: str) -> None:
    row = judged(**between(after_ms, by_ms))
    assert (row["broker_verdict"], row["broker_reason"]) == (verdict, reason)
    assert row["broker_expires_at_ms"] == by_ms + RETENTION_MS + CLOCK_SLACK_MS
    assert row["due_after_ms"] == (None if after_ms is None else after_ms + RETENTION_MS - CLOCK_SLACK_MS)


def test_what_is_there_long_after_its_time_is_unknown() -> None:
    """By the broker's own retention: something happened that no admin snapshot saw, or the retention is another one."""
    due = between(DUE_MS - 500_000, DUE_MS - 400_000)
    assert judged(**due)["broker_verdict"] == "expire"  # by another retention it may well be there
    late = judged(**due, sweep_ms=SWEEP_MS)
    assert (late["broker_verdict"], late["broker_reason"]) == ("unknown", "overdue")
    assert judged(**between(DUE_MS - 100_000, DUE_MS - 50_000), sweep_ms=SWEEP_MS)["broker_verdict"] == "expire"


def test_a_group_that_was_not_answered_about_is_unknown() -> None:
    due = between(DUE_MS - 50_000, DUE_MS - 10_000)
    due["group"] |= {"snapshot_error": "GROUP_AUTHORIZATION_FAILED"}
    assert (judged(**due)["broker_verdict"], judged(**due)["broker_reason"]) == ("unknown", "not_answered")


@pytest.mark.parametrize(
    ("is_unstable", "verdict"), [(True, "keep"), (None, "unknown"), (False, "expire")], ids=["held", "unknown", "free"]
)
def test_an_open_transaction(is_unstable: bool | None, verdict: str) -> None:
    due = between(DUE_MS - 50_000, DUE_MS - 10_000)
    assert judged(**due, is_unstable=is_unstable)["broker_verdict"] == verdict


@pytest.mark.parametrize(
    ("topics", "verdict"), [(["t"], "keep"), (["other"], "unknown")], ids=["subscribed", "left-topic"]
)
def test_a_group_with_members_may_commit_at_any_time(topics: list[str], verdict: str) -> None:
    group = {"state": "Stable", "member_count": 1, "subscribed_topics": topics}
    row = judged(group=group, commit_after_ms=DUE_MS - 50_000, commit_by_ms=NOW_MS)
    assert row["broker_verdict"] == verdict


@pytest.mark.parametrize(
    ("after_ms", "verdict", "reason"),
    [(DUE_MS - 50_000, "unknown", "between_snapshots"), (DUE_MS + 20_000, "keep", "not_due")],
)
def test_what_matches_a_regex_may_be_subscribed(after_ms: int, verdict: str, reason: str) -> None:
    """Then time alone never makes it expire."""
    group = {"group_type": "Consumer", "protocol_type": "consumer", "state": "Stable", "member_count": 1}
    group |= {"subscription_known": False, "subscribed_topics": None}
    row = judged(group=group, commit_after_ms=after_ms, commit_by_ms=NOW_MS)
    assert (row["broker_verdict"], row["broker_reason"], row["broker_expires_at_ms"]) == (verdict, reason, None)
    assert row["changes_by"] != "time"


INSTANTS = st.integers(DUE_MS - 30_000, DUE_MS + 30_000)


@given(
    st.lists(INSTANTS, min_size=3, max_size=3), st.lists(INSTANTS, min_size=3, max_size=3),
    st.sampled_from(["Classic", "Consumer"]), st.sampled_from([None, "consumer"]), st.sampled_from([[], ["t"]]),
    st.booleans(),
)  # fmt: skip
def test_no_truth_in_the_interval_contradicts(commits, empties, kind, protocol, topics, has_members):
    (after_ms, committed_ms, by_ms), (empty_after_ms, emptied_ms, empty_by_ms) = sorted(commits), sorted(empties)
    group = {
        "group_type": kind,
        "protocol_type": protocol if kind == "Classic" else "consumer",
        "state": "Stable" if has_members else "Empty",
        "member_count": int(has_members),
        "subscribed_topics": topics,
        "empty_after_ms": None if has_members else empty_after_ms,
        "empty_by_ms": None if has_members else empty_by_ms,
    }
    row = judged(group=group, commit_after_ms=after_ms, commit_by_ms=by_ms)
    stamped = {"current_state_timestamp_ms": emptied_ms if kind == "Classic" and not has_members else None}
    offsets, groups = tables(group=group | stamped, offset={"commit_timestamp_ms": committed_ms})
    rules = {"retention_ms": RETENTION_MS, "now_ms": NOW_MS, "profile": NEWEST}
    (truth,) = judge_unblocked(offsets, groups, offsets.slice(0, 0), **rules).to_pylist()
    assert row["broker_verdict"] in ("unknown", truth["broker_verdict"])
    if truth["broker_expires_at_ms"] is not None and row["broker_expires_at_ms"] is not None:
        assert row["due_after_ms"] <= truth["broker_expires_at_ms"] <= row["broker_expires_at_ms"]
