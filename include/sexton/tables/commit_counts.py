"""The table commit_counts: the commits of groups within an interval."""

import pyarrow as pa

from sexton.tables.columns import (
    GROUP_ID,
    LOG_PARTITION,
    count_column,
)
from sexton.tables.table import Column, Table

COMMIT_COUNTS = Table(
    name="commit_counts",
    grain="a group that committed within an interval",
    key=("log_partition", "group_id"),
    columns=(
        GROUP_ID,
        LOG_PARTITION,
        count_column(
            "commits", "offset values written, including those of aborted transactions; a lower bound unless is_whole"
        ),
        Column(
            "commits_per_second",
            pa.float64(),
            "commits over the length of the interval, from changes_since_ms to as_of_ms of the run",
            minimum=0,
        ),
        Column(
            "is_whole",
            pa.bool_(),
            "whether the log of the interval has every record; if not, compaction removed some before the snapshot, "
            "and there were more commits",
        ),
    ),
    kind="interval",
    known_from="log",
)
