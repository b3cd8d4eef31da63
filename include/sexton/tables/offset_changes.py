"""The table offset_changes: what changed each offset within an interval."""

from dataclasses import replace

from sexton.tables.change_causes import ChangeKind
from sexton.tables.columns import (
    COMMITTED_OFFSET,
    LOG_OFFSET,
    LOG_PARTITION,
    OFFSET_KEY,
    PLAN_ID,
    int64,
    string,
    strings,
)
from sexton.tables.table import Table

OFFSET_CHANGES = Table(
    name="offset_changes",
    grain="a change of one offset within an interval",
    key=("log_partition", "group_id", "topic", "partition", "log_offset"),
    columns=(
        *OFFSET_KEY,
        replace(
            COMMITTED_OFFSET,
            name="old_committed_offset",
            nullable=True,
            doc="the value before: for a disappearance right before it, else at the beginning of the interval; NULL "
            "where there was none, or where it disappeared in between",
        ),
        replace(
            COMMITTED_OFFSET,
            name="new_committed_offset",
            nullable=True,
            doc="the value after; NULL for a disappearance",
        ),
        string(
            "kind",
            "what changed it: set by a commit, restored by a plan of Sexton, or the cause of its disappearance; a "
            "restore counts as a commit where only admin snapshots show it",
            allowed=tuple(kind.value for kind in ChangeKind),
        ),
        strings("candidates", "the possible kinds of an ambiguous change", nullable=True),
        replace(PLAN_ID, name="by_plan_id", nullable=True, doc="the plan of Sexton that made the change"),
        LOG_PARTITION,
        replace(LOG_OFFSET, doc="log_offset of the tombstone, or of the value that was set", known_from="log"),
        int64(
            "timestamp_ms",
            "when the tombstone was written, or the value committed; NULL in logs of record format 0",
            nullable=True,
            known_from="log",
        ),
        int64(
            "changed_after_ms",
            "when the last admin snapshot with another value was taken: the change came later",
            known_from="admin_snapshots",
        ),
        int64(
            "changed_by_ms",
            "when the first admin snapshot with the new value was answered: the change came earlier",
            known_from="admin_snapshots",
        ),
        replace(LOG_OFFSET, name="old_log_offset", nullable=True, doc="log_offset of the old value", known_from="log"),
        int64("old_commit_timestamp_ms", "when the old value was committed", nullable=True, known_from="log"),
        int64(
            "due_at_ms",
            "when retention allowed the removal; NULL where unknown, or where something else than time prevented it",
            nullable=True,
            known_from="log",
        ),
        string(
            "evidence",
            "what the log or the admin snapshots show about a disappearance, in words; NULL for a commit",
            nullable=True,
        ),
    ),
    kind="interval",
    doc="One row for each offset whose value at the end of the interval differs from that at its beginning, and "
    "one for each disappearance, even if the offset was committed again. Commits in between, and commits of the "
    "same value, have no rows. A run from admin snapshots has at most one row per offset: the difference between "
    "the snapshots at both ends. docs/changes.md explains the causes.",
)
