"""The table load_profile: what a log partition costs a coordinator to load, and what became of its records."""

from sexton.tables.columns import LOG_PARTITION, boolean, count, float64, int32, int64, string, strings
from sexton.tables.table import Table

FATES = ("live", "superseded", "tombstoned", "aborted", "pending", "cancelled", "unreachable", "undecodable")
"""Fates of the values of record types 0 and 1. Each value has exactly one fate, so the counts add up to read_values."""


LOAD_PROFILE = Table(
    name="load_profile",
    grain="a log partition",
    key=("log_partition",),
    doc="Where `load_outcome` is not_coordinator, empty_cache or never_ends, no coordinator has the log partition in "
    "memory: summaries, lists, metrics and `sexton diff` leave it out. Its rows in other tables are what was decoded.",
    columns=(
        LOG_PARTITION,
        count("bytes", "bytes of the log that were read"),
        count("batches", "record batches read"),
        count("records", "records read, control records included"),
        count("live_records", "records that a coordinator still needs"),
        count("tombstones", "records without a value"),
        count("control_records", "control records, such as transaction markers"),
        count("largest_batch_bytes", "size of the largest batch"),
        int64("first_log_offset", "log_offset of the first record read", nullable=True, minimum=0),
        int64("next_log_offset", "log_offset after the last record read", minimum=0),
        count(
            "misplaced_groups", "groups that hash elsewhere; NULL when the partition count is unknown", nullable=True
        ),
        int32(
            "coordinator",
            "id of the broker that led it when the snapshot was taken, and so coordinates its groups; NULL where that "
            "is not recorded",
            nullable=True,
        ),
        boolean("load_would_fail", "whether its load would fail or never end"),
        string("load_failure", "why the load would fail", nullable=True),
        string(
            "load_outcome",
            "loaded, or what a coordinator serves after a load that failed: not_coordinator (an error), empty_cache "
            "(as if there were no offsets), prefix (what came before the failure); never_ends: the load never "
            "completes (before 2.0.1), and every answer is COORDINATOR_LOAD_IN_PROGRESS",
            allowed=("loaded", "not_coordinator", "empty_cache", "prefix", "never_ends"),
        ),
        string(
            "sweep_blocked_by",
            "the group for which the broker's sweep fails, so that nothing in the log partition expires; NULL where"
            " sweeps work",
            nullable=True,
        ),
        int64(
            "sweep_blocked_from_ms",
            "when sweeps begin to fail, which may be after as_of; NULL where every sweep fails, and where sweeps work",
            nullable=True,
        ),
        int64(
            "predicted_load_ms",
            "how long a coordinator takes to load it, by a model of measured loads; longer for a compressed log",
            nullable=True,
        ),
        float64(
            "garbage_share",
            "fraction of the records that a perfect compaction would drop; NULL without records",
            nullable=True,
            minimum=0,
        ),
        float64(
            "skew",
            "its bytes divided by those of the average log partition: 1 is even; NULL for a log without bytes",
            nullable=True,
            minimum=0,
        ),
        strings("hot_groups", "up to five groups with the most commits, the hottest first"),
        float64("hottest_group_share", "the hottest group's fraction of all commits", nullable=True, minimum=0),
        int64(
            "first_unstable_log_offset",
            "log_offset where the oldest open transaction begins: the log cleaner stops there; NULL when none is open",
            nullable=True,
        ),
        count("read_values", "values of record types 0 and 1 read: the sum of their fates"),
        count("live", "fate: a client can fetch it"),
        count("superseded", "fate: followed by a newer value of its key"),
        count("tombstoned", "fate: followed by a tombstone of its key"),
        count("aborted", "fate: its transaction was aborted"),
        count("pending", "fate: its transaction is open"),
        count("cancelled", "fate: its transaction is open, but a tombstone of its key followed"),
        count("unreachable", "fate: in the log, but no client can fetch it"),
        count("undecodable", "fate: could not be decoded"),
        count(
            "undecodable_records",
            "records, batches and stretches of bytes that could not be decoded, including those without a row in "
            "undecodable_records, which keeps the first 10,000",
        ),
        count(
            "unexpected_unloads",
            "removed groups for which a load up to 3.9 logs `Unexpected unload of active group`; everything is still "
            "served",
        ),
        count("unknown_types", "records of unknown types, skipped as the coordinator skips them"),
        count(
            "future_batches",
            "batches with a timestamp over an hour after the snapshot, ignored when the cut is determined",
        ),
    ),
)
