"""Declares the tables of expiry, by the broker's rules and by a policy: offset_verdicts and expiry_forecast."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import GROUP_ID, LOG_OFFSET, LOG_PARTITION, OFFSET_KEY
from sexton.tables.table import Column, Table

BROKER_REASONS = (
    "expired",
    "expired_explicit",
    "not_due",
    "subscribed",
    "group_active",
    "pending_transaction",
    "share_group",
    "sweep_blocked",
)
ORPHANS = ("topic_gone", "topic_recreated", "partition_gone")
"""Why an offset is about nothing that the cluster still has."""
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
HORIZON_DAYS = (1, 7, 30)
"""How far a forecast looks."""

_VERDICTS = ("keep", "expire")

OFFSET_VERDICTS = Table(
    name="offset_verdicts",
    grain="an offset under a group: a committed offset, a copy in another log partition, or one of a share group",
    key=("log_partition", "group_id", "topic", "partition"),
    columns=(
        *OFFSET_KEY,
        Column(name="broker_verdict", type=pa.string(), doc="what the broker would do at as_of", allowed=_VERDICTS),
        Column(name="broker_reason", type=pa.string(), doc="why", allowed=BROKER_REASONS),
        Column(
            name="broker_expires_at_ms",
            type=pa.int64(),
            doc="when it is due; NULL while only an event can make it so",
            nullable=True,
            unit="ms",
        ),
        Column(
            name="policy_verdict",
            type=pa.string(),
            doc="what the owner's rules want; NULL without a policy",
            nullable=True,
            allowed=(*_VERDICTS, "hold"),
        ),
        Column(name="policy_reason", type=pa.string(), doc="why", nullable=True),
        Column(name="policy_rule", type=pa.string(), doc="the rule or hold that decided", nullable=True),
        Column(name="policy_expires_at_ms", type=pa.int64(), doc="when the rule is due", nullable=True, unit="ms"),
        Column(name="policy_owner", type=pa.string(), doc="owner of that rule or hold", nullable=True),
        Column(
            name="base_timestamp_ms",
            type=pa.int64(),
            doc="from when retention counts; NULL under an explicit expiry",
            nullable=True,
            unit="ms",
        ),
        Column(
            name="changes_by",
            type=pa.string(),
            doc="what changes the broker's verdict, at once or after some time: time alone, a commit of the offset,"
            " a subscription to its topic that begins or ends, the last member leaving, the end of the transaction,"
            " the end of what makes the sweep of its log partition fail; NULL where nothing does",
            nullable=True,
            allowed=CHANGES_BY,
        ),
        Column(
            name="orphan",
            type=pa.string(),
            doc="the topic was not among the cluster's when they were recorded, is another of the same name, or has no "
            "such partition; NULL where it exists, or where that is not known",
            nullable=True,
            allowed=ORPHANS,
        ),
        Column(
            name="left_topic",
            type=pa.bool_(),
            doc="whether the group is active, its subscription known and the topic not in it",
        ),
        Column(
            name="behind_log_start",
            type=pa.bool_(),
            doc="whether what it points to is deleted from the topic's log already; NULL where that is not known",
            nullable=True,
        ),
        Column(
            name="pinned_by_producer_id",
            type=pa.int64(),
            doc="producer whose open transaction holds a value of the very same key, the oldest of several; NULL "
            "without one",
            nullable=True,
        ),
        replace(LOG_OFFSET, name="pinned_first_log_offset", nullable=True, doc="where that transaction begins"),
        Column(
            name="pinned_since_ms",
            type=pa.int64(),
            doc="when its first record was written",
            nullable=True,
            unit="ms",
        ),
        LOG_PARTITION,
    ),
)

EXPIRY_FORECAST = Table(
    name="expiry_forecast",
    grain="what a group loses within a horizon to the broker, or to one rule",
    key=("log_partition", "group_id", "horizon_days", "by"),
    columns=(
        GROUP_ID,
        Column(name="horizon_days", type=pa.int32(), doc=f"days from as_of: {HORIZON_DAYS}", unit="days", minimum=1),
        Column(name="by", type=pa.string(), doc="broker, or rule:<name>"),
        Column(
            name="offset_count",
            type=pa.int64(),
            doc="offsets that expire until then; those of a longer horizon hold those of a shorter one",
            unit="count",
            minimum=1,
        ),
        Column(
            name="is_whole_group",
            type=pa.bool_(),
            doc="whether nothing of the group is left then, all causes taken together",
        ),
        Column(name="first_expires_at_ms", type=pa.int64(), doc="when the first of them goes", unit="ms"),
        Column(name="last_expires_at_ms", type=pa.int64(), doc="when the last of them goes", unit="ms"),
        LOG_PARTITION,
    ),
    doc="If nobody commits and no group changes. What is due at as_of already is in every horizon.",
)
