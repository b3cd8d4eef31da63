"""The table time_lag: how long what a group has not read has been waiting, and whether it will lose it."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import COMMITTED, COMMITTED_OFFSET, OFFSET_KEY, count_column
from sexton.tables.table import Column, Table

BASES = ("log_end", "timestamps", "appends")
RESETS = ("behind_log_start", "beyond_log_end", "truncated", "topic_recreated", "topic_gone")
_LEADER_EPOCH = next(column for column in COMMITTED if column.name == "leader_epoch")

TIME_LAG = Table(
    name="time_lag",
    grain="a committed offset of a published run",
    key=("group_id", "topic", "partition"),
    columns=(
        *OFFSET_KEY,
        COMMITTED_OFFSET,
        replace(
            _LEADER_EPOCH, doc="leader epoch that was committed with it; NULL: consumers cannot notice a truncation"
        ),
        Column("log_start_offset", pa.int64(), "where the topic's log began", nullable=True, minimum=0),
        Column(
            "log_end_offset",
            pa.int64(),
            "where it ended at the newest snapshot up to `as_of_ms`",
            nullable=True,
            minimum=0,
        ),
        count_column("lag", "records from the committed offset to that end, 0 beyond it", nullable=True),
        Column(
            "lag_min_ms",
            pa.int64(),
            "lag in time: at least this; NULL where nothing is known",
            nullable=True,
            minimum=0,
        ),
        Column("lag_max_ms", pa.int64(), "at most this; NULL where nothing bounds it", nullable=True, minimum=0),
        Column(
            "basis", pa.string(), "what the interval rests on; docs/lag.md explains each", nullable=True, allowed=BASES
        ),
        Column(
            "timestamp_type", pa.string(), "message.timestamp.type of the topic, where it may be read", nullable=True
        ),
        Column(
            "held_at",
            pa.int64(),
            "last stable offset at which an open transaction of the topic holds the group",
            nullable=True,
        ),
        Column(
            "pending_producer_ids",
            pa.list_(pa.int64()),
            "producers with an offset of the group in a transaction that has not ended",
        ),
        Column(
            "would_reset",
            pa.string(),
            "why a consumer that comes back would not continue at its offset",
            nullable=True,
            allowed=RESETS,
        ),
        Column(
            "diverged_at",
            pa.int64(),
            "truncated: the first offset at which the log is another than was read",
            nullable=True,
        ),
        Column(
            "loses_at_min_ms", pa.int64(), "retention by time takes the first unread record no earlier", nullable=True
        ),
        Column(
            "lag_growth",
            pa.float64(),
            "milliseconds by which the lag has grown for each that passed since the audited run before, at most; 1: "
            "the group stands still, 0: it keeps up, below 0: it catches up. NULL where that run does not say",
            nullable=True,
        ),
        Column(
            "loses_at_ms",
            pa.int64(),
            "when retention reaches the group if its lag goes on growing so, or if it stands still where that is not "
            "known; NULL if its lag does not grow and has not reached it",
            nullable=True,
        ),
        Column("unrefined", pa.string(), "why no broker said more of it at the audit; NULL if one did", nullable=True),
    ),
    kind="append",
    per_log_partition=False,
    doc="What the DAG audit_lag found ([How late a group is](lag.md)): `as_of_ms` is the published run's, so rows join "
    "those of its `committed_offsets`. They are deleted with the run when that expires. "
    "`sexton lag` prints the same of now.",
)
