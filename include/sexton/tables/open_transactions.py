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
        Column(name="producer_id", type=pa.int64(), doc="the transactional producer"),
        Column(name="producer_epoch", type=pa.int32(), doc="its epoch"),
        LOG_PARTITION,
        replace(LOG_OFFSET, name="first_log_offset", doc="its first pending record"),
        replace(LOG_OFFSET, name="last_log_offset", doc="its last pending record"),
        Column(name="first_timestamp_ms", type=pa.int64(), doc="when the first was written", nullable=True, unit="ms"),
        Column(name="group_ids", type=TEXTS, doc="groups that it holds offsets of, sorted"),
    ),
)
