"""The table expiry_sweeps: the sweeps of brokers within an interval."""

from dataclasses import replace

from sexton.tables.columns import LOG_OFFSET, LOG_PARTITION, count, int32, int64
from sexton.tables.table import Table

EXPIRY_SWEEPS = Table(
    name="expiry_sweeps",
    grain="a sweep of one log partition within an interval, recognized in offset_changes",
    key=("log_partition", "first_log_offset"),
    columns=(
        LOG_PARTITION,
        replace(LOG_OFFSET, name="first_log_offset", doc="log_offset of its first offset tombstone"),
        replace(LOG_OFFSET, name="last_log_offset", doc="log_offset of its last offset tombstone"),
        int64("started_at_ms", "when its first tombstone was written; NULL in logs of record format 0", nullable=True),
        count("offsets", "number of offsets that it removed, or may have removed"),
        count("certain_offsets", "the number of these that only a sweep can have removed"),
        count("groups", "number of groups that lost them"),
        int32(
            "coordinator",
            "id of the broker that led the log partition at that time, by the leader epochs of its batches; NULL "
            "where these or the snapshots do not show it",
            nullable=True,
        ),
    ),
    kind="interval",
    known_from="log",
)
