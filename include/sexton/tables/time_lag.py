"""The table time_lag: how long a group's unread records have been waiting, and whether it will lose them."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import COMMITTED_OFFSET, LEADER_EPOCH, OFFSET_KEY, count, float64, int64, string
from sexton.tables.table import Column, Table

BASES = ("log_end", "timestamps", "appends")
RESETS = ("behind_log_start", "beyond_log_end", "truncated", "topic_recreated", "topic_gone")

TIME_LAG = Table(
    name="time_lag",
    grain="a committed offset of a published run",
    key=("group_id", "topic", "partition"),
    columns=(
        *OFFSET_KEY,
        COMMITTED_OFFSET,
        replace(LEADER_EPOCH, doc="leader epoch committed with it; NULL: consumers cannot notice a truncation"),
        int64("log_start_offset", "log start offset of the partition", nullable=True, minimum=0),
        int64(
            "log_end_offset",
            "log end offset of the partition in the newest snapshot up to `as_of_ms`",
            nullable=True,
            minimum=0,
        ),
        count("lag", "records from committed_offset to log_end_offset; 0 beyond it", nullable=True),
        int64("lag_min_ms", "lower bound of the lag in time; NULL where nothing is known", nullable=True, minimum=0),
        int64("lag_max_ms", "upper bound of the lag in time; NULL where nothing bounds it", nullable=True, minimum=0),
        string("basis", "what the interval rests on; docs/lag.md explains each", nullable=True, allowed=BASES),
        string("timestamp_type", "message.timestamp.type of the topic, where it may be read", nullable=True),
        int64("held_at", "last stable offset at which an open transaction in the topic stops the group", nullable=True),
        Column(
            "pending_producer_ids",
            "producers with an offset of the group in a transaction that has not ended",
            type=pa.list_(pa.int64()),
        ),
        string(
            "would_reset",
            "why a consumer that comes back would not continue at its offset",
            nullable=True,
            allowed=RESETS,
        ),
        int64(
            "diverged_at",
            "truncated: the first offset from which the log differs from the log that the group read",
            nullable=True,
        ),
        int64(
            "loses_at_min_ms", "earliest time at which retention by time deletes the first unread record", nullable=True
        ),
        float64(
            "lag_growth",
            "upper bound of the growth of the lag since the previous audited run, in ms per ms; 1: the group stands "
            "still, 0: it keeps up, below 0: it catches up. NULL where that run does not show it",
            nullable=True,
        ),
        int64(
            "loses_at_ms",
            "when retention reaches the group if its lag keeps growing at this rate, or if the group stands still "
            "where the rate is not known; NULL if its lag does not grow and retention has not reached it",
            nullable=True,
        ),
        string("unrefined", "why no broker refined the interval at the audit; NULL if one did", nullable=True),
    ),
    kind="append",
    per_log_partition=False,
    doc="The findings of the DAG audit_lag ([Lag in time](lag.md)). `as_of_ms` is that of the published run, "
    "so that rows join its `committed_offsets`. Rows are deleted with that run. `sexton lag` prints the same "
    "for the present.",
)
