"""The table replica_state: each replica of each log partition that was compared."""

import pyarrow as pa

from sexton.tables.columns import LOG_PARTITION, TEXTS, count_column
from sexton.tables.table import Column, Table

REPLICA_STATUSES = ("same", "differs", "behind", "diverged", "corrupt", "empty", "alone")

REPLICA_STATE = Table(
    name="replica_state",
    grain="a replica of a log partition",
    key=("log_partition", "replica"),
    columns=(
        LOG_PARTITION,
        Column("replica", pa.string(), "the broker's name"),
        Column(
            "status",
            pa.string(),
            "same: clients would read the same from it; differs: it is wrong somewhere, see replica_differences; "
            "behind: it ends before the high watermark; diverged: its last records are from another leader; corrupt: "
            "some bytes are not a valid batch, so it was not compared; empty: a folder without a segment; alone: "
            "there is no other replica to compare",
            allowed=REPLICA_STATUSES,
        ),
        Column("log_start_offset", pa.int64(), "its log start", nullable=True, minimum=0),
        Column(
            "high_watermark",
            pa.int64(),
            "its recorded high watermark, or its log end where none was recorded",
            nullable=True,
        ),
        Column("log_end_offset", pa.int64(), "its log end, without a torn tail", nullable=True, minimum=0),
        Column(
            "last_stable_offset",
            pa.int64(),
            "where its first open transaction with offsets begins, else where the comparison ends: its log cleaner "
            "stops there",
            nullable=True,
            minimum=0,
        ),
        count_column("open_transactions", "producers with pending offsets", nullable=True),
        count_column("record_count", "records below the compared end", nullable=True),
        count_column("batch_count", "batches below the compared end", nullable=True),
        Column("loads", pa.bool_(), "whether a coordinator could load it", nullable=True),
        Column("load_error", pa.string(), "why it could not", nullable=True),
        Column(
            "leader_epochs",
            pa.list_(pa.struct([("leader_epoch", pa.int32()), ("start_offset", pa.int64())])),
            "its leader epochs with their first log_offsets",
        ),
        Column("corrupt_bytes", TEXTS, "positions of bytes that are not a valid batch"),
        Column("folder", pa.string(), "the folder of the replica"),
    ),
    kind="append",
    doc="The findings of an audit of replicas ([Replicas that disagree](replicas.md)); `as_of_ms` is when the "
    "replicas were read. `sexton replicas diff` prints the same.",
)
