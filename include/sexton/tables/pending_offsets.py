"""The table pending_offsets: offsets of transactions that have not ended."""

from sexton.tables.columns import COMMITTED
from sexton.tables.table import Table

PENDING_OFFSETS = Table(
    name="pending_offsets",
    grain="a transactional offset still pending at as_of",
    key=("log_partition", "producer_id", "group_id", "topic", "partition"),
    columns=COMMITTED,
)
