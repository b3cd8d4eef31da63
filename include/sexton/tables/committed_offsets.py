"""The table committed_offsets: offsets that a client can fetch."""

from sexton.tables.columns import COMMITTED
from sexton.tables.table import Table

COMMITTED_OFFSETS = Table(
    name="committed_offsets",
    grain="a committed offset that a client can fetch at as_of",
    key=("group_id", "topic", "partition"),
    columns=COMMITTED,
    doc="What OffsetFetch by topic name returns.",
)
