"""The table commit_counts: the commits of groups within an interval."""

from sexton.tables.columns import GROUP_ID, LOG_PARTITION, boolean, count, float64
from sexton.tables.table import Table

COMMIT_COUNTS = Table(
    name="commit_counts",
    grain="a group that committed within an interval",
    key=("log_partition", "group_id"),
    columns=(
        GROUP_ID,
        LOG_PARTITION,
        count(
            "commits", "offset values written, including those of aborted transactions; a lower bound unless is_whole"
        ),
        float64(
            "commits_per_second",
            "commits over the length of the interval, from changes_since_ms to as_of_ms of the run",
            minimum=0,
        ),
        boolean(
            "is_whole",
            "whether the log of the interval has every record; if not, compaction removed some before the snapshot, "
            "and there were more commits",
        ),
    ),
    kind="interval",
    known_from="log",
)
