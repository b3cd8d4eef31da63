"""Verdicts where commit times are known only as intervals (coverage `admin`).

The rules of `verdicts.expiry` are applied twice: with every instant as early, and as late, as possible. An offset that
expires even with the latest instants is due; one that does not even with the earliest is kept; else the verdict is
`unknown`. An offset that should have been swept already but still exists is `unknown` as well: there was a commit or a
member that no admin snapshot saw, or the broker has another retention. Explicit expiries (OffsetCommit v2 to v4), which
the Admin API does not show, are assumed absent. If the Admin API does not return what the members of a Consumer or
Streams group subscribe to (a regex, which the broker resolves), it is taken to be no topic for the earliest instants,
and every topic for the latest.
"""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST
from sexton.verdicts.expiry import KEY, judge_unblocked, with_column

UNKNOWN = "unknown"
BETWEEN_SNAPSHOTS, OVERDUE, NOT_ANSWERED = "between_snapshots", "overdue", "not_answered"
CLOCK_SLACK_MS = 1_000
"""The largest assumed difference between the clocks of hosts that take snapshots: both ends of an interval are moved
by it."""
_LONG_AGO_MS = 0


def judge_between(
    offsets: pa.Table,
    groups: pa.Table,
    *,
    retention_ms: int,
    now_ms: int,
    seen_ms: int,
    sweep_ms: int | None,
    profile: Profile = NEWEST,
) -> pa.Table:
    """The broker's verdict on each of `offsets` at `now_ms`, in their order.

    `offsets` and `groups` are tables of a run from admin snapshots, the last of which began at `seen_ms`. `sweep_ms`:
    how long an expired offset may still exist; None if the retention is not the broker's own. Columns: the key,
    broker_verdict (keep, expire, unknown), broker_reason, broker_expires_at_ms (the later end), due_after_ms (the
    earlier end), changes_by and left_topic.
    """
    judge = partial(judge_unblocked, retention_ms=retention_ms, now_ms=now_ms, profile=profile)
    earliest, latest = _at(offsets, groups, "after", -CLOCK_SLACK_MS), at_latest(offsets, groups)
    unstable = offsets["is_unstable"]
    low = judge(*earliest, offsets.filter(pc.fill_null(unstable, False)).select(KEY))
    high = judge(*latest, offsets.filter(pc.fill_null(unstable, True)).select(KEY))
    low_expires, high_expires = (np.asarray(pc.equal(one["broker_verdict"], "expire")) for one in (low, high))
    due_after, due_by = low["broker_expires_at_ms"], high["broker_expires_at_ms"]
    is_timed = pc.and_(pc.is_valid(due_after), pc.is_valid(due_by))
    swept_by = None if sweep_ms is None else pc.add(due_by, 2 * sweep_ms + CLOCK_SLACK_MS)
    is_late = np.zeros(offsets.num_rows, bool)
    if swept_by is not None:
        is_late = np.asarray(pc.fill_null(pc.less(swept_by, seen_ms), False)) & high_expires
    failed = groups.filter(pc.is_valid(groups["snapshot_error"]))["group_id"].combine_chunks()
    is_unanswered = np.asarray(pc.is_in(offsets["group_id"], value_set=failed))
    case = np.select([is_unanswered, is_late, low_expires != high_expires, high_expires], [0, 1, 2, 3], 4)
    reasons = pa.array([NOT_ANSWERED, OVERDUE, BETWEEN_SNAPSHOTS, None, None], pa.string()).take(pa.array(case))
    no_bound = pa.scalar(None, pa.int64())
    return pa.table(
        {
            **{name: offsets[name] for name in KEY},
            "broker_verdict": pa.array([UNKNOWN, UNKNOWN, UNKNOWN, "expire", "keep"]).take(pa.array(case)),
            "broker_reason": pc.coalesce(reasons, low["broker_reason"].combine_chunks()),
            "broker_expires_at_ms": pc.if_else(is_timed, due_by, no_bound),
            "due_after_ms": pc.if_else(pc.and_(is_timed, _has_earliest(offsets, groups)), due_after, no_bound),
            "changes_by": pc.if_else(pa.array(case < 3), None, high["changes_by"].combine_chunks()),
            "left_topic": high["left_topic"],
        }
    )


def at_latest(offsets: pa.Table, groups: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The tables with every instant as late as admin snapshots allow."""
    return _at(offsets, _all_subscribed(offsets, groups), "by", CLOCK_SLACK_MS)


def by_latest(verdicts: pa.Table, offsets: pa.Table) -> pa.Table:
    """`verdicts` for a policy that counts from the latest instants: offsets that an open transaction may hold count as
    pinned, so no rule expires them."""
    held = pc.if_else(pc.fill_null(offsets["is_unstable"], True), pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))
    return with_column(verdicts, "pinned_by_producer_id", held)


def _at(offsets: pa.Table, groups: pa.Table, end: str, slack_ms: int) -> tuple[pa.Table, pa.Table]:
    """The tables with every instant at one end of its interval: "after", the earliest, or "by", the latest."""
    committed = pc.add(pc.fill_null(offsets[f"commit_{end}_ms"], _LONG_AGO_MS), slack_ms)
    emptied = pc.add(pc.fill_null(groups[f"empty_{end}_ms"], _LONG_AGO_MS), slack_ms)
    is_empty = pc.and_(pc.equal(groups["state"], "Empty"), pc.equal(groups["group_type"], "Classic"))
    return (
        with_column(offsets, "commit_timestamp_ms", committed),
        with_column(groups, "current_state_timestamp_ms", pc.if_else(is_empty, emptied, pa.scalar(None, pa.int64()))),
    )


def _all_subscribed(offsets: pa.Table, groups: pa.Table) -> pa.Table:
    """`groups`, in which groups with unknown subscriptions of members subscribe to every topic that they have offsets
    of."""
    is_known = pc.or_(groups["subscription_known"], pc.equal(groups["group_type"], "Classic"))
    names = groups["group_id"].filter(pc.and_(pc.invert(is_known), pc.greater(groups["member_count"], 0)))
    if not len(names):
        return groups
    own = offsets.filter(pc.is_in(offsets["group_id"], value_set=names.combine_chunks())).select(["group_id", "topic"])
    topics = own.group_by("group_id").aggregate([("topic", "distinct")])
    at = pc.index_in(groups["group_id"], value_set=topics["group_id"].combine_chunks()).combine_chunks()
    found = topics["topic_distinct"].combine_chunks().take(at)
    return with_column(groups, "subscribed_topics", pc.coalesce(found, groups["subscribed_topics"].combine_chunks()))


def _has_earliest(offsets: pa.Table, groups: pa.Table) -> pa.Array:
    """For each offset whether the earlier end is known of the instant from which retention counts: the commit, or the
    group's change to Empty."""
    at = pc.index_in(offsets["group_id"], value_set=groups["group_id"].combine_chunks()).combine_chunks()
    since_empty = pc.and_(
        pc.and_(pc.equal(groups["group_type"], "Classic"), pc.equal(groups["state"], "Empty")),
        pc.is_valid(groups["protocol_type"]),
    ).combine_chunks()
    emptied = pc.is_valid(groups["empty_after_ms"]).combine_chunks()
    return pc.if_else(since_empty.take(at), emptied.take(at), pc.is_valid(offsets["commit_after_ms"]).combine_chunks())
