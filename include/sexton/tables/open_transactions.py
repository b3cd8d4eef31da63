"""The table open_transactions: producers with pending records at as_of."""

from dataclasses import replace

from sexton.tables.columns import LOG_OFFSET, LOG_PARTITION, int32, int64, strings
from sexton.tables.table import Table

OPEN_TRANSACTIONS = Table(
    name="open_transactions",
    grain="a producer with pending records",
    key=("log_partition", "producer_id"),
    columns=(
        int64("producer_id", "the transactional producer"),
        int32("producer_epoch", "its producer epoch"),
        LOG_PARTITION,
        replace(LOG_OFFSET, name="first_log_offset", doc="log_offset of its first pending record"),
        replace(LOG_OFFSET, name="last_log_offset", doc="log_offset of its last pending record"),
        int64("first_timestamp_ms", "when the first pending record was written", nullable=True),
        strings("group_ids", "groups with offsets in the transaction, sorted"),
    ),
)
