"""The table load_profile: what a log partition costs a coordinator to load, and what became of its records."""

import pyarrow as pa

from sexton.tables.columns import LOG_PARTITION, TEXTS, count_column
from sexton.tables.table import Column, Table

FATES = ("live", "superseded", "tombstoned", "aborted", "pending", "cancelled", "unreachable", "undecodable")
"""What became of the values of record types 0 and 1: each has exactly one fate, so they add up to read_values."""


LOAD_PROFILE = Table(
    name="load_profile",
    grain="a log partition",
    key=("log_partition",),
    doc="Where `load_outcome` is not_coordinator, empty_cache or never_ends, no coordinator has the log partition in "
    "memory: summaries, lists, metrics and `sexton diff` leave it out. Its rows in other tables are what was decoded.",
    columns=(
        LOG_PARTITION,
        Column("bytes", pa.int64(), "bytes of the log that were read", minimum=0),
        count_column("batches", "record batches read"),
        count_column("records", "records read, control records included"),
        count_column("live_records", "records that a coordinator still needs"),
        count_column("tombstones", "records without a value"),
        count_column("control_records", "control records, such as transaction markers"),
        Column("largest_batch_bytes", pa.int64(), "size of the largest batch", minimum=0),
        Column("first_log_offset", pa.int64(), "log_offset of the first record read", nullable=True, minimum=0),
        Column("next_log_offset", pa.int64(), "log_offset after the last record read", minimum=0),
        count_column(
            "misplaced_groups", "groups that hash elsewhere; NULL when the partition count is unknown", nullable=True
        ),
        Column(
            "coordinator",
            pa.int32(),
            "id of the broker that led it when the snapshot was taken, and so coordinates its groups; NULL where that "
            "is not recorded",
            nullable=True,
        ),
        Column("load_would_fail", pa.bool_(), "whether its load would fail or never end"),
        Column("load_failure", pa.string(), "why the load would fail", nullable=True),
        Column(
            "load_outcome",
            pa.string(),
            "loaded, or what a coordinator serves after a load that failed: not_coordinator (an error), empty_cache "
            "(as if there were no offsets), prefix (what came before the failure); never_ends: the load never "
            "completes (before 2.0.1), and every answer is COORDINATOR_LOAD_IN_PROGRESS",
            allowed=("loaded", "not_coordinator", "empty_cache", "prefix", "never_ends"),
        ),
        Column(
            "sweep_blocked_by",
            pa.string(),
            "the group for which the broker's sweep fails, so that nothing in the log partition expires; NULL where"
            " sweeps work",
            nullable=True,
        ),
        Column(
            "sweep_blocked_from_ms",
            pa.int64(),
            "when sweeps begin to fail, which may be after as_of; NULL where every sweep fails, and where sweeps work",
            nullable=True,
        ),
        Column(
            "predicted_load_ms",
            pa.int64(),
            "how long a coordinator takes to load it, by a model of measured loads; longer for a compressed log",
            nullable=True,
        ),
        Column(
            "garbage_share",
            pa.float64(),
            "fraction of the records that a perfect compaction would drop; NULL without records",
            nullable=True,
            minimum=0,
        ),
        Column(
            "skew",
            pa.float64(),
            "its bytes divided by those of the average log partition: 1 is even; NULL for a log without bytes",
            nullable=True,
            minimum=0,
        ),
        Column("hot_groups", TEXTS, "up to five groups with the most commits, the hottest first"),
        Column(
            "hottest_group_share", pa.float64(), "the hottest group's fraction of all commits", nullable=True, minimum=0
        ),
        Column(
            "first_unstable_log_offset",
            pa.int64(),
            "log_offset where the oldest open transaction begins: the log cleaner stops there; NULL when none is open",
            nullable=True,
        ),
        count_column("read_values", "values of record types 0 and 1 read: the sum of their fates"),
        count_column("live", "fate: a client can fetch it"),
        count_column("superseded", "fate: followed by a newer value of its key"),
        count_column("tombstoned", "fate: followed by a tombstone of its key"),
        count_column("aborted", "fate: its transaction was aborted"),
        count_column("pending", "fate: its transaction is open"),
        count_column("cancelled", "fate: its transaction is open, but a tombstone of its key followed"),
        count_column("unreachable", "fate: in the log, but no client can fetch it"),
        count_column("undecodable", "fate: could not be decoded"),
        count_column(
            "undecodable_records",
            "records, batches and stretches of bytes that could not be decoded, including those without a row in "
            "undecodable_records, which keeps the first 10,000",
        ),
        count_column(
            "unexpected_unloads",
            "removed groups for which a load up to 3.9 logs `Unexpected unload of active group`; everything is still "
            "served",
        ),
        count_column("unknown_types", "records of unknown types, skipped as the coordinator skips them"),
        count_column(
            "future_batches",
            "batches with a timestamp over an hour after the snapshot, ignored when the cut is determined",
        ),
    ),
)
