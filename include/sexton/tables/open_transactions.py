"""Producers with pending records at as_of."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import LOG_OFFSET, LOG_PARTITION, TEXTS
from sexton.tables.table import Column, Table

OPEN_TRANSACTIONS = Table(
    name="open_transactions",
    grain="a producer with pending records",
    key=("log_partition", "producer_id"),
    columns=(
        Column("producer_id", pa.int64(), "the transactional producer"),
        Column("producer_epoch", pa.int32(), "its producer epoch"),
        LOG_PARTITION,
        replace(LOG_OFFSET, name="first_log_offset", doc="log_offset of its first pending record"),
        replace(LOG_OFFSET, name="last_log_offset", doc="log_offset of its last pending record"),
        Column("first_timestamp_ms", pa.int64(), "when the first pending record was written", nullable=True),
        Column("group_ids", TEXTS, "groups with offsets in the transaction, sorted"),
    ),
)
