"""The table offset_changes: what changed each offset within an interval."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.change_causes import ChangeKind
from sexton.tables.columns import (
    COMMITTED_OFFSET,
    LOG_OFFSET,
    LOG_PARTITION,
    OFFSET_KEY,
    PLAN_ID,
    TEXTS,
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
            "kind",
            pa.string(),
            "what changed it: set by a commit, restored by a plan of ours, or gone for the cause named; a restore is a "
            "commit where only admin snapshots show it",
            allowed=tuple(kind.value for kind in ChangeKind),
        ),
        Column("candidates", TEXTS, "what an ambiguous change may have been", nullable=True),
        replace(PLAN_ID, name="by_plan_id", nullable=True, doc="the plan of ours that did it"),
        LOG_PARTITION,
        replace(LOG_OFFSET, doc="place of the tombstone, or of the value that was set", known_from="log"),
        Column(
            "timestamp_ms",
            pa.int64(),
            "when the tombstone was written, or the value committed; NULL in logs of record format 0",
            nullable=True,
            known_from="log",
        ),
        Column(
            "changed_after_ms",
            pa.int64(),
            "when the last admin snapshot that shows another value was taken: the change is after it",
            known_from="admin_snapshots",
        ),
        Column(
            "changed_by_ms",
            pa.int64(),
            "when the first admin snapshot that shows the new value was answered: the change is before it",
            known_from="admin_snapshots",
        ),
        replace(LOG_OFFSET, name="old_log_offset", nullable=True, doc="place of the old value", known_from="log"),
        Column(
            "old_commit_timestamp_ms", pa.int64(), "when the old value was committed", nullable=True, known_from="log"
        ),
        Column(
            "due_at_ms",
            pa.int64(),
            "when retention allowed the removal; NULL where unknown, or where more than time prevented it",
            nullable=True,
            known_from="log",
        ),
        Column(
            "evidence",
            pa.string(),
            "what the log or the admin snapshots show of a disappearance, in words; NULL for a change that is a commit",
            nullable=True,
        ),
    ),
    kind="interval",
    doc=(
        "One row for each offset that ends the interval with another committed offset than it began with, and one for "
        "each time that one disappeared, also where it was committed again. Commits in between, and of the same offset "
        "again, are no rows. A run from admin snapshots has one row at most for an offset: what differs between the "
        "snapshots at both ends. Why the causes are what they are: docs/changes.md."
    ),
)
