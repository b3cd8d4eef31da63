"""The table transactions: open transactions of the offsets log, each with the state of its producer and a verdict."""

from dataclasses import replace

import pyarrow as pa

from sexton.tables.columns import LOG_OFFSET, LOG_PARTITION, boolean, count, int32, int64, string, strings
from sexton.tables.table import Column, Table

VERDICTS = ("running", "completing", "hanging", "two_phase", "unknown")
REASONS = (
    *("ongoing", "markers_due", "no_timeout"),
    *("unknown_producer", "ended", "not_listed", "other_epoch"),
    *("not_read", "recent"),
)
_HELD = pa.struct(
    {"group_id": pa.string(), "topic": pa.string(), "partition": pa.int32(), "committed_offset": pa.int64()}
)

TRANSACTIONS = Table(
    name="transactions",
    grain="an open transaction in a log partition of the offsets topic",
    key=("log_partition", "producer_id"),
    columns=(
        LOG_PARTITION,
        int64("producer_id", "the transactional producer", minimum=0),
        int32("producer_epoch", "its producer epoch in the log"),
        string(
            "verdict",
            "running: ends at `ends_at_ms` at the latest; completing: its markers are due; hanging: nothing will end "
            "it; two_phase: no timeout ends it, only its producer or an administrator; unknown: see `reason`",
            allowed=VERDICTS,
        ),
        string("reason", "why; docs/transactions.md explains each", allowed=REASONS),
        string("transactional_id", "the transactional.id of the producer; NULL where no state names it", nullable=True),
        string("state", "the state of the transactional id, under Kafka's name", nullable=True),
        replace(LOG_OFFSET, name="start_offset", doc="log_offset where it begins in its log partition"),
        replace(LOG_OFFSET, name="last_log_offset", doc="log_offset of its last pending record that was read"),
        int64("since_ms", "when its first record was written", nullable=True),
        int64("ends_at_ms", "running: when its timeout aborts it at the latest", nullable=True),
        boolean("is_overdue", "whether it should have ended by now: check the coordinator of `transactional_id`"),
        boolean("is_confirmed", "whether a broker confirmed it as open, after the states were read"),
        strings("group_ids", "groups that cannot be deleted and do not expire because of it, sorted"),
        Column("offsets", "the offsets that it keeps pending", type=pa.list_(_HELD)),
        count(
            "held_bytes", "bytes of the log partition that the log cleaner cannot touch because of it", nullable=True
        ),
        string(
            "abort_arguments",
            "the arguments of kafka-transactions.sh, after --bootstrap-server, that end it; NULL unless it hangs",
            nullable=True,
        ),
        string("evidence", "why, in words"),
    ),
    kind="append",
    doc="The findings of an audit of transactions ([Transactions that hold offsets](transactions.md)); `as_of_ms` is "
    "when `__transaction_state` was read. `sexton transactions` prints the same.",
)
