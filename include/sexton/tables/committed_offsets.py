"""Offsets at as_of: those that a client can fetch, those that no client can fetch, and pending ones."""

import pyarrow as pa

from sexton.tables.columns import COMMITTED
from sexton.tables.table import Column, Table

COMMITTED_OFFSETS = Table(
    name="committed_offsets",
    grain="a committed offset that a client can fetch at as_of",
    key=("group_id", "topic", "partition"),
    columns=COMMITTED,
    doc="What OffsetFetch by name answers.",
)

UNREACHABLE_OFFSETS = Table(
    name="unreachable_offsets",
    grain="an offset in the log that no client can fetch",
    key=("log_partition", "group_id", "topic", "partition"),
    columns=(
        *COMMITTED,
        Column(
            name="reason",
            type=pa.string(),
            doc="group_removed: its group was deleted after it; share_group: its group is a share group, which answers "
            "no OffsetFetch; stray: its group hashes to another log partition",
            allowed=("group_removed", "share_group", "stray"),
        ),
    ),
)

PENDING_OFFSETS = Table(
    name="pending_offsets",
    grain="a transactional offset still pending at as_of",
    key=("log_partition", "producer_id", "group_id", "topic", "partition"),
    columns=COMMITTED,
)
