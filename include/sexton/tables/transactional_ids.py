"""The table transactional_ids: every transactional id with its state and expiry."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import LOG_OFFSET, LOG_PARTITION, int32, int64, string
from sexton.tables.table import Column, Table

TRANSACTION_STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)
_PARTITIONS = pa.list_(pa.struct({"topic": pa.string(), "partitions": pa.list_(pa.int32())}))

TRANSACTIONAL_IDS = Table(
    name="transactional_ids",
    grain="a transactional id",
    key=("transactional_id", "state_log_partition"),
    columns=(
        string("transactional_id", "the id"),
        replace(LOG_PARTITION, name="state_log_partition", doc="partition of `__transaction_state`"),
        replace(
            LOG_OFFSET, name="state_log_offset", below_cut=False, doc="offset of its last record in that partition"
        ),
        string("family", "the id with its numbers and UUIDs replaced by *; many ids of one family are a flood"),
        int64("producer_id", "its producer id"),
        int32("producer_epoch", "its producer epoch"),
        int64("previous_producer_id", "the producer id of its last transaction", nullable=True, absent=-1),
        int64("next_producer_id", "the producer id of its next transaction", nullable=True, absent=-1),
        string("state", "the state of its transaction, under Kafka's name", allowed=TRANSACTION_STATES),
        int32("timeout_ms", "its transaction timeout; 2147483647 for two-phase commit"),
        int64("started_at_ms", "when its last transaction began", nullable=True, absent=-1),
        int64("updated_at_ms", "when its state last changed"),
        int64("age_ms", "time from updated_at_ms until the state was read"),
        int64(
            "expires_at_ms",
            "when it is due to expire; the coordinator checks every hour. NULL while its transaction is open",
            nullable=True,
        ),
        Column("partitions", "the partitions of its transaction; none once it has ended", type=_PARTITIONS),
        int32(
            "client_transaction_version",
            "the client's transaction version; 2: with KIP-890's epoch bump at the end of each transaction",
            minimum=0,
        ),
    ),
    kind="append",
    per_log_partition=False,
    doc="The findings of an audit of transactions ([Transactions that hold offsets](transactions.md)); `as_of_ms` is "
    "when `__transaction_state` was read.",
)
