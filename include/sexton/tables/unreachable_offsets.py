"""The table unreachable_offsets: stored offsets that no client can fetch."""

from sexton.tables.columns import COMMITTED, string
from sexton.tables.table import Table

UNREACHABLE_OFFSETS = Table(
    name="unreachable_offsets",
    grain="an offset in the log that no client can fetch",
    key=("log_partition", "group_id", "topic", "partition"),
    columns=(
        *COMMITTED,
        string(
            "reason",
            "group_removed: its group was deleted after it; share_group: its group is a share group, which answers no "
            "OffsetFetch; misplaced: its group hashes to another log partition; undetermined: its group is in several "
            "log partitions, and without their total number it is not known which copy is read",
            allowed=("group_removed", "share_group", "misplaced", "undetermined"),
        ),
    ),
)
