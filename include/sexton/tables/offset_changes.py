"""Tables of an interval: what changed each offset, which sweeps were seen, and how often groups committed."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.change_kinds import ChangeKind
from sexton.tables.columns import (
    COMMITTED_OFFSET,
    GROUP_ID,
    LOG_OFFSET,
    LOG_PARTITION,
    OFFSET_KEY,
    PLAN_ID,
    TEXTS,
    count_column,
)
from sexton.tables.table import Column, Table

OFFSET_CHANGES = Table(
    name="offset_changes",
    grain="a change of one offset in an interval",
    key=("log_partition", "group_id", "topic", "partition", "log_offset"),
    columns=(
        *OFFSET_KEY,
        replace(
            COMMITTED_OFFSET,
            name="old_committed_offset",
            nullable=True,
            doc="before: of a disappearance the value right before it, else that at the interval's beginning; NULL "
            "where there was none, or where it disappeared in between",
        ),
        replace(COMMITTED_OFFSET, name="new_committed_offset", nullable=True, doc="after; NULL for a disappearance"),
        Column(
            name="kind",
            type=pa.string(),
            doc="what changed it: set by a commit, restored by a plan of ours, or gone for the cause named",
            allowed=tuple(kind.value for kind in ChangeKind),
        ),
        Column(name="candidates", type=TEXTS, doc="what an ambiguous change may have been", nullable=True),
        replace(PLAN_ID, name="by_plan_id", nullable=True, doc="the plan of ours that did it"),
        LOG_PARTITION,
        replace(LOG_OFFSET, doc="place of the tombstone, or of the value that was set"),
        Column(
            name="timestamp_ms",
            type=pa.int64(),
            doc="when the tombstone was written, or the value committed; NULL in logs of record format 0",
            nullable=True,
            unit="ms",
        ),
        replace(LOG_OFFSET, name="old_log_offset", nullable=True, doc="place of the old value"),
        Column(
            name="old_commit_timestamp_ms",
            type=pa.int64(),
            doc="when the old value was committed",
            nullable=True,
            unit="ms",
        ),
        Column(
            name="due_at_ms",
            type=pa.int64(),
            doc="when retention allowed the removal; NULL where unknown, or where more than time prevented it",
            nullable=True,
            unit="ms",
        ),
        Column(
            name="evidence",
            type=pa.string(),
            doc="what the log shows of a disappearance, in words; NULL for a change that is a commit",
            nullable=True,
        ),
    ),
    kind="interval",
    doc=(
        "One row for each offset that ends the interval with another committed offset than it began with, and one for "
        "each time that one disappeared, also where it was committed again. Commits in between, and of the same offset "
        "again, are no rows. Why the causes are what they are: docs/changes.md."
    ),
)


EXPIRY_SWEEPS = Table(
    name="expiry_sweeps",
    grain="a sweep of one log partition in an interval, recognised in offset_changes",
    key=("log_partition", "first_log_offset"),
    columns=(
        LOG_PARTITION,
        replace(LOG_OFFSET, name="first_log_offset", doc="place of its first offset's tombstone"),
        replace(LOG_OFFSET, name="last_log_offset", doc="place of its last offset's tombstone"),
        Column(
            name="started_at_ms",
            type=pa.int64(),
            doc="when the first was written; NULL in logs of record format 0",
            nullable=True,
            unit="ms",
        ),
        count_column("offsets", "offsets that it removed, or may have removed"),
        count_column("certain_offsets", "of them those that nothing but a sweep can have removed"),
        count_column("groups", "groups that lost them"),
    ),
    kind="interval",
)


COMMIT_COUNTS = Table(
    name="commit_counts",
    grain="a group that has committed in an interval",
    key=("log_partition", "group_id"),
    columns=(
        GROUP_ID,
        LOG_PARTITION,
        count_column(
            "commits", "offset values written, also those of transactions that were aborted; at least so many"
        ),
        Column(
            name="commits_per_second",
            type=pa.float64(),
            doc="commits over the length of the interval, from changes_since_ms to as_of_ms of the run",
            minimum=0,
        ),
        Column(
            name="is_whole",
            type=pa.bool_(),
            doc="whether the log partition's log of the interval lacks no record: else compaction took some before the "
            "snapshot, and there were more commits",
        ),
    ),
    kind="interval",
)
