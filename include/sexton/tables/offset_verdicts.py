"""The table offset_verdicts: what the broker's rules and a policy say of each offset."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.apply_ledger import APPLY_OUTCOMES
from sexton.tables.columns import LOG_OFFSET, LOG_PARTITION, OFFSET_KEY
from sexton.tables.table import Column, Table
from sexton.tables.transactions import VERDICTS
from sexton.vocabulary import ORPHANS

BROKER_REASONS = (
    "expired",
    "expired_explicit",
    "not_due",
    "subscribed",
    "group_active",
    "pending_transaction",
    "share_group",
    "sweep_blocked",
    "load_would_fail",
    "between_snapshots",
    "overdue",
    "not_answered",
)
"""The last three are of verdicts that are `unknown`, of a cluster that hides its log: it was due at one end of its
interval and not at the other; it was due at both and is still there, so something happened that no admin snapshot
shows; the group was not answered about."""

CHANGES_BY = (
    "time",
    "commit",
    "subscription",
    "group_empty",
    "subscription, group_empty",
    "transaction_end",
    "commit, subscription",
    "sweep_unblocked",
)
"""What may change a verdict: one event, or either of two."""

_VERDICTS = ("keep", "expire")

OFFSET_VERDICTS = Table(
    name="offset_verdicts",
    grain="an offset under a group: a committed offset, a copy in another log partition, or one of a share group",
    key=("log_partition", "group_id", "topic", "partition"),
    columns=(
        *OFFSET_KEY,
        Column(
            "broker_verdict",
            pa.string(),
            "what the broker would do at as_of; unknown only with coverage admin",
            allowed=(*_VERDICTS, "unknown"),
        ),
        Column("broker_reason", pa.string(), "why", allowed=BROKER_REASONS),
        Column(
            "broker_expires_at_ms",
            pa.int64(),
            "when it is due, by admin snapshots at the latest; NULL while only an event can make it so",
            nullable=True,
        ),
        Column(
            "due_after_ms",
            pa.int64(),
            "it is not due earlier; NULL while only an event can make it so, or no admin snapshot is early enough",
            nullable=True,
            known_from="admin_snapshots",
        ),
        Column(
            "policy_verdict",
            pa.string(),
            "what the owner's rules want; NULL without a policy",
            nullable=True,
            allowed=(*_VERDICTS, "hold"),
        ),
        Column("policy_reason", pa.string(), "why", nullable=True),
        Column("policy_rule", pa.string(), "the rule or hold that decided", nullable=True),
        Column("policy_expires_at_ms", pa.int64(), "when the rule is due", nullable=True),
        Column("policy_owner", pa.string(), "owner of that rule or hold", nullable=True),
        Column(
            "base_timestamp_ms",
            pa.int64(),
            "from when retention counts; NULL under an explicit expiry",
            nullable=True,
            known_from="log",
        ),
        Column(
            "changes_by",
            pa.string(),
            "what changes the broker's verdict, at once or after some time: time alone, a commit of the offset,"
            " a subscription to its topic that begins or ends, the last member leaving, the end of the transaction,"
            " the end of what makes the load or the sweep of its log partition fail; NULL where nothing does",
            nullable=True,
            allowed=CHANGES_BY,
        ),
        Column(
            "orphan",
            pa.string(),
            "the topic was not among the cluster's when they were recorded, is another of the same name, or has no "
            "such partition; NULL where it exists, or where that is not known",
            nullable=True,
            allowed=ORPHANS,
        ),
        Column("left_topic", pa.bool_(), "whether the group is active, its subscription known and the topic not in it"),
        Column(
            "behind_log_start",
            pa.bool_(),
            "whether what it points to is deleted from the topic's log already; NULL where that is not known",
            nullable=True,
        ),
        Column(
            "beyond_log_end",
            pa.bool_(),
            "whether it is beyond the end of the topic's log, which was truncated or made anew; NULL where that is not "
            "known",
            nullable=True,
        ),
        Column(
            "pinned_by_producer_id",
            pa.int64(),
            "producer whose open transaction holds a value of the very same key, the oldest of several; NULL "
            "without one",
            nullable=True,
        ),
        replace(LOG_OFFSET, name="pinned_first_log_offset", nullable=True, doc="where that transaction begins"),
        Column("pinned_since_ms", pa.int64(), "when its first record was written", nullable=True),
        Column(
            "pinned_by_transactional_id",
            pa.string(),
            "whose it is; NULL unless the input has `__transaction_state` at as_of, and it names the producer",
            nullable=True,
        ),
        Column(
            "pinned_verdict",
            pa.string(),
            "whether it will end, as in the table transactions; NULL unless the input has `__transaction_state` at "
            "as_of",
            nullable=True,
            allowed=VERDICTS,
        ),
        Column(
            "client_commit_timestamp_ms",
            pa.int64(),
            "when a client committed it, where `sexton keep` has repeated that commit since; policies count from it. "
            "NULL where the commit is a client's own, and without a policy",
            nullable=True,
        ),
        Column(
            "client_state_timestamp_ms",
            pa.int64(),
            "when the group became Empty by its own members, where `sexton keep` has joined and left it since; "
            "likewise",
            nullable=True,
        ),
        Column(
            "kept_until_ms",
            pa.int64(),
            "until when a hold with `keep` keeps it alive, the largest int64 without an end; NULL where none does",
            nullable=True,
        ),
        Column(
            "keep_status",
            pa.string(),
            "kept: the broker does not expire it before the second run from now; due: it does, and `sexton keep` has "
            "its turn; not_kept: it does, and an attempt has failed or was not made in time; ended: kept no longer",
            nullable=True,
            allowed=("kept", "due", "not_kept", "ended"),
        ),
        Column("keep_at_ms", pa.int64(), "the last attempt to keep it, by the ledger", nullable=True),
        Column(
            "keep_outcome",
            pa.string(),
            "its outcome, as in apply_ledger; NULL while it is unknown, and without one",
            nullable=True,
            allowed=APPLY_OUTCOMES,
        ),
        Column("keep_error", pa.string(), "why it was not kept", nullable=True),
        LOG_PARTITION,
    ),
)
