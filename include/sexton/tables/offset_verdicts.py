"""The table offset_verdicts: the verdicts of the broker's rules and of a policy on each offset."""

from dataclasses import replace

from sexton.tables.apply_ledger import APPLY_OUTCOMES
from sexton.tables.columns import LOG_OFFSET, LOG_PARTITION, OFFSET_KEY, boolean, int64, string
from sexton.tables.table import Table
from sexton.tables.transactions import VERDICTS
from sexton.vocabulary import ORPHANS

BROKER_REASONS = (
    *("expired", "expired_explicit", "not_due", "subscribed", "group_active", "pending_transaction", "share_group"),
    *("sweep_blocked", "load_would_fail"),
    *("between_snapshots", "overdue", "not_answered"),
)
"""The last three explain the verdict `unknown`, on a cluster that hides its log. between_snapshots: as_of lies between
the earliest and the latest time at which the offset is due. overdue: both times passed more than two sweeps ago, but
the offset is still committed, so something happened that no admin snapshot shows. not_answered: no broker answered for
the group."""

CHANGES_BY = (
    *("time", "commit", "subscription", "group_empty", "subscription, group_empty", "transaction_end"),
    *("commit, subscription", "sweep_unblocked"),
)
"""Events that can change a verdict; a comma means that either of two events can."""

_VERDICTS = ("keep", "expire")

OFFSET_VERDICTS = Table(
    name="offset_verdicts",
    grain="an offset of a group: a committed offset, a copy in another log partition, or one of a share group",
    key=("log_partition", "group_id", "topic", "partition"),
    columns=(
        *OFFSET_KEY,
        string(
            "broker_verdict",
            "what the broker would do at as_of; unknown only with coverage admin",
            allowed=(*_VERDICTS, "unknown"),
        ),
        string("broker_reason", "why", allowed=BROKER_REASONS),
        int64(
            "broker_expires_at_ms",
            "when it is due, with coverage admin the latest time; NULL while only an event can make it due",
            nullable=True,
        ),
        int64(
            "due_after_ms",
            "earliest time at which it is due; NULL while only an event can make it due, or where no admin snapshot "
            "is early enough",
            nullable=True,
            known_from="admin_snapshots",
        ),
        string(
            "policy_verdict", "verdict of the policy; NULL without one", nullable=True, allowed=(*_VERDICTS, "hold")
        ),
        string("policy_reason", "why", nullable=True),
        string("policy_rule", "the rule or hold that decided", nullable=True),
        int64("policy_expires_at_ms", "when it is due by the policy", nullable=True),
        string("policy_owner", "owner of that rule or hold", nullable=True),
        int64(
            "base_timestamp_ms", "start of its retention; NULL for an explicit expiry", nullable=True, known_from="log"
        ),
        string(
            "changes_by",
            "what can change the broker's verdict, at once or later: time alone, a commit of the offset, the start or "
            "end of a subscription to its topic, the last member leaving, the end of the transaction, the end of the "
            "failure of its log partition's load or sweep; NULL where nothing can",
            nullable=True,
            allowed=CHANGES_BY,
        ),
        string(
            "orphan",
            "when the topics were recorded, its topic did not exist, had been recreated, or had no such partition; "
            "NULL where the partition existed, or where that is not known",
            nullable=True,
            allowed=ORPHANS,
        ),
        boolean("left_topic", "whether the group is active, its subscription known and the topic not in it"),
        boolean(
            "behind_log_start",
            "whether the record that it points to is already deleted from the topic's log; NULL where that is not "
            "known",
            nullable=True,
        ),
        boolean(
            "beyond_log_end",
            "whether it is beyond the end of the topic's log, which was truncated or recreated; NULL where that is "
            "not known",
            nullable=True,
        ),
        int64(
            "pinned_by_producer_id",
            "producer whose open transaction has a pending value for the same key, the oldest if several; NULL "
            "without one",
            nullable=True,
        ),
        replace(
            LOG_OFFSET, name="pinned_first_log_offset", nullable=True, doc="log_offset where that transaction begins"
        ),
        int64("pinned_since_ms", "when the first record of that transaction was written", nullable=True),
        string(
            "pinned_by_transactional_id",
            "its transactional.id; NULL unless the input has `__transaction_state` at as_of, and that names the "
            "producer",
            nullable=True,
        ),
        string(
            "pinned_verdict",
            "whether that transaction will end, as in the table transactions; NULL unless the input has "
            "`__transaction_state` at as_of",
            nullable=True,
            allowed=VERDICTS,
        ),
        int64(
            "client_commit_timestamp_ms",
            "when a client committed it, if `sexton keep` has repeated that commit since; policies count from it. "
            "NULL if the current commit is a client's, and without a policy",
            nullable=True,
        ),
        int64(
            "client_state_timestamp_ms",
            "when its own members left the group Empty, if `sexton keep` has joined and left it since; policies count "
            "from it. NULL otherwise, and without a policy",
            nullable=True,
        ),
        int64(
            "kept_until_ms",
            "when the hold with `keep` that keeps it alive ends, the largest int64 if it has no end; NULL without "
            "such a hold",
            nullable=True,
        ),
        string(
            "keep_status",
            "kept: the broker does not expire it before the run after next; due: it does, and `sexton keep` has yet "
            "to act; not_kept: it does, and an attempt failed or was not made in time; ended: no longer kept",
            nullable=True,
            allowed=("kept", "due", "not_kept", "ended"),
        ),
        int64("keep_at_ms", "the last attempt to keep it, from the ledger", nullable=True),
        string(
            "keep_outcome",
            "outcome of that attempt, as in apply_ledger; NULL while it is unknown, and without an attempt",
            nullable=True,
            allowed=APPLY_OUTCOMES,
        ),
        string("keep_error", "why it was not kept", nullable=True),
        LOG_PARTITION,
    ),
)
