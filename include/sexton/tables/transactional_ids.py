"""The table transactional_ids: every transactional id with its state and expiry."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import LOG_OFFSET, LOG_PARTITION
from sexton.tables.table import Column, Table

TRANSACTION_STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)
_PARTITIONS = pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])

TRANSACTIONAL_IDS = Table(
    name="transactional_ids",
    grain="a transactional id",
    key=("transactional_id", "state_log_partition"),
    columns=(
        Column("transactional_id", pa.string(), "the id"),
        replace(LOG_PARTITION, name="state_log_partition", doc="partition of `__transaction_state`"),
        replace(
            LOG_OFFSET, name="state_log_offset", below_cut=False, doc="offset of its last record in that partition"
        ),
        Column(
            "family", pa.string(), "the id with its numbers and UUIDs replaced by *; many ids of one family are a flood"
        ),
        Column("producer_id", pa.int64(), "its producer id"),
        Column("producer_epoch", pa.int32(), "its producer epoch"),
        Column("previous_producer_id", pa.int64(), "the producer id of its last transaction", nullable=True, absent=-1),
        Column("next_producer_id", pa.int64(), "the producer id of its next transaction", nullable=True, absent=-1),
        Column("state", pa.string(), "the state of its transaction, under Kafka's name", allowed=TRANSACTION_STATES),
        Column("timeout_ms", pa.int32(), "its transaction timeout; 2147483647 for two-phase commit"),
        Column("started_at_ms", pa.int64(), "when its last transaction began", nullable=True, absent=-1),
        Column("updated_at_ms", pa.int64(), "when its state last changed"),
        Column("age_ms", pa.int64(), "time from updated_at_ms until the state was read"),
        Column(
            "expires_at_ms",
            pa.int64(),
            "when it is due to expire; the coordinator checks every hour. NULL while its transaction is open",
            nullable=True,
        ),
        Column("partitions", pa.list_(_PARTITIONS), "the partitions of its transaction; none once it has ended"),
        Column(
            "client_transaction_version",
            pa.int32(),
            "the client's transaction version; 2: with KIP-890's epoch bump at the end of each transaction",
            minimum=0,
        ),
    ),
    kind="append",
    per_log_partition=False,
    doc="The findings of an audit of transactions ([Transactions that hold offsets](transactions.md)); `as_of_ms` is "
    "when `__transaction_state` was read.",
)
