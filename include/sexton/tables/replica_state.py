"""The table replica_state: each replica of each log partition that was compared."""

import pyarrow as pa

from sexton.tables.columns import LOG_PARTITION, boolean, count, int64, string, strings
from sexton.tables.table import Column, Table

REPLICA_STATUSES = ("same", "differs", "behind", "diverged", "corrupt", "empty", "alone")

REPLICA_STATE = Table(
    name="replica_state",
    grain="a replica of a log partition",
    key=("log_partition", "replica"),
    columns=(
        LOG_PARTITION,
        string("replica", "the broker's name"),
        string(
            "status",
            "same: clients would read the same from it; differs: it is wrong somewhere, see replica_differences; "
            "behind: it ends before the high watermark; diverged: its last records are from another leader; corrupt: "
            "some bytes are not a valid batch, so it was not compared; empty: a folder without a segment; alone: "
            "there is no other replica to compare",
            allowed=REPLICA_STATUSES,
        ),
        int64("log_start_offset", "its log start", nullable=True, minimum=0),
        int64("high_watermark", "its recorded high watermark, or its log end where none was recorded", nullable=True),
        int64("log_end_offset", "its log end, without a torn tail", nullable=True, minimum=0),
        int64(
            "last_stable_offset",
            "where its first open transaction with offsets begins, else where the comparison ends: its log cleaner "
            "stops there",
            nullable=True,
            minimum=0,
        ),
        count("open_transactions", "producers with pending offsets", nullable=True),
        count("record_count", "records below the compared end", nullable=True),
        count("batch_count", "batches below the compared end", nullable=True),
        boolean("loads", "whether a coordinator could load it", nullable=True),
        string("load_error", "why it could not", nullable=True),
        Column(
            "leader_epochs",
            "its leader epochs with their first log_offsets",
            type=pa.list_(pa.struct({"leader_epoch": pa.int32(), "start_offset": pa.int64()})),
        ),
        strings("corrupt_bytes", "positions of bytes that are not a valid batch"),
        string("folder", "the folder of the replica"),
    ),
    kind="append",
    doc="The findings of an audit of replicas ([Replicas that disagree](replicas.md)); `as_of_ms` is when the "
    "replicas were read. `sexton replicas diff` prints the same.",
)
